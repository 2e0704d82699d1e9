/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_PACER_H
#define SCRUBD_PACER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When may the next step be made? Pure: times and the state of the host come in as arguments. There
 * is one pacer for the whole host, as there is one step at a time; plan.h is on top of it.
 *
 * Three rules. After a step of t follows a pause of t * (1 - duty) / duty, so that steps take that
 * share of one CPU; when all pauses were made, PACER_BURST_US of steps need none. When dom0 is
 * squeezed the duty is halved, down to a quarter of the configured
 * one, and recovers by a sixteenth of that at a time. And memory is released only while the backlog
 * (dirty pages above the baseline) is not over its high mark; once it was, not before it is back
 * under half of that. A backlog that does not fall for no_progress_us releases the next step anyway
 * ("escape"): a destroy always ends. While it keeps not falling each further escape comes after
 * half the time of the one before, since holding back then helps nobody.
 *
 * A press is the duty that somebody's deadline demands, in permille: with one, nothing is held back
 * for the backlog, and the duty is at least that.
 */
struct pacer_config {
    uint64_t duty_percent; /* 1..100 */
    uint64_t backlog_high_pages;
    uint64_t no_progress_us;
};

/*
 * Strain is how much later than it should a step began, and how much longer than its CPU time it
 * took: time that others wanted dom0's CPU for. 2 ms, averaged over about 8 steps, is a queue there
 * (a timer is late by 0.9 ms on average in the quiet dom0 of an emulated host, and by less on
 * others); a single late step says nothing. 100 ms between two changes of the duty let the one show
 * its effect, and make the way back from a quarter 1.2 s long.
 */
#define PACER_STRAIN_US 2000
#define PACER_ADAPT_US 100000

/*
 * So much CPU time may await its pause. The destroy of a small guest is over before others would
 * notice it, while a pause after each step, and the wake-ups, would double the time that its caller
 * waits: 96 MiB take 28 ms of an emulated CPU, and less on others.
 */
#define PACER_BURST_US 30000

struct pacer {
    uint64_t rest_from_us, rest_cpu_us; /* since when pauses are due, and for how much CPU time */
    bool granted;                       /* the next step is one that pacer_next() spoke of */
    unsigned int duty;                  /* permille, in force; 0 before the first step */
    uint64_t strain_us;                 /* averaged */
    uint64_t adapted_us;                /* when duty was last looked at */
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

/* The duty in force without a press, in permille. */
unsigned int pacer_duty(const struct pacer *p, const struct pacer_config *conf);

/* When the next step need not wait for a pause any more, under a press or (0) none. */
uint64_t pacer_ready_us(const struct pacer *p, const struct pacer_config *conf, unsigned int press);

/* May a step be made now, with this backlog, under a press (0..1000) or (0) none? To be asked only
 * when there is a job that wants one. */
struct pacer_verdict pacer_next(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                                uint64_t backlog_pages, unsigned int press);

/* Nothing was stepped for a while: what squeezed dom0 before that says nothing of now. */
void pacer_forget_strain(struct pacer *p);

/* A step was made that ended now, took cpu_us, and met with strain_us. One that pacer_next() did
 * not speak of makes the pause longer that it fell into; the others leave no more than
 * PACER_BURST_US of the pauses before them due, whatever a press has skipped. */
void pacer_stepped(struct pacer *p, const struct pacer_config *conf, uint64_t now_us,
                   uint64_t cpu_us, uint64_t strain_us);

#endif
