/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Talking to scrubd for the verbs. Whatever fails here has been told to the user. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "client.h"
#include "cmd.h"
#include "wire.h"

#define SESSION_TIMEOUT_MS 5000

enum exit_code session_open(const struct cmd_args *args, struct client **ret);

/* Tell why a client_*() function failed. */
enum exit_code session_fail(const struct cmd_args *args, const struct err *err);

/* Tell what an error reply means; EXIT_OK if it is none. */
enum exit_code session_check(const struct cmd_args *args, struct json_object *reply);

/* A whole call: *ret_reply is to be put. params is taken over. */
enum exit_code session_call(const struct cmd_args *args, const char *method,
                            struct json_object *params, struct json_object **ret_reply);

/* A call that gets one item a reply: the members called key, as an array to be put. */
enum exit_code session_list(const struct cmd_args *args, const char *method, const char *key,
                            struct json_object **ret);

/* session_call(), whose reply is shown: its parameters as JSON with --json, else by print(). */
enum exit_code session_show(const struct cmd_args *args, const char *method,
                            struct json_object *params,
                            void (*print)(const struct cmd_args *args, struct json_object *params));

/* session_list(), shown: as JSON with --json, an object with the array as its member called list,
 * else by print(). */
enum exit_code session_show_list(const struct cmd_args *args, const char *method, const char *key,
                                 const char *list, void (*print)(struct json_object *items));

/* Whether text is the domid, name or uuid of the job's domain. */
bool session_job_is(struct json_object *job, const char *text);

/* The job of a domain that is being destroyed, given by domid, name or uuid; to be put. */
enum exit_code session_find_job(const struct cmd_args *args, const char *text,
                                struct json_object **ret_job);

/* All jobs, as an array to be put. */
enum exit_code session_list_jobs(const struct cmd_args *args, struct json_object **ret_jobs);

#endif
