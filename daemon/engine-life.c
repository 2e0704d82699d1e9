/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine-private.h"

#define QUERY_US 100 /* has to be in range, though a query takes no time of it */
#define DRAIN_STEP_US 5000
#define LIST_CHUNK 64

/* Xen tells xenstore, and that us, when a domain shuts down. */
static void note_endings(struct engine *e)
{
    struct xen_domain doms[LIST_CHUNK];
    uint64_t now_us = engine_now_us();
    uint32_t first = 0;
    int n;

    do {
        n = e->ops->domain_list(e->xen, first, doms, LIST_CHUNK);
        for (int i = 0; i < n; i++) {
            if (doms[i].shutdown != XEN_SHUTDOWN_NONE)
                endings_saw(&e->endings, &doms[i].ident, now_us);
        }
        if (n > 0)
            first = doms[n - 1].ident.domid + 1;
    } while (n == LIST_CHUNK);
}

void engine_update_names(struct engine *e)
{
    const char *trouble;

    e->ops->names_update(e->xen);
    trouble = e->ops->names_trouble(e->xen);
    if (trouble && trouble != e->names_trouble)
        log_warning("%s", trouble);
    else if (!trouble && e->names_trouble)
        log_notice("xenstored answers again");
    e->names_trouble = trouble;
    note_endings(e);
}

static void on_names(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;

    engine_update_names(e);
    engine_note_death(e);
    if (!e->degraded)
        placer_look_soon(e->placer);
}

static void adopt(struct engine *e, const struct xen_domain *dom)
{
    uint64_t now_us = engine_now_us();
    struct xen_step q;
    struct job *job;
    struct job_spec spec = {
        .ident = dom->ident,
        .name = e->ops->name_of(e->xen, &dom->ident),
        .adopted = true,
        .limit_us = now_us + e->plan_conf.max_teardown_us,
        .toolstack_us = -1,
    };

    if (dom->ident.domid == 0 || job_find(&e->jobs, &dom->ident) ||
        e->ops->step(e->xen, &dom->ident, QUERY_US, XEN_STEP_QUERY, &q) < 0 ||
        q.life != XEN_LIFE_DYING)
        return;
    spec.pages = q.pages_left;
    job = job_add(&e->jobs, &spec, now_us);
    if (!job)
        return;
    job->stage = q.stage;
    engine_log(LOG_LEVEL_NOTICE, job,
               "found half torn down, %" PRIu64 " pages left: going on with it", q.pages_left);
}

void engine_adopt_all(struct engine *e)
{
    struct xen_domain doms[LIST_CHUNK];
    uint32_t first = 0;
    int n;

    do {
        n = e->ops->domain_list(e->xen, first, doms, LIST_CHUNK);
        if (n < 0)
            log_error("cannot list the domains: %s", strerror(-n));
        for (int i = 0; i < n; i++)
            adopt(e, &doms[i]);
        if (n > 0)
            first = doms[n - 1].ident.domid + 1;
    } while (n == LIST_CHUNK);
    if (e->jobs.count)
        engine_begin_work(e);
}

void engine_start(struct engine *e)
{
    int fd = e->ops->names_fd(e->xen);

    if (fd >= 0) {
        e->ev_names = event_new(e->base, fd, EV_READ | EV_PERSIST, on_names, e);
        if (e->ev_names)
            event_add(e->ev_names, NULL);
        /* What is there already has to be known before the domains are looked at. */
        engine_update_names(e);
    }
    if (e->degraded) {
        log_warning("degraded: %s: domains are destroyed by their callers, one after another",
                    e->reason);
        engine_on_probe(-1, 0, e);
    } else {
        if (e->settings.warning[0])
            log_error("%s", e->settings.warning);
        placer_look(e->placer, NULL);
        engine_apply_settings(e);
        engine_adopt_all(e);
    }
    engine_note_death(e);
    engine_tell_systemd(e);
}

void engine_withdraw(struct engine *e)
{
    struct job *job, *next;
    int r;

    e->stopping = true;
    evtimer_del(e->ev_step);
    evtimer_del(e->ev_tick);
    evtimer_del(e->ev_lease);
    evtimer_del(e->ev_limits);
    evtimer_del(e->ev_memory);
    evtimer_del(e->ev_registry);
    evtimer_del(e->ev_probe);
    placer_stop(e->placer);
    for (job = TAILQ_FIRST(&e->jobs.list); job && !e->degraded; job = next) {
        struct engine_listener *l;

        next = TAILQ_NEXT(job, link);
        if (TAILQ_EMPTY(&job->waiters))
            continue;
        engine_log(LOG_LEVEL_NOTICE, job, "stopping, its callers finish it");
        while ((l = TAILQ_FIRST(&job->waiters))) {
            TAILQ_REMOVE(&job->waiters, l, of_job);
            l->job = NULL;
        }
        job_remove(&e->jobs, job);
    }
    r = e->degraded ? 0 : settings_withdraw(&e->settings);
    if (r < 0 && r != -ENOSYS)
        log_error("cannot reset the scrubber: %s", strerror(-r));
}

void engine_drain(struct engine *e, unsigned int max_ms, const bool *hurry)
{
    uint64_t end_us = engine_now_us() + (uint64_t)max_ms * 1000;
    struct plan_input in = {.press = true};
    struct plan_verdict v;
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        job_resume(&e->jobs, job, engine_now_us());
    }
    /* Short steps: a dom0 that goes on after us has its turns between them, and they cost no more
     * than one long one. */
    while (!*hurry && !e->degraded && (in.now_us = engine_now_us()) < end_us) {
        v = plan_next(&e->plan, &e->plan_conf, &e->jobs, &in);
        if (v.action != PLAN_STEP)
            break;
        engine_step(e, v.job, DRAIN_STEP_US, 0, 0);
        event_base_loop(e->base, EVLOOP_NONBLOCK);
    }
    TAILQ_FOREACH (job, &e->jobs.list, link) {
        if (!e->degraded)
            engine_log(LOG_LEVEL_WARNING, job,
                       "left half torn down, the next scrubd goes on with it");
    }
}
