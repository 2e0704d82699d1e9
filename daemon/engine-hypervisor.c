/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine-private.h"

#define PROBE_US 10000000  /* degraded: look for the patch so often */
#define LEAVE_US 5000000   /* who wants to take it out says so again before this is over */
#define LET_GO_US 60000000 /* and has done it by then, or has died */

static void set_reason(struct engine *e, const char *reason)
{
    if (!strcmp(e->reason, reason))
        return;
    snprintf(e->reason, sizeof(e->reason), "%.199s", reason);
    engine_tell_systemd(e);
}

static bool is_gone(struct engine *e, const struct job *job)
{
    struct xen_domain dom;
    int r = e->ops->domain_get(e->xen, job->ident.domid, &dom);

    return r == -ESRCH || (r == 0 && (dom.dead || !ident_equal(&dom.ident, &job->ident)));
}

bool engine_is_left(struct engine *e, const struct job *job)
{
    if (is_gone(e, job) || (!job->steps && !job->adopted))
        return false;
    engine_log(LOG_LEVEL_WARNING, job,
               "left half torn down, and nobody waits for it: destroy it again, or it goes on when "
               "the patch is back");
    return true;
}

/* Whoever waits for a teardown gets his turn to finish it by himself. */
static void queue_callers(struct engine *e)
{
    struct engine_listener *l;
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        job_resume(&e->jobs, job, engine_now_us());
        engine_set_state(job, JOB_QUEUED);
        TAILQ_FOREACH (l, &job->waiters, of_job) {
            l->turn_of = job;
            l->turn_us = 0;
            TAILQ_INSERT_TAIL(&e->turns, l, of_queue);
        }
        if (TAILQ_EMPTY(&job->waiters))
            engine_is_left(e, job);
    }
}

static void degrade(struct engine *e, const char *reason)
{
    e->degraded = true;
    e->leaving_until_us = 0;
    log_warning("degraded: %s: domains are destroyed by their callers, one after another", reason);
    evtimer_del(e->ev_step);
    evtimer_del(e->ev_lease);
    e->settings.in_force = false; /* settings end with the patch */
    e->busy = false;
    e->dirty_since_us = e->backlog_us = e->released_pages = 0;
    queue_callers(e);
    set_reason(e, reason);
    engine_arm(e->ev_probe, PROBE_US);
    event_active(e->ev_blind, EV_TIMEOUT, 0);
    if (!evtimer_pending(e->ev_tick, NULL))
        engine_arm(e->ev_tick, 0);
}

/* Not where it was noticed, which may be in the midst of what looks at jobs. */
void engine_on_blind(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;
    struct job *job;

    if (!e->degraded || e->stopping)
        return;
    while ((job = TAILQ_FIRST(&e->jobs.dead))) {
        engine_dismiss_all(job, ENGINE_BLIND, e->reason);
        job_remove(&e->jobs, job);
    }
    event_active(e->ev_turn, EV_TIMEOUT, 0);
}

int engine_heard(struct engine *e, int r)
{
    if (r == -ENOSYS && !e->degraded && !e->stopping)
        degrade(e, ENGINE_UNPATCHED);
    return r;
}

void engine_forget_gone(struct engine *e)
{
    struct job *job, *next;

    for (job = TAILQ_FIRST(&e->jobs.list); job; job = next) {
        next = TAILQ_NEXT(job, link);
        if (engine_has_caller(e, job) || !is_gone(e, job))
            continue;
        job->pages_left = 0;
        engine_record_end(job, "gone", engine_now_us());
        job_remove(&e->jobs, job);
    }
}

bool engine_has_caller(const struct engine *e, const struct job *job)
{
    const struct engine_listener *l;

    TAILQ_FOREACH (l, &e->turns, of_queue) {
        if (l->turn_of == job)
            return true;
    }
    return !TAILQ_EMPTY(&job->waiters);
}

/*
 * The queue ends. Who has not had his turn is one who waits for steps now. Jobs of those who have,
 * and of nobody, are found again if they are half torn down.
 */
