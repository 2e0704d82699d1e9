/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>

#include "rpc-private.h"

#define WATCH_DEFAULT_MS 250
#define WATCH_MIN_MS 50
#define WATCH_MAX_MS 60000
#define WATCH_UNREAD_MAX (32 * 1024) /* a client this far behind misses turns */

static void get_status(struct peer *p, struct json_object *params)
{
    struct status status;

    engine_status(p->rpc->engine, &status);
    reply(p, messages_status(&status), false);
}

/* A call of Watch. */
struct watch {
    struct call call;
    struct event *ev;
    struct timeval interval;
};

static const struct param watch_params[] = {{"interval_ms", json_type_int, false}, PARAMS_END};

static void send_watch(struct peer *p)
{
    struct json_object *o;
    struct status status;

    if (conn_unread(p->conn) > WATCH_UNREAD_MAX)
        return;
    o = wire_object();
    engine_status(p->rpc->engine, &status);
    wire_add_obj(o, "status", messages_status(&status));
    wire_add_obj(o, "jobs", rpc_jobs(p));
    reply(p, o, true);
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
    struct watch *w = arg;

    send_watch(w->call.peer);
    evtimer_add(w->ev, &w->interval);
}

static void watch_closed(struct call *c)
{
    struct watch *w = (struct watch *)c;

    event_free(w->ev);
    free(w);
}

static void watch(struct peer *p, struct json_object *params)
{
    int64_t ms = wire_get_int(params, "interval_ms", WATCH_DEFAULT_MS);
    struct watch *w;

    if (ms < WATCH_MIN_MS || ms > WATCH_MAX_MS) {
        invalid_parameter(p, "interval_ms");
        return;
    }
    if (p->oneway)
        return;
    w = calloc(1, sizeof(*w));
    if (!w || !(w->ev = evtimer_new(p->rpc->base, on_watch, w))) {
        free(w);
        conn_close(p->conn, true);
        return;
    }
    w->call.load = SERVER_BUSY;
    w->call.closed = watch_closed;
    w->interval.tv_sec = (time_t)(ms / 1000);
    w->interval.tv_usec = (suseconds_t)(ms % 1000 * 1000);
    call_hold(p, &w->call);
    send_watch(p);
    evtimer_add(w->ev, &w->interval);
}

const struct method rpc_status_methods[] = {
    {WIRE_INTERFACE ".GetStatus", get_status, no_params, false, false},
    {WIRE_INTERFACE ".Watch", watch, watch_params, false, true},
    METHODS_END,
};
