/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rpc-private.h"

#define FOR_MAX_MS 86400000

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

static const struct param limit_params[] = {{"ceiling_kib", json_type_int, false},
                                            {"mask", json_type_string, false},
                                            {"for_ms", json_type_int, false},
                                            PARAMS_END};

struct json_object *rpc_limits(const struct engine *e, bool by_hand)
{
    const struct limits *now = engine_limits(e);
    struct json_object *o = wire_object();
    uint64_t ceiling_us, cpus_us;
    char text[CPULIST_TEXT];

    engine_limit_ends(e, &ceiling_us, &cpus_us);
    if (!by_hand || now->ceiling_by_hand) {
        wire_add_int(o, "ceiling_kib", (int64_t)now->ceiling_kib);
        wire_add_int_opt(o, "ceiling_for_ms", ceiling_us ? (int64_t)(ceiling_us + 999) / 1000 : -1);
    }
    if (!by_hand || now->cpus_by_hand) {
        wire_add_str(o, "mask", settings_cpus_text(now, text));
        wire_add_int_opt(o, "mask_for_ms", cpus_us ? (int64_t)(cpus_us + 999) / 1000 : -1);
    }
    return o;
}

static void set_limit(struct peer *p, struct json_object *params)
{
    int64_t value = wire_get_int(params, "ceiling_kib", -1);
    const char *mask = wire_get_str(params, "mask", NULL);
    bool has_ceiling = json_object_object_get(params, "ceiling_kib") != NULL;
    bool has_time = json_object_object_get(params, "for_ms") != NULL;
    int64_t for_ms = wire_get_int(params, "for_ms", 0);
    uint64_t ceiling_kib =
        value < 0 ? UINT64_MAX : (uint64_t)value; /* refused with the too large */
    struct err err = {0};
    int r;

    if (refuse_degraded(p))
        return;
    if (has_time && (for_ms < 1 || for_ms > FOR_MAX_MS))
        r = err_set(&err, EINVAL, "for_ms: must be between 1 and %d", FOR_MAX_MS);
    else if (has_time && !has_ceiling && !mask)
        r = err_set(&err, EINVAL, "for_ms: neither a ceiling nor a mask is given");
    else
        r = engine_set_limit(p->rpc->engine, has_ceiling ? &ceiling_kib : NULL, mask,
                             (uint64_t)for_ms * 1000, &err);
    if (r == -EINVAL) {
        invalid_limit(p, &err);
        return;
    }
    if (r < 0) {
        if (!refuse_degraded(p))
            reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
        return;
    }
    reply(p, rpc_limits(p->rpc->engine, false), false);
}

static void reset(struct peer *p, struct json_object *params)
{
    struct err err = {0};

    if (refuse_degraded(p))
        return;
    if (engine_reset_limits(p->rpc->engine, &err) == 0)
        reply(p, NULL, false);
    else if (!refuse_degraded(p))
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
}

const struct method rpc_limit_methods[] = {
    {WIRE_INTERFACE ".SetLimit", set_limit, limit_params, false, false},
    {WIRE_INTERFACE ".Reset", reset, no_params, false, false},
    METHODS_END,
};
