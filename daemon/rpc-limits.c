/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "rpc-private.h"

/* The text of a bad value is "field: reason". */
static void invalid_limit(struct peer *p, const struct err *err)
{
    struct json_object *o = wire_object();
    const char *colon = strstr(err->text, ": ");
    char field[32];

    snprintf(field, sizeof(field), "%.*s", colon ? (int)(colon - err->text) : 0, err->text);
    wire_add_str(o, "field", field);
    wire_add_str(o, "reason", colon ? colon + 2 : err->text);
    reply_error(p, WIRE_INTERFACE ".InvalidLimit", o);
}

static const struct param limit_params[] = {
    {"ceiling_kib", json_type_int, false}, {"mask", json_type_string, false}, PARAMS_END};

static void set_limit(struct peer *p, struct json_object *params)
{
    int64_t value = wire_get_int(params, "ceiling_kib", -1);
    const char *mask = wire_get_str(params, "mask", NULL);
    bool has_ceiling = json_object_object_get(params, "ceiling_kib") != NULL;
    uint64_t ceiling_kib =
        value < 0 ? UINT64_MAX : (uint64_t)value; /* refused with the too large */
    const struct limits *now;
    struct json_object *o;
    struct err err = {0};
    char text[CPULIST_TEXT];
    int r;

    if (refuse_degraded(p))
        return;
    r = engine_set_limit(p->rpc->engine, has_ceiling ? &ceiling_kib : NULL, mask, &err);
    if (r == -EINVAL) {
        invalid_limit(p, &err);
        return;
    }
    if (r < 0) {
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
        return;
    }
    now = engine_limits(p->rpc->engine);
    o = wire_object();
    wire_add_int(o, "ceiling_kib", (int64_t)now->ceiling_kib);
    wire_add_str(o, "mask", settings_cpus_text(now, text));
    reply(p, o, false);
}

static void reset(struct peer *p, struct json_object *params)
{
    struct err err = {0};

    if (refuse_degraded(p))
        return;
    if (engine_reset_limits(p->rpc->engine, &err) < 0)
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
    else
        reply(p, NULL, false);
}

const struct method rpc_limit_methods[] = {
    {WIRE_INTERFACE ".SetLimit", set_limit, limit_params, false, false},
    {WIRE_INTERFACE ".Reset", reset, no_params, false, false},
    METHODS_END,
};
