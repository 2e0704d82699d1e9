/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_TOTALS_H
#define SCRUBD_TOTALS_H

#include <stdint.h>

/*
 * What scrubd has counted since it started, for metrics. Pure.
 */
#define HISTOGRAM_BUCKETS 12

struct histogram {
    const uint64_t *bounds_us;              /* HISTOGRAM_BUCKETS upper bounds, ascending */
    uint64_t counts[HISTOGRAM_BUCKETS + 1]; /* of each bucket alone; the last: above all bounds */
    uint64_t sum_us;
};

/* Why a caller was told to destroy its domain by itself. */
enum decline {
    DECLINE_SMALL = 0, /* under min_size_mib */
    DECLINE_DEGRADED,
    DECLINE_STUCK, /* the teardown does not get on */
    DECLINES,
};

struct totals {
    struct histogram step;        /* from call to return of a teardown step */
    struct histogram teardown;    /* from request to death */
    struct histogram scrub;       /* from death until every page was known to be clean */
    struct histogram create_wait; /* how long creates waited for clean memory, 0 too */
    uint64_t freed_pages;         /* by steps */
    uint64_t bad_steps;           /* see job_stepped() */
    uint64_t escapes;             /* steps although the backlog did not fall */
    uint64_t create_timeouts;     /* creates that waited for as long as they may */
    uint64_t declined[DECLINES];
};

void totals_init(struct totals *t);
void histogram_add(struct histogram *h, uint64_t us);
const char *decline_name(enum decline why); /* "small", .. */

#endif
