/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

const char *client_socket_path(void)
{
    const char *path = getenv("SCRUBD_SOCKET");

    return path && *path ? path : SCRUBD_SOCKET_PATH;
}

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Time left for poll() until the deadline; -1 stays -1. */
static int time_left(int timeout_ms, int64_t deadline)
{
    int64_t left;

    if (timeout_ms < 0)
        return -1;
    left = deadline - now_ms();
    return left > 0 ? (int)left : 0;
}

int client_open(const char *path, int timeout_ms, struct client **ret, struct err *err)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct timeval tv = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    struct client *c;
    int fd, r;

    if (strlen(path) >= sizeof(sa.sun_path))
        return err_set(err, ENAMETOOLONG, "the socket path %.120s... is too long", path);
    strcpy(sa.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, errno, "socket: %s", strerror(errno));
    /* A local connect waits only while the queue of the listener is full; the send timeout bounds
     * that. */
    if (timeout_ms >= 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
        r = errno == EAGAIN || errno == EINPROGRESS ? ETIMEDOUT : errno;
        close(fd);
        return err_set(err, r, "cannot connect to %s: %s", path, strerror(r));
    }
    c = calloc(1, sizeof(*c));
    if (!c) {
        close(fd);
        return err_set(err, ENOMEM, "out of memory");
    }
    c->fd = fd;
    *ret = c;
    return 0;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    close(c->fd);
    free(c->buf);
    free(c);
}

int client_send(struct client *c, const char *method, struct json_object *params, bool more,
                struct err *err)
{
    struct json_object *msg = wire_call(method, params, more);
    const char *text;
    size_t len;
    ssize_t n;

    text = wire_text(msg, &len);
    while (len) {
        n = send(c->fd, text, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int e = errno == EAGAIN ? ETIMEDOUT : errno;

            json_object_put(msg);
            return err_set(err, e, "cannot send to scrubd: %s", strerror(e));
        }
        text += n;
        len -= (size_t)n;
    }
    json_object_put(msg);
    return 0;
}

bool client_pending(const struct client *c)
{
    return c->len > c->used && memchr(c->buf + c->used, '\0', c->len - c->used);
}

/* Read what is there, once. */
static int fill(struct client *c, struct err *err)
{
    ssize_t n;

    if (c->used) {
        memmove(c->buf, c->buf + c->used, c->len - c->used);
        c->len -= c->used;
        c->used = 0;
    }
    if (c->len == c->size) {
        size_t size = c->size ? c->size * 2 : 4096;
        char *buf;

        if (size > WIRE_MAX_REPLY)
            return err_set(err, EBADMSG, "a reply of scrubd is too long");
        buf = realloc(c->buf, size);
        if (!buf)
            return err_set(err, ENOMEM, "out of memory");
        c->buf = buf;
        c->size = size;
    }
    n = recv(c->fd, c->buf + c->len, c->size - c->len, 0);
    if (n < 0)
        return err_set(err, errno, "cannot receive from scrubd: %s", strerror(errno));
    if (n == 0)
        return err_set(err, ECONNRESET, "scrubd closed the connection");
    c->len += (size_t)n;
    return 0;
}

int client_receive(struct client *c, int timeout_ms, struct json_object **ret, struct err *err)
{
    int64_t deadline = now_ms() + timeout_ms;
    size_t len;
    int r;

    while (!client_pending(c)) {
        struct pollfd pfd = {.fd = c->fd, .events = POLLIN};

        r = poll(&pfd, 1, time_left(timeout_ms, deadline));
        if (r < 0)
            return err_set(err, errno, "poll: %s", strerror(errno));
        if (r == 0)
            return err_set(err, ETIMEDOUT, "no answer from scrubd within %d ms", timeout_ms);
        r = fill(c, err);
        if (r < 0)
            return r;
    }
    len = strlen(c->buf + c->used);
    r = wire_parse(c->buf + c->used, len, ret, err);
    c->used += len + 1;
    return r < 0 ? err_wrap(err, "reply of scrubd") : 0;
}

int client_call(struct client *c, const char *method, struct json_object *params, int timeout_ms,
                struct json_object **ret, struct err *err)
{
    int r = client_send(c, method, params, false, err);

    return r < 0 ? r : client_receive(c, timeout_ms, ret, err);
}
