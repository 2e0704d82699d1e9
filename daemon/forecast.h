/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_FORECAST_H
#define SCRUBD_FORECAST_H

#include <stdbool.h>
#include <stdint.h>

/* What a teardown would be like, by what was measured of others. Pure. */
struct forecast_input {
    uint64_t pages;
    bool quick;        /* no pauses, and nothing is held back */
    unsigned int duty; /* permille, in force, 1..1000 */
    uint32_t step_us;
    uint64_t ns_per_page; /* CPU time, 0: not measured yet */
    uint64_t slow_down;   /* as in struct plan, 0: not measured yet */
    uint64_t before_us;   /* CPU time that teardowns under way still take */
    uint64_t backlog_pages, backlog_high_pages;
    uint64_t scrub_pages_s;   /* 0: not known */
    uint64_t max_teardown_us; /* as in struct plan_conf */
};

struct forecast {
    bool measured;     /* false: of a host that is as slow as an emulated one */
    bool held;         /* the scrubber decides, not the pauses */
    uint64_t steps;    /* at least 1 */
    uint64_t cpu_us;   /* of all steps */
    uint64_t dead_us;  /* from now until it is dead */
    uint64_t clean_us; /* from now until nothing is dirty; 0: not known */
};

/*
 * Steps follow upon each other with the pauses of the duty; and the pages that are freed by the end
 * are no more than have been scrubbed by then and may be dirty. No teardown takes longer than
 * max_teardown_us, if steps can be made that fast.
 */
void forecast(const struct forecast_input *in, struct forecast *ret);

/* How fast the host scrubs while there is something to scrub. */
struct scrub_rate {
    uint64_t pages_s; /* averaged, 0: not measured yet */
    uint64_t from_us, from_pages;
};

/* At now_us scrubbed pages had been scrubbed since boot, and backlog were left. */
void scrub_rate_saw(struct scrub_rate *r, uint64_t now_us, uint64_t scrubbed, uint64_t backlog);

#endif
