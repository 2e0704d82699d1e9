/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_ENGINE_H
#define SCRUBD_ENGINE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "config.h"
#include "forecast.h"
#include "messages.h"
#include "metrics.h"
#include "placer.h"
#include "settings.h"
#include "xen.h"

/*
 * Runs the teardowns: asks the plan when and which, and the hypervisor to do it. Owns
 * the jobs and the settings of the scrubber. Single-threaded, on one event base.
 *
 * On a hypervisor without our patch it is degraded: it makes no steps, and tells the callers one
 * after another to destroy by themselves. The patch may come and go at any time, since it can be a
 * live patch: degraded, the engine looks for it at each new job and every 10 s; that it is gone
 * shows at the first thing that is asked of it.
 */
struct engine;

enum engine_event {
    ENGINE_NONE = 0,
    ENGINE_HEARTBEAT, /* every second */
    ENGINE_DEAD,      /* the domain is dead: the last event, unless it wants_clean */
    ENGINE_CLEAN,     /* and every page of it is known to be scrubbed: the last event */
    ENGINE_DECLINE,   /* the caller had better destroy by itself: the last event */
    ENGINE_BLIND,     /* after DEAD: whether it is clean can no longer be known: the last event */
};

/*
 * Somebody who waits for a job. Embedded by its owner; job is NULL before engine_destroy() and
 * after the last event. notify() may not free listeners or call engine_forget(), but for its own at
 * the last event, unless turn_of is set. reason belongs to the engine, NULL but with DECLINE and
 * BLIND.
 */
struct engine_listener {
    TAILQ_ENTRY(engine_listener) of_job, of_queue;
    struct job *job;
    bool wants_clean;    /* set by the owner */
    struct job *turn_of; /* in degraded mode: what it awaits its turn for, or has it for */
    uint64_t turn_us;    /* when its turn began, 0 before */
    void (*notify)(struct engine_listener *l, enum engine_event event, const struct job *job,
                   const char *reason);
};

int engine_new(struct event_base *base, struct xen *xen, const struct xen_ops *ops,
               const struct config *conf, struct engine **ret, struct err *err);
/* Frees the jobs too; listeners must be gone. Takes NULL. */
void engine_free(struct engine *e);

/* Apply the settings and adopt what is dying. */
void engine_start(struct engine *e);

/*
 * Leaving, in two parts. engine_withdraw(): stock behaviour of the scrubber, no more steps, and no
 * more jobs that have listeners: their callers finish them once the connections are closed.
 * engine_drain(): bring jobs that nobody waits for to their end, unpaced, for at most max_ms, or
 * until *hurry, which a signal handler on the event base may set.
 */
void engine_withdraw(struct engine *e);
void engine_drain(struct engine *e, unsigned int max_ms, const bool *hurry);

/* Which domain; uuid may be NULL, else the domain must have this handle. */
struct engine_target {
    uint32_t domid;
    const uint8_t *uuid;
};

struct engine_request {
    struct engine_target target;
    const char *name; /* to call it if nobody else knows, or NULL */
    bool has_priority;
    int priority;         /* -JOB_PRIORITY_MAX..JOB_PRIORITY_MAX */
    uint64_t deadline_us; /* from now, 0: none */
};

/* What came of a request at once. */
struct engine_answer {
    /*
     * ENGINE_NONE: there is a job, and the listener will hear of it. ENGINE_DEAD: it is dead
     * already; the listener will hear of ENGINE_CLEAN if it wants to, else of nothing.
     * ENGINE_DECLINE: there is no job.
     */
    enum engine_event event;
    const struct job *job; /* or NULL; valid until the next turn of the loop */
    char reason[160];      /* of DECLINE; else what the caller should know, or "" */
};

/*
 * Tear a domain down, and tell the listener. The first step is made here, or, if there is a job for
 * the domain already, none: then the request's priority replaces the job's, and its deadline does
 * if it is earlier. Given its uuid, a domain that is gone is found as long as its memory is being
 * scrubbed.
 *
 * -EPERM domain 0; -ESRCH no such domain, or another uuid; others: the hypervisor refuses.
 */
int engine_destroy(struct engine *e, const struct engine_request *req, struct engine_listener *l,
                   struct engine_answer *ret, struct err *err);

/*
 * Change a job. -ESRCH if the domain has none that is not dead; then, and if degraded (-ENOTSUP),
 * with text. Jobs as above. A pause ends by itself, see max_pause_s. deadline_us is from now; with
 * 0 it is as fast as can be.
 */
int engine_pause(struct engine *e, const struct engine_target *target, const struct job **ret_job,
                 struct err *err);
int engine_resume(struct engine *e, const struct engine_target *target, const struct job **ret_job,
                  struct err *err);
int engine_hurry(struct engine *e, const struct engine_target *target, uint64_t deadline_us,
                 struct engine_answer *ret, struct err *err);
int engine_set_priority(struct engine *e, const struct engine_target *target, int priority,
                        const struct job **ret_job, struct err *err);
int64_t engine_eta_us(const struct engine *e, const struct job *job); /* see plan_eta_us() */

/* What would become of a domain if somebody asked for its destroy now; nothing is changed. Errors
 * as of engine_destroy(). */
