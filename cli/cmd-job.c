/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The verbs that change a teardown under way: one request each, about the same domain. */
#include <stdio.h>

#include "cmd.h"
#include "options.h"
#include "output.h"
#include "session.h"

/* Ask for a change of the job that the operand means; params, taken over, are what the method wants
 * beside the domain. */
static enum exit_code change(const struct cmd_args *args, const char *method,
                             struct json_object *params, struct json_object **ret_reply)
{
    struct json_object *job;
    enum exit_code code = session_find_job(args, args->operands[0], &job);

    if (code != EXIT_OK) {
        json_object_put(params);
        return code;
    }
    wire_add_int(params, "domid", wire_get_int(job, "domid", -1));
    wire_add_str(params, "uuid", wire_get_str(job, "uuid", ""));
    json_object_put(job);
    return session_call(args, method, params, ret_reply);
}

/* "web-3 (7): " and what is so now; or the reply, as JSON. */
static void report(const struct cmd_args *args, struct json_object *reply, const char *what)
{
    struct json_object *job = wire_get_obj(wire_params(reply), "job");
    const char *reason = wire_get_str(wire_params(reply), "reason", NULL);
    char label[256];

    if (reason != NULL)
        fprintf(stderr, "scrubctl: %s\n", reason);
    if (args->json)
        output_json(wire_params(reply));
    else
        output_say("%s: %s", output_job_label(job, 64, label, sizeof(label)), what);
    json_object_put(reply);
}

static enum exit_code run_pause(const struct cmd_args *args)
{
    char what[OUTPUT_TEXT + 32], text[OUTPUT_TEXT];
    struct json_object *reply;
    enum exit_code code = change(args, WIRE_INTERFACE ".Pause", wire_object(), &reply);

    if (code != EXIT_OK)
        return code;
    output_duration(wire_get_int(wire_get_obj(wire_params(reply), "job"), "paused_ms", -1), text);
    snprintf(what, sizeof(what), "paused, for %s at most", text);
    report(args, reply, what);
    return EXIT_OK;
}

static enum exit_code run_resume(const struct cmd_args *args)
{
    struct json_object *reply;
    enum exit_code code = change(args, WIRE_INTERFACE ".Resume", wire_object(), &reply);

    if (code == EXIT_OK)
        report(args, reply, "goes on");
    return code;
}

static enum exit_code run_hurry(const struct cmd_args *args)
{
    char what[OUTPUT_TEXT + 32] = "as fast as can be", text[OUTPUT_TEXT];
    struct json_object *params, *reply;
    uint64_t ms = 0;
    enum exit_code code = option_ms(args, 0, &ms);

    if (code != EXIT_OK)
        return code;
    params = wire_object();
    if (ms > 0) {
        wire_add_int(params, "deadline_ms", (int64_t)ms);
        snprintf(what, sizeof(what), "to be dead in %s", output_duration((int64_t)ms, text));
    }
    code = change(args, WIRE_INTERFACE ".Hurry", params, &reply);
    if (code == EXIT_OK)
        report(args, reply, what);
    return code;
}

static enum exit_code run_priority(const struct cmd_args *args)
{
    struct json_object *params, *reply;
    char what[OUTPUT_TEXT];
    int64_t priority = 0;
    enum exit_code code = option_priority(args, "NUMBER", args->operands[1], &priority);

    if (code != EXIT_OK)
        return code;
    params = wire_object();
    wire_add_int(params, "priority", priority);
    code = change(args, WIRE_INTERFACE ".SetPriority", params, &reply);
    if (code != EXIT_OK)
        return code;
    snprintf(what, sizeof(what), "priority %lld", (long long)priority);
    report(args, reply, what);
    return EXIT_OK;
}

#define DOMAIN_IS "DOMAIN is the name, domid or uuid of a domain that is being destroyed.\n"

const struct cmd cmd_pause = {
    .name = "pause",
    .operands = "DOMAIN",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "@jobs",
    .summary = "hold a teardown for a while",
    .details =
        DOMAIN_IS "It ends by itself after max_pause_s of scrubd.conf, so that each destroy\n"
                  "comes to its end.\n",
    .run = run_pause,
};

const struct cmd cmd_resume = {
    .name = "resume",
    .operands = "DOMAIN",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "@jobs",
    .summary = "go on with a paused teardown",
    .details = DOMAIN_IS,
    .run = run_resume,
};

const struct cmd cmd_hurry = {
    .name = "hurry",
    .operands = "DOMAIN",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "@jobs",
    .summary = "end a teardown as fast as can be",
    .details =
        DOMAIN_IS "Its steps are as short as ever, but have no pauses between them, and do not\n"
                  "wait for memory to be scrubbed. With a deadline, as fast as that takes.\n",
    .options = {{"deadline", "TIME", "be done in so much time, as in 30s or 2m"}},
    .run = run_hurry,
};

const struct cmd cmd_priority = {
    .name = "priority",
    .operands = "DOMAIN NUMBER",
    .min_operands = 2,
    .max_operands = 2,
    .completes = "@jobs",
    .summary = "which teardown comes before others",
    .details =
        DOMAIN_IS "NUMBER is from -10 to 10, 0 if never set. The higher one is first; equals\n"
                  "take turns, and each gets a step a second or so in any case.\n",
    .run = run_priority,
};
