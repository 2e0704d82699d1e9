/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "cmd.h"
#include "cpulist.h"
#include "limits-text.h"
#include "options.h"
#include "session.h"

static void print(const struct cmd_args *args, struct json_object *params)
{
    limits_print("", params);
}

static enum exit_code run(const struct cmd_args *args)
{
    const char *ceiling = args->option[0], *cpus = args->option[1];
    bool no_ceiling = ceiling != NULL && strcmp(ceiling, "none") == 0;
    struct json_object *params;
    struct cpulist list;
    struct err err = {0};
    uint64_t kib = 0, ms = 0;
    enum exit_code code = no_ceiling ? EXIT_OK : option_kib(args, 0, &kib);

    if (code == EXIT_OK)
        code = option_ms(args, 2, &ms);
    if (code != EXIT_OK)
        return code;
    if (cpus != NULL && strcmp(cpus, "all") != 0 && strcmp(cpus, "auto") != 0 &&
        cpulist_parse(cpus, &list, &err) < 0)
        return cmd_fail(args, EXIT_USAGE, NULL, "--cpus: %s", err.text);
    if (ms > 0 && ceiling == NULL && cpus == NULL)
        return cmd_fail(args, EXIT_USAGE, NULL, "--for: of what? Give --ceiling or --cpus too");
    params = wire_object();
    if (ceiling != NULL)
        wire_add_int(params, "ceiling_kib", (int64_t)kib);
    wire_add_str_opt(params, "mask", cpus);
    wire_add_int_opt(params, "for_ms", ms > 0 ? (int64_t)ms : -1);
    return session_show(args, WIRE_INTERFACE ".SetLimit", params, print);
}

const struct cmd cmd_limit = {
    .name = "limit",
    .operands = "",
    .summary = "set how fast and where memory is scrubbed",
    .details = "Changes what is given, until scrubd ends or `scrubctl reset`; without options\n"
               "shows what is set. Rates are per second and NUMA node, as in 200M or 1.5G\n"
               "(powers of 1024). The ceiling is in force while domains are destroyed and until\n"
               "their memory is clean, the CPUs at all times. With auto the CPUs of protected\n"
               "domains do not scrub: see scrubctl cpus. With --for scrubd by itself goes back\n"
               "to what was set without it, once the time is over.\n",
    .options = {{"ceiling", "RATE", "scrub at most so much a second on each node; none ends it"},
                {"cpus", "LIST", "CPUs that may scrub, like 0-3,6; all, or auto"},
                {"for", "TIME", "only for so long, as in 90s or 10m"}},
    .run = run,
};
