/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdlib.h>

#include "rpc-private.h"

#define DIRTY_PAGES 1024 /* less is not worth a wait, 4 MiB */
#define CLEAN_PAGES 256  /* what a running host has anyway */
#define BEAT_US 1000000

/*
 * A call of AwaitMemory, of somebody who is about to create a domain: a page that is still dirty
 * would be scrubbed inside the hypercall that hands it out. Steps are held meanwhile, or with a
 * teardown under way everyone would wait to the end of his time.
 */
struct await {
    struct call call;
    struct engine_waiter waiter;
    uint64_t start_us, end_us, beat_us;
};

static void send_event(struct peer *p, const char *event, bool continues)
{
    struct json_object *o = wire_object();

    wire_add_str(o, "event", event);
    reply(p, o, continues);
}

static void send_hello(struct peer *p, unsigned int wait_ms)
{
    struct json_object *o = wire_object();

    wire_add_str(o, "event", "hello");
    wire_add_int(o, "wait_ms", wait_ms);
    reply(p, o, true);
}

static void await_closed(struct call *c)
{
    struct await *a = (struct await *)c;

    engine_unwait(c->peer->rpc->engine, &a->waiter);
    free(a);
}

static void on_memory(struct engine_waiter *waiter, const struct engine_memory *m)
{
    struct await *a = (struct await *)((char *)waiter - offsetof(struct await, waiter));
    bool clean = !m || m->backlog_pages <= CLEAN_PAGES; /* without figures: nothing to wait for */
    uint64_t now_us = engine_now_us();

    if (clean || now_us >= a->end_us) {
        log_at(clean ? LOG_LEVEL_INFO : LOG_LEVEL_NOTICE,
               "pid %d creates its domain after %" PRIu64 " ms, %" PRIu64 " MiB are still dirty",
               (int)a->call.peer->pid, (now_us - a->start_us) / 1000,
               m ? m->backlog_pages / 256 : 0);
        engine_note_create(a->call.peer->rpc->engine, now_us - a->start_us, clean);
        send_event(a->call.peer, "go", false);
        call_end(&a->call);
    } else if (now_us >= a->beat_us) {
        send_event(a->call.peer, "heartbeat", true);
        a->beat_us += BEAT_US;
    }
}

/* uuid NULL: not known. */
static bool may_go(struct engine *e, unsigned int wait_ms, const uint8_t *uuid,
                   struct engine_memory *ret)
{
    return engine_degraded(e) || !wait_ms || (uuid && engine_comes_back(e, uuid)) ||
           engine_memory(e, ret, NULL) < 0 || ret->backlog_pages < DIRTY_PAGES;
}

static void await_memory(struct peer *p, struct json_object *params)
{
    struct engine *e = p->rpc->engine;
    unsigned int wait_ms = engine_create_wait_ms(e);
    const char *text = wire_get_str(params, "uuid", NULL);
    struct engine_memory m;
    uint8_t uuid[16];
    struct await *a;

    if (text && !ident_parse_uuid(text, uuid)) {
        invalid_parameter(p, "uuid");
        return;
    }
    send_hello(p, wait_ms);
    a = may_go(e, wait_ms, text ? uuid : NULL, &m) ? NULL : calloc(1, sizeof(*a));
    if (!a) {
        engine_note_create(e, 0, true);
        send_event(p, "go", false);
        return;
    }
    log_info("pid %d wants to create a domain: it waits for %" PRIu64 " MiB to be scrubbed",
             (int)p->pid, m.backlog_pages / 256);
    a->call.load = SERVER_DESTROYING; /* outside the limits, as a destroy is */
    a->call.closed = await_closed;
    a->waiter.poll = on_memory;
    a->start_us = m.now_us;
    a->end_us = m.now_us + wait_ms * 1000ull;
    a->beat_us = m.now_us + BEAT_US;
    call_hold(p, &a->call);
    engine_wait(e, &a->waiter);
}

static const struct param await_params[] = {{"uuid", json_type_string, false}, PARAMS_END};

const struct method rpc_memory_methods[] = {
    {WIRE_INTERFACE ".AwaitMemory", await_memory, await_params, false, true},
    METHODS_END,
};
