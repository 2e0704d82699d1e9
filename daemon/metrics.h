/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_METRICS_H
#define SCRUBD_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job.h"
#include "messages.h"
#include "totals.h"

/*
 * What scrubd knows, as text for Prometheus (exposition format 0.0.4). Pure: the snapshot comes in
 * as an argument.
 */
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_ZOMBIES 64 /* so many have series of their own */

struct metrics {
    const struct status *status;
    const struct job_table *jobs;
    const struct totals *totals;
    bool has_free; /* free_pages is known */
    uint64_t free_pages;
    bool reload_failed; /* the configuration file was refused when it was last read */
    /* of the process */
    double start_s; /* Unix time */
    double cpu_s;
    uint64_t resident_bytes;
};

/* A string that the caller frees, of *ret_len bytes; NULL without memory. */
char *metrics_text(const struct metrics *m, size_t *ret_len);

#endif
