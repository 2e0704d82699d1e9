/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>

#include "rpc-private.h"

static void list_jobs(struct peer *p, struct json_object *params)
{
    const struct job_table *jobs = engine_jobs(p->rpc->engine);
    uint64_t now_us = engine_now_us();
    struct job *job;

    TAILQ_FOREACH (job, &jobs->list, link) {
        struct json_object *o = wire_object();

        wire_add_obj(o, "job", messages_job(job, now_us));
        reply(p, o, TAILQ_NEXT(job, link) != NULL);
    }
    if (TAILQ_EMPTY(&jobs->list))
        reply(p, NULL, false);
}

/* A call of Destroy, which waits for a job. */
struct destroy {
    struct call call;
    struct engine_listener listener;
};

static void destroy_closed(struct call *c)
{
    struct destroy *d = (struct destroy *)c;

    engine_forget(c->peer->rpc->engine, &d->listener);
    free(d);
}

static const struct param destroy_params[] = {{"domid", json_type_int, true},
                                              {"uuid", json_type_string, false},
                                              {"name", json_type_string, false},
                                              PARAMS_END};

static struct json_object *destroy_event(const char *event, const struct job *job,
                                         const char *reason)
{
    struct json_object *o = wire_object();

    wire_add_str(o, "event", event);
    if (job)
        wire_add_obj(o, "job", messages_job(job, engine_now_us()));
    wire_add_str_opt(o, "reason", reason);
    return o;
}

static void on_job_event(struct engine_listener *l, enum engine_event event, const struct job *job,
                         const char *reason)
{
    struct destroy *d = (struct destroy *)((char *)l - offsetof(struct destroy, listener));
    struct peer *p = d->call.peer;

    if (event == ENGINE_HEARTBEAT) {
        reply(p, destroy_event("heartbeat", job, NULL), true);
        return;
    }
    reply(p, destroy_event(event == ENGINE_DEAD ? "dead" : "decline", job, reason), false);
    if (!l->turn_of) {
        call_end(&d->call);
        return;
    }
    d->call.load = SERVER_KEPT; /* its turn, which ends with the connection or with another call */
    conn_resume(p->conn);
}

static void destroy_failed(struct peer *p, int64_t domid, const struct err *err)
{
    struct json_object *o = wire_object();

    if (err->code == ESRCH || err->code == EPERM)
        wire_add_int(o, "domid", domid);
    if (err->code != ESRCH)
        wire_add_str(o, "reason", err->text);
    reply_error(p,
                err->code == ESRCH   ? WIRE_INTERFACE ".NoSuchDomain"
                : err->code == EPERM ? WIRE_INTERFACE ".NotAllowed"
                                     : WIRE_INTERFACE ".Refused",
                o);
}

static void destroy(struct peer *p, struct json_object *params)
{
    int64_t domid = wire_get_int(params, "domid", -1);
    const char *uuid_text = wire_get_str(params, "uuid", NULL);
    const char *name = wire_get_str(params, "name", NULL);
    struct engine *e = p->rpc->engine;
    const struct job *job = NULL;
    struct destroy *d;
    struct err err = {0};
    uint8_t uuid[16];
    bool dead;
    int r;

    if (domid < 0 || domid > UINT32_MAX) {
        invalid_parameter(p, "domid");
        return;
    }
    if (uuid_text && !ident_parse_uuid(uuid_text, uuid)) {
        invalid_parameter(p, "uuid");
        return;
    }
    d = calloc(1, sizeof(*d));
    if (!d) {
        err_set(&err, ENOMEM, "out of memory");
        destroy_failed(p, domid, &err);
        return;
    }
    d->call.load = SERVER_DESTROYING;
    d->call.closed = destroy_closed;
    d->listener.notify = on_job_event;
    call_hold(p, &d->call); /* ends a turn of degraded mode that this connection had */
    r = engine_destroy(e, (uint32_t)domid, uuid_text ? uuid : NULL, name, &d->listener, &job, &dead,
                       &err);
    if (r < 0) {
        destroy_failed(p, domid, &err);
        call_end(&d->call);
        return;
    }
    reply(p, destroy_event("hello", job, NULL), true);
    if (dead) {
        reply(p, destroy_event("dead", NULL, NULL), false);
        call_end(&d->call);
    }
}

const struct method rpc_job_methods[] = {
    {WIRE_INTERFACE ".ListJobs", list_jobs, no_params, false, true},
    {WIRE_INTERFACE ".Destroy", destroy, destroy_params, false, true},
    METHODS_END,
};
