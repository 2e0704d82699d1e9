/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "rpc-private.h"

static void get_health(struct peer *p, struct json_object *params)
{
    struct engine_health h;
    struct json_object *o;
    struct err err = {0};
    char text[CPULIST_TEXT];

    if (refuse_degraded(p))
        return;
    if (engine_health(p->rpc->engine, &h, &err) < 0) {
        if (!refuse_degraded(p))
            reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
        return;
    }
    o = wire_object();
    wire_add_bool(o, "busy", h.busy);
    wire_add_int(o, "ceiling_kib", (int64_t)h.ceiling_kib);
    wire_add_int(o, "floor_kib", (int64_t)h.limits->floor_kib);
    wire_add_str(o, "cpus", settings_cpus_text(h.limits, text));
    wire_add_str_opt(
        o, "mask", h.limits->all_cpus ? NULL : cpulist_format(&h.limits->mask, text, sizeof(text)));
    wire_add_bool(o, "has_ceiling", h.scrub.has_ceiling);
    wire_add_bool(o, "has_floor", h.scrub.has_floor);
    wire_add_bool(o, "has_mask", h.scrub.has_mask);
    wire_add_int(o, "lease_ms", h.scrub.lease_ms);
    wire_add_int(o, "lease_s", h.conf->lease_s);
    wire_add_int(o, "hypervisor_ms", (int64_t)(h.scrub.now_ns / 1000000));
    wire_add_int(o, "dirty_ms", (int64_t)(h.dirty_us / 1000));
    wire_add_int(o, "max_dirty_age_s", h.conf->max_dirty_age_s);
    reply(p, o, false);
}

static void add_forecast(struct json_object *o, const struct engine_forecast *f)
{
    const struct forecast *c = &f->forecast;
    uint64_t ms = c->dead_us / 1000 ? c->dead_us / 1000 : 1;

    wire_add_bool(o, "measured", c->measured);
    wire_add_bool(o, "held", c->held);
    wire_add_int(o, "steps", (int64_t)c->steps);
    wire_add_int(o, "step_us", f->step_us);
    wire_add_int(o, "duty_percent", f->duty_percent);
    wire_add_int(o, "hypervisor_ms", (int64_t)(c->cpu_us / 1000));
    wire_add_int(o, "jobs_before", f->jobs_before);
    wire_add_int(o, "dead_ms", (int64_t)ms);
    wire_add_int_opt(o, "clean_ms", c->clean_us ? (int64_t)(c->clean_us / 1000) : -1);
    wire_add_int(o, "rate_kib_s", (int64_t)(f->domain.pages * 4 * 1000 / ms));
    wire_add_int_opt(o, "scrub_kib_s", f->scrub_kib_s ? (int64_t)f->scrub_kib_s : -1);
}

static void add_mask(struct peer *p, struct json_object *o)
{
    struct status status;
    char text[CPULIST_TEXT];

    engine_status(p->rpc->engine, &status);
    if (status.has_scrub)
        wire_add_str(o, "mask", cpulist_format(&status.scrub.mask, text, sizeof(text)));
}

static void plan_failed(struct peer *p, int64_t domid, int r, const struct err *err)
{
    struct json_object *o = wire_object();

    if (r == -ESRCH || r == -EPERM)
        wire_add_int(o, "domid", domid);
    if (r != -ESRCH)
        wire_add_str(o, "reason", err->text);
    reply_error(p,
                r == -ESRCH   ? WIRE_INTERFACE ".NoSuchDomain"
                : r == -EPERM ? WIRE_INTERFACE ".NotAllowed"
                              : WIRE_INTERFACE ".Refused",
                o);
}

static const struct param plan_params[] = {
    {"domid", json_type_int, true}, {"uuid", json_type_string, false}, PARAMS_END};

static void plan(struct peer *p, struct json_object *params)
{
    static const char *const ways[] = {
        [ENGINE_IN_STEPS] = "steps", [ENGINE_BY_CALLER] = "caller", [ENGINE_RUNNING] = "running"};
    struct rpc_target target;
    struct engine_forecast f;
    struct json_object *o, *answer;
    char uuid[IDENT_UUID_TEXT];
    struct err err = {0};
    int r;

    if (!rpc_get_target(p, params, &target))
        return;
    r = engine_forecast(p->rpc->engine, &target.target, &f, &err);
    if (r < 0) {
        plan_failed(p, target.target.domid, r, &err);
        return;
    }
    o = wire_object();
    wire_add_int(o, "domid", f.domain.ident.domid);
    wire_add_str(o, "uuid", ident_uuid_text(&f.domain.ident, uuid));
    wire_add_str_opt(o, "name", f.name);
    wire_add_str(o, "way", ways[f.way]);
    wire_add_str_opt(o, "reason", f.reason);
    wire_add_str_opt(o, "purpose", f.purpose);
    wire_add_bool(o, "quick", f.quick);
    wire_add_int(o, "pages", (int64_t)f.domain.pages);
    if (f.way == ENGINE_IN_STEPS)
        add_forecast(o, &f);
    if (f.way == ENGINE_RUNNING && !f.job->dead_us)
        wire_add_int_opt(o, "dead_ms",
                         engine_eta_us(p->rpc->engine, f.job) < 0
                             ? -1
                             : engine_eta_us(p->rpc->engine, f.job) / 1000);
    add_mask(p, o);
    answer = wire_object();
    wire_add_obj(answer, "plan", o);
    reply(p, answer, false);
}

const struct method rpc_health_methods[] = {
    {WIRE_INTERFACE ".GetHealth", get_health, no_params, true, false},
    {WIRE_INTERFACE ".Plan", plan, plan_params, true, false},
    METHODS_END,
};
