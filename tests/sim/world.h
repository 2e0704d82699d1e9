/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "engine.h"
#include "host.h"
#include "plan.h"
#include "rng.h"

/*
 * A model host, the daemon's engine on it, and those who ask it for things. What the daemon
 * promises is checked at each decision, at each step, at each answer, and at the end; the first
 * promise that is broken is kept as text, with its time.
 */

struct destroy {
    struct engine_listener listener; /* first: notify() gets back here from it */
    struct world *world;
    struct ident ident;
    enum sim_kind kind;
    uint64_t pages;
    uint32_t nodes;              /* that they are on */
    double work_us;              /* that it takes, of the model */
    uint64_t asked_us, ended_us; /* 0: not yet */
    int priority;
    bool hurried;
    uint64_t paused_until_us;
    uint64_t deadline_us; /* on the clock, 0: none */
    /* The deadline, and max_teardown_s, can be met by the model's word, if nothing happens. */
    bool deadline_feasible, limit_feasible;
    uint64_t stepped_us;     /* last */
    uint64_t starving_steps; /* that others had since, after more than PLAN_STARVE_US */
    unsigned int rivals;     /* jobs at its last step */
};

#define WORLD_DESTROYS 512
#define WORLD_WAITERS 8

struct wait {
    struct engine_waiter waiter; /* first */
    struct world *world;
    bool used;
    uint64_t until_us;
};

/* Steps above the high mark, or too early for the duty cycle, and why. */
struct excuses {
    uint64_t escapes, pressed, firsts, drained;
};

struct world {
    struct xen *x;
    struct engine *e; /* NULL while there is none */
    struct config conf;
    struct destroy destroy[WORLD_DESTROYS];
    unsigned int n_destroys, n_ended;
    struct wait wait[WORLD_WAITERS];
    bool accepting, draining;    /* the engine was asked for a step by us */
    uint64_t started_us;         /* when the daemon did */
    bool measured;               /* it has seen a whole teardown of a domain of some size */
    struct plan_verdict verdict; /* the last one */
    /* The pause after the last steps, as the duty cycle has it: until rested_us. */
    uint64_t rest_from_us, rest_cpu_us, rested_us;
    uint64_t pressed_us; /* when the last step was that was not for comfort */
    uint64_t mask_checked_us;
    /* seen */
    uint64_t most_backlog, most_freed; /* pages: at most waiting, released by one step */
    struct excuses excuses;
    uint64_t deadlines_met, deadlines_refused, limits_met;
    double work_us; /* of all steps */
    uint64_t longest_starving_us;
    uint64_t
        *decisions_ns; /* how long each decision took, for n_timed of them; NULL: not measured */
    unsigned int n_decisions, n_timed;
    char broken[256];
    /* Called after each step, for pictures. */
    void (*look)(struct world *w);
};

/* A host of that shape, with a daemon that has just started. */
struct world *world_new(struct xen *x, const struct config *conf);
void world_free(struct world *w);

/* Ask for a destroy; deadline_us from now, 0: none. NULL if there is no room for it. */
struct destroy *world_destroy(struct world *w, uint32_t domid, int priority, uint64_t deadline_us);
/* Of one that has not ended. */
void world_pause(struct world *w, struct destroy *t);
void world_resume(struct world *w, struct destroy *t);
void world_hurry(struct world *w, struct destroy *t);
void world_set_priority(struct world *w, struct destroy *t, int priority);
/* Wait for clean memory, for so long at most; press: have all else hurry. */
void world_wait(struct world *w, bool press, uint64_t us);

/* Something happens that may well cost others their deadlines: these are not checked. */
void world_disturb(struct world *w);

/* The daemon is not there from now on: asked to leave, or killed. Then it is started again. */
void world_stop(struct world *w, bool killed);
void world_start(struct world *w);

/* Let time pass until all destroys have ended, until_us at most. True if they have. */
bool world_finish(struct world *w, uint64_t until_us);

/* Note that a promise was broken, unless one was already. */
void world_broken(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* May a CPU scrub that a protected domain needs? */
void mask_check(struct world *w);

/* Checks for when all is over: memory clean, settings gone, no number wrong. */
void world_check_end(struct world *w);

/*
 * The least time in us for all destroys asked for so far, if all were asked for at once:
 *   max(freeing, scrubbing), where
 *   freeing   = sum of the domains' work / duty
 *   scrubbing = max over the nodes of (pages that come free there - the high mark's share) / rate
 * with the node's rate = min(ceiling, max(possible, min(floor, forceable))).
 */
double world_bound_us(const struct world *w);

#endif
