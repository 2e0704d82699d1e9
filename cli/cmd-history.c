/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "journal.h"
#include "output.h"
#include "wire.h"

#define LAST 20
#define LAST_MAX 100000

/* A duration without its spaces, as "3min20s" is: six of them in a line. */
static const char *narrow_duration(int64_t ms, char *buf)
{
    char *to = buf;

    output_duration(ms, buf);
    for (const char *from = buf; *from != '\0'; from++) {
        if (*from != ' ')
            *to++ = *from;
    }
    *to = '\0';
    return buf;
}

static void add_time(struct output_table *table, int64_t seconds)
{
    time_t when = (time_t)seconds;
    char text[OUTPUT_TEXT] = "?";
    struct tm tm;

    if (localtime_r(&when, &tm) != NULL)
        strftime(text, sizeof(text), "%m-%d %H:%M:%S", &tm);
    output_table_add(table, text);
}

static void add_row(struct output_table *table, struct json_object *job)
{
    static const char *const stages[] = {"toolstack_ms", "waiting_ms", "freeing_ms",
                                         "scrubbing_ms"};
    bool by_caller = strcmp(wire_get_str(job, "event", ""), "caller") == 0;
    char text[OUTPUT_TEXT];

    add_time(table, wire_get_int(job, "time", 0));
    snprintf(text, sizeof(text), "domain %lld", (long long)wire_get_int(job, "domid", -1));
    output_table_add(table, wire_get_str(job, "name", text));
    output_table_add(table, output_pages(wire_get_int(job, "pages", -1), text));
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        /* scrubd knows of no step where it has made none. */
        int64_t ms = by_caller && i == 2 ? -1 : wire_get_int(job, stages[i], -1);

        output_table_add(table, narrow_duration(ms, text));
    }
}

static void print_history(struct json_object *jobs)
{
    static const char *const titles[] = {"DIED",     "NAME",     ">SIZE",     ">TOOLSTACK",
                                         ">WAITING", ">FREEING", ">SCRUBBING"};
    struct output_table table = OUTPUT_TABLE(titles);

    /* The newest last, next to the prompt. */
    for (size_t i = json_object_array_length(jobs); i > 0; i--)
        add_row(&table, json_object_array_get_idx(jobs, i - 1));
    output_table_end(&table);
}

static enum exit_code run(const struct cmd_args *args)
{
    const char *domain = args->n_operands > 0 ? args->operands[0] : NULL, *last = args->option[0];
    struct json_object *jobs;
    struct err err = {0};
    long max = LAST;
    char *end;

    if (last != NULL) {
        max = strtol(last, &end, 10);
        if (last[0] == '\0' || *end != '\0' || max < 1 || max > LAST_MAX)
            return cmd_fail(args, EXIT_USAGE, NULL, "--last: not a number from 1 to %d", LAST_MAX);
    }
    if (journal_jobs(domain, (unsigned int)max, &jobs, &err) < 0)
        return cmd_fail(args, EXIT_REFUSED, NULL, "%s", err.text);
    if (args->json) {
        struct json_object *document = wire_object();

        wire_add_obj(document, "jobs", jobs);
        output_json(document);
        json_object_put(document);
        return EXIT_OK;
    }
    if (json_object_array_length(jobs) > 0)
        print_history(jobs);
    else
        puts("The journal knows of no teardown by scrubd.");
    json_object_put(jobs);
    return EXIT_OK;
}

const struct cmd cmd_history = {
    .name = "history",
    .operands = "[DOMAIN]",
    .max_operands = 1,
    .completes = "@domains",
    .summary = "the last teardowns, by the journal",
    .details = "Shows when each domain died, and where the time went: before scrubd was asked,\n"
               "in no step, in steps, and from its death until its memory was clean; \"-\" if\n"
               "that is not known, or not yet. DOMAIN is a name or a uuid. What a journal has\n"
               "forgotten cannot be shown; scrubd need not run.\n",
    .options = {{"last", "NUMBER", "so many, else 20"}},
    .run = run,
};
