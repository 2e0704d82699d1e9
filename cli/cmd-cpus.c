/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "output.h"
#include "session.h"

#define WHY_TEXT 400
#define NAME_COLUMNS 40

static void domain_text(struct json_object *cpu, char *buf, size_t size)
{
    const char *name = wire_get_str(cpu, "name", NULL);
    long long domid = wire_get_int(cpu, "domid", -1);
    char shown[128];

    if (name != NULL)
        snprintf(buf, size, "%s (domain %lld)",
                 output_clean(name, NAME_COLUMNS, shown, sizeof(shown)), domid);
    else
        snprintf(buf, size, "domain %lld", domid);
}

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
            domain_text(cpu, buf + len, size - len);
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

static void add_int(struct output_table *table, struct json_object *cpu, const char *key)
{
    char text[OUTPUT_TEXT];
    long long value = wire_get_int(cpu, key, -1);

    snprintf(text, sizeof(text), "%lld", value);
    output_table_add(table, value < 0 ? "-" : text);
}

static void print_cpus(struct json_object *cpus)
{
    static const char *const titles[] = {">CPU",  ">NODE",     ">SOCKET", ">CORE",
                                         ">POOL", "MAY SCRUB", "WHY"};
    struct output_table table = {titles, sizeof(titles) / sizeof(titles[0]), NULL, 0};
    char text[WHY_TEXT];

    for (size_t i = 0; i < json_object_array_length(cpus); i++) {
        struct json_object *cpu = json_object_array_get_idx(cpus, i);

        add_int(&table, cpu, "cpu");
        add_int(&table, cpu, "node");
        add_int(&table, cpu, "socket");
        add_int(&table, cpu, "core");
        add_int(&table, cpu, "cpupool");
        output_table_add(&table, wire_get_bool(cpu, "allowed", false) ? "yes" : "no");
        output_table_add(&table, why_text(cpu, text, sizeof(text)));
    }
    output_table_print(&table, stdout);
    output_table_done(&table);
}

static enum exit_code run(const struct cmd_args *args)
{
    struct json_object *cpus;
    enum exit_code code = session_list(args, WIRE_INTERFACE ".ListCpus", "cpu", &cpus);

    if (code != EXIT_OK)
        return code;
    if (args->json) {
        struct json_object *document = wire_object();

        wire_add_obj(document, "cpus", cpus);
        output_json(document);
        json_object_put(document);
        return EXIT_OK;
    }
    print_cpus(cpus);
    json_object_put(cpus);
    return EXIT_OK;
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
