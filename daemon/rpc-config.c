/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reload.h"
#include "rpc-private.h"

static void reload_config(struct peer *p, struct json_object *params)
{
    struct config_change changes[CONFIG_KEYS];
    struct json_object *o, *list;
    struct err err = {0};
    size_t n = 0;
    int r = reload_run(p->rpc->reload, changes, &n, &err);

    reload_log(p->rpc->reload, r, changes, n, &err);
    if (r < 0) {
        reply_error_str(p, WIRE_INTERFACE ".InvalidConfig", "reason", err.text);
        return;
    }
    o = wire_object();
    list = wire_array();
    for (size_t i = 0; i < n; i++) {
        struct json_object *change = wire_object();

        wire_add_str(change, "key", changes[i].key);
        wire_add_str(change, "from", changes[i].from);
        wire_add_str(change, "to", changes[i].to);
        json_object_array_add(list, change);
    }
    wire_add_obj(o, "changed", list);
    reply(p, o, false);
}

const struct method rpc_config_methods[] = {
    {WIRE_INTERFACE ".ReloadConfig", reload_config, no_params, false, false},
    METHODS_END,
};
