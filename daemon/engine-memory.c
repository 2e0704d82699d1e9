/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "engine-private.h"

#define POLL_US 20000
#define POLL_DEAD_US 100000  /* nobody waits for it, but its time is told */
#define POLL_SLOW_US 1000000 /* nobody waits for it */
#define SLOW_AFTER_US 10000000
#define DEAD_MAX 64 /* jobs that are to become clean, without anybody who waits for it */

/* Has somebody let go of the last page of a dead domain? */
static void look_if_gone(struct engine *e, struct job *job, uint64_t now_us)
{
    struct xen_domain dom;
    int r;

    if (job->gone_us)
        return;
    r = e->ops->domain_get(e->xen, job->ident.domid, &dom);
    if (r == 0 && ident_equal(&dom.ident, &job->ident))
        job->pages_left = dom.pages;
    else if (r == 0 || r == -ESRCH)
        job->gone_us = now_us;
}

static void look_at_dead(struct engine *e, uint64_t now_us)
{
    struct job *job, *next;

    for (job = TAILQ_FIRST(&e->jobs.dead); job; job = next) {
        next = TAILQ_NEXT(job, link);
        look_if_gone(e, job, now_us);
        if (!job->gone_us || !clean_since(&e->clean, job->gone_us))
            continue;
        job->clean_us = now_us;
        engine_set_state(job, JOB_CLEAN);
        histogram_add(&e->totals.scrub, job_scrubbing_us(job, now_us));
        engine_record_clean(job, now_us);
        engine_dismiss_all(job, ENGINE_CLEAN, NULL);
        job_remove(&e->jobs, job);
    }
}

/* No caller of theirs waits any more: on a host that never scrubs they would pile up. */
static void forget_oldest_dead(struct engine *e)
{
    struct job *job;

    if (e->jobs.n_dead <= DEAD_MAX)
        return;
    TAILQ_FOREACH (job, &e->jobs.dead, link) {
        if (TAILQ_EMPTY(&job->waiters)) {
            job_remove(&e->jobs, job);
            return;
        }
    }
}

int engine_memory(struct engine *e, struct engine_memory *ret, struct err *err)
{
    struct engine_memory m = {.now_us = engine_now_us(), .jobs = e->jobs.count};
    int r = e->ops->memory_free(e->xen, &m.free_pages);

    if (r < 0)
        return err_set(err, -r, "cannot find out how much memory is free: %s", strerror(-r));
    r = e->degraded ? 0 : engine_read_backlog(e, &m.backlog_pages);
    if (r < 0)
        return err_set(err, -r, "cannot read the backlog: %s", strerror(-r));
    m.scrubbed_pages = e->scrubbed_pages;
    *ret = m;
    return 0;
}

void engine_note_create(struct engine *e, uint64_t waited_us, bool clean)
{
    histogram_add(&e->totals.create_wait, waited_us);
    e->totals.create_timeouts += !clean;
}

unsigned int engine_create_wait_ms(const struct engine *e)
{
    return (unsigned int)e->conf->create_wait_s * 1000;
}

bool engine_comes_back(const struct engine *e, const uint8_t uuid[16])
{
    const struct job *job;

    TAILQ_FOREACH (job, &e->jobs.dead, link) {
        if (job->quick && !memcmp(job->ident.uuid, uuid, sizeof(job->ident.uuid)))
            return true;
    }
    return false;
}

/* Until the next look; 0: none, the registry will tell when a zombie is gone. */
static uint64_t next_look_us(const struct engine *e, uint64_t now_us)
{
    const struct job *job;
    uint64_t us = 0;

    if (!TAILQ_EMPTY(&e->waiters))
        return POLL_US;
    TAILQ_FOREACH (job, &e->jobs.dead, link) {
        if (!TAILQ_EMPTY(&job->waiters))
            return POLL_US;
        if (now_us - job->dead_us < SLOW_AFTER_US)
            us = POLL_DEAD_US;
        else if (job->gone_us && !us)
            us = POLL_SLOW_US;
    }
    return us;
}

void engine_on_memory(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;
    uint64_t now_us = engine_now_us(), backlog, next_us;
    struct engine_waiter *w, *next;
    struct engine_memory m;
    struct err err = {0};

    if (e->stopping)
        return;
    if (!TAILQ_EMPTY(&e->waiters)) {
        const struct engine_memory *known = engine_memory(e, &m, &err) == 0 ? &m : NULL;

        for (w = TAILQ_FIRST(&e->waiters); w; w = next) {
            next = TAILQ_NEXT(w, link);
            w->poll(w, known);
        }
    } else if (!e->degraded) {
        engine_read_backlog(e, &backlog);
    }
    look_at_dead(e, now_us);
    forget_oldest_dead(e);
    next_us = next_look_us(e, now_us);
    if (next_us)
        engine_arm(e->ev_memory, next_us);
}

void engine_watch_memory(struct engine *e, uint64_t delay_us)
{
    engine_arm(e->ev_memory, delay_us);
}

void engine_wait(struct engine *e, struct engine_waiter *w)
{
    TAILQ_INSERT_TAIL(&e->waiters, w, link);
    engine_watch_memory(e, 0);
    engine_refresh_ceiling(e);
    engine_begin_work(e); /* at another pace */
}

void engine_unwait(struct engine *e, struct engine_waiter *w)
{
    TAILQ_REMOVE(&e->waiters, w, link);
    engine_refresh_ceiling(e);
}
