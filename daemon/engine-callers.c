/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine-private.h"

#define FIRST_STEP_US 100 /* marks and pauses the domain; the pacer decides about the rest */

/* The last event: the listener is on its own afterwards. */
static void dismiss(struct engine_listener *l, enum engine_event event, const char *reason)
{
    struct job *job = l->job;

    TAILQ_REMOVE(&job->waiters, l, of_job);
    l->job = NULL;
    l->notify(l, event, job, reason);
}

void engine_dismiss_all(struct job *job, enum engine_event event, const char *reason)
{
    struct engine_listener *l;

    while ((l = TAILQ_FIRST(&job->waiters)))
        dismiss(l, event, reason);
}

void engine_heartbeats(struct engine *e)
{
    struct engine_listener *l, *next;
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        for (l = TAILQ_FIRST(&job->waiters); l; l = next) {
            next = TAILQ_NEXT(l, of_job);
            l->notify(l, ENGINE_HEARTBEAT, job, NULL);
        }
    }
}

void engine_refresh(struct engine *e)
{
    struct xen_domain dom;
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        if (e->ops->domain_get(e->xen, job->ident.domid, &dom) == 0 &&
            ident_equal(&dom.ident, &job->ident))
            job->pages_left = dom.pages;
    }
}

void engine_on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;
    struct engine_listener *l;

    while ((l = turns_next(&e->turns, engine_now_us()))) {
        engine_log(LOG_LEVEL_INFO, l->job, "its caller destroys it");
        engine_set_state(l->job, JOB_FREEING);
        dismiss(l, ENGINE_DECLINE, e->reason);
    }
}

static void attach(struct engine *e, struct job *job, struct engine_listener *l)
{
    l->job = job;
    l->turn_us = 0;
    TAILQ_INSERT_TAIL(&job->waiters, l, of_job);
    l->turn_of = e->degraded ? job : NULL;
    if (e->degraded)
        TAILQ_INSERT_TAIL(&e->turns, l, of_queue);
}

int engine_destroy(struct engine *e, uint32_t domid, const uint8_t *uuid, const char *name,
                   struct engine_listener *l, const struct job **ret_job, bool *ret_dead,
                   struct err *err)
{
    struct xen_domain dom;
    const char *known;
    struct job *job;
    int r;

    if (domid == 0)
        return err_set(err, EPERM, "domain 0 is the control domain");
    r = domid > IDENT_DOMID_MAX ? -ESRCH : e->ops->domain_get(e->xen, domid, &dom);
    if (r == 0 && uuid && memcmp(uuid, dom.ident.uuid, sizeof(dom.ident.uuid)))
        r = -ESRCH;
    if (r == -ESRCH)
        return err_set(err, ESRCH, "there is no such domain");
    if (r < 0)
        return err_set(err, -r, "cannot look at domain %u: %s", domid, strerror(-r));

    *ret_dead = false;
    job = job_find(&e->jobs, &dom.ident);
    if (job) {
        engine_log(LOG_LEVEL_INFO, job, "one more caller");
    } else {
        known = e->ops->name_of(e->xen, &dom.ident);
        job =
            job_add(&e->jobs, &dom.ident, known ? known : name, dom.pages, false, engine_now_us());
        if (!job)
            return err_set(err, ENOMEM, "out of memory");
        engine_log(LOG_LEVEL_INFO, job, "%s, %" PRIu64 " pages",
                   e->degraded ? "queued" : "teardown begins", dom.pages);
        r = e->degraded ? 0 : engine_step(e, job, FIRST_STEP_US);
        if (r < 0) {
            job_remove(&e->jobs, job);
            return r == -ESRCH ? err_set(err, ESRCH, "there is no such domain")
                               : err_set(err, -r, "the hypervisor refuses: %s", strerror(-r));
        }
        if (r > 0) {
            *ret_dead = true;
            *ret_job = NULL;
            return 0;
        }
    }
    attach(e, job, l);
    *ret_job = job;
    engine_begin_work(e);
    if (e->degraded)
        event_active(e->ev_turn, EV_TIMEOUT, 0);
    return 0;
}

/* Degraded: a turn is over, or will not come. The job goes with the last that wanted it. */
static void leave_queue(struct engine *e, struct engine_listener *l)
{
    struct job *job = l->turn_of;
    struct engine_listener *other;

    TAILQ_REMOVE(&e->turns, l, of_queue);
    l->turn_of = NULL;
    TAILQ_FOREACH (other, &e->turns, of_queue) {
        if (other->turn_of == job)
            break;
    }
    if (!other) {
        job_remove(&e->jobs, job);
        e->jobs_done += l->turn_us != 0;
    }
    event_active(e->ev_turn, EV_TIMEOUT, 0);
}

void engine_forget(struct engine *e, struct engine_listener *l)
{
    if (l->job) {
        TAILQ_REMOVE(&l->job->waiters, l, of_job);
        l->job = NULL;
    }
    if (l->turn_of)
        leave_queue(e, l);
}
