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

/* What scrubd is asked, and which event means that it is done. */
struct question {
    const char *request;
    enum reply_event end;
    enum scrubhook_verdict ended;
    bool bounded; /* it takes no longer than scrubd says at first */
};

struct conversation {
    const struct scrubhook_opts *opts;
    int fd;
    bool heard; /* a reply came */
    size_t fill;
    char buf[REPLY_MAX];
};

static const char *const verdict_texts[] = {
    [SCRUBHOOK_NOT_ASKED] = "scrubd is not asked about this domain",
    [SCRUBHOOK_DEAD] = "scrubd has torn the domain down",
    [SCRUBHOOK_GO] = "scrubd says go",
    [SCRUBHOOK_ABSENT] = "scrubd cannot be reached",
    [SCRUBHOOK_REFUSED] = "scrubd refuses",
    [SCRUBHOOK_DECLINED] = "scrubd leaves it to its caller",
    [SCRUBHOOK_CLOSED] = "scrubd hung up half-way",
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
 * Waits for one whole reply, which then is the first *ret_len bytes of c->buf, and a NUL. False:
 * there is none, and *ret_why says why.
 */
static bool receive(struct conversation *c, int64_t deadline_ms, size_t *ret_len,
                    enum scrubhook_verdict *ret_why)
{
    size_t searched = 0;

    for (;;) {
        const char *nul = memchr(c->buf + searched, '\0', c->fill - searched);
        struct pollfd pfd = {.fd = c->fd, .events = POLLIN};
        ssize_t n;
        int r;

        if (nul != NULL) {
            *ret_len = (size_t)(nul - c->buf);
            return true;
        }
        searched = c->fill;
        *ret_why = SCRUBHOOK_GARBAGE;
        if (c->fill == sizeof(c->buf))
            return false;

        r = poll(&pfd, 1, time_left_ms(deadline_ms));
        *ret_why = SCRUBHOOK_SILENT;
        if (r == 0)
            return false;
        *ret_why = SCRUBHOOK_CLOSED;
        if (r < 0 && errno != EINTR)
            return false;
        n = recv(c->fd, c->buf + c->fill, sizeof(c->buf) - c->fill, MSG_DONTWAIT);
        if (n == 0)
            return false;
        if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
            return false;
        *ret_why = SCRUBHOOK_SILENT;
        if (n > 0)
            c->fill += (size_t)n;
        /* Signals that never cease must not keep the deadline away. */
        else if (time_left_ms(deadline_ms) == 0)
            return false;
    }
}

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

static int hello_limit_ms(const struct scrubhook_opts *opts)
{
    return opts->hello_ms > 0 ? opts->hello_ms : SCRUBHOOK_HELLO_MS;
}

static int silence_limit_ms(const struct scrubhook_opts *opts)
{
    return opts->silence_ms > 0 ? opts->silence_ms : SCRUBHOOK_SILENCE_MS;
}

static enum scrubhook_verdict converse(struct conversation *c, const struct question *q,
                                       int hello_ms)
{
    int silence_ms = silence_limit_ms(c->opts);
    int64_t deadline_ms = now_ms() + hello_ms, end_ms = INT64_MAX;

    if (q->bounded)
        end_ms = now_ms() + hello_ms + SCRUBHOOK_WAIT_MS + SCRUBHOOK_LATE_MS;
    if (!send_all(c->fd, q->request, strlen(q->request) + 1))
        return SCRUBHOOK_CLOSED;

    for (;;) {
        enum scrubhook_verdict why;
        struct reply reply;
        size_t len;

        if (!receive(c, deadline_ms, &len, &why))
            return why;
        if (!reply_parse(c->buf, len, &reply))
            return SCRUBHOOK_GARBAGE;
        c->heard = true;
        if (c->opts->on_reply != NULL)
            c->opts->on_reply(c->opts->ctx, c->buf, len);

        if (reply.error)
            return SCRUBHOOK_REFUSED;
        if (reply.event == q->end)
            return q->ended;
        if (reply.event == REPLY_DECLINE)
            return SCRUBHOOK_DECLINED;
        if (reply.event == REPLY_NO_EVENT || !reply.continues)
            return SCRUBHOOK_GARBAGE;

        c->fill -= len + 1;
        memmove(c->buf, c->buf + len + 1, c->fill);
        if (q->bounded && reply.wait_ms >= 0)
            end_ms = earlier(end_ms, now_ms() + reply.wait_ms + SCRUBHOOK_LATE_MS);
        deadline_ms = earlier(now_ms() + silence_ms, end_ms);
    }
}

/* hello_ms: how long the first reply may take. */
static enum scrubhook_verdict ask(struct conversation *c, const struct question *q, int hello_ms)
{
    const struct scrubhook_opts *opts = c->opts;

    c->fill = 0;
    c->heard = false;
    c->fd = connect_scrubd(opts->socket_path != NULL ? opts->socket_path : SCRUBHOOK_SOCKET,
                           opts->connect_ms > 0 ? opts->connect_ms : SCRUBHOOK_CONNECT_MS);
    return c->fd < 0 ? SCRUBHOOK_ABSENT : converse(c, q, hello_ms);
}

/*
 * A scrubd that hangs up half-way is being restarted, for an upgrade say, or has crashed. The next
 * one goes on with the domain, if it is there before what would be a silence is over.
 */
static enum scrubhook_verdict ask_twice(struct conversation *c, const struct question *q)
{
    enum scrubhook_verdict verdict = ask(c, q, hello_limit_ms(c->opts)), next;

    if (verdict != SCRUBHOOK_CLOSED || !c->heard)
        return verdict;
    close(c->fd);
    next = ask(c, q, silence_limit_ms(c->opts));
    return next == SCRUBHOOK_ABSENT ? verdict : next;
}

static void tell(const struct scrubhook_opts *opts, enum scrubhook_verdict verdict)
{
    if (opts->on_verdict != NULL)
        opts->on_verdict(opts->ctx, verdict, verdict_texts[verdict]);
}

static const struct scrubhook_opts defaults;

void scrubhook_await(const uint8_t uuid[16], const struct scrubhook_opts *opts)
{
    char request[128];
    const struct question question = {
        .request = request,
        .end = REPLY_GO,
        .ended = SCRUBHOOK_GO,
        .bounded = true,
    };
    struct conversation c;
    int entry_errno = errno;
    size_t n;

    n = (size_t)snprintf(request, sizeof(request),
                         "{\"method\":\"org.scrubd.AwaitMemory\",\"parameters\":{\"uuid\":\"");
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(request + n, sizeof(request) - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    snprintf(request + n, sizeof(request) - n, "\"},\"more\":true}");
    c.opts = opts != NULL ? opts : &defaults;
    tell(c.opts, ask(&c, &question, hello_limit_ms(c.opts)));
    if (c.fd >= 0)
        close(c.fd);
    errno = entry_errno;
}

int scrubhook_destroy(uint32_t domid, const struct scrubhook_opts *opts, scrubhook_real_fn real,
                      struct xc_interface_core *xch)
{
    enum scrubhook_verdict verdict = SCRUBHOOK_NOT_ASKED;
    char request[256];
    struct question question = {.request = request, .end = REPLY_DEAD, .ended = SCRUBHOOK_DEAD};
    struct conversation c;
    int entry_errno = errno;
    int rc, saved_errno;

    c.opts = opts != NULL ? opts : &defaults;
    c.fd = -1;
    snprintf(request, sizeof(request),
             "{\"method\":\"org.scrubd.Destroy\",\"parameters\":{\"domid\":%u%s},\"more\":true}",
             domid, c.opts->params != NULL ? c.opts->params : "");
    if (domid != 0 && domid < DOMID_FIRST_RESERVED)
        verdict = ask_twice(&c, &question);
    tell(c.opts, verdict);

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
