/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>

#include "cmd.h"
#include "output.h"
#include "session.h"
#include "zombies.h"

/* "hurry", or the number. */
static const char *priority(struct json_object *job, char *buf)
{
    snprintf(buf, OUTPUT_TEXT, "%lld", (long long)wire_get_int(job, "priority", 0));
    return wire_get_bool(job, "hurry", false) ? "hurry" : buf;
}

static void print_jobs(struct json_object *jobs)
{
    static const char *const titles[] = {">DOMID", "NAME", ">PRIO", "STATE",
                                         ">LEFT",  ">OF",  ">RATE", ">TIME LEFT"};
    struct output_table table = OUTPUT_TABLE(titles);
    char text[OUTPUT_TEXT];

    for (size_t i = 0; i < json_object_array_length(jobs); i++) {
        struct json_object *job = json_object_array_get_idx(jobs, i);

        output_table_add_int(&table, wire_get_int(job, "domid", -1));
        output_table_add(&table, wire_get_str(job, "name", "-"));
        output_table_add(&table, priority(job, text));
        output_table_add(&table, wire_get_str(job, "state", "?"));
        output_table_add(&table, output_pages(wire_get_int(job, "pages_left", -1), text));
        output_table_add(&table, output_pages(wire_get_int(job, "pages_total", -1), text));
        output_table_add(&table, output_rate(wire_get_int(job, "rate_kib_s", -1), text));
        output_table_add(&table, output_duration(wire_get_int(job, "eta_ms", -1), text));
    }
    output_table_end(&table);
}

static void print_stages(struct json_object *jobs)
{
    static const char *const titles[] = {">DOMID",   "NAME",     "FOR",       ">TOOLSTACK",
                                         ">WAITING", ">FREEING", ">SCRUBBING"};
    static const char *const stages[] = {"toolstack_ms", "waiting_ms", "freeing_ms",
                                         "scrubbing_ms"};
    struct output_table table = OUTPUT_TABLE(titles);
    char text[OUTPUT_TEXT];

    for (size_t i = 0; i < json_object_array_length(jobs); i++) {
        struct json_object *job = json_object_array_get_idx(jobs, i);

        output_table_add_int(&table, wire_get_int(job, "domid", -1));
        output_table_add(&table, wire_get_str(job, "name", "-"));
        output_table_add(&table, wire_get_str(job, "purpose", "-"));
        for (size_t k = 0; k < sizeof(stages) / sizeof(stages[0]); k++)
            output_table_add(&table, output_duration(wire_get_int(job, stages[k], -1), text));
    }
    output_table_end(&table);
}

static void print(const struct cmd_args *args, struct json_object *document)
{
    struct json_object *jobs = wire_get_obj(document, "jobs");

    if (json_object_array_length(jobs) == 0)
        puts("No domain is being destroyed.");
    else if (args->option[0] != NULL)
        print_stages(jobs);
    else
        print_jobs(jobs);
    zombies_print(wire_get_obj(document, "zombies"));
}

static enum exit_code run(const struct cmd_args *args)
{
    struct json_object *jobs, *status, *zombies, *document;
    enum exit_code code = session_list_jobs(args, &jobs);

    if (code != EXIT_OK)
        return code;
    document = wire_object();
    wire_add_obj(document, "jobs", jobs);
    code = session_call(args, WIRE_INTERFACE ".GetStatus", NULL, &status);
    if (code == EXIT_OK) {
        zombies = wire_get_obj(wire_params(status), "zombies");
        if (zombies != NULL)
            wire_add_obj(document, "zombies", json_object_get(zombies));
        if (args->json)
            output_json(document);
        else
            print(args, document);
        json_object_put(status);
    }
    json_object_put(document);
    return code;
}

const struct cmd cmd_list = {
    .name = "list",
    .operands = "",
    .summary = "the domains that are being destroyed, and zombies",
    .details = "Shows each domain that scrubd is tearing down: how much memory it still has,\n"
               "how fast that is given back, and how long it will take, \"-\" while nobody knows.\n"
               "States: queued (its turn is yet to come), freeing, waiting (for the scrubber to\n"
               "catch up), paused, scrubbing (dead, but its memory not known to be clean).\n"
               "Then the zombies: dead domains that something in the control domain holds on to.\n",
    .options = {{"stages", NULL, "where the time of each goes, until its memory is clean"}},
    .run = run,
};
