/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "output.h"

enum exit_code session_fail(const struct cmd_args *args, const struct err *err)
{
    switch (err->code) {
    case ENOENT:
    case ECONNREFUSED:
        return cmd_fail(args, EXIT_UNREACHABLE, NULL,
                        "scrubd is not running: %s\n"
                        "Start it with: systemctl start scrubd.socket",
                        err->text);
    case EACCES:
    case EPERM:
        return cmd_fail(args, EXIT_REFUSED, NULL, "only root may talk to scrubd: %s", err->text);
    case ETIMEDOUT:
        return cmd_fail(args, EXIT_UNREACHABLE, NULL, "scrubd does not answer: %s", err->text);
    case ECONNRESET:
    case EPIPE:
        return cmd_fail(args, EXIT_UNREACHABLE, NULL, "scrubd has ended: %s", err->text);
    default:
        return cmd_fail(args, EXIT_UNREACHABLE, NULL, "%s", err->text);
    }
}

enum exit_code session_open(const struct cmd_args *args, struct client **ret)
{
    struct err err = {0};

    if (client_open(client_socket_path(), SESSION_TIMEOUT_MS, ret, &err) < 0)
        return session_fail(args, &err);
    return EXIT_OK;
}

/* The option that sets a field of SetLimit. */
static const char *limit_option(const char *field)
{
    return strcmp(field, "mask") == 0     ? "--cpus"
           : strcmp(field, "for_ms") == 0 ? "--for"
                                          : "--ceiling";
}

enum exit_code session_check(const struct cmd_args *args, struct json_object *reply)
{
    const char *name = wire_error_name(reply);
    struct json_object *params = wire_params(reply);
    const char *reason = wire_get_str(params, "reason", NULL);

    if (name == NULL)
        return EXIT_OK;
    if (strcmp(name, WIRE_INTERFACE ".NoSuchDomain") == 0)
        return cmd_fail(args, EXIT_REFUSED, name, "there is no domain %lld",
                        (long long)wire_get_int(params, "domid", -1));
    if (strcmp(name, WIRE_INTERFACE ".NoSuchJob") == 0)
        return cmd_fail(args, EXIT_REFUSED, name, "domain %lld is not being destroyed",
                        (long long)wire_get_int(params, "domid", -1));
    if (strcmp(name, WIRE_INTERFACE ".InvalidLimit") == 0)
        return cmd_fail(args, EXIT_REFUSED, name, "%s: %s",
                        limit_option(wire_get_str(params, "field", "")),
                        reason != NULL ? reason : "refused");
    if (strcmp(name, WIRE_INTERFACE ".Degraded") == 0)
        return cmd_fail(args, EXIT_REFUSED, name, "scrubd runs degraded: %s",
                        reason != NULL ? reason : "it cannot do that here");
    if (strcmp(name, WIRE_INTERFACE ".PermissionDenied") == 0 ||
        strcmp(name, WIRE_SERVICE ".PermissionDenied") == 0)
        return cmd_fail(args, EXIT_REFUSED, name, "only root may do that");
    if (strncmp(name, WIRE_SERVICE ".", strlen(WIRE_SERVICE) + 1) == 0)
        return cmd_fail(args, EXIT_REFUSED, name,
                        "scrubd does not understand this request (%s): is it another version?",
                        name);
    return cmd_fail(args, EXIT_REFUSED, name, "%s", reason != NULL ? reason : name);
}

enum exit_code session_call(const struct cmd_args *args, const char *method,
                            struct json_object *params, struct json_object **ret_reply)
{
    struct json_object *reply = NULL;
    struct client *client;
    struct err err = {0};
    enum exit_code code = session_open(args, &client);

    if (code != EXIT_OK) {
        json_object_put(params);
        return code;
    }
    if (client_call(client, method, params, SESSION_TIMEOUT_MS, &reply, &err) < 0)
        code = session_fail(args, &err);
    else
        code = session_check(args, reply);
    client_close(client);
    if (code != EXIT_OK)
        json_object_put(reply);
    else
        *ret_reply = reply;
    return code;
}

enum exit_code session_list(const struct cmd_args *args, const char *method, const char *key,
                            struct json_object **ret)
{
    struct json_object *list;
    struct client *client;
    struct err err = {0};
    enum exit_code code = session_open(args, &client);
    bool more = true;

    if (code != EXIT_OK)
        return code;
    list = wire_array();
    if (client_send(client, method, NULL, true, &err) < 0)
        code = session_fail(args, &err);
    while (code == EXIT_OK && more) {
        struct json_object *reply = NULL, *item;

        if (client_receive(client, SESSION_TIMEOUT_MS, &reply, &err) < 0) {
            code = session_fail(args, &err);
            break;
        }
        code = session_check(args, reply);
        item = wire_get_obj(wire_params(reply), key);
        if (code == EXIT_OK && item != NULL)
            json_object_array_add(list, json_object_get(item));
        more = wire_flag(reply, "continues");
        json_object_put(reply);
    }
    client_close(client);
    if (code != EXIT_OK)
        json_object_put(list);
    else
        *ret = list;
    return code;
}

enum exit_code session_show(const struct cmd_args *args, const char *method,
                            struct json_object *params,
                            void (*print)(const struct cmd_args *args, struct json_object *params))
{
    struct json_object *reply;
    enum exit_code code = session_call(args, method, params, &reply);

    if (code != EXIT_OK)
        return code;
    if (args->json)
        output_json(wire_params(reply));
    else
        print(args, wire_params(reply));
    json_object_put(reply);
    return EXIT_OK;
}

enum exit_code session_show_list(const struct cmd_args *args, const char *method, const char *key,
                                 const char *list, void (*print)(struct json_object *items))
{
    struct json_object *items, *document;
    enum exit_code code = session_list(args, method, key, &items);

    if (code != EXIT_OK)
        return code;
    document = wire_object();
    wire_add_obj(document, list, items);
    if (args->json)
        output_json(document);
    else
        print(items);
    json_object_put(document);
    return EXIT_OK;
}

enum exit_code session_list_jobs(const struct cmd_args *args, struct json_object **ret_jobs)
{
    return session_list(args, WIRE_INTERFACE ".ListJobs", "job", ret_jobs);
}

bool session_job_is(struct json_object *job, const char *text)
{
    char domid[24];

    snprintf(domid, sizeof(domid), "%lld", (long long)wire_get_int(job, "domid", -1));
    return strcmp(domid, text) == 0 || strcmp(wire_get_str(job, "name", ""), text) == 0 ||
           strcasecmp(wire_get_str(job, "uuid", ""), text) == 0;
}

enum exit_code session_find_job(const struct cmd_args *args, const char *text,
                                struct json_object **ret_job)
{
    struct json_object *jobs, *job = NULL;
    enum exit_code code = session_list_jobs(args, &jobs);
    char shown[128];

    if (code != EXIT_OK)
        return code;
    /* Those that are dead come last. */
    for (size_t i = 0; job == NULL && *text && i < json_object_array_length(jobs); i++) {
        job = json_object_array_get_idx(jobs, i);
        if (!session_job_is(job, text))
            job = NULL;
    }
    if (job == NULL)
        code = cmd_fail(args, EXIT_REFUSED, "NoSuchJob", "no domain \"%s\" is being destroyed",
                        output_clean(text, 100, shown, sizeof(shown)));
    else
        *ret_job = json_object_get(job);
    json_object_put(jobs);
    return code;
}
