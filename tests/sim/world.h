/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "engine.h"
#include "host.h"
#include "rng.h"

/*
 * A model host, the daemon's engine on it, and those who ask it for things. What the daemon
 * promises is checked at each step, at each answer, and at the end; the first promise that is
 * broken is kept as text, with its time.
 */

struct destroy {
    struct engine_listener listener; /* first: notify() gets back here from it */
    struct world *world;
    struct ident ident;
    enum sim_kind kind;
    uint64_t asked_us, ended_us; /* 0: not yet */
    double work_us;              /* that it takes, of the model */
    uint64_t pages;
    uint32_t nodes;       /* that they are on */
    uint64_t deadline_us; /* of the clock, 0: none */
    bool feasible;        /* of the deadline, by the model's word */
    uint64_t steps;       /* since it was asked for */
    uint64_t stepped_us;  /* last */
    uint64_t overtaken;   /* steps that others had since */
};

#define WORLD_DESTROYS 512

struct world {
    struct xen *x;
    struct engine *e;
    struct config conf;
    struct destroy destroy[WORLD_DESTROYS];
    unsigned int n_destroys, n_ended;
    bool accepting; /* engine_destroy() runs: the first step is made at once */
    /* seen */
    uint64_t most_backlog, most_freed; /* pages: at most waiting, released by one step */
    uint64_t escapes, pressed, firsts; /* steps made above the high mark, and why */
    uint64_t most_overtaken;
    double work_us;     /* of all steps */
    uint64_t rested_us; /* when the pause after the last step is over, as the duty cycle has it */
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

/* Ask for a destroy. NULL if there is no room for it, or the engine refuses. */
struct destroy *world_destroy(struct world *w, uint32_t domid);
/* The daemon is not there from now on: asked to leave, or killed. Then it is started again. */
void world_stop(struct world *w, bool killed);
void world_start(struct world *w);

/* Let time pass until all destroys have ended, until_us at most. True if they have. */
bool world_finish(struct world *w, uint64_t until_us);

/* Note that a promise was broken, unless one was already. */
void world_broken(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

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
