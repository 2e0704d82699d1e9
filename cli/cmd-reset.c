/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>

#include "cmd.h"
#include "output.h"
#include "session.h"

static void print(const struct cmd_args *args, struct json_object *params)
{
    puts("Limits are as the configuration file says.");
}

static enum exit_code run(const struct cmd_args *args)
{
    return session_show(args, WIRE_INTERFACE ".Reset", NULL, print);
}

const struct cmd cmd_reset = {
    .name = "reset",
    .operands = "",
    .summary = "go back to the limits of the configuration file",
    .details = "Undoes every `scrubctl limit` and `scrubctl protect` since scrubd started.\n",
    .run = run,
};
