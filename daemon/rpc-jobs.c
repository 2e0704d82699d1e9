/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>

#include "rpc-private.h"

#define DEADLINE_MAX_MS 86400000

static struct json_object *job_object(struct peer *p, const struct job *job)
{
    return messages_job(job, engine_now_us(), engine_eta_us(p->rpc->engine, job));
}

/* The job after one, of those to be torn down and then the dead; NULL: the first. */
static const struct job *job_after(const struct job_table *t, const struct job *job)
{
    const struct job *next = job ? TAILQ_NEXT(job, link) : TAILQ_FIRST(&t->list);

    return next || (job && job->dead_us) ? next : TAILQ_FIRST(&t->dead);
}

struct json_object *rpc_jobs(struct peer *p)
{
    const struct job_table *jobs = engine_jobs(p->rpc->engine);
    struct json_object *list = wire_array();

    for (const struct job *job = job_after(jobs, NULL); job; job = job_after(jobs, job))
        json_object_array_add(list, job_object(p, job));
    return list;
}

static void list_jobs(struct peer *p, struct json_object *params)
{
    const struct job_table *jobs = engine_jobs(p->rpc->engine);
    const struct job *job = job_after(jobs, NULL), *next;

    if (!job)
        reply(p, NULL, false);
    for (; job; job = next) {
        struct json_object *o = wire_object();

        next = job_after(jobs, job);
        wire_add_obj(o, "job", job_object(p, job));
        reply(p, o, next != NULL);
    }
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

static struct json_object *destroy_event(struct peer *p, enum engine_event event,
                                         const struct job *job, const char *reason)
{
    static const char *const names[] = {
        [ENGINE_NONE] = "hello",  [ENGINE_HEARTBEAT] = "heartbeat", [ENGINE_DEAD] = "dead",
        [ENGINE_CLEAN] = "clean", [ENGINE_DECLINE] = "decline",
    };
    struct json_object *o = wire_object();

    wire_add_str(o, "event", names[event]);
    if (job)
        wire_add_obj(o, "job", job_object(p, job));
    wire_add_str_opt(o, "reason", reason && *reason ? reason : NULL);
    return o;
}

static void on_job_event(struct engine_listener *l, enum engine_event event, const struct job *job,
                         const char *reason)
{
    struct destroy *d = (struct destroy *)((char *)l - offsetof(struct destroy, listener));
    struct peer *p = d->call.peer;
    bool goes_on = event == ENGINE_HEARTBEAT || (event == ENGINE_DEAD && l->wants_clean);

    if (event == ENGINE_BLIND)
        reply_error_str(p, WIRE_INTERFACE ".Degraded", "reason", reason);
    else
        reply(p, destroy_event(p, event, job, reason), goes_on);
    if (goes_on)
        return;
    if (!l->turn_of) {
        call_end(&d->call);
        return;
    }
    d->call.load = SERVER_KEPT; /* its turn, which ends with the connection or with another call */
    conn_resume(p->conn);
}

static void job_failed(struct peer *p, int64_t domid, const char *not_found, const struct err *err)
{
    struct json_object *o = wire_object();

    if (err->code == ESRCH || err->code == EPERM)
        wire_add_int(o, "domid", domid);
    if (err->code != ESRCH)
        wire_add_str(o, "reason", err->text);
    reply_error(p,
                err->code == ESRCH     ? not_found
                : err->code == EPERM   ? WIRE_INTERFACE ".NotAllowed"
                : err->code == ENOTSUP ? WIRE_INTERFACE ".Degraded"
                                       : WIRE_INTERFACE ".Refused",
                o);
}

bool rpc_get_target(struct peer *p, struct json_object *params, struct rpc_target *ret)
{
    int64_t domid = wire_get_int(params, "domid", -1);
    const char *uuid = wire_get_str(params, "uuid", NULL);

    if (domid < 0 || domid > UINT32_MAX) {
        invalid_parameter(p, "domid");
        return false;
    }
    if (uuid && !ident_parse_uuid(uuid, ret->uuid)) {
        invalid_parameter(p, "uuid");
        return false;
    }
    ret->target.domid = (uint32_t)domid;
    ret->target.uuid = uuid ? ret->uuid : NULL;
    return true;
}

static bool get_priority(struct peer *p, struct json_object *params, int *ret)
{
    int64_t priority = wire_get_int(params, "priority", 0);

    if (priority < -JOB_PRIORITY_MAX || priority > JOB_PRIORITY_MAX) {
        invalid_parameter(p, "priority");
        return false;
    }
    *ret = (int)priority;
    return true;
}

/* In us; 0 if there is none. */
static bool get_deadline(struct peer *p, struct json_object *params, uint64_t *ret)
{
    bool given = json_object_object_get(params, "deadline_ms");
    int64_t ms = wire_get_int(params, "deadline_ms", 0);

    if (given && (ms < 1 || ms > DEADLINE_MAX_MS)) {
        invalid_parameter(p, "deadline_ms");
        return false;
    }
    *ret = (uint64_t)ms * 1000;
    return true;
}

static const struct param destroy_params[] = {{"domid", json_type_int, true},
                                              {"uuid", json_type_string, false},
                                              {"name", json_type_string, false},
                                              {"priority", json_type_int, false},
                                              {"deadline_ms", json_type_int, false},
                                              {"wait_clean", json_type_boolean, false},
                                              PARAMS_END};

static void destroy(struct peer *p, struct json_object *params)
{
    struct engine_request req = {
        .name = wire_get_str(params, "name", NULL),
        .has_priority = json_object_object_get(params, "priority") != NULL,
    };
    struct engine *e = p->rpc->engine;
    struct engine_answer answer;
    struct rpc_target target;
    struct destroy *d;
    struct err err = {0};
    int r;

    if (!rpc_get_target(p, params, &target) || !get_priority(p, params, &req.priority) ||
        !get_deadline(p, params, &req.deadline_us))
        return;
    req.target = target.target;
    d = calloc(1, sizeof(*d));
    if (!d) {
        err_set(&err, ENOMEM, "out of memory");
        job_failed(p, req.target.domid, NULL, &err);
        return;
    }
    d->call.load = SERVER_DESTROYING;
    d->call.closed = destroy_closed;
    d->listener.notify = on_job_event;
    d->listener.wants_clean = wire_get_bool(params, "wait_clean", false);
    call_hold(p, &d->call); /* ends a turn of degraded mode that this connection had */
    r = engine_destroy(e, &req, &d->listener, &answer, &err);
    if (r < 0) {
        job_failed(p, req.target.domid, WIRE_INTERFACE ".NoSuchDomain", &err);
        call_end(&d->call);
        return;
    }
    reply(p,
          destroy_event(p, ENGINE_NONE, answer.job,
                        answer.event == ENGINE_DECLINE ? NULL : answer.reason),
          true);
    if (answer.event != ENGINE_NONE)
        reply(p, destroy_event(p, answer.event, answer.job, answer.reason), d->listener.job);
    if (!d->listener.job)
        call_end(&d->call);
}

/* Changes of a job */

static const struct param target_params[] = {
    {"domid", json_type_int, true}, {"uuid", json_type_string, false}, PARAMS_END};
static const struct param hurry_params[] = {{"domid", json_type_int, true},
                                            {"uuid", json_type_string, false},
                                            {"deadline_ms", json_type_int, false},
                                            PARAMS_END};
static const struct param priority_params[] = {{"domid", json_type_int, true},
                                               {"uuid", json_type_string, false},
                                               {"priority", json_type_int, true},
                                               PARAMS_END};

/* The answer to a change that returned r. */
static void changed(struct peer *p, const struct rpc_target *t, int r, const struct job *job,
                    const char *reason, const struct err *err)
{
    struct json_object *o;

    if (r < 0) {
        job_failed(p, t->target.domid, WIRE_INTERFACE ".NoSuchJob", err);
        return;
    }
    o = wire_object();
    wire_add_obj(o, "job", job_object(p, job));
    wire_add_str_opt(o, "reason", reason && *reason ? reason : NULL);
    reply(p, o, false);
}

static void pause_or_resume(struct peer *p, struct json_object *params,
                            int (*act)(struct engine *e, const struct engine_target *target,
                                       const struct job **ret_job, struct err *err))
{
    const struct job *job = NULL;
    struct rpc_target t;
    struct err err = {0};
    int r;

    if (!rpc_get_target(p, params, &t))
        return;
    r = act(p->rpc->engine, &t.target, &job, &err);
    changed(p, &t, r, job, NULL, &err);
}

static void pause_job(struct peer *p, struct json_object *params)
{
    pause_or_resume(p, params, engine_pause);
}

static void resume_job(struct peer *p, struct json_object *params)
{
    pause_or_resume(p, params, engine_resume);
}

static void hurry_job(struct peer *p, struct json_object *params)
{
    struct engine_answer answer = {0};
    uint64_t deadline_us;
    struct rpc_target t;
    struct err err = {0};
    int r;

    if (!rpc_get_target(p, params, &t) || !get_deadline(p, params, &deadline_us))
        return;
    r = engine_hurry(p->rpc->engine, &t.target, deadline_us, &answer, &err);
    changed(p, &t, r, answer.job, answer.reason, &err);
}

static void set_priority(struct peer *p, struct json_object *params)
{
    const struct job *job = NULL;
    struct rpc_target t;
    struct err err = {0};
    int priority, r;

    if (!rpc_get_target(p, params, &t) || !get_priority(p, params, &priority))
        return;
    r = engine_set_priority(p->rpc->engine, &t.target, priority, &job, &err);
    changed(p, &t, r, job, NULL, &err);
}

const struct method rpc_job_methods[] = {
    {WIRE_INTERFACE ".ListJobs", list_jobs, no_params, false, true},
    {WIRE_INTERFACE ".Destroy", destroy, destroy_params, false, true},
    {WIRE_INTERFACE ".Pause", pause_job, target_params, false, false},
    {WIRE_INTERFACE ".Resume", resume_job, target_params, false, false},
    {WIRE_INTERFACE ".Hurry", hurry_job, hurry_params, false, false},
    {WIRE_INTERFACE ".SetPriority", set_priority, priority_params, false, false},
    METHODS_END,
};
