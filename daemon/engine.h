/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_ENGINE_H
#define SCRUBD_ENGINE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "config.h"
#include "job.h"
#include "messages.h"
#include "settings.h"
#include "xen.h"

/*
 * Runs the teardowns: asks the pacer when, the job table which, and the hypervisor to do it. Owns
 * the jobs and the settings of the scrubber. Single-threaded, on one event base.
 *
 * On a hypervisor without our patch it is degraded: it makes no steps, and tells the callers one
 * after another to destroy by themselves.
 */
struct engine;

enum engine_event {
    ENGINE_NONE = 0,
    ENGINE_HEARTBEAT, /* every second */
    ENGINE_DEAD,      /* the domain is dead: the last event */
    ENGINE_DECLINE,   /* the caller had better destroy by itself: the last event */
};

/*
 * Somebody who waits for a job. Embedded by its owner; job is NULL before engine_destroy() and
 * after the last event. notify() may not free listeners or call engine_forget(), but for its own at
 * the last event, unless turn_of is set. reason belongs to the engine, NULL but with DECLINE.
 */
struct engine_listener {
    TAILQ_ENTRY(engine_listener) of_job, of_queue;
    struct job *job;
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

/*
 * Tear a domain down, and tell the listener. uuid and name may be NULL. The first step is made
 * here, or, if there is a job for the domain already, none. *ret_dead: it is dead already, and the
 * listener will hear nothing. *ret_job is what to tell the caller, valid until the next turn of the
 * loop.
 *
 * -EPERM domain 0; -ESRCH no such domain, or another uuid; others: the hypervisor refuses.
 */
int engine_destroy(struct engine *e, uint32_t domid, const uint8_t *uuid, const char *name,
                   struct engine_listener *l, const struct job **ret_job, bool *ret_dead,
                   struct err *err);

/* *conf is not what it was before: go by it from now on, with running jobs too. */
void engine_reconfigure(struct engine *e, const struct config *before);

/* The listener is going away. Never ends a job. In degraded mode, ends its turn. */
void engine_forget(struct engine *e, struct engine_listener *l);

bool engine_degraded(const struct engine *e);
const char *engine_reason(const struct engine *e); /* why */
const struct job_table *engine_jobs(const struct engine *e);
uint64_t engine_now_us(void);

/* What GetStatus tells. Pointers in it are valid until the next call into the engine. */
void engine_status(struct engine *e, struct status *ret);

/*
 * Put limits in force until engine_reset_limits() or the end. ceiling_kib and mask (text) NULL:
 * unchanged. -EINVAL with "field: what is wrong" for a bad value, -EIO if the hypervisor refuses;
 * nothing is changed then.
 */
int engine_set_limit(struct engine *e, const uint64_t *ceiling_kib, const char *mask,
                     struct err *err);
int engine_reset_limits(struct engine *e, struct err *err);
const struct limits *engine_limits(const struct engine *e);

#endif
