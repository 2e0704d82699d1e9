/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "output.h"
#include "session.h"

static enum exit_code run(const struct cmd_args *args)
{
    struct json_object *reply, *changed;
    enum exit_code code;
    size_t n;

    if (strcmp(args->operands[0], "reload"))
        return cmd_fail(args, EXIT_USAGE, NULL, "config knows reload, not \"%s\"",
                        args->operands[0]);
    code = session_call(args, WIRE_INTERFACE ".ReloadConfig", NULL, &reply);
    if (code != EXIT_OK)
        return code;
    changed = wire_get_obj(wire_params(reply), "changed");
    n = changed != NULL ? json_object_array_length(changed) : 0;
    if (args->json) {
        output_json(wire_params(reply));
    } else if (n == 0) {
        puts("Nothing has changed.");
    }
    for (size_t i = 0; i < n && !args->json; i++) {
        struct json_object *change = json_object_array_get_idx(changed, i);

        printf("%s: %s -> %s\n", wire_get_str(change, "key", "?"),
               wire_get_str(change, "from", "?"), wire_get_str(change, "to", "?"));
    }
    json_object_put(reply);
    return EXIT_OK;
}

const struct cmd cmd_config = {
    .name = "config",
    .operands = "reload",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "have scrubd read its configuration file again",
    .details = "Shows what has changed. It holds at once, for teardowns under way too. A file\n"
               "with a mistake changes nothing. Limits that `scrubctl limit` has set stay,\n"
               "unless their own keys in the file have changed.\n",
    .run = run,
};
