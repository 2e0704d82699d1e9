/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "options.h"
#include "output.h"
#include "session.h"

static const char *by_text(const char *by)
{
    if (strcmp(by, "pin") == 0)
        return "pinned to CPUs of its own";
    if (strcmp(by, "request") == 0)
        return "scrubctl protect";
    return "configuration";
}

static void print_list(struct json_object *items)
{
    static const char *const titles[] = {">DOMID", "NAME", "MAY RUN ON", "PROTECTED BY", "RULE"};
    struct output_table table = OUTPUT_TABLE(titles);

    if (json_object_array_length(items) == 0) {
        puts("No domain is protected.");
        return;
    }
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        struct json_object *item = json_object_array_get_idx(items, i);

        output_table_add_int(&table, wire_get_int(item, "domid", -1));
        output_table_add(&table, wire_get_str(item, "name", "-"));
        output_table_add(&table, wire_get_str(item, "cpus", "-"));
        output_table_add(&table, by_text(wire_get_str(item, "by", "?")));
        output_table_add(&table, wire_get_str(item, "rule", "-"));
    }
    output_table_end(&table);
}

/* A name can be of digits only, but one as long is no domid. */
static bool is_domid(const char *text)
{
    return option_is_domid(text) && strlen(text) < 10;
}

static void print_change(const struct cmd_args *args, struct json_object *params)
{
    const char *text = args->operands[0];
    long long n = wire_get_int(params, "domains", 0);

    if (args->option[0] != NULL)
        output_say("%s is no longer protected by scrubctl.", text);
    else if (is_domid(text))
        output_say("domain %s is protected; see scrubctl cpus", text);
    else if (n == 0)
        output_say("%s is protected, but there is no such domain at present", text);
    else
        output_say("%s is protected: %lld domain%s; see scrubctl cpus", text, n, n == 1 ? "" : "s");
}

static enum exit_code run(const struct cmd_args *args)
{
    bool off = args->option[0] != NULL;
    struct json_object *params;

    if (args->n_operands == 0 && off)
        return cmd_fail(args, EXIT_USAGE, NULL, "--off: of which domain or pattern?");
    if (args->n_operands == 0)
        return session_show_list(args, WIRE_INTERFACE ".ListProtected", "protected", "protected",
                                 print_list);
    params = wire_object();
    if (is_domid(args->operands[0]))
        wire_add_int(params, "domid", atoll(args->operands[0]));
    else
        wire_add_str(params, "pattern", args->operands[0]);
    wire_add_bool(params, "on", !off);
    return session_show(args, WIRE_INTERFACE ".Protect", params, print_change);
}

const struct cmd cmd_protect = {
    .name = "protect",
    .operands = "[DOMAIN]",
    .max_operands = 1,
    .completes = "@domains",
    .summary = "keep scrubbing off the CPUs of a domain",
    .details =
        "DOMAIN is a domid, a name (with wildcards, as in \"web*\"; it need not exist yet),\n"
        "\"uuid:UUID\" or \"pool:CPUPOOL\". The CPUs that it may run on, and their hardware\n"
        "threads, do not scrub while scrub_cpus is auto. That lasts until scrubd ends or\n"
        "`scrubctl reset`; protect in scrubd.conf is for ever. Without DOMAIN it lists\n"
        "what is protected: domains that are pinned to CPUs of their own are so without\n"
        "being named.\n",
    .options = {{"off", NULL, "protect it no longer"}},
    .run = run,
};
