/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether destroys are caught: of commands and services by the files that are there, of running
 * programs by what they have mapped. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hook-file.h"

#define COMMAND_TEXT 60

/* A running program that can destroy domains. */
struct process {
    pid_t pid;
    char program[64];
    char unit[64]; /* "" if it is of no service */
    char command[COMMAND_TEXT];
    bool has_hook;
};

struct processes {
    struct process *items;
    size_t n;
};

/* --- Running programs --- */

static FILE *proc_open(const struct hook_host *host, pid_t pid, const char *name)
{
    char path[64], real[PATH_MAX];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return fopen(hook_path(host, path, real), "re");
}

/* Of the libraries that tell. */
static void read_maps(FILE *maps, bool *ret_xenlight, bool *ret_xenctrl, bool *ret_hook)
{
    char *line = NULL;
    size_t size = 0;

    while (getline(&line, &size, maps) > 0) {
        const char *slash = strrchr(line, '/');

        if (slash == NULL)
            continue;
        *ret_xenlight |= strncmp(slash, "/libxenlight.so", 15) == 0;
        *ret_xenctrl |= strncmp(slash, "/libxenctrl.so", 14) == 0;
        *ret_hook |= strncmp(slash, "/libscrubhook.so", 16) == 0;
    }
    free(line);
}

static void read_program(const struct hook_host *host, pid_t pid, char *buf, size_t size)
{
    char path[64], real[PATH_MAX], target[PATH_MAX];
    const char *slash;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    n = readlink(hook_path(host, path, real), target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    slash = strrchr(target, '/');
    snprintf(buf, size, "%s", slash != NULL ? slash + 1 : "?");
    /* An upgrade replaced the file. */
    target[0] = '\0';
    if (strlen(buf) > 10 && strcmp(buf + strlen(buf) - 10, " (deleted)") == 0)
        buf[strlen(buf) - 10] = '\0';
}

static void read_command(const struct hook_host *host, pid_t pid, char *buf, size_t size)
{
    FILE *f = proc_open(host, pid, "cmdline");
    size_t n;

    buf[0] = '\0';
    if (f == NULL)
        return;
    n = fread(buf, 1, size - 1, f);
    fclose(f);
    while (n > 0 && buf[n - 1] == '\0')
        n--;
    buf[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)buf[i] < ' ')
            buf[i] = ' ';
    }
}

static void read_unit(const struct hook_host *host, pid_t pid, char *buf, size_t size)
{
    FILE *f = proc_open(host, pid, "cgroup");
    char *line = NULL;
    size_t len = 0;

    buf[0] = '\0';
    while (f != NULL && getline(&line, &len, f) > 0) {
        char *end = strstr(line, ".service"), *begin;

        if (end == NULL)
            continue;
        end[strlen(".service")] = '\0';
        begin = strrchr(line, '/');
        snprintf(buf, size, "%s", begin != NULL ? begin + 1 : "");
    }
    free(line);
    if (f != NULL)
        fclose(f);
}

/*
 * Whoever uses libxl may destroy, but for scrubctl, which has the hook in itself. Of those with
 * libxenctrl alone most do not: xenconsoled, scrubd, device models.
 */
static bool can_destroy(const char *program, bool xenlight, bool xenctrl)
{
    if (strcmp(program, "scrubctl") == 0)
        return false;
    return xenlight ||
           (xenctrl && (strncmp(program, "python", 6) == 0 || strncmp(program, "xenopsd", 7) == 0));
}

/* Whether the process is one that can destroy. One that has ended meanwhile is not. */
static bool look_at(const struct hook_host *host, pid_t pid, struct process *ret)
{
    bool xenlight = false, xenctrl = false, hook = false;
    FILE *maps = proc_open(host, pid, "maps");

    if (maps == NULL)
        return false;
    read_maps(maps, &xenlight, &xenctrl, &hook);
    fclose(maps);
    *ret = (struct process){.pid = pid, .has_hook = hook};
    read_program(host, pid, ret->program, sizeof(ret->program));
    if (!can_destroy(ret->program, xenlight, xenctrl))
        return false;
    read_unit(host, pid, ret->unit, sizeof(ret->unit));
    read_command(host, pid, ret->command, sizeof(ret->command));
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *p = a, *q = b;

    return p->pid < q->pid ? -1 : p->pid > q->pid;
}

static int find_processes(const struct hook_host *host, struct processes *ret, struct err *err)
{
    char real[PATH_MAX];
    struct dirent *entry;
    DIR *dir = opendir(hook_path(host, "/proc", real));

    if (dir == NULL)
        return err_set(err, errno, "cannot read /proc: %s", strerror(errno));
    while ((entry = readdir(dir)) != NULL) {
        struct process process;
        struct process *items;
        char *end;
        long pid = strtol(entry->d_name, &end, 10);

        if (*end != '\0' || pid <= 0 || !look_at(host, (pid_t)pid, &process))
            continue;
        items = realloc(ret->items, (ret->n + 1) * sizeof(*items));
        if (items == NULL)
            break;
        ret->items = items;
        items[ret->n++] = process;
    }
    closedir(dir);
    if (ret->n > 0)
        qsort(ret->items, ret->n, sizeof(*ret->items), by_pid);
    return 0;
}

