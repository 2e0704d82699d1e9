/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether destroys come to scrubd at all: what `scrubctl hook status` says, in short. */
#include <string.h>

#include "doctor.h"
#include "hook.h"
#include "root.h"

/* Running programs that are missed for the same reason are told of once. */
static bool is_same(const struct hook_tool *a, const struct hook_tool *b)
{
    return a->pid > 0 && b->pid > 0 && !a->caught && !b->caught && strcmp(a->name, b->name) == 0;
}

static bool was_told(const struct hook_report *report, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (is_same(&report->tools[i], &report->tools[at]))
            return true;
    }
    return false;
}

static void say_missed(struct doctor *d, const struct hook_report *report, size_t at)
{
    const struct hook_tool *tool = &report->tools[at];
    const char *mend = tool->mend[0] != '\0' ? tool->mend : NULL;
    size_t same = 0;

    for (size_t i = at; i < report->n_tools; i++)
        same += is_same(tool, &report->tools[i]);
    if (tool->pid > 0 && same > 1)
        doctor_say(d, DOCTOR_WARNING, "hook", mend, "%s (pid %d and %zu more): %s", tool->name,
                   (int)tool->pid, same - 1, tool->why);
    else if (tool->pid > 0)
        doctor_say(d, DOCTOR_WARNING, "hook", mend, "%s (pid %d): %s", tool->name, (int)tool->pid,
                   tool->why);
    else
        doctor_say(d, DOCTOR_WARNING, "hook", mend, "%s: %s", tool->name, tool->why);
}

void doctor_hook(struct doctor *d)
{
    const struct hook_host host = {.root = root_dir()};
    struct hook_report report;
    struct err err = {0};

    if (hook_report(&host, &report, &err) < 0) {
        doctor_say(d, DOCTOR_NOTE, "hook", NULL, "%s", err.text);
        return;
    }
    for (size_t i = 0; i < report.n_tools; i++) {
        if (!report.tools[i].caught && !was_told(&report, i))
            say_missed(d, &report, i);
    }
    if (report.n_tools == 0)
        doctor_say(d, DOCTOR_NOTE, "hook", NULL, "nothing on this host destroys domains");
    else if (report.n_missed == 0)
        doctor_say(d, DOCTOR_OK, "hook", NULL, "the destroys of %zu tools and programs are caught",
                   report.n_tools);
    hook_report_done(&report);
}
