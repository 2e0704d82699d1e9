/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>

#include "cmd.h"
#include "output.h"
#include "session.h"

static enum exit_code run(const struct cmd_args *args)
{
    struct json_object *reply;
    enum exit_code code = session_call(args, WIRE_INTERFACE ".Reset", NULL, &reply);

    if (code != EXIT_OK)
        return code;
    if (args->json)
        puts("{}");
    else
        puts("Limits are as the configuration file says.");
    json_object_put(reply);
    return EXIT_OK;
}

const struct cmd cmd_reset = {
    .name = "reset",
    .operands = "",
    .summary = "go back to the limits of the configuration file",
    .details = "Undoes every `scrubctl limit` since scrubd started.\n",
    .run = run,
};
