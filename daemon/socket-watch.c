/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "socket-watch.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct socket_watch {
    int fd;
    char *copy; /* of the path: name is in it */
    const char *name;
    struct event *ev, *ev_settled;
    void (*gone)(void *arg);
    void *arg;
};

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct socket_watch *w = arg;
    char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(fd, buf, sizeof(buf));
    /* The kernel may tell a moment before the name is gone; and somebody may be replacing it. */
    const struct timeval settle = {0, 100000};
    bool gone = false;

    for (char *p = buf; n > 0 && p < buf + n;) {
        const struct inotify_event *e = (const struct inotify_event *)p;

        gone |= e->mask & (IN_IGNORED | IN_MOVE_SELF) || (e->len && !strcmp(e->name, w->name));
        p += sizeof(*e) + e->len;
    }
    if (gone)
        evtimer_add(w->ev_settled, &settle);
}

static void on_settled(evutil_socket_t fd, short what, void *arg)
{
    struct socket_watch *w = arg;

    w->gone(w->arg);
}

int socket_watch_new(struct event_base *base, const char *path, void (*gone)(void *arg), void *arg,
                     struct socket_watch **ret, struct err *err)
{
    struct socket_watch *w = calloc(1, sizeof(*w));
    char *dir = strdup(path);
    int r = 0;

    if (!w || !dir || !(w->copy = strdup(path))) {
        free(w);
        free(dir);
        return err_set(err, ENOMEM, "out of memory");
    }
    w->gone = gone;
    w->arg = arg;
    w->name = basename(w->copy);
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0 ||
        inotify_add_watch(w->fd, dirname(dir), IN_DELETE | IN_MOVED_FROM | IN_MOVE_SELF) < 0)
        r = errno;
    free(dir);
    if (!r) {
        w->ev = event_new(base, w->fd, EV_READ | EV_PERSIST, on_event, w);
        w->ev_settled = evtimer_new(base, on_settled, w);
        r = w->ev && w->ev_settled && event_add(w->ev, NULL) == 0 ? 0 : ENOMEM;
    }
    if (r) {
        socket_watch_free(w);
        return err_set(err, r, "cannot watch %s: %s", path, strerror(r));
    }
    *ret = w;
    return 0;
}

void socket_watch_free(struct socket_watch *w)
{
    if (!w)
        return;
    if (w->ev)
        event_free(w->ev);
    if (w->ev_settled)
        event_free(w->ev_settled);
    if (w->fd >= 0)
        close(w->fd);
    free(w->copy);
    free(w);
}
