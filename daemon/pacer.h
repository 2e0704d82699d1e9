/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_PACER_H
#define SCRUBD_PACER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When may the next step be made? Pure: times and the state of the host come in as arguments. There
 * is one pacer for the whole host, as there is one step at a time.
 *
 * Two rules. After a step of t follows a pause of t * (100 - duty) / duty, so that steps take duty
 * percent of one CPU. And memory is released only while the backlog (dirty pages above the
 * baseline) is not over its high mark; once it was, not before it is back under half of that. A
 * backlog that does not fall for no_progress_us releases the next step anyway ("escape"): a destroy
 * always ends. While it keeps not falling each further escape comes after half the time of the one
 * before, since holding back then helps nobody.
 */
struct pacer_config {
    uint64_t duty_percent; /* 1..100 */
    uint64_t backlog_high_pages;
    uint64_t no_progress_us;
};

struct pacer {
    uint64_t ready_us;     /* end of the pause after the last step */
    bool holding;          /* the backlog was over its high mark and is not yet under the low one */
    uint64_t lowest_pages; /* backlog from which a fall is counted */
    uint64_t fell_us;      /* when it last fell, or holding or the last escape began */
    unsigned int escapes;  /* without a fall between them */
};

enum pacer_action {
    PACER_WAIT = 0, /* until wake_us, then ask again */
    PACER_STEP,
};

struct pacer_verdict {
    enum pacer_action action;
    uint64_t wake_us; /* of PACER_WAIT */
    bool escape;      /* of PACER_STEP: released although the backlog is high */
};

#define PACER_POLL_US 5000 /* how often a backlog that holds is looked at */

void pacer_init(struct pacer *p);

/* May a step be made now, with this backlog? To be asked only when there is a job that wants one.
 */
struct pacer_verdict pacer_next(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                                uint64_t backlog_pages);

/* A step was made that ended now and took cpu_us. */
void pacer_stepped(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                   uint64_t cpu_us);

#endif
