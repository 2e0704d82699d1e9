/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_RELOAD_H
#define SCRUBD_RELOAD_H

#include "config.h"
#include "engine.h"

/* The configuration that is in force, where it came from, and who goes by it. */
struct metrics_http;
struct reload {
    const char *path;
    struct config *conf; /* the engine's too */
    struct engine *engine;
    struct metrics_http *metrics;
    bool failed; /* the file was refused when it was last read */
};

/*
 * Read the file again, and put it in force. Fills in what is different now, and how much that is.
 * A file that is wrong changes nothing: -EINVAL or another error, with "file:line: what is wrong".
 */
int reload_run(struct reload *r, struct config_change ret[CONFIG_KEYS], size_t *ret_n,
               struct err *err);

/* Log how reload_run() ended: r is what it returned. */
void reload_log(const struct reload *rl, int r, const struct config_change *changes, size_t n,
                const struct err *err);

#endif