/* --- The report --- */

static struct hook_tool *add(struct hook_report *report, const char *name, pid_t pid, bool caught)
{
    struct hook_tool *tools = realloc(report->tools, (report->n_tools + 1) * sizeof(*tools));
    struct hook_tool *tool;

    if (tools == NULL)
        abort(); /* a few hundred bytes */
    report->tools = tools;
    tool = &tools[report->n_tools++];
    *tool = (struct hook_tool){.pid = pid, .caught = caught};
    snprintf(tool->name, sizeof(tool->name), "%s", name);
    if (!caught)
        report->n_missed++;
    return tool;
}

#define MEND_ENABLE "scrubctl hook enable"

static void report_xl(const struct hook_host *host, struct hook_report *report)
{
    bool library = hook_installed(host);
    struct hook_tool *tool;
    struct hook_xl xl;

    hook_xl_look(host, &xl);
    if (xl.path == NULL)
        return;
    tool = add(report, "xl", 0, library && xl.way != HOOK_XL_BARE);
    if (!library) {
        snprintf(tool->why, sizeof(tool->why), "%s is missing", SCRUBD_HOOK_LIB);
        snprintf(tool->mend, sizeof(tool->mend), "install the package scrubd again");
    } else if (xl.way == HOOK_XL_DIVERTED) {
        snprintf(tool->why, sizeof(tool->why), "%s is diverted", xl.path);
    } else if (xl.way == HOOK_XL_IN_PATH) {
        snprintf(tool->why, sizeof(tool->why), "first in PATH; %s by its path is not", xl.path);
    } else {
        snprintf(tool->why, sizeof(tool->why), "%s is the package's", xl.path);
        snprintf(tool->mend, sizeof(tool->mend), MEND_ENABLE);
    }
}

static const struct process *process_of_unit(const struct processes *processes, const char *unit)
{
    for (size_t i = 0; i < processes->n; i++) {
        if (strcmp(processes->items[i].unit, unit) == 0)
            return &processes->items[i];
    }
    return NULL;
}

static void report_unit(const struct hook_host *host, const struct processes *processes,
                        const char *unit, struct hook_report *report)
{
    const struct process *process = process_of_unit(processes, unit);
    bool dropin = hook_unit_has_dropin(host, unit);
    struct hook_tool *tool;

    if (process == NULL && !hook_unit_exists(host, unit))
        return;
    tool = add(report, unit, process != NULL ? process->pid : 0,
               process != NULL ? process->has_hook : dropin);
    snprintf(tool->why, sizeof(tool->why), "%s, %s", dropin ? "drop-in" : "no drop-in",
             process == NULL     ? "no Xen driver running"
             : process->has_hook ? "runs with the hook"
                                 : "runs without the hook");
    if (!tool->caught)
        snprintf(tool->mend, sizeof(tool->mend), "%s%s%s", dropin ? "" : MEND_ENABLE,
                 dropin || process == NULL ? "" : "; ",
                 process == NULL ? "" : "systemctl restart ");
    if (!tool->caught && process != NULL)
        strncat(tool->mend, unit, sizeof(tool->mend) - strlen(tool->mend) - 1);
}

static bool is_known_unit(const char *unit)
{
    for (size_t i = 0; hook_units[i] != NULL; i++) {
        if (strcmp(unit, hook_units[i]) == 0)
            return true;
    }
    return false;
}

static void report_process(const struct process *process, struct hook_report *report)
{
    struct hook_tool *tool = add(report, process->program, process->pid, process->has_hook);

    snprintf(tool->why, sizeof(tool->why), "%s", process->command);
    if (process->has_hook)
        return;
    if (strcmp(process->program, "xl") == 0)
        snprintf(tool->mend, sizeof(tool->mend),
                 "it ends with its guest: shut that down, and create it again");
    else
        snprintf(tool->mend, sizeof(tool->mend),
                 "restart it with the hook preloaded, see scrubctl(1)");
}

int hook_report(const struct hook_host *host, struct hook_report *ret, struct err *err)
{
    struct processes processes = {0};
    int r = find_processes(host, &processes, err);

    if (r < 0)
        return r;
    *ret = (struct hook_report){0};
    report_xl(host, ret);
    for (size_t i = 0; hook_units[i] != NULL; i++)
        report_unit(host, &processes, hook_units[i], ret);
    for (size_t i = 0; i < processes.n; i++) {
        if (!is_known_unit(processes.items[i].unit))
            report_process(&processes.items[i], ret);
    }
    free(processes.items);
    return 0;
}

void hook_report_done(struct hook_report *report)
{
    free(report->tools);
    *report = (struct hook_report){0};
}
