/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libxl_utils.h>

#include "cmd.h"
#include "completion.h"
#include "domain.h"
#include "output.h"
#include "session.h"

/* One a line, but for those that would not be what they seem. */
static void add_name(struct json_object *names, const char *name)
{
    char clean[DOMAIN_NAME_SIZE];

    output_clean(name, sizeof(clean), clean, sizeof(clean));
    if (*name != '\0' && strcmp(clean, name) == 0)
        json_object_array_add(names, json_object_new_string(name));
}

static enum exit_code add_domains(const struct cmd_args *args, struct json_object *names)
{
    libxl_dominfo *list;
    enum exit_code code;
    struct xen xen;
    int n = 0;

    code = xen_open(args, &xen);
    if (code != EXIT_OK)
        return code;
    list = libxl_list_domain(xen.ctx, &n);
    for (int i = 0; list != NULL && i < n; i++) {
        char *name = list[i].domid > 0 ? libxl_domid_to_name(xen.ctx, list[i].domid) : NULL;

        if (name != NULL)
            add_name(names, name);
        free(name);
    }
    if (list != NULL)
        libxl_dominfo_list_free(list, n);
    xen_close(&xen);
    return EXIT_OK;
}

static enum exit_code add_jobs(const struct cmd_args *args, struct json_object *names)
{
    struct json_object *jobs;
    enum exit_code code = session_list_jobs(args, &jobs);

    if (code != EXIT_OK)
        return code;
    for (size_t i = 0; i < json_object_array_length(jobs); i++)
        add_name(names, wire_get_str(json_object_array_get_idx(jobs, i), "name", ""));
    json_object_put(jobs);
    return EXIT_OK;
}

static enum exit_code print_names(const struct cmd_args *args, bool jobs)
{
    struct json_object *document = wire_object(), *names = wire_array();
    enum exit_code code = jobs ? add_jobs(args, names) : add_domains(args, names);

    wire_add_obj(document, "names", names);
    if (code == EXIT_OK && args->json)
        output_json(document);
    for (size_t i = 0; !args->json && i < json_object_array_length(names); i++)
        puts(json_object_get_string(json_object_array_get_idx(names, i)));
    json_object_put(document);
    return code;
}

static enum exit_code print_script(const struct cmd_args *args, void (*make)(FILE *out))
{
    struct json_object *document;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return cmd_fail(args, EXIT_REFUSED, NULL, "out of memory");
    make(out);
    fclose(out);
    if (args->json) {
        document = wire_object();
        wire_add_str(document, "script", text);
        output_json(document);
        json_object_put(document);
    } else {
        fputs(text, stdout);
    }
    free(text);
    return EXIT_OK;
}

static enum exit_code run(const struct cmd_args *args)
{
    const char *what = args->operands[0];

    if (strcmp(what, "bash") == 0)
        return print_script(args, completion_bash);
    if (strcmp(what, "zsh") == 0)
        return print_script(args, completion_zsh);
    if (strcmp(what, "domains") == 0 || strcmp(what, "jobs") == 0)
        return print_names(args, strcmp(what, "jobs") == 0);
    return cmd_fail(args, EXIT_USAGE, NULL,
                    "completion knows bash, zsh, domains and jobs, not \"%s\"", what);
}

const struct cmd cmd_completion = {
    .name = "completion",
    .operands = "WHAT",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "bash zsh domains jobs",
    .summary = "what shells need to complete command lines",
    .details = "WHAT is bash or zsh: a script for that shell, as it is installed with scrubctl;\n"
               "or what such a script asks for: domains, the names of all domains, or jobs,\n"
               "the names of those that are being destroyed.\n",
    .run = run,
};
