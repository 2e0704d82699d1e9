/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scrubhook.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "reply.h"

#define DOMID_FIRST_RESERVED 0x7ff0u

/* A reply has one job in it; only a name of thousands of control characters could make it longer.
 */
#define REPLY_MAX 32768

struct conversation {
    const struct scrubhook_opts *opts;
    int fd;
    size_t fill;
    char buf[REPLY_MAX];
};

static const char *const verdict_texts[] = {
    [SCRUBHOOK_NOT_ASKED] = "scrubd is not asked about this domain",
    [SCRUBHOOK_DEAD] = "scrubd has torn the domain down",
    [SCRUBHOOK_ABSENT] = "scrubd cannot be reached",
    [SCRUBHOOK_REFUSED] = "scrubd refuses",
    [SCRUBHOOK_DECLINED] = "scrubd leaves it to its caller",
    [SCRUBHOOK_CLOSED] = "scrubd hung up before the domain was dead",
    [SCRUBHOOK_SILENT] = "scrubd does not answer in time",
    [SCRUBHOOK_GARBAGE] = "scrubd's answer makes no sense",
};

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Milliseconds until deadline_ms, at least 0. */
static int time_left_ms(int64_t deadline_ms)
{
    int64_t left_ms = deadline_ms - now_ms();

    return left_ms > 0 ? (int)left_ms : 0;
}

static int socket_open(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int high;

    /* In a program that has closed its standard streams, nobody's error messages may end up in our
     * socket. */
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return high;
}

static bool set_send_timeout(int fd, int ms)
{
    /* A timeout of zero would mean none. */
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 + 1};

    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == 0;
}

/*
 * A connected socket, or -1 and errno. The send timeout bounds connect() too: it waits where
 * scrubd's queue of new connections is full, which a non-blocking socket would only report.
 */
static int connect_scrubd(const char *path, int timeout_ms)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int64_t deadline_ms = now_ms() + timeout_ms;
    int fd, saved_errno;

    if (strlen(path) >= sizeof(addr.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(addr.sun_path, path);
    fd = socket_open();
    if (fd < 0)
        return -1;
    do {
        int left_ms = time_left_ms(deadline_ms);

        if (left_ms == 0) {
            errno = ETIMEDOUT;
            break;
        }
        if (!set_send_timeout(fd, left_ms))
            break;
        if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
            return fd;
    } while (errno == EINTR);

    saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return -1;
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/*
 * Waits for one whole reply, which then is the first *ret_len bytes of c->buf, and a NUL.
 * SCRUBHOOK_DEAD stands for success here.
 */
static enum scrubhook_verdict receive(struct conversation *c, int64_t deadline_ms, size_t *ret_len)
{
    size_t searched = 0;

    for (;;) {
        const char *nul = memchr(c->buf + searched, '\0', c->fill - searched);
        struct pollfd pfd = {.fd = c->fd, .events = POLLIN};
        ssize_t n;
        int r;

        if (nul != NULL) {
            *ret_len = (size_t)(nul - c->buf);
            return SCRUBHOOK_DEAD;
        }
        searched = c->fill;
        if (c->fill == sizeof(c->buf))
            return SCRUBHOOK_GARBAGE;

        r = poll(&pfd, 1, time_left_ms(deadline_ms));
        if (r == 0)
            return SCRUBHOOK_SILENT;
        if (r < 0 && errno != EINTR)
            return SCRUBHOOK_CLOSED;
        n = recv(c->fd, c->buf + c->fill, sizeof(c->buf) - c->fill, MSG_DONTWAIT);
        if (n == 0)
            return SCRUBHOOK_CLOSED;
        if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
            return SCRUBHOOK_CLOSED;
        if (n > 0)
            c->fill += (size_t)n;
        /* Signals that never cease must not keep the deadline away. */
        else if (time_left_ms(deadline_ms) == 0)
            return SCRUBHOOK_SILENT;
    }
}

static enum scrubhook_verdict converse(struct conversation *c, uint32_t domid)
{
    int hello_ms = c->opts->hello_ms > 0 ? c->opts->hello_ms : SCRUBHOOK_HELLO_MS;
    int silence_ms = c->opts->silence_ms > 0 ? c->opts->silence_ms : SCRUBHOOK_SILENCE_MS;
    int64_t deadline_ms = now_ms() + hello_ms;
    char request[128];
    int n;

    n = snprintf(request, sizeof(request),
                 "{\"method\":\"org.scrubd.Destroy\",\"parameters\":{\"domid\":%u},\"more\":true}",
                 domid);
    if (!send_all(c->fd, request, (size_t)n + 1))
        return SCRUBHOOK_CLOSED;

    for (;;) {
        enum scrubhook_verdict verdict;
        struct reply reply;
        size_t len;

        verdict = receive(c, deadline_ms, &len);
        if (verdict != SCRUBHOOK_DEAD)
            return verdict;
        if (!reply_parse(c->buf, len, &reply))
            return SCRUBHOOK_GARBAGE;
        if (c->opts->on_reply != NULL)
            c->opts->on_reply(c->opts->ctx, c->buf, len);

        if (reply.error)
            return SCRUBHOOK_REFUSED;
        if (reply.event == REPLY_DEAD)
            return SCRUBHOOK_DEAD;
        if (reply.event == REPLY_DECLINE)
            return SCRUBHOOK_DECLINED;
        if (reply.event == REPLY_NO_EVENT)
            return SCRUBHOOK_GARBAGE;
        if (!reply.continues)
            return SCRUBHOOK_CLOSED;

        c->fill -= len + 1;
        memmove(c->buf, c->buf + len + 1, c->fill);
        deadline_ms = now_ms() + silence_ms;
    }
}

int scrubhook_destroy(uint32_t domid, const struct scrubhook_opts *opts, scrubhook_real_fn real,
                      struct xc_interface_core *xch)
{
    static const struct scrubhook_opts defaults;
    enum scrubhook_verdict verdict = SCRUBHOOK_NOT_ASKED;
    struct conversation c;
    int entry_errno = errno;
    int rc, saved_errno;

    if (opts == NULL)
        opts = &defaults;
    c.opts = opts;
    c.fd = -1;
    c.fill = 0;

    if (domid != 0 && domid < DOMID_FIRST_RESERVED) {
        c.fd = connect_scrubd(opts->socket_path != NULL ? opts->socket_path : SCRUBHOOK_SOCKET,
                              opts->connect_ms > 0 ? opts->connect_ms : SCRUBHOOK_CONNECT_MS);
        verdict = c.fd < 0 ? SCRUBHOOK_ABSENT : converse(&c, domid);
    }
    if (opts->on_verdict != NULL)
        opts->on_verdict(opts->ctx, verdict, verdict_texts[verdict]);

    errno = entry_errno;
    if (verdict == SCRUBHOOK_DEAD) {
        rc = 0;
    } else if (real != NULL) {
        rc = real(xch, domid);
    } else {
        rc = -1;
        errno = ENOSYS;
    }

    /* Not before: scrubd lets callers that it declined destroy one after another, and this is how
     * it sees the end. */
    saved_errno = errno;
    if (c.fd >= 0)
        close(c.fd);
    errno = saved_errno;
    return rc;
}
