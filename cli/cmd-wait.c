/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "options.h"
#include "output.h"
#include "session.h"

/* What to ask for. */
static enum exit_code parse(const struct cmd_args *args, struct json_object **ret_params)
{
    bool memory = args->option[0] != NULL, clean = args->option[1] != NULL;
    uint64_t kib = 0, ms = 0;
    enum exit_code code = option_kib(args, 0, &kib);

    if (code == EXIT_OK)
        code = option_ms(args, 2, &ms);
    if (code != EXIT_OK)
        return code;
    if (memory && kib < 1024)
        return cmd_fail(args, EXIT_USAGE, NULL, "--free: less than 1M is no amount to wait for");
    if (!memory && !clean)
        return cmd_fail(args, EXIT_USAGE, NULL, "wait needs --free SIZE or --clean");
    *ret_params = wire_object();
    if (memory)
        wire_add_int(*ret_params, "free_mib", (int64_t)((kib + 1023) / 1024));
    if (clean)
        wire_add_bool(*ret_params, "clean", true);
    if (ms > 0)
        wire_add_int(*ret_params, "timeout_ms", (int64_t)ms);
    return EXIT_OK;
}

static void draw(struct json_object *params, const char *before, const char *after)
{
    char free_text[OUTPUT_TEXT], backlog[OUTPUT_TEXT], eta[OUTPUT_TEXT];
    int64_t eta_ms = wire_get_int(params, "eta_ms", -1);

    fprintf(stderr, "%s%s free, %s to be scrubbed%s%s%s", before,
            output_pages(wire_get_int(params, "free_mib", 0) * 256, free_text),
            output_pages(wire_get_int(params, "backlog_pages", 0), backlog),
            eta_ms >= 0 ? ", " : "", eta_ms >= 0 ? output_duration(eta_ms, eta) : "", after);
}

/* The last reply of the call. */
static enum exit_code receive(const struct cmd_args *args, struct client *client,
                              struct json_object **ret_reply)
{
    bool terminal = isatty(STDERR_FILENO) && !args->json, drawn = false;
    struct json_object *reply = NULL;
    struct err err = {0};
    enum exit_code code;

    for (;;) {
        int r = client_receive(client, SESSION_TIMEOUT_MS, &reply, &err);

        code = r < 0 ? session_fail(args, &err) : session_check(args, reply);
        if (code != EXIT_OK || !wire_flag(reply, "continues"))
            break;
        if (terminal)
            draw(wire_params(reply), "\r", "\033[K");
        drawn |= terminal;
        json_object_put(reply);
        reply = NULL;
    }
    if (drawn)
        fputs("\r\033[K", stderr);
    if (code == EXIT_OK)
        *ret_reply = reply;
    else
        json_object_put(reply);
    return code;
}

static enum exit_code run(const struct cmd_args *args)
{
    struct json_object *params = NULL, *reply = NULL;
    struct client *client;
    struct err err = {0};
    enum exit_code code = parse(args, &params);

    if (code != EXIT_OK)
        return code;
    code = session_open(args, &client);
    if (code != EXIT_OK) {
        json_object_put(params);
        return code;
    }
    if (client_send(client, WIRE_INTERFACE ".Wait", params, true, &err) < 0)
        code = session_fail(args, &err);
    else
        code = receive(args, client, &reply);
    client_close(client);
    if (code != EXIT_OK)
        return code;
    if (args->json)
        output_json(wire_params(reply));
    if (strcmp(wire_get_str(wire_params(reply), "event", ""), "done") != 0) {
        code = EXIT_REFUSED;
        if (!args->json)
            draw(wire_params(reply), "scrubctl: in vain: ", "\n");
    }
    json_object_put(reply);
    return code;
}

const struct cmd cmd_wait = {
    .name = "wait",
    .operands = "",
    .summary = "wait until memory is free, or clean",
    .details = "Meanwhile all teardowns and the scrubbing go as fast as they can, and no ceiling\n"
               "holds. Exits with 1 if that has not helped in time.\n",
    .options = {{"free", "SIZE", "until so much can be given to a new domain, as in 8G"},
                {"clean", NULL, "until nothing is torn down, nor waits to be scrubbed"},
                {"timeout", "TIME", "wait no longer, as in 30s or 2m"}},
    .run = run,
};
