/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "rpc-private.h"

static void get_info(struct peer *p, struct json_object *params)
{
    struct json_object *o = wire_object(), *list = wire_array();

    wire_add_str(o, "vendor", "scrubd");
    wire_add_str(o, "product", "scrubd");
    wire_add_str(o, "version", SCRUBD_VERSION);
    wire_add_str(o, "url", "");
    json_object_array_add(list, json_object_new_string(WIRE_SERVICE));
    json_object_array_add(list, json_object_new_string(WIRE_INTERFACE));
    wire_add_obj(o, "interfaces", list);
    reply(p, o, false);
}

static const struct param describe_params[] = {{"interface", json_type_string, true}, PARAMS_END};

static void describe(struct peer *p, struct json_object *params)
{
    const char *name = wire_get_str(params, "interface", "");
    const char *text = !strcmp(name, WIRE_INTERFACE) ? messages_interface
                       : !strcmp(name, WIRE_SERVICE) ? messages_service
                                                     : NULL;
    struct json_object *o;

    if (!text) {
        reply_error_str(p, WIRE_SERVICE ".InterfaceNotFound", "interface", name);
        return;
    }
    o = wire_object();
    wire_add_str(o, "description", text);
    reply(p, o, false);
}

const struct method rpc_service_methods[] = {
    {WIRE_SERVICE ".GetInfo", get_info, no_params, true, false},
    {WIRE_SERVICE ".GetInterfaceDescription", describe, describe_params, true, false},
    METHODS_END,
};
