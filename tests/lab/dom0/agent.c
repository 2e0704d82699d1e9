/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lab's hand in dom0: runs shell scripts that arrive on a virtio serial port and sends back
 * what they print, apart from the console.
 *
 * Frames, both ways: type (1 byte), 0, id (2 bytes), length (4 bytes), then the payload;
 * little-endian.
 *   to dom0    R run the payload with /bin/sh -c     K kill that script's process group
 *   from dom0  H hello   O stdout   E stderr   X ended, payload is the exit status (4 bytes)
 * A script has ended when its shell has, even if something it left behind still holds the pipe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 16
#define PAYLOAD_MAX (64u << 20)

struct frame {
    uint8_t type;
    uint8_t zero;
    uint16_t id;
    uint32_t len;
};

struct job {
    pid_t pid;
    uint16_t id;
    int out;
    int err;
};

static void die(const char *what)
{
    fprintf(stderr, "agent: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            die("write");
        p += n;
        len -= (size_t)n;
    }
}

static void read_all(int fd, void *data, size_t len)
{
    char *p = data;

    while (len > 0) {
        ssize_t n = read(fd, p, len);

        if (n == 0) { /* the host end is closed for the moment */
            usleep(100000);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            die("read");
        p += n;
        len -= (size_t)n;
    }
}

static void send_frame(int port, char type, uint16_t id, const void *data, size_t len)
{
    struct frame f = {.type = (uint8_t)type, .id = id, .len = (uint32_t)len};

    write_all(port, &f, sizeof(f));
    write_all(port, data, len);
}

static void start(struct job *jobs, uint16_t id, char *script, int port)
{
    int out[2], err[2];
    struct job *job = NULL;
    sigset_t none;

    for (int i = 0; i < JOBS_MAX && !job; i++)
        if (jobs[i].pid == 0)
            job = &jobs[i];
    if (!job || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        int32_t status = 125;

        send_frame(port, 'X', id, &status, sizeof(status));
        return;
    }
    job->id = id;
    job->out = out[0];
    job->err = err[0];
    job->pid = fork();
    if (job->pid < 0)
        die("fork");
    if (job->pid == 0) {
        int null = open("/dev/null", O_RDONLY);

        setsid();
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        dup2(null, 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
}

/* Returns false at end of file, or when nothing is there to read. */
static int forward(int port, const struct job *job, char type)
{
    static char buf[65536];
    int fd = type == 'O' ? job->out : job->err;
    ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf));

    if (n <= 0)
        return 0;
    send_frame(port, type, job->id, buf, (size_t)n);
    return 1;
}

static void reap(struct job *jobs, int port)
{
    int wstatus;
    pid_t pid;

    while ((pid = waitpid(-1, &wstatus, WNOHANG)) > 0) {
        for (int i = 0; i < JOBS_MAX; i++) {
            struct job *job = &jobs[i];
            int32_t status = WIFEXITED(wstatus) ? WEXITSTATUS(wstatus) : 128 + WTERMSIG(wstatus);

            if (job->pid != pid)
                continue;
            if (job->out >= 0)
                fcntl(job->out, F_SETFL, O_NONBLOCK);
            if (job->err >= 0)
                fcntl(job->err, F_SETFL, O_NONBLOCK);
            while (forward(port, job, 'O') || forward(port, job, 'E'))
                ;
            send_frame(port, 'X', job->id, &status, sizeof(status));
            if (job->out >= 0)
                close(job->out);
            if (job->err >= 0)
                close(job->err);
            job->pid = 0;
        }
    }
}

static void command(struct job *jobs, int port)
{
    struct frame f;
    char *payload;

    read_all(port, &f, sizeof(f));
    if (f.len > PAYLOAD_MAX)
        die("frame too long");
    payload = calloc(1, f.len + 1);
    if (!payload)
        die("calloc");
    read_all(port, payload, f.len);
    if (f.type == 'R') {
        start(jobs, f.id, payload, port);
    } else if (f.type == 'K') {
        for (int i = 0; i < JOBS_MAX; i++)
            if (jobs[i].pid != 0 && jobs[i].id == f.id)
                kill(-jobs[i].pid, SIGKILL);
    }
    free(payload);
}

int main(int argc, char **argv)
{
    static struct job jobs[JOBS_MAX];
    sigset_t chld;
    int port, sigfd;

    if (argc != 2)
        return 2;
    port = open(argv[1], O_RDWR | O_CLOEXEC);
    if (port < 0)
        die(argv[1]);
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    sigfd = signalfd(-1, &chld, SFD_CLOEXEC);
    if (sigfd < 0)
        die("signalfd");
    send_frame(port, 'H', 0, "", 0);

    for (;;) {
        struct pollfd fds[2 + 2 * JOBS_MAX];

        fds[0] = (struct pollfd){.fd = port, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = sigfd, .events = POLLIN};
        for (int i = 0; i < JOBS_MAX; i++) {
            int live = jobs[i].pid != 0;

            fds[2 + 2 * i] = (struct pollfd){.fd = live ? jobs[i].out : -1, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = live ? jobs[i].err : -1, .events = POLLIN};
        }
        if (poll(fds, 2 + 2 * JOBS_MAX, -1) < 0 && errno != EINTR)
            die("poll");
        for (int i = 0; i < JOBS_MAX; i++) {
            if (fds[2 + 2 * i].revents && !forward(port, &jobs[i], 'O')) {
                close(jobs[i].out);
                jobs[i].out = -1;
            }
            if (fds[3 + 2 * i].revents && !forward(port, &jobs[i], 'E')) {
                close(jobs[i].err);
                jobs[i].err = -1;
            }
        }
        if (fds[1].revents & POLLIN) {
            struct signalfd_siginfo info;

            if (read(sigfd, &info, sizeof(info)) > 0)
                reap(jobs, port);
        }
        if (fds[0].revents & POLLIN)
            command(jobs, port);
        else if (fds[0].revents & POLLHUP)
            usleep(100000);
    }
}
