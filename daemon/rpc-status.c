/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>

#include "rpc-private.h"

#define WATCH_DEFAULT_MS 250
#define WATCH_MIN_MS 50
#define WATCH_MAX_MS 60000
#define WATCH_UNREAD_MAX (32 * 1024) /* a client this far behind misses turns */
#define WATCH_SAME_US 10000          /* watchers within this time are told the same */

static struct json_object *status_object(struct engine *e)
{
    const struct limits *limits = engine_limits(e);
    struct status status;
    struct json_object *o;

    engine_status(e, &status);
    o = messages_status(&status);
    if (!status.degraded && (limits->ceiling_by_hand || limits->cpus_by_hand))
        wire_add_obj(o, "by_hand", rpc_limits(e, true));
    return o;
}

static void get_status(struct peer *p, struct json_object *params)
{
    reply(p, status_object(p->rpc->engine), false);
}

/* A call of Watch. */
struct watch {
    struct call call;
    struct event *ev;
    uint64_t interval_us;
};

static const struct param watch_params[] = {{"interval_ms", json_type_int, false}, PARAMS_END};

static void renew_watch(struct rpc *rpc, struct peer *p)
{
    struct json_object *o = wire_object();

    wire_add_obj(o, "status", status_object(rpc->engine));
    wire_add_obj(o, "jobs", rpc_jobs(p));
    json_object_put(rpc->watch_msg);
    rpc->watch_msg = wire_reply(o, true);
    rpc->watch_text = wire_text(rpc->watch_msg, &rpc->watch_len);
    rpc->watch_us = engine_now_us();
}

static void send_watch(struct peer *p, bool now)
{
    struct rpc *rpc = p->rpc;

    if (conn_unread(p->conn) > WATCH_UNREAD_MAX)
        return;
    if (now || !rpc->watch_msg || engine_now_us() - rpc->watch_us > WATCH_SAME_US)
        renew_watch(rpc, p);
    conn_send_text(p->conn, rpc->watch_text, rpc->watch_len);
}

/* Those with the same interval all have their turns in the same moments: with one look at the host,
 * one text, and one wake-up, however many they are. */
static void await_turn(struct watch *w)
{
    uint64_t us = w->interval_us - engine_now_us() % w->interval_us;
    struct timeval tv = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};

    evtimer_add(w->ev, &tv);
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
    struct watch *w = arg;

    send_watch(w->call.peer, false);
    await_turn(w);
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
    w->interval_us = (uint64_t)ms * 1000;
    call_hold(p, &w->call);
    send_watch(p, true);
    await_turn(w);
}

const struct method rpc_status_methods[] = {
    {WIRE_INTERFACE ".GetStatus", get_status, no_params, false, false},
    {WIRE_INTERFACE ".Watch", watch, watch_params, false, true},
    METHODS_END,
};
