/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "output.h"
#include "session.h"

#define WHY_TEXT 400
#define NAME_COLUMNS 40 /* of a domain within a sentence */

/* What why says, in words: @ is the domain, # the CPU of it whose core this one shares. */
static const struct {
    const char *why, *text;
} whys[] = {
    {"free", "nothing is against it"},
    {"everywhere", "@ is protected, but may run on every CPU"},
    {"node_needs_sibling", "shares its core with CPU # of @, but its node has no other"},
    {"node_needs_soft", "@ had better run here, but its node has no other"},
    {"last", "@ may run here, but all CPUs are taken by protected domains"},
    {"offline", "offline"},
    {"hard", "kept clear for @"},
    {"soft", "kept clear for @, which had better run here"},
    {"sibling", "shares its core with CPU #, kept clear for @"},
    {"all", "all CPUs are to scrub"},
    {"listed", "on the list that was set"},
    {"not_listed", "not on the list that was set"},
};

static void fill_in(const char *text, struct json_object *cpu, char *buf, size_t size)
{
    size_t len = 0;

    for (; *text != '\0' && len + 1 < size; text++) {
        if (*text == '@')
            output_domain(wire_get_str(cpu, "name", NULL), wire_get_int(cpu, "domid", -1),
                          NAME_COLUMNS, buf + len, size - len);
        else if (*text == '#')
            snprintf(buf + len, size - len, "%lld", (long long)wire_get_int(cpu, "sibling", -1));
        else
            snprintf(buf + len, size - len, "%c", *text);
        len += strlen(buf + len);
    }
}

static const char *why_text(struct json_object *cpu, char *buf, size_t size)
{
    const char *why = wire_get_str(cpu, "why", "?");

    for (size_t i = 0; i < sizeof(whys) / sizeof(whys[0]); i++) {
        if (strcmp(whys[i].why, why) == 0) {
            fill_in(whys[i].text, cpu, buf, size);
            return buf;
        }
    }
    return why;
}

static void print(struct json_object *cpus)
{
    static const char *const titles[] = {">CPU",  ">NODE",     ">SOCKET", ">CORE",
                                         ">POOL", "MAY SCRUB", "WHY"};
    static const char *const places[] = {"cpu", "node", "socket", "core", "cpupool"};
    struct output_table table = OUTPUT_TABLE(titles);
    char text[WHY_TEXT];

    for (size_t i = 0; i < json_object_array_length(cpus); i++) {
        struct json_object *cpu = json_object_array_get_idx(cpus, i);

        for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++)
            output_table_add_int(&table, wire_get_int(cpu, places[k], -1));
        output_table_add(&table, wire_get_bool(cpu, "allowed", false) ? "yes" : "no");
        output_table_add(&table, why_text(cpu, text, sizeof(text)));
    }
    output_table_end(&table);
}

static enum exit_code run(const struct cmd_args *args)
{
    return session_show_list(args, WIRE_INTERFACE ".ListCpus", "cpu", "cpus", print);
}

const struct cmd cmd_cpus = {
    .name = "cpus",
    .operands = "",
    .summary = "the CPUs that may scrub, and why",
    .details = "Shows each physical CPU, whether it may scrub, and why, as the host is now. With\n"
               "scrub_cpus = \"auto\" the CPUs of protected domains are kept clear, and their\n"
               "hardware threads: see scrubctl protect.\n",
    .run = run,
};
