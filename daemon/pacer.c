/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pacer.h"

#include <string.h>

void pacer_init(struct pacer *p)
{
    memset(p, 0, sizeof(*p));
}

static void hold_from(struct pacer *p, uint64_t now_us, uint64_t backlog_pages)
{
    p->holding = true;
    p->lowest_pages = backlog_pages;
    p->fell_us = now_us;
}

/* How long the backlog may stand still before the next step is released. */
static uint64_t patience_us(const struct pacer *p, const struct pacer_config *conf)
{
    uint64_t us = conf->no_progress_us >> (p->escapes < 16 ? p->escapes : 16);

    return us > PACER_POLL_US ? us : PACER_POLL_US;
}

unsigned int pacer_duty(const struct pacer *p, const struct pacer_config *conf)
{
    unsigned int full = (unsigned int)conf->duty_percent * 10;

    /* Also when the configuration has changed since. */
    return !p->duty || p->duty > full ? full : p->duty;
}

uint64_t pacer_ready_us(const struct pacer *p, const struct pacer_config *conf, unsigned int press)
{
    unsigned int duty = pacer_duty(p, conf);

    if (press > duty)
        duty = press < 1000 ? press : 1000;
    if (p->rest_cpu_us <= PACER_BURST_US)
        return p->rest_from_us;
    return p->rest_from_us + (p->rest_cpu_us - PACER_BURST_US) * (1000 - duty) / duty;
}

static struct pacer_verdict next(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                                 uint64_t backlog_pages, unsigned int press)
{
    struct pacer_verdict v = {.action = PACER_STEP};
    uint64_t ready_us = pacer_ready_us(p, conf, press);

    if (now_us < ready_us) {
        v.action = PACER_WAIT;
        v.wake_us = ready_us;
        return v;
    }
    if (p->holding && backlog_pages <= conf->backlog_high_pages / 2) {
        p->holding = false;
        p->escapes = 0;
    }
    if (!p->holding && backlog_pages > conf->backlog_high_pages)
        hold_from(p, now_us, backlog_pages);
    if (!p->holding || press)
        return v;

    if (backlog_pages < p->lowest_pages) {
        p->fell_us = now_us;
        p->escapes = 0;
    }
    /* It may also have grown, by an escape or by somebody else: a fall is then counted from there.
     */
    p->lowest_pages = backlog_pages;
    if (now_us - p->fell_us >= patience_us(p, conf)) {
        p->fell_us = now_us;
        p->escapes++;
        v.escape = true;
        return v;
    }
    v.action = PACER_WAIT;
    v.wake_us = now_us + PACER_POLL_US;
    return v;
}

struct pacer_verdict pacer_next(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                                uint64_t backlog_pages, unsigned int press)
{
    struct pacer_verdict v = next(p, conf, now_us, backlog_pages, press);

    p->granted = v.action == PACER_STEP;
    return v;
}

/* Halve when squeezed, else grow slowly: what several controllers of a shared thing settle with. */
static void adapt(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                  uint64_t strain_us)
{
    unsigned int full = (unsigned int)conf->duty_percent * 10;
    unsigned int least = full / 4 ? full / 4 : 1;

    if (strain_us > 4 * PACER_STRAIN_US)
        strain_us = 4 * PACER_STRAIN_US; /* once is not often, however long */
    p->strain_us = (p->strain_us * 7 + strain_us) / 8;
    p->duty = pacer_duty(p, conf);
    if (now_us - p->adapted_us < PACER_ADAPT_US)
        return;
    p->adapted_us = now_us;
    if (p->strain_us >= PACER_STRAIN_US)
        p->duty = p->duty / 2 > least ? p->duty / 2 : least;
    else
        p->duty = p->duty + full / 16 + 1 < full ? p->duty + full / 16 + 1 : full;
}

void pacer_forget_strain(struct pacer *p)
{
    p->duty = 0;
    p->strain_us = 0;
}

void pacer_stepped(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                   uint64_t cpu_us, uint64_t strain_us)
{
    unsigned int duty = pacer_duty(p, conf);
    uint64_t owed_us = p->rest_cpu_us * (1000 - duty) / duty;

    /* All or none: a pause that came out a little longer, since dom0 was busy, counts for no more
     * than it should have been. */
    if (now_us >= p->rest_from_us + owed_us + cpu_us)
        p->rest_cpu_us = 0;
    else if (p->granted && p->rest_cpu_us > PACER_BURST_US)
        p->rest_cpu_us = PACER_BURST_US;
    if (p->granted || !p->rest_cpu_us)
        p->rest_from_us = now_us;
    p->rest_cpu_us += cpu_us;
    p->granted = false;
    adapt(p, conf, now_us, strain_us);
}
