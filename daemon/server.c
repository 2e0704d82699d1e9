/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "server.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"

#define ACCEPT_PAUSE_US 500000

struct conn {
    TAILQ_ENTRY(conn) link;
    struct server *server;
    struct bufferevent *bev;
    void *peer;
    size_t scanned; /* bytes of the input known to have no NUL */
    bool finishing; /* no more requests; close when the output is read */
    bool dead;      /* to be freed by the sweep */
};
TAILQ_HEAD(conn_list, conn);

struct server {
    struct event_base *base;
    const struct server_ops *ops;
    void *arg;
    struct evconnlistener *listener;
    struct conn_list conns; /* oldest first */
    struct event *ev_sweep, *ev_accept;
    struct log_limit accept_limit;
};

static void bury(struct conn *c)
{
    struct server *s = c->server;

    TAILQ_REMOVE(&s->conns, c, link);
    s->ops->closed(c->peer);
    bufferevent_free(c->bev);
    free(c);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    struct conn *c, *next;

    for (c = TAILQ_FIRST(&s->conns); c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->dead)
            bury(c);
    }
}

static size_t unread(const struct conn *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->bev));
}

size_t conn_unread(const struct conn *c)
{
    return unread(c);
}

void conn_close(struct conn *c, bool now)
{
    if (c->dead)
        return;
    c->finishing = true;
    bufferevent_disable(c->bev, EV_READ);
    if (!now && unread(c))
        return;
    c->dead = true;
    bufferevent_disable(c->bev, EV_WRITE);
    event_active(c->server->ev_sweep, EV_TIMEOUT, 0);
}

void conn_send_text(struct conn *c, const char *text, size_t len)
{
    if (c->dead)
        return;
    bufferevent_write(c->bev, text, len);
    if (unread(c) > SERVER_OUT_MAX)
        conn_close(c, true);
}

void conn_send(struct conn *c, struct json_object *msg)
{
    const char *text;
    size_t len;

    if (!c->dead) {
        text = wire_text(msg, &len);
        conn_send_text(c, text, len);
    }
    json_object_put(msg);
}

