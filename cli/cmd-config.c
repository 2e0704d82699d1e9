/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "output.h"
#include "session.h"

static void print(const struct cmd_args *args, struct json_object *params)
{
    struct json_object *changed = wire_get_obj(params, "changed");
    size_t n = changed != NULL ? json_object_array_length(changed) : 0;

    if (n == 0)
        puts("Nothing has changed.");
    for (size_t i = 0; i < n; i++) {
        struct json_object *change = json_object_array_get_idx(changed, i);

        output_say("%s: %s -> %s", wire_get_str(change, "key", "?"),
                   wire_get_str(change, "from", "?"), wire_get_str(change, "to", "?"));
    }
}

static enum exit_code run(const struct cmd_args *args)
{
    if (strcmp(args->operands[0], "reload"))
        return cmd_fail(args, EXIT_USAGE, NULL, "config knows reload, not \"%s\"",
                        args->operands[0]);
    return session_show(args, WIRE_INTERFACE ".ReloadConfig", NULL, print);
}

const struct cmd cmd_config = {
    .name = "config",
    .operands = "reload",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "reload",
    .summary = "have scrubd read its configuration file again",
    .details = "Shows what has changed. It holds at once, for teardowns under way too. A file\n"
               "with a mistake changes nothing. Limits that `scrubctl limit` has set stay,\n"
               "unless their own keys in the file have changed.\n",
    .run = run,
};
