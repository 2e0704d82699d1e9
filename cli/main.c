/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "output.h"
#include "wire.h"

/* Columns of what is explained: of all commands, and of one's options. */
#define HELP_LEFT 22
#define HELP_OPTION 18

static enum exit_code run_help(const struct cmd_args *args);

static const struct cmd cmd_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .max_operands = 1,
    .completes = "@commands",
    .summary = "this text, or that of a command",
    .details = "",
    .run = run_help,
};

/* title: of the group in the help that begins with this one. */
static const struct {
    const char *title;
    const struct cmd *cmd;
} cmds[] = {
    {"See what is going on", &cmd_status},
    {NULL, &cmd_list},
    {NULL, &cmd_watch},
    {NULL, &cmd_plan},
    {NULL, &cmd_history},
    {NULL, &cmd_doctor},
    {"Destroy domains", &cmd_destroy},
    {NULL, &cmd_pause},
    {NULL, &cmd_resume},
    {NULL, &cmd_hurry},
    {NULL, &cmd_priority},
    {NULL, &cmd_wait},
    {"Say how memory is scrubbed", &cmd_limit},
    {NULL, &cmd_cpus},
    {NULL, &cmd_protect},
    {NULL, &cmd_reset},
    {NULL, &cmd_config},
    {"Set the host up", &cmd_hook},
    {NULL, &cmd_hypervisor},
    {"Other", &cmd_completion},
    {NULL, &cmd_help},
};

#define N_CMDS (sizeof(cmds) / sizeof(cmds[0]))

__attribute__((format(printf, 5, 0))) static enum exit_code fail(const struct cmd_args *args,
                                                                 enum exit_code code,
                                                                 const char *kind,
                                                                 struct json_object *steps,
                                                                 const char *fmt, va_list ap)
{
    char text[1024];

    vsnprintf(text, sizeof(text), fmt, ap);
    fflush(stdout);
    fprintf(stderr, "scrubctl: %s\n", text);
    if (args != NULL && args->json) {
        struct json_object *document = wire_object();

        if (kind == NULL)
            kind = code == EXIT_USAGE         ? "usage"
                   : code == EXIT_UNREACHABLE ? "unreachable"
                                              : "refused";
        wire_add_str(document, "error", kind);
        wire_add_str(document, "message", text);
        if (steps != NULL)
            wire_add_obj(document, "steps", json_object_get(steps));
        /* One line, as that is what watch writes. */
        puts(json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN |
                                                          JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(document);
    }
    return code;
}

enum exit_code cmd_fail(const struct cmd_args *args, enum exit_code code, const char *kind,
                        const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    code = fail(args, code, kind, NULL, fmt, ap);
    va_end(ap);
    return code;
}

enum exit_code cmd_fail_after(const struct cmd_args *args, struct json_object *steps,
                              const char *fmt, ...)
{
    enum exit_code code;
    va_list ap;

    va_start(ap, fmt);
    code = fail(args, EXIT_REFUSED, NULL, steps, fmt, ap);
    va_end(ap);
    return code;
}

const struct cmd *cmd_at(size_t i)
{
    return i < N_CMDS ? cmds[i].cmd : NULL;
}

static const struct cmd *find_cmd(const char *name)
{
    for (size_t i = 0; i < N_CMDS; i++) {
        if (strcmp(cmds[i].cmd->name, name) == 0)
            return cmds[i].cmd;
    }
    return NULL;
}

/* How many letters are wrong, missing, or too many. */
static size_t distance(const char *a, const char *b)
{
    size_t row[32], n = strlen(b);

    if (strlen(a) > 30 || n > 30)
        return 99;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= strlen(a); i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]), least;

            diagonal = row[j];
            least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = change < least ? change : least;
        }
    }
    return row[n];
}

static const char *similar_cmd(const char *name)
{
    const char *best = NULL;
    size_t best_distance = 3;

    for (size_t i = 0; i < N_CMDS; i++) {
        size_t d = distance(name, cmds[i].cmd->name);

        if (d < best_distance) {
            best_distance = d;
            best = cmds[i].cmd->name;
        }
    }
    return best;
}

