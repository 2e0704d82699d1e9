/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "rpc-private.h"

const struct param no_params[] = {PARAMS_END};

void reply(struct peer *p, struct json_object *params, bool continues)
{
    struct json_object *msg = wire_reply(params, continues);

    if (p->oneway)
        json_object_put(msg);
    else
        conn_send(p->conn, msg);
}

void reply_error(struct peer *p, const char *error, struct json_object *params)
{
    struct json_object *msg = wire_error(error, params);

    if (p->oneway)
        json_object_put(msg);
    else
        conn_send(p->conn, msg);
}

void reply_error_str(struct peer *p, const char *error, const char *key, const char *value)
{
    struct json_object *params = wire_object();

    wire_add_str(params, key, value);
    reply_error(p, error, params);
}

void invalid_parameter(struct peer *p, const char *name)
{
    reply_error_str(p, WIRE_SERVICE ".InvalidParameter", "parameter", name);
}

bool refuse_degraded(struct peer *p)
{
    if (!engine_degraded(p->rpc->engine))
        return false;
    reply_error_str(p, WIRE_INTERFACE ".Degraded", "reason", engine_reason(p->rpc->engine));
    return true;
}

static const struct param *find_param(const struct param *specs, const char *name)
{
    for (; specs->name; specs++) {
        if (!strcmp(specs->name, name))
            return specs;
    }
    return NULL;
}

/* A NUL inside, which would hide the rest of the string from us. */
static bool has_nul(struct json_object *value)
{
    return json_object_is_type(value, json_type_string) &&
           strlen(json_object_get_string(value)) != (size_t)json_object_get_string_len(value);
}

bool check_params(struct peer *p, struct json_object *params, const struct param *specs)
{
    json_object_object_foreach(params, key, value)
    {
        const struct param *spec = find_param(specs, key);

        if (!spec || (value && (!json_object_is_type(value, spec->type) || has_nul(value)))) {
            invalid_parameter(p, key);
            return false;
        }
    }
    for (; specs->name; specs++) {
        if (specs->required && !json_object_object_get(params, specs->name)) {
            invalid_parameter(p, specs->name);
            return false;
        }
    }
    return true;
}
