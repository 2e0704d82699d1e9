/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_PLAN_H
#define SCRUBD_PLAN_H

#include "job.h"
#include "pacer.h"

/*
 * The decision: is a step to be made now, of which job, or when is that to be asked again? Pure:
 * the clock and the state of the host come in as arguments, and nothing is done but said. What
 * drives it (the engine, the simulator) asks plan_next(), does what it says, and tells of each step
 * by plan_stepped().
 *
 * Which job: one at a time. Those in a hurry (hurry, quick, a deadline that has passed) come before
 * the others, then the higher priority, then the order of turns. A job that had no step for
 * PLAN_STARVE_US gets one all the same, as every fourth step at most: none starves. And when the
 * deadlines that were asked for take more than the comfortable duty, the earliest of them is first,
 * whatever its priority, until it has passed; and when limits do, the earliest of these is before
 * all that are in no hurry.
 *
 * How fast: as the pacer says, unless there is a press. The press is the duty that all deadlines
 * and limits take together, had in their order: the largest of work / time left over those until
 * each of them, by the estimated CPU time of jobs, and half as much again: a page of one domain
 * takes that much longer than one of another. Above the comfortable duty it is in force, and
 * nothing is held back for the backlog. Whoever is in a hurry, and whoever waits for memory,
 * presses with all that there is: steps follow upon each other, each as short as ever. When there
 * was no teardown for PACER_ADAPT_US, the next one starts with the whole duty, whatever the last
 * one came down to.
 */
struct plan_conf {
    struct pacer_config pace;
    uint32_t step_us;         /* 100..100000 */
    uint64_t max_teardown_us; /* for comfort's sake: limit_us of a new job is that far away */
};

/* Until a job was measured: CPU time of a page, as slow as an emulated host, for pacing; and as
 * fast as none is, for telling what cannot be done. */
#define PLAN_SLOW_NS_PER_PAGE 1000
#define PLAN_FAST_NS_PER_PAGE 50
#define PLAN_SLOW_DOWN 1500 /* likewise, for pacing: see struct plan */

#define PLAN_STARVE_US 1000000
#define PLAN_SPEED_US 250000 /* over so long the speed of an estimate is measured */

#define PLAN_SPARE_US                                                                              \
    20000 /* a deadline is taken for so much earlier: steps are not endlessly small */
#define PLAN_DEMAND_US 5000 /* what deadlines take is reckoned up so often */

struct job_demand {
    unsigned int all;   /* permille of the time that deadlines and limits take */
    unsigned int asked; /* that deadlines alone take */
    struct job *first;  /* of the earliest deadline that has not passed, or NULL */
    struct job *oldest; /* of the earliest deadline or limit, or NULL */
};

struct plan {
    struct pacer pacer;
    unsigned int press; /* permille, as of the last decision; may be over 1000 */
    struct job_demand demand;
    uint64_t demand_until_us, demand_changes; /* as long as it holds, and jobs have not changed */
    unsigned int turns;                       /* steps since one against starving */
    /* permille: time that a step takes on the clock, to CPU time; averaged, 0: not measured yet */
    uint64_t slow_down;
    /* CPU time of steps on the clock while there are jobs to step: what estimates go by */
    unsigned int speed; /* permille, 0: not measured yet */
    uint64_t speed_from_us, speed_cpu_us;
};

struct plan_input {
    uint64_t now_us;
    uint64_t backlog_pages;
    bool press; /* somebody waits for memory, or the host goes down */
    bool hold;  /* somebody wants what is free to be clean: nothing is released but under a press */
};

enum plan_action {
    PLAN_IDLE = 0, /* there is no job */
    PLAN_WAIT,     /* until wake_us, and ask again; or when a job or the input has changed */
    PLAN_STEP,
};

enum plan_why {
    PLAN_WHY_NONE = 0,
    PLAN_COMFORT,  /* STEP: nobody presses */
    PLAN_ESCAPE,   /* STEP: the backlog is high and does not fall */
    PLAN_HURRY,    /* STEP: a job that is in a hurry */
    PLAN_DEADLINE, /* STEP: deadlines or limits take more than the comfortable duty */
    PLAN_WANTED,   /* STEP: input.press */
    PLAN_PAUSE,    /* WAIT: for the end of the pause after a step */
    PLAN_BACKLOG,  /* WAIT: for the backlog to be scrubbed */
    PLAN_HELD,     /* WAIT: input.hold */
    PLAN_RESTING,  /* WAIT: all jobs are paused, or were put off after a bad step */
};

struct plan_verdict {
    enum plan_action action;
    enum plan_why why;
    uint64_t wake_us; /* of WAIT: later than now */
    struct job *job;  /* of STEP */
    uint32_t step_us; /* of STEP: how long it may take */
};

const char *plan_why_name(enum plan_why why);

void plan_init(struct plan *p);

struct plan_verdict plan_next(struct plan *p, const struct plan_conf *conf, struct job_table *t,
                              const struct plan_input *in);

/* job_stepped(), and accounts for the step in the pace. Any step: also ones that were not asked
 * for, like the first of a job. */
enum job_outcome plan_stepped(struct plan *p, const struct plan_conf *conf, struct job_table *t,
                              struct job *job, uint64_t now_us, const struct job_step *step);

/*
 * Time until the job is dead, in us, at the speed of the last moments, with those before it in the
 * order of things. -1: not known, since nothing like it was measured yet, or it is paused.
 */
int64_t plan_eta_us(const struct plan *p, const struct job_table *t, const struct job *job,
                    uint64_t now_us);

/*
 * Can the deadline of a job be met, if all that there is goes into it and into the earlier ones?
 * False: *ret_need_us is what it would take. What was never measured is taken for as fast as
 * can be, so false is true.
 */
bool plan_feasible(const struct plan *p, const struct job_table *t, const struct job *job,
                   uint64_t now_us, uint64_t *ret_need_us);

#endif