void conn_resume(struct conn *c)
{
    bufferevent_trigger(c->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
}

/* Take one message off the input, if a whole one is there. */
static bool take(struct conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    struct evbuffer_ptr from, at;
    size_t len = evbuffer_get_length(in);

    if (c->scanned >= len)
        return false;
    evbuffer_ptr_set(in, &from, c->scanned, EVBUFFER_PTR_SET);
    at = evbuffer_search(in, "", 1, &from);
    if (at.pos < 0) {
        c->scanned = len;
        if (len > WIRE_MAX_REQUEST)
            c->server->ops->too_long(c->peer);
        return false;
    }
    if (at.pos > WIRE_MAX_REQUEST) {
        c->server->ops->too_long(c->peer);
        return false;
    }
    c->scanned = 0;
    c->server->ops->request(c->peer, (const char *)evbuffer_pullup(in, at.pos + 1), (size_t)at.pos);
    evbuffer_drain(in, (size_t)at.pos + 1);
    return true;
}

static bool is_idle(const struct conn *c)
{
    enum server_load load = c->server->ops->load(c->peer);

    return load == SERVER_IDLE || load == SERVER_KEPT;
}

static void serve(struct conn *c)
{
    while (!c->finishing && unread(c) < SERVER_OUT_PAUSE && is_idle(c) && take(c))
        ;
}

static void on_read(struct bufferevent *bev, void *arg)
{
    serve(arg);
}

/* The output is down to nothing. */
static void on_write(struct bufferevent *bev, void *arg)
{
    struct conn *c = arg;

    if (c->finishing)
        conn_close(c, false);
    else
        serve(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct conn *c = arg;

    if (what & BEV_EVENT_ERROR) {
        conn_close(c, true);
        return;
    }
    if (what & BEV_EVENT_EOF) {
        /* Somebody who sends and shuts down still wants the answers; somebody who waits for more is
         * gone. */
        serve(c);
        conn_close(c, c->server->ops->load(c->peer) != SERVER_IDLE);
    }
}

/* Make room for one more: of too many connections, the one that is idle for longest goes. */
static bool make_room(struct server *s)
{
    unsigned int n = 0;
    struct conn *c, *idle = NULL;

    TAILQ_FOREACH (c, &s->conns, link) {
        enum server_load load = c->dead ? SERVER_DESTROYING : s->ops->load(c->peer);

        n += load == SERVER_IDLE || load == SERVER_BUSY;
        if (load == SERVER_IDLE && !idle)
            idle = c;
    }
    if (n < SERVER_MAX_CONNS)
        return true;
    if (!idle)
        return false;
    conn_close(idle, true);
    return true;
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int len,
                      void *arg)
{
    struct server *s = arg;
    struct ucred cred;
    socklen_t cred_len = sizeof(cred);
    struct conn *c;

    if (!make_room(s) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0 ||
        !(c = calloc(1, sizeof(*c)))) {
        close(fd);
        return;
    }
    c->server = s;
    c->bev = bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!c->bev) {
        close(fd);
        free(c);
        return;
    }
    c->peer = s->ops->opened(s->arg, c, cred.uid, cred.pid);
    if (!c->peer) {
        bufferevent_free(c->bev);
        free(c);
        return;
    }
    TAILQ_INSERT_TAIL(&s->conns, c, link);
    bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
    bufferevent_setwatermark(c->bev, EV_READ, 0, WIRE_MAX_REQUEST + 1);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

/* Out of file descriptors: trying again at once would spin. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    struct server *s = arg;
    struct timeval tv = {0, ACCEPT_PAUSE_US};

    log_error("cannot accept connections: %s", strerror(EVUTIL_SOCKET_ERROR()));
    evconnlistener_disable(l);
    evtimer_add(s->ev_accept, &tv);
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;

    evconnlistener_enable(s->listener);
}

int server_move(struct server *s, int fd, struct err *err)
{
    struct evconnlistener *l;

    evutil_make_socket_nonblocking(fd);
    l = evconnlistener_new(s->base, on_accept, s, LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!l)
        return err_set(err, ENOMEM, "cannot serve on the socket: out of memory");
    evconnlistener_set_error_cb(l, on_accept_error);
    if (s->listener)
        evconnlistener_free(s->listener);
    s->listener = l;
    return 0;
}

int server_new(struct event_base *base, int fd, const struct server_ops *ops, void *arg,
               struct server **ret, struct err *err)
{
    struct server *s = calloc(1, sizeof(*s));

    if (!s)
        return err_set(err, ENOMEM, "out of memory");
    s->base = base;
    s->ops = ops;
    s->arg = arg;
    TAILQ_INIT(&s->conns);
    s->ev_sweep = evtimer_new(base, on_sweep, s);
    s->ev_accept = evtimer_new(base, on_accept_again, s);
    if (!s->ev_sweep || !s->ev_accept || server_move(s, fd, NULL) < 0) {
        server_free(s);
        return err_set(err, ENOMEM, "cannot serve on the socket: out of memory");
    }
    *ret = s;
    return 0;
}

void server_free(struct server *s)
{
    struct conn *c;

    if (!s)
        return;
    while ((c = TAILQ_FIRST(&s->conns)))
        bury(c);
    if (s->listener)
        evconnlistener_free(s->listener);
    if (s->ev_sweep)
        event_free(s->ev_sweep);
    if (s->ev_accept)
        event_free(s->ev_accept);
    free(s);
}

int server_listen(const char *path, int *ret_fd, struct err *err)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct stat st;
    mode_t mask;
    int fd, r;

    if (strlen(path) >= sizeof(sa.sun_path))
        return err_set(err, ENAMETOOLONG, "the socket path %.120s... is too long", path);
    strcpy(sa.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, errno, "socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0) {
        close(fd);
        return err_set(err, EADDRINUSE, "%s: somebody serves there already", path);
    }
    /* Connecting to a plain file is refused as well: only a socket is ours to remove. */
    if (errno == ECONNREFUSED && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        unlink(path);
    mask = umask(0177);
    r = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, SOMAXCONN) < 0 ? errno : 0;
    umask(mask);
    if (r) {
        close(fd);
        return err_set(err, r, "cannot listen on %s: %s", path, strerror(r));
    }
    *ret_fd = fd;
    return 0;
}