static enum exit_code unknown_cmd(const struct cmd_args *args, const char *name)
{
    const char *similar = similar_cmd(name);

    if (similar != NULL)
        return cmd_fail(args, EXIT_USAGE, NULL, "no command \"%s\"; did you mean \"%s\"?", name,
                        similar);
    return cmd_fail(args, EXIT_USAGE, NULL, "no command \"%s\"; see scrubctl help", name);
}

/* Two columns; what is too wide for the left one has a line of its own. */
static void print_row(FILE *out, int columns, const char *word, const char *rest, const char *help)
{
    char left[64];
    int width = snprintf(left, sizeof(left), "%s%s%s", word, *rest ? " " : "", rest);

    if (width > columns)
        fprintf(out, "  %s\n  %*s  %s\n", left, columns, "", help);
    else
        fprintf(out, "  %-*s  %s\n", columns, left, help);
}

static void print_option(FILE *out, int columns, const char *name, const char *arg,
                         const char *help)
{
    char word[32];

    snprintf(word, sizeof(word), "--%s", name);
    print_row(out, columns, word, arg != NULL ? arg : "", help);
}

static void print_help(FILE *out)
{
    fputs("usage: scrubctl [--json] COMMAND [OPTION...]\n"
          "\n"
          "Destroy Xen domains without hurting their neighbours, through scrubd.\n",
          out);
    for (size_t i = 0; i < N_CMDS; i++) {
        if (cmds[i].title != NULL)
            fprintf(out, "\n%s:\n", cmds[i].title);
        print_row(out, HELP_LEFT, cmds[i].cmd->name, cmds[i].cmd->operands, cmds[i].cmd->summary);
    }
    fputs("\nOptions:\n", out);
    print_option(out, HELP_LEFT, "json", NULL, "write JSON, for programs");
    print_option(out, HELP_LEFT, "help", NULL,
                 "the same as help; after a command, that of the command");
    print_option(out, HELP_LEFT, "version", NULL, "the version of scrubctl");
    fputs("\n"
          "Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 scrubd not running.\n"
          "More in scrubctl(1).\n",
          out);
}

