/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_WIRE_H
#define SCRUBD_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

#include "err.h"

/*
 * Varlink messages: one JSON object and a NUL byte each.
 */
#define WIRE_MAX_REQUEST (64 * 1024)     /* bytes of a request, without its NUL */
#define WIRE_MAX_REPLY (4 * 1024 * 1024) /* what a client should be ready to take */
#define WIRE_MAX_DEPTH 16

#define WIRE_INTERFACE "org.scrubd"
#define WIRE_SERVICE "org.varlink.service"

/*
 * Parse one message of len bytes (NUL excluded) into an object, which the caller puts
 * (json_object_put()). Strict: no comments, single quotes, NaN, trailing characters, invalid UTF-8,
 * a member given twice; nesting at most WIRE_MAX_DEPTH. -EBADMSG if it is not such a JSON object.
 */
int wire_parse(const char *text, size_t len, struct json_object **ret, struct err *err);

/* Build messages. params may be NULL, and is taken over. Out of memory ends the program. */
struct json_object *wire_call(const char *method, struct json_object *params, bool more);
struct json_object *wire_reply(struct json_object *params, bool continues);
struct json_object *wire_error(const char *error, struct json_object *params);

/* The text of a message, owned by it. To be sent with the NUL at its end: *ret_len counts it. */
const char *wire_text(struct json_object *msg, size_t *ret_len);

/* Parts of a message; NULL or false where absent or of another type. Nothing is to be put. */
const char *wire_method(struct json_object *msg);
const char *wire_error_name(struct json_object *msg);
struct json_object *wire_params(struct json_object *msg);
bool wire_flag(struct json_object *msg, const char *key); /* "more", "oneway", "continues" */

/* Add a member; NULL strings and negative numbers of the _opt ones are left out. */
void wire_add_int(struct json_object *obj, const char *key, int64_t value);
void wire_add_int_opt(struct json_object *obj, const char *key, int64_t value);
void wire_add_bool(struct json_object *obj, const char *key, bool value);
void wire_add_str(struct json_object *obj, const char *key, const char *value);
void wire_add_str_opt(struct json_object *obj, const char *key, const char *value);
void wire_add_obj(struct json_object *obj, const char *key, struct json_object *value);
struct json_object *wire_object(void);
struct json_object *wire_array(void);

/* Read a member, with a default for one that is absent, null or of another type. */
int64_t wire_get_int(struct json_object *obj, const char *key, int64_t dflt);
bool wire_get_bool(struct json_object *obj, const char *key, bool dflt);
const char *wire_get_str(struct json_object *obj, const char *key, const char *dflt);
struct json_object *wire_get_obj(struct json_object *obj,
                                 const char *key); /* object or array, else NULL */

#endif