static void end_turns(struct engine *e)
{
    struct engine_listener *l;
    struct job *job, *next;

    for (job = TAILQ_FIRST(&e->jobs.list); job; job = next) {
        next = TAILQ_NEXT(job, link);
        if (!TAILQ_EMPTY(&job->waiters))
            continue;
        if (engine_has_caller(e, job)) {
            engine_record_left(job, engine_now_us());
            e->jobs_done++;
        }
        job_remove(&e->jobs, job);
    }
    while ((l = TAILQ_FIRST(&e->turns))) {
        TAILQ_REMOVE(&e->turns, l, of_queue);
        l->turn_of = NULL;
    }
}

/* The first step of those that have waited for a turn. */
static void begin_jobs(struct engine *e)
{
    struct job *job, *next;
    char reason[100];
    int r;

    for (job = TAILQ_FIRST(&e->jobs.list); job && !e->degraded; job = next) {
        next = TAILQ_NEXT(job, link);
        r = job->steps || job->adopted ? 0 : engine_step(e, job, FIRST_STEP_US, 0, 0);
        if (r >= 0 || e->degraded)
            continue;
        snprintf(reason, sizeof(reason), "the hypervisor refuses: %s", strerror(-r));
        engine_dismiss_all(job, ENGINE_DECLINE, reason);
        job_remove(&e->jobs, job);
    }
}

void engine_find_settings(struct engine *e)
{
    struct xen_scrub scrub;

    e->settings.in_force = e->ops->scrub_get(e->xen, false, &scrub) == 0 &&
                           (scrub.has_ceiling || scrub.has_floor || scrub.has_mask);
}

static void recover(struct engine *e)
{
    log_notice("the hypervisor has the patch now: ready");
    e->degraded = false;
    e->reason[0] = '\0';
    e->clean = (struct clean){0};
    e->scrub_rate = (struct scrub_rate){0}; /* its counters begin anew */
    evtimer_del(e->ev_probe);
    end_turns(e);
    engine_find_settings(e);
    placer_look(e->placer, NULL);
    engine_apply_settings(e);
    engine_arm_limits(e);
    begin_jobs(e);
    if (!e->degraded)
        engine_adopt_all(e);
    engine_begin_work(e);
    engine_tell_systemd(e);
}

void engine_look_for_patch(struct engine *e)
{
    struct err err = {0};
    int r;

    if (!e->degraded || e->stopping || engine_now_us() < e->let_go_until_us)
        return;
    r = e->ops->probe(e->xen, &err);
    if (r == 0)
        recover(e);
    else
        set_reason(e, r == -ENOSYS ? ENGINE_UNPATCHED : err.text);
}

void engine_on_probe(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;

    engine_look_for_patch(e);
    if (e->degraded && !e->stopping)
        engine_arm(e->ev_probe, PROBE_US);
}

void engine_probe(struct engine *e)
{
    struct err err = {0};

    e->let_go_until_us = e->leaving_until_us = 0;
    if (e->degraded)
        engine_look_for_patch(e);
    else if (engine_heard(e, e->ops->probe(e->xen, &err)) == 0)
        engine_apply_settings(e); /* it may have been away, and settings end with it */
}

unsigned int engine_let_go(struct engine *e, bool now)
{
    uint64_t now_us = engine_now_us();
    struct job *job;
    int r;

    if (!e->degraded && e->jobs.count && !now) {
        if (now_us >= e->leaving_until_us)
            log_notice("the patch is to be taken out: first the teardowns under way (%u) are "
                       "finished, without pauses",
                       e->jobs.count);
        e->leaving_until_us = now_us + LEAVE_US;
        TAILQ_FOREACH (job, &e->jobs.list, link) {
            job_resume(&e->jobs, job, now_us);
        }
        engine_begin_work(e);
        return e->jobs.count;
    }
    e->let_go_until_us = now_us + LET_GO_US;
    if (e->degraded)
        return e->jobs.count;
    r = settings_withdraw(&e->settings);
    if (r < 0 && r != -ENOSYS)
        log_error("cannot reset the scrubber: %s", strerror(-r));
    degrade(e, "the hypervisor's patch is being taken out");
    return e->jobs.count;
}
