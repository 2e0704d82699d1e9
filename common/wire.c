/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "wire.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A daemon that is out of memory is better restarted than half alive; what it was doing is adopted.
 */
static void *check(void *p)
{
    if (!p) {
        fputs("<2>out of memory\n", stderr);
        abort();
    }
    return p;
}

/* json-c takes 'x', NaN and Infinity even when told to be strict. Counts the members too. */
static bool only_json(const char *text, size_t len, size_t *ret_at, size_t *ret_members)
{
    bool in_string = false;

    *ret_members = 0;

    for (size_t i = 0; i < len; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && text[i] == ':')
            ++*ret_members;
        else if (!in_string && strchr("'/NIi", text[i])) {
            *ret_at = i;
            return false;
        }
    }
    return true;
}

/* Of all objects in it; nested no deeper than WIRE_MAX_DEPTH. */
static size_t count_members(struct json_object *value)
{
    size_t n = 0;

    if (json_object_is_type(value, json_type_object)) {
        json_object_object_foreach(value, key, member)
        {
            (void)key;
            n += 1 + count_members(member);
        }
    } else if (json_object_is_type(value, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(value); i++)
            n += count_members(json_object_array_get_idx(value, i));
    }
    return n;
}

int wire_parse(const char *text, size_t len, struct json_object **ret, struct err *err)
{
    struct json_tokener *tok;
    struct json_object *obj;
    enum json_tokener_error e;
    size_t used, members;

    if (len > INT_MAX - 1)
        return err_set(err, EBADMSG, "the message is too long");
    if (!only_json(text, len, &used, &members))
        return err_set(err, EBADMSG, "not valid JSON at byte %zu: unexpected character", used);
    /* json-c counts the members of the innermost level as one more. */
    tok = check(json_tokener_new_ex(WIRE_MAX_DEPTH + 1));
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    /* With the NUL, so that a number or word at the very end is complete. */
    obj = json_tokener_parse_ex(tok, text, (int)len + 1);
    e = json_tokener_get_error(tok);
    used = json_tokener_get_parse_end(tok);
    json_tokener_free(tok);
    if (e != json_tokener_success || used < len) {
        json_object_put(obj);
        return err_set(err, EBADMSG, "not valid JSON at byte %zu: %s", used,
                       e == json_tokener_success    ? "more text after the end"
                       : e == json_tokener_continue ? "it ends too early"
                                                    : json_tokener_error_desc(e));
    }
    if (!json_object_is_type(obj, json_type_object)) {
        json_object_put(obj);
        return err_set(err, EBADMSG, "the message is not a JSON object");
    }
    /* json-c takes the last one: not what the sender may have meant. */
    if (count_members(obj) != members) {
        json_object_put(obj);
        return err_set(err, EBADMSG, "a member of an object is given twice");
    }
    *ret = obj;
    return 0;
}

struct json_object *wire_object(void)
{
    return check(json_object_new_object());
}

struct json_object *wire_array(void)
{
    return check(json_object_new_array());
}

void wire_add_obj(struct json_object *obj, const char *key, struct json_object *value)
{
    if (json_object_object_add(obj, key, value) < 0)
        check(NULL);
}

void wire_add_int(struct json_object *obj, const char *key, int64_t value)
{
    wire_add_obj(obj, key, check(json_object_new_int64(value)));
}

void wire_add_int_opt(struct json_object *obj, const char *key, int64_t value)
{
    if (value >= 0)
        wire_add_int(obj, key, value);
}

void wire_add_bool(struct json_object *obj, const char *key, bool value)
{
    wire_add_obj(obj, key, check(json_object_new_boolean(value)));
}

void wire_add_str(struct json_object *obj, const char *key, const char *value)
{
    wire_add_obj(obj, key, check(json_object_new_string(value)));
}

void wire_add_str_opt(struct json_object *obj, const char *key, const char *value)
{
    if (value)
        wire_add_str(obj, key, value);
}

struct json_object *wire_call(const char *method, struct json_object *params, bool more)
{
    struct json_object *msg = wire_object();

    wire_add_str(msg, "method", method);
    wire_add_obj(msg, "parameters", params ? params : wire_object());
    if (more)
        wire_add_bool(msg, "more", true);
    return msg;
}

struct json_object *wire_reply(struct json_object *params, bool continues)
{
    struct json_object *msg = wire_object();

    wire_add_obj(msg, "parameters", params ? params : wire_object());
    if (continues)
        wire_add_bool(msg, "continues", true);
    return msg;
}

struct json_object *wire_error(const char *error, struct json_object *params)
{
    struct json_object *msg = wire_object();

    wire_add_str(msg, "error", error);
    wire_add_obj(msg, "parameters", params ? params : wire_object());
    return msg;
}

const char *wire_text(struct json_object *msg, size_t *ret_len)
{
    const char *text;

    /* No spaces and no escaped slashes: the hook looks for members without a JSON parser. */
    text = json_object_to_json_string_length(
        msg, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, ret_len);
    check((void *)text);
    (*ret_len)++;
    return text;
}

int64_t wire_get_int(struct json_object *obj, const char *key, int64_t dflt)
{
    struct json_object *v;

    if (!obj || !json_object_object_get_ex(obj, key, &v) || !json_object_is_type(v, json_type_int))
        return dflt;
    return json_object_get_int64(v);
}

bool wire_get_bool(struct json_object *obj, const char *key, bool dflt)
{
    struct json_object *v;

    if (!obj || !json_object_object_get_ex(obj, key, &v) ||
        !json_object_is_type(v, json_type_boolean))
        return dflt;
    return json_object_get_boolean(v);
}

const char *wire_get_str(struct json_object *obj, const char *key, const char *dflt)
{
    struct json_object *v;

    if (!obj || !json_object_object_get_ex(obj, key, &v) ||
        !json_object_is_type(v, json_type_string))
        return dflt;
    return json_object_get_string(v);
}

struct json_object *wire_get_obj(struct json_object *obj, const char *key)
{
    struct json_object *v;

    if (!obj || !json_object_object_get_ex(obj, key, &v) ||
        !(json_object_is_type(v, json_type_object) || json_object_is_type(v, json_type_array)))
        return NULL;
    return v;
}

const char *wire_method(struct json_object *msg)
{
    return wire_get_str(msg, "method", NULL);
}

const char *wire_error_name(struct json_object *msg)
{
    return wire_get_str(msg, "error", NULL);
}

struct json_object *wire_params(struct json_object *msg)
{
    struct json_object *params = wire_get_obj(msg, "parameters");

    return json_object_is_type(params, json_type_object) ? params : NULL;
}

bool wire_flag(struct json_object *msg, const char *key)
{
    return wire_get_bool(msg, key, false);
}
