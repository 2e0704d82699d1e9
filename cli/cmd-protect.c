/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
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

static void print_protected(struct json_object *items)
{
    static const char *const titles[] = {">DOMID", "NAME", "MAY RUN ON", "PROTECTED BY", "RULE"};
    struct output_table table = {titles, sizeof(titles) / sizeof(titles[0]), NULL, 0};
    char text[OUTPUT_TEXT];

    for (size_t i = 0; i < json_object_array_length(items); i++) {
        struct json_object *item = json_object_array_get_idx(items, i);
        long long domid = wire_get_int(item, "domid", -1);

        snprintf(text, sizeof(text), "%lld", domid);
        output_table_add(&table, domid < 0 ? "-" : text);
        output_table_add(&table, wire_get_str(item, "name", "-"));
        output_table_add(&table, wire_get_str(item, "cpus", "-"));
        output_table_add(&table, by_text(wire_get_str(item, "by", "?")));
        output_table_add(&table, wire_get_str(item, "rule", "-"));
    }
    output_table_print(&table, stdout);
    output_table_done(&table);
}

static enum exit_code list(const struct cmd_args *args)
{
    struct json_object *items;
    enum exit_code code = session_list(args, WIRE_INTERFACE ".ListProtected", "protected", &items);

    if (code != EXIT_OK)
        return code;
    if (args->json) {
        struct json_object *document = wire_object();

        wire_add_obj(document, "protected", items);
        output_json(document);
        json_object_put(document);
        return EXIT_OK;
    }
    if (json_object_array_length(items) > 0)
        print_protected(items);
    else
        puts("No domain is protected.");
    json_object_put(items);
    return EXIT_OK;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && strlen(text) < 10 && text[strspn(text, "0123456789")] == '\0';
}

static enum exit_code run(const struct cmd_args *args)
{
    bool off = args->option[0] != NULL;
    struct json_object *params, *reply;
    enum exit_code code;
    char shown[200];

    if (args->n_operands == 0 && off)
        return cmd_fail(args, EXIT_USAGE, NULL, "--off: of which domain or pattern?");
    if (args->n_operands == 0)
        return list(args);
    params = wire_object();
    if (is_number(args->operands[0]))
        wire_add_int(params, "domid", atoll(args->operands[0]));
    else
        wire_add_str(params, "pattern", args->operands[0]);
    wire_add_bool(params, "on", !off);
    code = session_call(args, WIRE_INTERFACE ".Protect", params, &reply);
    if (code != EXIT_OK)
        return code;
    output_clean(args->operands[0], 100, shown, sizeof(shown));
    if (args->json) {
        output_json(wire_params(reply));
    } else if (off) {
        printf("%s is no longer protected by scrubctl.\n", shown);
    } else {
        long long n = wire_get_int(wire_params(reply), "domains", 0);

        if (is_number(shown))
            printf("domain %s is protected; see scrubctl cpus\n", shown);
        else if (n == 0)
            printf("%s is protected, but there is no such domain at present\n", shown);
        else
            printf("%s is protected: %lld domain%s; see scrubctl cpus\n", shown, n,
                   n == 1 ? "" : "s");
    }
    json_object_put(reply);
    return EXIT_OK;
}

const struct cmd cmd_protect = {
    .name = "protect",
    .operands = "[DOMAIN]",
    .max_operands = 1,
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
