/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * turn COUNT PAUSE_US: what a turn of scrubd costs at least on this host: COUNT times a sleep by
 * timerfd and epoll, as scrubd's event loop makes it, and an empty hypercall in place of a step.
 * Prints the CPU time of each in us: "SLEEP HYPERCALL".
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <xenctrl.h>

static double cpu_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
    int count = argc == 3 ? atoi(argv[1]) : 0;
    struct itimerspec pause = {.it_value.tv_nsec = argc == 3 ? atol(argv[2]) * 1000 : 0};
    int fd = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN};
    xc_interface *xch = xc_interface_open(NULL, NULL, 0);
    double begin, slept, end;

    if (count < 1 || pause.it_value.tv_nsec < 1000 || fd < 0 || timer < 0 || !xch ||
        epoll_ctl(fd, EPOLL_CTL_ADD, timer, &ev) != 0)
        return 1;
    begin = cpu_us();
    for (int i = 0; i < count; i++) {
        timerfd_settime(timer, 0, &pause, NULL);
        epoll_wait(fd, &ev, 1, -1);
    }
    slept = cpu_us();
    for (int i = 0; i < count; i++)
        xc_version(xch, XENVER_version, NULL);
    end = cpu_us();
    printf("%.1f %.1f\n", (slept - begin) / count, (end - slept) / count);
    return 0;
}
