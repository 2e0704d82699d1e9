/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that are ours by their marker, below the root of a hook_host. */
#ifndef CLI_HOOK_FILE_H
#define CLI_HOOK_FILE_H

#include <limits.h>

#include "hook.h"

enum hook_file_kind {
    HOOK_FILE_NONE,
    HOOK_FILE_OURS,
    HOOK_FILE_FOREIGN, /* anything else, also what cannot be read */
};

/* path below the root; cut off at PATH_MAX it names nothing. Returns buf. */
char *hook_path(const struct hook_host *host, const char *path, char buf[PATH_MAX]);

bool hook_exists(const struct hook_host *host, const char *path); /* links are not followed */
enum hook_file_kind hook_file_kind(const struct hook_host *host, const char *path);

/*
 * Put text at path in one step, replacing what is there, and make its directories. Returns whether
 * anything changed (1 or 0), or -errno.
 */
int hook_file_write(const struct hook_host *host, const char *path, const char *text, mode_t mode,
                    struct err *err);

/* Remove a file, or a directory if nothing is in it. What is not there is no error. */
int hook_file_remove(const struct hook_host *host, const char *path, struct err *err);
int hook_dir_remove(const struct hook_host *host, const char *path, struct err *err);

/* mkdir -p of what path is in. */
int hook_file_make_parents(const struct hook_host *host, const char *path, struct err *err);

/*
 * Run a program of the host; argv ends with NULL, argv[0] is its path. Its output, without the
 * newline at the end, is stored in out, cut to size. What it says on stderr is in err if it fails.
 */
int hook_run(const struct hook_host *host, const char *const *argv, char *out, size_t size,
             struct err *err);

#endif
