/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * window [-e EVERY] ADDRESS[:PORT] COUNT INTERVAL_US GRACE_MS AT_MS COMMAND...: runs in dom0 and
 * takes one window of samples from the probe in the neighbour (see probe.c), with COMMAND started
 * AT_MS into it and timed. A request is sent at each wake-up, or at each EVERYth, 0: at none.
 *
 * It sleeps through the window, except for starting the command and seeing it end. On stdout,
 * the first line at once and the rest when the window is over:
 *   clock NOW_NS                     this host's CLOCK_MONOTONIC, to compare with the reader's
 *   command BEGIN_US END_US STATUS   both counted from the first wake-up's moment, on this clock
 *   epoch T0_NS ERROR_US             that moment on this clock, and how far off it may be
 *   SEQ LATE_US RTT_US | -           a line a wake-up
 *   end
 * Exit status 0 whatever COMMAND's is.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT 7007
#define CLOCK_TRIES 20

static void die(const char *what)
{
    fprintf(stderr, "window: %s: %s\n", what, errno ? strerror(errno) : "unexpected answer");
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void sleep_until(int64_t when)
{
    struct timespec ts = {.tv_sec = when / 1000000000, .tv_nsec = when % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

static int connect_to(char *address)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    char *colon = strchr(address, ':');
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (colon) {
        *colon = '\0';
        sin.sin_port = htons((uint16_t)atoi(colon + 1));
    }
    if (fd < 0 || inet_pton(AF_INET, address, &sin.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0)
        die(address);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* Offset of the probe's clock to ours, from the exchange with the shortest round trip. */
static int64_t clock_offset(FILE *in, FILE *out, int64_t *ret_error_ns)
{
    int64_t best = INT64_MAX, offset = 0;

    for (int i = 0; i < CLOCK_TRIES; i++) {
        char line[128];
        int64_t sent = now_ns(), got, theirs;

        fprintf(out, "clock\n");
        fflush(out);
        if (!fgets(line, sizeof(line), in) || sscanf(line, "clock %" SCNd64, &theirs) != 1)
            die("clock");
        got = now_ns();
        if (got - sent < best) {
            best = got - sent;
            offset = theirs - (sent + got) / 2;
        }
    }
    *ret_error_ns = best / 2;
    return offset;
}

static int run_command(char **argv, int64_t *ret_begin_ns, int64_t *ret_end_ns)
{
    pid_t pid;
    int status;

    *ret_begin_ns = now_ns();
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is the samples' */
        execvp(argv[0], argv);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    *ret_end_ns = now_ns();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    int64_t offset, error_ns, t0, begin, end;
    char line[128];
    FILE *in, *out;
    const char *every = "1";
    int fd, status, done = 0;

    if (argc > 2 && strcmp(argv[1], "-e") == 0) {
        every = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc < 7) {
        fprintf(stderr, "usage: window [-e EVERY] ADDRESS[:PORT] COUNT INTERVAL_US GRACE_MS AT_MS "
                        "COMMAND...\n");
        return 2;
    }
    fd = connect_to(argv[1]);
    in = fdopen(fd, "r");
    out = fdopen(dup(fd), "w");
    if (!in || !out)
        die("stream");
    offset = clock_offset(in, out, &error_ns);
    printf("clock %" PRId64 "\n", now_ns());
    fflush(stdout);

    errno = 0;
    fprintf(out, "window %s %s %s %s\n", argv[2], argv[3], argv[4], every);
    fflush(out);
    if (!fgets(line, sizeof(line), in) || sscanf(line, "start %" SCNd64, &t0) != 1)
        die("start");
    t0 -= offset;
    sleep_until(t0 + atoi(argv[5]) * 1000000LL);
    status = run_command(argv + 6, &begin, &end);

    while (!done && fgets(line, sizeof(line), in)) {
        if (status >= 0) {
            /* The first sample has come: the window is over. Nothing was printed before. */
            printf("command %" PRId64 " %" PRId64 " %d\nepoch %" PRId64 " %" PRId64 "\n",
                   (begin - t0) / 1000, (end - t0) / 1000, status, t0, error_ns / 1000);
            status = -1;
        }
        fputs(line, stdout);
        done = strcmp(line, "end\n") == 0;
    }
    if (!done) {
        errno = 0;
        die("samples");
    }
    return 0;
}
