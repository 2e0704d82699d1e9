/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine-private.h"

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

void engine_tell_dead(struct job *job)
{
    struct engine_listener *l, *next;

    for (l = TAILQ_FIRST(&job->waiters); l; l = next) {
        next = TAILQ_NEXT(l, of_job);
        if (l->wants_clean)
            l->notify(l, ENGINE_DEAD, job, NULL);
        else
            dismiss(l, ENGINE_DEAD, NULL);
    }
}

static void heartbeat(const struct job *job)
{
    struct engine_listener *l, *next;

    for (l = TAILQ_FIRST(&job->waiters); l; l = next) {
        next = TAILQ_NEXT(l, of_job);
        l->notify(l, ENGINE_HEARTBEAT, job, NULL);
    }
}

void engine_heartbeats(struct engine *e)
{
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        heartbeat(job);
    }
    TAILQ_FOREACH (job, &e->jobs.dead, link) {
        heartbeat(job);
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
        e->totals.declined[DECLINE_DEGRADED]++;
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

const char *engine_purpose(enum xen_shutdown shutdown)
{
    static const char *const names[] = {
        [XEN_SHUTDOWN_POWEROFF] = "poweroff", [XEN_SHUTDOWN_REBOOT] = "reboot",
        [XEN_SHUTDOWN_SUSPEND] = "suspend",   [XEN_SHUTDOWN_CRASH] = "crash",
        [XEN_SHUTDOWN_WATCHDOG] = "watchdog", [XEN_SHUTDOWN_SOFT_RESET] = "soft-reset",
    };

    return shutdown < sizeof(names) / sizeof(*names) ? names[shutdown] : NULL;
}

int engine_find_domain(struct engine *e, const struct engine_target *target, struct xen_domain *ret,
                       struct err *err)
{
    int r;

    if (target->domid == 0)
        return err_set(err, EPERM, "domain 0 is the control domain");
    r = target->domid > IDENT_DOMID_MAX ? -ESRCH : e->ops->domain_get(e->xen, target->domid, ret);
    if (r == 0 && target->uuid && memcmp(target->uuid, ret->ident.uuid, sizeof(ret->ident.uuid)))
        r = -ESRCH;
    if (r == -ESRCH)
        return err_set(err, ESRCH, "there is no such domain");
    if (r < 0)
        return err_set(err, -r, "cannot look at domain %u: %s", target->domid, strerror(-r));
    return 0;
}

/* A domain that is no longer there, but whose memory is being scrubbed; by its uuid only, since the
 * number alone may be meant for another one. */
static struct job *find_gone(struct engine *e, const struct engine_target *target)
{
    struct ident id = {.domid = target->domid};
    struct job *job;

    if (!target->uuid)
        return NULL;
    memcpy(id.uuid, target->uuid, sizeof(id.uuid));
    job = job_find(&e->jobs, &id);
    return job && job->dead_us ? job : NULL;
}

static struct job *begin(struct engine *e, const struct engine_request *req,
                         const struct xen_domain *dom)
{
    uint64_t now_us = engine_now_us(), since_us = endings_since(&e->endings, &dom->ident);
    const char *known = e->ops->name_of(e->xen, &dom->ident);
    char deadline[40] = "";
    struct job_spec spec = {
        .ident = dom->ident,
        .name = known ? known : req->name,
        .pages = dom->pages,
        .priority = req->has_priority ? req->priority : 0,
        .quick = e->conf->quick & (1u << dom->shutdown),
        .deadline_us = req->deadline_us ? now_us + req->deadline_us : 0,
        .limit_us = now_us + e->plan_conf.max_teardown_us,
        .toolstack_us = since_us ? (int64_t)(now_us - since_us) : -1,
        .purpose = engine_purpose(dom->shutdown),
    };
    struct job *job = job_add(&e->jobs, &spec, now_us);

    if (req->deadline_us)
        snprintf(deadline, sizeof(deadline), ", deadline in %" PRIu64 " ms",
                 req->deadline_us / 1000);
    if (job)
        engine_log(LOG_LEVEL_INFO, job, "%s, %" PRIu64 " pages, %s%s, priority %d%s",
                   e->degraded ? "queued" : "teardown begins", dom->pages,
                   spec.purpose    ? spec.purpose
                   : dom->building ? "still in creation"
                                   : "not shut down",
                   spec.quick ? " (quick)" : "", spec.priority, deadline);
    return job;
}

static void join(struct engine *e, struct job *job, const struct engine_request *req)
{
    uint64_t now_us = engine_now_us();

    engine_log(LOG_LEVEL_INFO, job, "one more caller");
    if (job->dead_us)
        return;
    if (req->has_priority)
        job->priority = req->priority;
    if (req->deadline_us && (!job->deadline_us || now_us + req->deadline_us < job->deadline_us))
        job_set_deadline(&e->jobs, job, now_us, now_us + req->deadline_us);
}

bool engine_is_small(const struct engine *e, const struct xen_domain *dom)
{
    return !e->degraded && dom->pages < (uint64_t)e->conf->min_size_mib * 256;
}

int engine_destroy(struct engine *e, const struct engine_request *req, struct engine_listener *l,
                   struct engine_answer *ret, struct err *err)
{
    struct engine_answer answer = {0};
    struct xen_domain dom;
    struct job *job;
    int r;

    engine_look_for_patch(e);
    r = engine_find_domain(e, &req->target, &dom, err);
    job = r == -ESRCH ? find_gone(e, &req->target) : NULL;
    if (r < 0 && !job)
        return r;
    if (!job)
        job = job_find(&e->jobs, &dom.ident);
    if (!job && engine_is_small(e, &dom)) {
        log_debug("dom=%u: declined, %" PRIu64 " pages", dom.ident.domid, dom.pages);
        e->totals.declined[DECLINE_SMALL]++;
        e->released_pages += dom.pages; /* by the caller, very soon */
        answer.event = ENGINE_DECLINE;
        snprintf(answer.reason, sizeof(answer.reason), "smaller than min_size_mib");
        *ret = answer;
        return 0;
    }
    if (job) {
        join(e, job, req);
    } else {
        job = begin(e, req, &dom);
        if (!job)
            return err_set(err, ENOMEM, "out of memory");
        if (!e->degraded)
            placer_look(e->placer, NULL);
        r = e->degraded ? 0 : engine_step(e, job, FIRST_STEP_US, 0, 0);
        if (r < 0 && !e->degraded) {
            job_remove(&e->jobs, job);
            return r == -ESRCH ? err_set(err, ESRCH, "there is no such domain")
                               : err_set(err, -r, "the hypervisor refuses: %s", strerror(-r));
        }
    }
    if (job->dead_us)
        answer.event = ENGINE_DEAD;
    else
        engine_check_deadline(e, job, answer.reason, sizeof(answer.reason));
    if (!job->dead_us || l->wants_clean)
        attach(e, job, l);
    answer.job = job;
    *ret = answer;
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
    if (!other && !engine_is_left(e, job)) {
        if (l->turn_us)
            engine_record_left(job, engine_now_us());
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
