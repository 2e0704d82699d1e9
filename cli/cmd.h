/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a verb of scrubctl is. Help, parsing, dispatch and completion come from one table of these,
 * in main.c. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include <stdbool.h>
#include <stddef.h>

#define CMD_OPTIONS_MAX 4

enum exit_code {
    EXIT_OK = 0,
    EXIT_REFUSED = 1, /* refused or failed */
    EXIT_USAGE = 2,
    EXIT_UNREACHABLE = 3, /* scrubd does not run, or does not answer */
    EXIT_WARNINGS = 4,    /* of doctor: nothing worse */
};

struct cmd_option {
    const char *name; /* without the dashes */
    const char *arg;  /* name of its value, NULL for a flag */
    const char *help;
};

struct cmd;
struct json_object;

struct cmd_args {
    const struct cmd *cmd;
    bool json;
    const char
        *option[CMD_OPTIONS_MAX]; /* value ("" of a flag), NULL if not given; as in cmd.options */
    int n_operands;               /* between min_operands and max_operands */
    char **operands;
};

struct cmd {
    const char *name;
    const char *operands; /* for the usage line, "" for none */
    int min_operands, max_operands;
    /* What the first operand may be, for completion: words, or @domains, @jobs (domains that are
     * being destroyed) or @commands. NULL if nothing is known. */
    const char *completes;
    const char *summary; /* for the list of commands: short, no full stop */
    const char *details; /* what `scrubctl help NAME` says, lines of at most 80 columns */
    struct cmd_option options[CMD_OPTIONS_MAX + 1]; /* ends with a nameless one */
    enum exit_code (*run)(const struct cmd_args *args);
};

extern const struct cmd cmd_config, cmd_status, cmd_list, cmd_destroy, cmd_watch, cmd_limit,
    cmd_reset, cmd_pause, cmd_resume, cmd_hurry, cmd_priority, cmd_wait;
extern const struct cmd cmd_completion, cmd_cpus, cmd_protect;
extern const struct cmd cmd_hook, cmd_hypervisor;
extern const struct cmd cmd_doctor, cmd_history, cmd_plan;

/* The table: verb i, NULL past the last one. */
const struct cmd *cmd_at(size_t i);

/*
 * Say what went wrong, on stderr and with --json also as {"error":KIND,"message":..} on stdout.
 * Returns code, for `return cmd_fail(...)`. kind may be NULL: "refused", "usage" or "unreachable",
 * after the code.
 */
enum exit_code cmd_fail(const struct cmd_args *args, enum exit_code code, const char *kind,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The same for EXIT_REFUSED after steps (an array of texts, borrowed) that --json tells, too. */
enum exit_code cmd_fail_after(const struct cmd_args *args, struct json_object *steps,
                              const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