enum engine_way {
    ENGINE_IN_STEPS = 0,
    ENGINE_BY_CALLER, /* scrubd would leave it to its caller: see reason */
    ENGINE_RUNNING,   /* there is a job for it, or what is left of one */
};
struct engine_forecast {
    enum engine_way way;
    struct xen_domain domain;
    const char *name, *purpose, *reason; /* NULL: none; valid until the next call */
    const struct job *job;               /* of ENGINE_RUNNING */
    bool quick;                          /* because of its purpose */
    /* of ENGINE_IN_STEPS: */
    struct forecast forecast;
    unsigned int jobs_before;
    uint32_t step_us;
    unsigned int duty_percent;
    uint64_t scrub_kib_s; /* 0: not known */
};
int engine_forecast(struct engine *e, const struct engine_target *target,
                    struct engine_forecast *ret, struct err *err);

/* What is wanted of the scrubber, and what is. Not if degraded. Pointers as in engine_status(). */
struct engine_health {
    const struct limits *limits;
    uint64_t ceiling_kib; /* wanted at this moment, 0: none */
    const struct config *conf;
    bool busy; /* teardowns, or a backlog of theirs: only then rates are to be in force */
    struct xen_scrub scrub;
    uint64_t dirty_us; /* since when there has been a backlog all the time, 0: there is none */
};
int engine_health(struct engine *e, struct engine_health *ret, struct err *err);

/*
 * Somebody who waits for memory. While there is one the ceiling is lifted. With press all jobs go
 * as fast as they can; without it they release nothing meanwhile, unless they have to, so that the
 * backlog falls. poll() is called every 20 ms, never inside engine_wait(), and may free the waiter
 * after engine_unwait(); with NULL if the figures cannot be had.
 */
struct engine_memory {
    uint64_t now_us;
    uint64_t free_pages; /* those that can be given to domains, dirty ones too */
    uint64_t backlog_pages;
    uint64_t scrubbed_pages; /* counts up */
    unsigned int jobs;       /* teardowns under way */
};
struct engine_waiter {
    TAILQ_ENTRY(engine_waiter) link;
    bool press;
    void (*poll)(struct engine_waiter *w, const struct engine_memory *m);
};
void engine_wait(struct engine *e, struct engine_waiter *w);
void engine_unwait(struct engine *e, struct engine_waiter *w);
/* What poll() gets. -errno with text if it cannot be found out. */
int engine_memory(struct engine *e, struct engine_memory *ret, struct err *err);
/* How long a create may wait at most, 0: not at all. */
unsigned int engine_create_wait_ms(const struct engine *e);
/* Is this what a quick teardown's domain becomes, one that reboots? As long as its old memory is
 * being scrubbed. */
bool engine_comes_back(const struct engine *e, const uint8_t uuid[16]);

/* *conf is not what it was before: go by it from now on, with running jobs too. */
void engine_reconfigure(struct engine *e, const struct config *before);

/* The listener is going away. Never ends a job. In degraded mode, ends its turn. */
void engine_forget(struct engine *e, struct engine_listener *l);

bool engine_degraded(const struct engine *e);

/* Look now whether the hypervisor has the patch; ends engine_let_go(). */
void engine_probe(struct engine *e);
/*
 * The patch is about to be taken out. Teardowns under way are finished first, without pauses: asked
 * again before 5 s are over, until 0 is returned, or now is set. Then scrubbing is as on stock Xen,
 * no steps are made, callers of what is left finish it, and so it stays until engine_probe(), for
 * 60 s at most. Returns how many teardowns are left.
 */
unsigned int engine_let_go(struct engine *e, bool now);
const char *engine_reason(const struct engine *e); /* why */
const struct job_table *engine_jobs(const struct engine *e);
uint64_t engine_now_us(void);

/* A create was told to go on after so long, with clean memory or without. */
void engine_note_create(struct engine *e, uint64_t waited_us, bool clean);

/* What GetStatus tells. Pointers in it are valid until the next call into the engine. */
void engine_status(struct engine *e, struct status *ret);
/* Of metrics, all but what is of the process; ret->status points to *status. */
void engine_metrics(struct engine *e, struct status *status, struct metrics *ret);

/*
 * Put limits in force for for_us (0: lastingly), and at most until engine_reset_limits() or the
 * end. What was lasting before comes back afterwards. ceiling_kib and mask (text) NULL: unchanged.
 * -EINVAL with "field: what is wrong" for a bad value, -EIO if the hypervisor refuses; nothing is
 * changed then.
 */
int engine_set_limit(struct engine *e, const uint64_t *ceiling_kib, const char *mask,
                     uint64_t for_us, struct err *err);
int engine_reset_limits(struct engine *e, struct err *err);
const struct limits *engine_limits(const struct engine *e);
/* For how long the ceiling and the CPUs still hold, in us; 0: lastingly. */
void engine_limit_ends(const struct engine *e, uint64_t *ret_ceiling_us, uint64_t *ret_cpus_us);

/*
 * Which CPUs may scrub, and why. Not if degraded. engine_look(): as placer_look(), so that what
 * engine_placement() gives is of now; engine_protect(): as placer_request(), and what it changes is
 * looked for at once. Names as struct xen_ops has them.
 */
bool engine_look(struct engine *e, struct placer_look *l);
void engine_forget_look(struct engine *e, struct placer_look *l);
const struct placer_view *engine_placement(const struct engine *e);
int engine_protect(struct engine *e, const struct placer_request *req, bool on, bool *ret_changed,
                   struct err *err);
const struct placer_request *engine_protected(const struct engine *e, unsigned int *ret_n);
const struct config *engine_config(const struct engine *e);
const char *engine_name_of(const struct engine *e, const struct ident *id);
int engine_domain(const struct engine *e, uint32_t domid, struct xen_domain *ret);

#endif