static void print_cmd_help(const struct cmd *cmd)
{
    printf("usage: scrubctl %s", cmd->name);
    for (const struct cmd_option *o = cmd->options; o->name != NULL; o++)
        printf(" [--%s%s%s]", o->name, o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
    printf("%s%s\n\n%s\n", cmd->operands[0] ? " " : "", cmd->operands, cmd->details);
    for (const struct cmd_option *o = cmd->options; o->name != NULL; o++)
        print_option(stdout, HELP_OPTION, o->name, o->arg, o->help);
    print_option(stdout, HELP_OPTION, "json", NULL, "write JSON, for programs");
}

static struct json_object *cmd_object(const struct cmd *cmd)
{
    struct json_object *o = wire_object(), *options = wire_array();

    wire_add_str(o, "name", cmd->name);
    wire_add_str(o, "operands", cmd->operands);
    wire_add_str(o, "summary", cmd->summary);
    wire_add_str(o, "details", cmd->details);
    for (const struct cmd_option *option = cmd->options; option->name != NULL; option++) {
        struct json_object *item = wire_object();

        wire_add_str(item, "name", option->name);
        wire_add_str_opt(item, "arg", option->arg);
        wire_add_str(item, "help", option->help);
        json_object_array_add(options, item);
    }
    wire_add_obj(o, "options", options);
    return o;
}

/* cmd NULL: all of them. */
static void print_json(const struct cmd *cmd)
{
    struct json_object *document = wire_object(), *list = wire_array();

    for (size_t i = 0; i < N_CMDS; i++) {
        if (cmd == NULL || cmd == cmds[i].cmd)
            json_object_array_add(list, cmd_object(cmds[i].cmd));
    }
    wire_add_obj(document, "commands", list);
    output_json(document);
    json_object_put(document);
}

static enum exit_code run_help(const struct cmd_args *args)
{
    const struct cmd *cmd = args->n_operands > 0 ? find_cmd(args->operands[0]) : NULL;

    if (args->n_operands > 0 && cmd == NULL)
        return unknown_cmd(args, args->operands[0]);
    if (args->json)
        print_json(cmd);
    else if (cmd == NULL || cmd == &cmd_help)
        print_help(stdout);
    else
        print_cmd_help(cmd);
    return EXIT_OK;
}

/* Values that getopt_long() returns: of the options that every command has, then those of the
 * command. */
enum {
    OPT_JSON = 1,
    OPT_HELP,
    OPT_VERSION,
    OPT_OF_CMD
};

static enum exit_code run_cmd(const struct cmd *cmd, struct cmd_args *args, int argc, char **argv)
{
    struct option longopts[CMD_OPTIONS_MAX + 3] = {{"json", no_argument, NULL, OPT_JSON},
                                                   {"help", no_argument, NULL, OPT_HELP}};
    int c;

    for (int i = 0; cmd->options[i].name != NULL; i++)
        longopts[i + 2] = (struct option){
            cmd->options[i].name,
            cmd->options[i].arg != NULL ? required_argument : no_argument,
            NULL,
            OPT_OF_CMD + i,
        };

    optind = 0; /* getopt starts anew, with other options */
    argv[0] = (char *)"scrubctl";
    while ((c = getopt_long(argc, argv, "h", longopts, NULL)) != -1) {
        if (c == OPT_JSON) {
            args->json = true;
        } else if (c == OPT_HELP || c == 'h') {
            print_cmd_help(cmd);
            return EXIT_OK;
        } else if (c == '?') {
            fprintf(stderr, "See scrubctl help %s.\n", cmd->name);
            return EXIT_USAGE;
        } else {
            args->option[c - OPT_OF_CMD] = optarg != NULL ? optarg : "";
        }
    }
    args->cmd = cmd;
    args->n_operands = argc - optind;
    args->operands = argv + optind;
    if (args->n_operands < cmd->min_operands)
        return cmd_fail(args, EXIT_USAGE, NULL, "%s needs %s; see scrubctl help %s", cmd->name,
                        cmd->operands, cmd->name);
    if (args->n_operands > cmd->max_operands)
        return cmd_fail(args, EXIT_USAGE, NULL,
                        "%s: \"%s\" is one argument too many; see scrubctl help %s", cmd->name,
                        args->operands[cmd->max_operands], cmd->name);
    return cmd->run(args);
}

/* Output that is lost makes a success a failure; where the reader went away on purpose it is
 * nothing to speak of. */
static enum exit_code finish(enum exit_code code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno != EPIPE)
        fprintf(stderr, "scrubctl: cannot write the output: %s\n", strerror(errno));
    return code == EXIT_OK ? EXIT_REFUSED : code;
}

int main(int argc, char **argv)
{
    static const struct option longopts[] = {{"json", no_argument, NULL, OPT_JSON},
                                             {"help", no_argument, NULL, OPT_HELP},
                                             {"version", no_argument, NULL, OPT_VERSION},
                                             {0}};
    struct cmd_args args = {0};
    const struct cmd *cmd;
    int c;

    setlocale(LC_CTYPE, "");
    while ((c = getopt_long(argc, argv, "+h", longopts, NULL)) != -1) {
        if (c == OPT_JSON) {
            args.json = true;
        } else if (c == OPT_HELP || c == 'h') {
            print_help(stdout);
            return finish(EXIT_OK);
        } else if (c == OPT_VERSION) {
            puts("scrubctl " SCRUBD_VERSION);
            return finish(EXIT_OK);
        } else {
            fputs("See scrubctl help.\n", stderr);
            return EXIT_USAGE;
        }
    }
    if (optind == argc) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    cmd = find_cmd(argv[optind]);
    if (cmd == NULL)
        return unknown_cmd(&args, argv[optind]);
    return finish(run_cmd(cmd, &args, argc - optind, argv + optind));
}
