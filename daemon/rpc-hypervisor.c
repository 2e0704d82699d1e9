/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rpc-private.h"

static struct json_object *state_object(const struct engine *e)
{
    struct json_object *o = wire_object();

    wire_add_str(o, "state", engine_degraded(e) ? "degraded" : "ready");
    wire_add_str_opt(o, "reason", engine_degraded(e) ? engine_reason(e) : NULL);
    return o;
}

static void probe(struct peer *p, struct json_object *params)
{
    engine_probe(p->rpc->engine);
    reply(p, state_object(p->rpc->engine), false);
}

static const struct param let_go_params[] = {{"now", json_type_boolean, false}, PARAMS_END};

static void let_go(struct peer *p, struct json_object *params)
{
    unsigned int jobs = engine_let_go(p->rpc->engine, wire_get_bool(params, "now", false));
    struct json_object *o = state_object(p->rpc->engine);

    wire_add_int(o, "jobs", jobs);
    reply(p, o, false);
}

const struct method rpc_hypervisor_methods[] = {
    {WIRE_INTERFACE ".Probe", probe, no_params, false, false},
    {WIRE_INTERFACE ".LetGo", let_go, let_go_params, false, false},
    METHODS_END,
};
