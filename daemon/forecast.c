/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "forecast.h"

#include "plan.h"

#define RATE_US 40000  /* a rate over less says little */
#define RATE_PAGES 256 /* of a backlog: with less the scrubber may have had nothing to do */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Until the scrubber has left no more than may be dirty at the end. */
static uint64_t held_us(const struct forecast_input *in)
{
    uint64_t all = in->backlog_pages + in->pages;

    if (in->quick || !in->scrub_pages_s || all <= in->backlog_high_pages)
        return 0;
    return (all - in->backlog_high_pages) * 1000000 / in->scrub_pages_s;
}

void forecast(const struct forecast_input *in, struct forecast *ret)
{
    uint64_t ns = in->ns_per_page ? in->ns_per_page : PLAN_SLOW_NS_PER_PAGE;
    uint64_t slow = in->slow_down ? in->slow_down : PLAN_SLOW_DOWN;
    uint64_t pause =
        in->quick ? 0 : (1000 - in->duty) * 1000 / in->duty; /* permille of its CPU time */
    uint64_t work_us, fastest_us, paced_us, hold_us = held_us(in);

    *ret = (struct forecast){.measured = in->ns_per_page != 0};
    ret->cpu_us = larger(in->pages * ns / 1000, 1);
    ret->steps = (ret->cpu_us + in->step_us - 1) / in->step_us;
    work_us = ret->cpu_us + in->before_us;
    fastest_us = work_us * slow / 1000;
    paced_us = work_us * (slow + pause) / 1000;
    ret->held = hold_us > paced_us;
    ret->dead_us = larger(paced_us, hold_us);
    if (ret->dead_us > in->max_teardown_us) {
        ret->dead_us = larger(in->max_teardown_us, fastest_us);
        ret->held = false;
    }
    if (in->scrub_pages_s)
        ret->clean_us =
            larger(ret->dead_us, (in->backlog_pages + in->pages) * 1000000 / in->scrub_pages_s);
}

void scrub_rate_saw(struct scrub_rate *r, uint64_t now_us, uint64_t scrubbed, uint64_t backlog)
{
    uint64_t rate;

    if (backlog < RATE_PAGES || scrubbed < r->from_pages) {
        r->from_us = 0;
        r->from_pages = scrubbed;
        return;
    }
    if (r->from_us && now_us - r->from_us < RATE_US)
        return;
    if (r->from_us) {
        rate = (scrubbed - r->from_pages) * 1000000 / (now_us - r->from_us);
        r->pages_s = r->pages_s ? (r->pages_s * 3 + rate) / 4 : rate;
    }
    r->from_us = now_us;
    r->from_pages = scrubbed;
}
