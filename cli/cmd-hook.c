/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "hook.h"
#include "output.h"
#include "root.h"
#include "wire.h"

/* What ends with a command after a colon; where that does not fit, it has a line of its own. */
static void say_command(const char *text)
{
    const char *command = strstr(text, ": ");
    size_t columns, lines;

    output_terminal(STDOUT_FILENO, &columns, &lines);
    if (command != NULL && output_width(text) > columns) {
        output_say("%.*s", (int)(command + 1 - text), text);
        output_say("    %s", command + 2);
    } else {
        output_say("%s", text);
    }
}

static void print_changes(struct json_object *changes, const char *none)
{
    size_t n = json_object_array_length(changes);

    for (size_t i = 0; i < n; i++)
        say_command(json_object_get_string(json_object_array_get_idx(changes, i)));
    if (n == 0)
        puts(none);
}

static enum exit_code change(const struct cmd_args *args, struct hook_host *host, bool on)
{
    struct err err[2] = {0};
    bool failed[2];

    if (host->root[0] == '\0' && geteuid() != 0)
        return cmd_fail(args, EXIT_REFUSED, NULL, "only root can change what is preloaded");
    if (on && !hook_installed(host))
        return cmd_fail(args, EXIT_REFUSED, NULL, SCRUBD_HOOK_LIB " is not there");
    /* The one does not wait for what may be wrong with the other. */
    failed[0] = (on ? hook_xl_enable : hook_xl_disable)(host, &err[0]) < 0;
    failed[1] = (on ? hook_units_enable : hook_units_disable)(host, &err[1]) < 0;
    if (!args->json)
        print_changes(host->changes, failed[0] || failed[1] ? "Nothing was changed."
                                     : on                   ? "Nothing to do: the hook is in place."
                                          : "Nothing to do: the hook is nowhere.");
    if (failed[0] || failed[1])
        return cmd_fail(args, EXIT_REFUSED, NULL, "%s%s%s", err[0].text,
                        failed[0] && failed[1] ? "; " : "", err[1].text);
    if (args->json) {
        struct json_object *document = wire_object();

        wire_add_obj(document, "changes", json_object_get(host->changes));
        output_json(document);
        json_object_put(document);
    }
    return EXIT_OK;
}

/* --- status --- */

static void status_json(const struct hook_report *report)
{
    struct json_object *document = wire_object(), *tools = wire_array();

    for (size_t i = 0; i < report->n_tools; i++) {
        const struct hook_tool *tool = &report->tools[i];
        struct json_object *item = wire_object();

        wire_add_str(item, "tool", tool->name);
        if (tool->pid > 0)
            wire_add_int(item, "pid", tool->pid);
        wire_add_bool(item, "caught", tool->caught);
        wire_add_str(item, "why", tool->why);
        if (tool->mend[0] != '\0')
            wire_add_str(item, "mend", tool->mend);
        json_object_array_add(tools, item);
    }
    wire_add_obj(document, "tools", tools);
    wire_add_int(document, "missed", (int64_t)report->n_missed);
    output_json(document);
    json_object_put(document);
}

/* One of those that come by the hundred: a background xl for each guest. */
static bool is_common(const struct hook_tool *tool)
{
    return tool->caught && tool->pid > 0 && strcmp(tool->name, "xl") == 0;
}

static void add_row(struct output_table *table, const struct hook_tool *tool)
{
    output_table_add(table, tool->name);
    output_table_add_int(table, tool->pid > 0 ? tool->pid : -1);
    output_table_add(table, tool->caught ? "yes" : "no");
    output_table_add(table, tool->why);
}

static void status_text(const struct hook_report *report)
{
    static const char *const titles[] = {"TOOL", ">PID", "CAUGHT", "WHY"};
    struct output_table table = OUTPUT_TABLE(titles);
    struct hook_tool all = {.name = "xl", .caught = true};
    size_t common = 0;

    for (size_t i = 0; i < report->n_tools; i++) {
        common += is_common(&report->tools[i]);
        if (!is_common(&report->tools[i]))
            add_row(&table, &report->tools[i]);
    }
    snprintf(all.why, sizeof(all.why), "%zu in the background with the hook", common);
    if (common > 0)
        add_row(&table, &all);
    output_table_end(&table);
    if (report->n_missed > 0)
        putchar('\n');
    for (size_t i = 0; i < report->n_tools; i++) {
        const struct hook_tool *tool = &report->tools[i];
        char text[512];

        if (tool->caught)
            continue;
        if (tool->pid > 0)
            snprintf(text, sizeof(text), "%s (%d): %s", tool->name, (int)tool->pid, tool->mend);
        else
            snprintf(text, sizeof(text), "%s: %s", tool->name, tool->mend);
        say_command(text);
    }
}

static enum exit_code status(const struct cmd_args *args, const struct hook_host *host)
{
    struct hook_report report;
    struct err err;

    if (hook_report(host, &report, &err) < 0)
        return cmd_fail(args, EXIT_REFUSED, NULL, "%s", err.text);
    if (args->json)
        status_json(&report);
    else if (report.n_tools == 0)
        puts("Nothing on this host destroys domains.");
    else
        status_text(&report);
    hook_report_done(&report);
    return EXIT_OK;
}

static enum exit_code run(const struct cmd_args *args)
{
    const char *verb = args->operands[0];
    struct hook_host host = {root_dir(), json_object_new_array()};
    enum exit_code code;

    if (strcmp(verb, "enable") == 0)
        code = change(args, &host, true);
    else if (strcmp(verb, "disable") == 0)
        code = change(args, &host, false);
    else if (strcmp(verb, "status") == 0)
        code = status(args, &host);
    else
        code = cmd_fail(args, EXIT_USAGE, NULL, "hook: \"%s\" is none of enable, disable, status",
                        verb);
    json_object_put(host.changes);
    return code;
}

const struct cmd cmd_hook = {
    .name = "hook",
    .operands = "enable|disable|status",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "enable disable status",
    .summary = "have xl and libvirt go through scrubd, or not",
    .details = "enable puts the hook under xl (a diversion of /usr/sbin/xl; where dpkg-divert\n"
               "is missing, a wrapper in /usr/local/sbin) and drop-ins into the services that\n"
               "destroy domains: libvirtd, virtxend, xenopsd. What runs has to be restarted,\n"
               "which is left to you. disable undoes all of it. Files that scrubctl did not\n"
               "write are never replaced. status says of each tool whether its destroys are\n"
               "caught.\n",
    .run = run,
};
