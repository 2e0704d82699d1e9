/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>

#include "cmd.h"
#include "limits-text.h"
#include "output.h"
#include "session.h"
#include "zombies.h"

static void print_nodes(struct json_object *nodes)
{
    static const char *const titles[] = {"NODE",      ">FLOOR",         ">CEILING",  ">DIRTY",
                                         ">SCRUBBED", ">AT ALLOCATION", ">THROTTLED"};
    struct output_table table = OUTPUT_TABLE(titles);
    char text[OUTPUT_TEXT];

    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        int64_t scrubbed = wire_get_int(node, "idle", 0) + wire_get_int(node, "floor", 0);

        output_table_add_int(&table, wire_get_int(node, "node", -1));
        output_table_add(&table, output_rate_limit(wire_get_int(node, "floor_kib", 0), text));
        output_table_add(&table, output_rate_limit(wire_get_int(node, "ceiling_kib", 0), text));
        output_table_add(&table, output_pages(wire_get_int(node, "dirty_pages", -1), text));
        output_table_add(&table, output_pages(scrubbed, text));
        output_table_add(&table, output_pages(wire_get_int(node, "alloc", -1), text));
        output_table_add(&table, output_duration(wire_get_int(node, "throttled_ms", -1), text));
    }
    putchar('\n');
    output_table_end(&table);
}

static void print_cpus(struct json_object *cpus)
{
    static const char *const titles[] = {"CPU", "MAY SCRUB", ">SCRUBBED"};
    struct output_table table = OUTPUT_TABLE(titles);
    char text[OUTPUT_TEXT];

    for (size_t i = 0; i < json_object_array_length(cpus); i++) {
        struct json_object *cpu = json_object_array_get_idx(cpus, i);

        output_table_add_int(&table, wire_get_int(cpu, "cpu", -1));
        output_table_add(&table, wire_get_bool(cpu, "allowed", false) ? "yes" : "no");
        output_table_add(&table, output_pages(wire_get_int(cpu, "scrubbed_pages", -1), text));
    }
    putchar('\n');
    output_table_end(&table);
}

static void print(const struct cmd_args *args, struct json_object *status)
{
    const char *reason = wire_get_str(status, "reason", NULL);
    const char *mask = wire_get_str(status, "mask", NULL);
    struct json_object *nodes = wire_get_obj(status, "nodes"), *cpus = wire_get_obj(status, "cpus");
    char text[OUTPUT_TEXT], text2[OUTPUT_TEXT];

    output_say("scrubd %s is %s%s%s", wire_get_str(status, "version", "?"),
               wire_get_str(status, "state", "?"), reason != NULL ? ": " : "",
               reason != NULL ? reason : "");
    output_say("  Xen        %s", wire_get_str(status, "xen", "?"));
    output_say("  up         %s",
               output_duration(wire_get_int(status, "uptime_s", 0) * 1000, text));
    output_say("  jobs       %lld now, %lld done", (long long)wire_get_int(status, "jobs", 0),
               (long long)wire_get_int(status, "jobs_done", 0));
    if (wire_get_int(status, "backlog_pages", -1) >= 0)
        output_say("  backlog    %s to scrub, baseline %s",
                   output_pages(wire_get_int(status, "backlog_pages", -1), text),
                   output_pages(wire_get_int(status, "baseline_pages", -1), text2));
    if (mask != NULL)
        output_say("  scrubbing  on CPUs %s", mask);
    limits_print("  by hand    ", wire_get_obj(status, "by_hand"));
    if (nodes != NULL && json_object_array_length(nodes) > 0)
        print_nodes(nodes);
    if (args->option[0] != NULL && cpus != NULL)
        print_cpus(cpus);
    zombies_print(wire_get_obj(status, "zombies"));
}

static enum exit_code run(const struct cmd_args *args)
{
    return session_show(args, WIRE_INTERFACE ".GetStatus", NULL, print);
}

const struct cmd cmd_status = {
    .name = "status",
    .operands = "",
    .summary = "what scrubd and the scrubber are doing",
    .details = "Shows whether scrubd is ready, the memory that waits to be scrubbed, and which\n"
               "CPUs may scrub. The backlog is what lies above the baseline: memory that was\n"
               "dirty for other reasons. Limits that scrubctl limit has set are by hand; limit\n"
               "shows the others too. On a hypervisor without the scrubd patch scrubd is\n"
               "degraded: domains are destroyed one after another, but not slowed down.\n"
               "Zombies are dead domains that something in the control domain holds on to.\n",
    .options = {{"cpus", NULL, "also show each CPU, and what it has scrubbed"}},
    .run = run,
};
