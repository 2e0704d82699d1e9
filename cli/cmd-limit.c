/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "cpulist.h"
#include "output.h"
#include "session.h"
#include "sizes.h"

static enum exit_code run(const struct cmd_args *args)
{
    const char *ceiling = args->option[0], *cpus = args->option[1];
    struct json_object *params = wire_object(), *reply;
    char text[OUTPUT_TEXT];
    struct cpulist list;
    struct err err = {0};
    uint64_t kib = 0;
    enum exit_code code;

    if (ceiling != NULL && strcmp(ceiling, "none") != 0 &&
        sizes_parse_kib(ceiling, &kib, &err) < 0) {
        json_object_put(params);
        return cmd_fail(args, EXIT_USAGE, NULL, "--ceiling: %s", err.text);
    }
    if (cpus != NULL && strcmp(cpus, "all") != 0 && strcmp(cpus, "auto") != 0 &&
        cpulist_parse(cpus, &list, &err) < 0) {
        json_object_put(params);
        return cmd_fail(args, EXIT_USAGE, NULL, "--cpus: %s", err.text);
    }
    if (ceiling != NULL)
        wire_add_int(params, "ceiling_kib", (int64_t)kib);
    if (cpus != NULL)
        wire_add_str(params, "mask", cpus);

    code = session_call(args, WIRE_INTERFACE ".SetLimit", params, &reply);
    if (code != EXIT_OK)
        return code;
    if (args->json) {
        output_json(wire_params(reply));
    } else {
        printf("ceiling  %s%s\n",
               output_rate_limit(wire_get_int(wire_params(reply), "ceiling_kib", 0), text),
               wire_get_int(wire_params(reply), "ceiling_kib", 0) > 0 ? " on each node" : "");
        printf("CPUs     %s\n", wire_get_str(wire_params(reply), "mask", "?"));
    }
    json_object_put(reply);
    return EXIT_OK;
}

const struct cmd cmd_limit = {
    .name = "limit",
    .operands = "",
    .summary = "set how fast and where memory is scrubbed",
    .details = "Changes what is given, until scrubd ends or `scrubctl reset`; without options\n"
               "shows what is set. Rates are per second and NUMA node, as in 200M or 1.5G\n"
               "(powers of 1024). The ceiling is in force while domains are destroyed and until\n"
               "their memory is clean, the CPUs at all times. With auto the CPUs of protected\n"
               "domains do not scrub: see scrubctl cpus.\n",
    .options = {{"ceiling", "RATE", "scrub at most so much a second on each node; none ends it"},
                {"cpus", "LIST", "CPUs that may scrub, like 0-3,6; all, or auto"}},
    .run = run,
};
