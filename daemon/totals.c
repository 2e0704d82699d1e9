/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "totals.h"

#include <string.h>

#define MS 1000
#define S 1000000

/* Around step_us and what it is for; and where a stage that cannot be divided would show. */
static const uint64_t step_bounds[HISTOGRAM_BUCKETS] = {
    500,     1 * MS,  2 * MS,   3 * MS,   5 * MS,   10 * MS,
    20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS, 1 * S,
};
static const uint64_t job_bounds[HISTOGRAM_BUCKETS] = {
    100 * MS, 250 * MS, 500 * MS, 1 * S,   2500 * MS, 5 * S,
    10 * S,   30 * S,   60 * S,   120 * S, 300 * S,   600 * S,
};
static const uint64_t create_bounds[HISTOGRAM_BUCKETS] = {
    10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS,
    1 * S,   2 * S,   3 * S,   5 * S,    10 * S,   60 * S,
};

void totals_init(struct totals *t)
{
    memset(t, 0, sizeof(*t));
    t->step.bounds_us = step_bounds;
    t->teardown.bounds_us = job_bounds;
    t->scrub.bounds_us = job_bounds;
    t->create_wait.bounds_us = create_bounds;
}

void histogram_add(struct histogram *h, uint64_t us)
{
    unsigned int i = 0;

    while (i < HISTOGRAM_BUCKETS && us > h->bounds_us[i])
        i++;
    h->counts[i]++;
    h->sum_us += us;
}

const char *decline_name(enum decline why)
{
    static const char *const names[DECLINES] = {
        [DECLINE_SMALL] = "small", [DECLINE_DEGRADED] = "degraded", [DECLINE_STUCK] = "stuck"};

    return names[why];
}
