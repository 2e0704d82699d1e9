/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The hook in front of the host's own tools: put there, taken away, and whether it is where it
 * should be. What is written here begins with HOOK_MARKER, and nothing else is ever replaced or
 * removed.
 *
 *   xl        with dpkg-divert: the package's file moves to xl.distrib, and a wrapper takes its
 *             place. Without it: a wrapper in /usr/local/sbin, which PATH has before /usr/sbin.
 *   services  a drop-in that preloads the hook.
 */
#ifndef CLI_HOOK_H
#define CLI_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <json-c/json.h>

#include "err.h"

#define HOOK_MARKER "# Written by scrubctl hook enable; scrubctl hook disable removes it."
#define HOOK_WRAPPER_IN_PATH "/usr/local/sbin/xl"

struct hook_host {
    const char *root;            /* "", or a directory that stands for / in a test */
    struct json_object *changes; /* an array: each change is added as a sentence */
};

/* Add a sentence, without a full stop. */
void hook_changed(struct hook_host *host, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

bool hook_installed(const struct hook_host *host); /* the library is there */

/* --- xl --- */

enum hook_xl_way {
    HOOK_XL_BARE, /* nothing of ours */
    HOOK_XL_DIVERTED,
    HOOK_XL_IN_PATH,
};

struct hook_xl {
    const char *path; /* of the xl that is caught, or would be; NULL: there is none on this host */
    enum hook_xl_way way;
};

void hook_xl_look(const struct hook_host *host, struct hook_xl *ret);

/* Both do nothing where there is nothing to do, and go on where an earlier call was cut off. */
int hook_xl_enable(struct hook_host *host, struct err *err);
int hook_xl_disable(struct hook_host *host, struct err *err);

/* --- Services --- */

/* Names of the services that destroy domains, ended by NULL; whether they exist is another matter.
 */
extern const char *const hook_units[];

bool hook_unit_exists(const struct hook_host *host, const char *unit);
bool hook_unit_has_dropin(const struct hook_host *host, const char *unit);

/* Drop-ins for those that exist; systemd is told. Nothing is restarted. */
int hook_units_enable(struct hook_host *host, struct err *err);
int hook_units_disable(struct hook_host *host, struct err *err);

/* --- What is caught --- */

struct hook_tool {
    char name[64]; /* "xl", "libvirtd.service", "python3.11" */
    pid_t pid;     /* of a running program; 0: the command or the service itself */
    bool caught;
    char why[160];
    char mend[160]; /* what to do if not caught; a command where one does it */
};

struct hook_report {
    struct hook_tool *tools; /* commands and services first, then processes by pid */
    size_t n_tools, n_missed;
};

/* Looks at commands, services and running programs of this host. -errno where /proc cannot be
 * read. */
int hook_report(const struct hook_host *host, struct hook_report *ret, struct err *err);
void hook_report_done(struct hook_report *report);

#endif
