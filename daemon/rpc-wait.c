/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>

#include "rpc-private.h"

#define TIMEOUT_MAX_MS 86400000
#define FREE_MAX_MIB (1ll << 40)
#define TELL_US 1000000

/* A call of Wait. */
struct wait {
    struct call call;
    struct engine_waiter waiter;
    uint64_t free_pages; /* that are wanted, 0: no matter */
    bool clean;
    uint64_t end_us; /* 0: never */
    uint64_t tell_us;
    /* what an estimate goes by */
    uint64_t start_us, start_free, start_scrubbed;
};

static void wait_closed(struct call *c)
{
    struct wait *w = (struct wait *)c;

    engine_unwait(c->peer->rpc->engine, &w->waiter);
    free(w);
}

static bool is_done(const struct wait *w, const struct engine_memory *m)
{
    if (w->free_pages && m->free_pages < w->free_pages)
        return false;
    return !w->clean || (!m->jobs && !m->backlog_pages);
}

/* At the speed since it began to wait; the time that n more take. -1: not known. */
static int64_t time_for(uint64_t n, uint64_t done, uint64_t us)
{
    return !n ? 0 : done && us ? (int64_t)((double)n * (double)us / (double)done) : -1;
}

static int64_t eta_us(const struct wait *w, const struct engine_memory *m)
{
    uint64_t us = m->now_us - w->start_us;
    int64_t freeing = 0, scrubbing = 0;

    if (w->free_pages > m->free_pages)
        freeing = time_for(w->free_pages - m->free_pages,
                           m->free_pages > w->start_free ? m->free_pages - w->start_free : 0, us);
    /* What teardowns are still to free is not in the backlog yet. */
    if (w->clean)
        scrubbing =
            m->jobs ? -1 : time_for(m->backlog_pages, m->scrubbed_pages - w->start_scrubbed, us);
    if (freeing < 0 || scrubbing < 0)
        return -1;
    return freeing > scrubbing ? freeing : scrubbing;
}

static void tell(const struct wait *w, const char *event, const struct engine_memory *m,
                 bool continues)
{
    struct json_object *o = wire_object();
    int64_t eta = continues ? eta_us(w, m) : -1;

    wire_add_str(o, "event", event);
    wire_add_int(o, "free_mib", (int64_t)(m->free_pages / 256));
    wire_add_int(o, "backlog_pages", (int64_t)m->backlog_pages);
    wire_add_int_opt(o, "eta_ms", eta < 0 ? -1 : eta / 1000);
    reply(w->call.peer, o, continues);
}

static void on_memory(struct engine_waiter *waiter, const struct engine_memory *m)
{
    struct wait *w = (struct wait *)((char *)waiter - offsetof(struct wait, waiter));
    bool done;

    if (!m && w->end_us && engine_now_us() >= w->end_us) {
        reply_error_str(w->call.peer, WIRE_INTERFACE ".Refused", "reason",
                        "the hypervisor does not tell about its memory");
        call_end(&w->call);
    }
    if (!m)
        return; /* perhaps the next time */
    if (w->clean && refuse_degraded(w->call.peer)) {
        call_end(&w->call);
        return;
    }
    done = is_done(w, m);
    if (done || (w->end_us && m->now_us >= w->end_us)) {
        tell(w, done ? "done" : "timeout", m, false);
        call_end(&w->call);
        return;
    }
    if (m->now_us < w->tell_us)
        return;
    tell(w, "waiting", m, true);
    w->tell_us = m->now_us + TELL_US;
}

static const struct param wait_params[] = {{"free_mib", json_type_int, false},
                                           {"clean", json_type_boolean, false},
                                           {"timeout_ms", json_type_int, false},
                                           PARAMS_END};

static void wait_for(struct peer *p, struct json_object *params)
{
    int64_t free_mib = wire_get_int(params, "free_mib", 0);
    int64_t timeout_ms = wire_get_int(params, "timeout_ms", 0);
    bool clean = wire_get_bool(params, "clean", false);
    struct engine_memory m;
    struct err err = {0};
    struct wait *w;

    if (free_mib < 0 || free_mib > FREE_MAX_MIB || (!free_mib && !clean)) {
        invalid_parameter(p, "free_mib");
        return;
    }
    if (timeout_ms < 0 || timeout_ms > TIMEOUT_MAX_MS) {
        invalid_parameter(p, "timeout_ms");
        return;
    }
    if (p->oneway || (clean && refuse_degraded(p)))
        return;
    if (engine_memory(p->rpc->engine, &m, &err) < 0) {
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (!w) {
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", "out of memory");
        return;
    }
    w->call.load = SERVER_BUSY;
    w->call.closed = wait_closed;
    w->waiter.press = true;
    w->waiter.poll = on_memory;
    w->free_pages = (uint64_t)free_mib * 256;
    w->clean = clean;
    w->end_us = timeout_ms ? m.now_us + (uint64_t)timeout_ms * 1000 : 0;
    w->start_us = m.now_us;
    w->start_free = m.free_pages;
    w->start_scrubbed = m.scrubbed_pages;
    call_hold(p, &w->call);
    engine_wait(p->rpc->engine, &w->waiter);
    on_memory(&w->waiter, &m);
}

const struct method rpc_wait_methods[] = {
    {WIRE_INTERFACE ".Wait", wait_for, wait_params, false, true},
    METHODS_END,
};
