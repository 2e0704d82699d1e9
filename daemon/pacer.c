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

struct pacer_verdict pacer_next(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                                uint64_t backlog_pages)
{
    struct pacer_verdict v = {.action = PACER_STEP};

    if (now_us < p->ready_us) {
        v.action = PACER_WAIT;
        v.wake_us = p->ready_us;
        return v;
    }
    if (p->holding && backlog_pages <= conf->backlog_high_pages / 2) {
        p->holding = false;
        p->escapes = 0;
    }
    if (!p->holding && backlog_pages > conf->backlog_high_pages)
        hold_from(p, now_us, backlog_pages);
    if (!p->holding)
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

void pacer_stepped(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                   uint64_t cpu_us)
{
    uint64_t from_us = p->ready_us > now_us ? p->ready_us : now_us;

    p->ready_us = from_us + cpu_us * (100 - conf->duty_percent) / conf->duty_percent;
}
