/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "log.h"
#include "pacer.h"
#include "turns.h"

#define FIRST_STEP_US 100 /* marks and pauses the domain; the pacer decides about the rest */
#define DRAIN_STEP_US 5000
#define TICK_US 1000000
#define BACKLOG_GONE_PAGES 256 /* less is the noise of a running host */
#define LIST_CHUNK 64

struct engine {
    struct event_base *base;
    struct xen *xen;
    const struct xen_ops *ops;
    const struct config *conf;
    struct pacer_config pacer_conf;
    struct pacer pacer;
    struct job_table jobs;
    struct settings settings;
    struct turns turns;
    bool degraded, stopping;
    char reason[200];
    bool busy; /* jobs, or a backlog of theirs: as the settings last knew */
    uint64_t started_us;
    uint64_t jobs_done;
    struct event *ev_step, *ev_tick, *ev_turn, *ev_lease, *ev_names;
    struct log_limit escape_limit, backlog_limit, settings_limit;
};

uint64_t engine_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void arm(struct event *ev, uint64_t delay_us)
{
    struct timeval tv = {(time_t)(delay_us / 1000000), (suseconds_t)(delay_us % 1000000)};

    evtimer_add(ev, &tv);
}

/* "dom=5 uuid=... name=web" for the log. */
static const char *label(const struct ident *id, const char *name, char *buf, size_t size)
{
    char uuid[IDENT_UUID_TEXT];

    snprintf(buf, size, "dom=%u uuid=%s%s%s", id->domid, ident_uuid_text(id, uuid),
             name && *name ? " name=" : "", name && *name ? name : "");
    return buf;
}

#define LABEL_SIZE (IDENT_UUID_TEXT + JOB_NAME + 40)

static const char *job_label(const struct job *job, char *buf)
{
    return label(&job->ident, job->name, buf, LABEL_SIZE);
}

/* Every change of a job's state passes here. */
static void set_state(struct job *job, enum job_state state)
{
    bool often = job->state == JOB_WAITING || state == JOB_WAITING;
    char text[LABEL_SIZE];

    if (job->state == state)
        return;
    log_at(often ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "%s: %s -> %s, %" PRIu64 " pages left",
           job_label(job, text), job_state_name(job->state), job_state_name(state),
           job->pages_left);
    job->state = state;
}

static void tell_systemd(struct engine *e)
{
    uint64_t pages = 0;
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        pages += job->pages_left;
    }
    if (e->degraded)
        sd_notifyf(0, "STATUS=Degraded: %s", e->reason);
    else if (!e->jobs.count)
        sd_notifyf(0, "STATUS=Idle, %" PRIu64 " domains torn down", e->jobs_done);
    else
        sd_notifyf(0, "STATUS=%u domain%s, %" PRIu64 " MiB left", e->jobs.count,
                   e->jobs.count == 1 ? "" : "s", pages / 256);
}

static int read_backlog(struct engine *e, uint64_t *ret)
{
    struct xen_scrub scrub;
    uint64_t dirty = 0, now_us = engine_now_us();
    unsigned int missed;
    int r = e->ops->scrub_get(e->xen, false, &scrub);

    if (r < 0) {
        if (log_limit_pass(&e->backlog_limit, now_us, 10000000, &missed))
            log_error("cannot read the backlog: %s", strerror(-r));
        return r;
    }
    for (unsigned int i = 0; i < scrub.n_nodes; i++)
        dirty += scrub.nodes[i].dirty;
    *ret = pacer_backlog(&e->pacer, dirty);
    return 0;
}

static void arm_lease(struct engine *e)
{
    if (e->settings.in_force)
        arm(e->ev_lease, (uint64_t)e->conf->lease_s * 1000000 / 3);
    else
        evtimer_del(e->ev_lease);
}

/* Bring the settings in line with whether there is something to do. */
static void apply_settings(struct engine *e)
{
    struct err err = {0};
    unsigned int missed;

    if (settings_apply(&e->settings, e->busy, &err) < 0 &&
        log_limit_pass(&e->settings_limit, engine_now_us(), 10000000, &missed))
        log_error("%s", err.text);
    arm_lease(e);
}

static void update_busy(struct engine *e)
{
    uint64_t backlog = 0;
    bool busy = e->jobs.count > 0;

    /* Only a ceiling makes a difference between the two. */
    if (!busy && e->busy && e->settings.limits.ceiling_kib && read_backlog(e, &backlog) == 0)
        busy = backlog > BACKLOG_GONE_PAGES;
    if (busy == e->busy)
        return;
    e->busy = busy;
    apply_settings(e);
}

/* The last event: the listener is on its own afterwards. */
static void dismiss(struct engine_listener *l, enum engine_event event, const char *reason)
{
    struct job *job = l->job;

    TAILQ_REMOVE(&job->waiters, l, of_job);
    l->job = NULL;
    l->notify(l, event, job, reason);
}

static void dismiss_all(struct job *job, enum engine_event event, const char *reason)
{
    struct engine_listener *l;

    while ((l = TAILQ_FIRST(&job->waiters)))
        dismiss(l, event, reason);
}

static void finish(struct engine *e, struct job *job, const char *how)
{
    uint64_t now_us = engine_now_us();
    char text[LABEL_SIZE];

    set_state(job, JOB_DEAD);
    log_info("%s: %s after %" PRIu64 " ms: %" PRIu64 " steps, %" PRIu64
             " ms in the hypervisor, %" PRIu64 " of %" PRIu64 " pages left",
             job_label(job, text), how, (now_us - job->started_us) / 1000, job->steps,
             job->cpu_us / 1000, job->pages_left, job->pages_total);
    dismiss_all(job, ENGINE_DEAD, NULL);
    job_remove(&e->jobs, job);
    e->jobs_done++;
    tell_systemd(e);
}

static void trouble(struct job *job, enum job_outcome outcome, int error)
{
    char text[LABEL_SIZE];

    if (job->bad_steps == 1)
        log_warning("%s: the teardown does not get on (%s, stage %u), trying again every second",
                    job_label(job, text), error ? strerror(-error) : "no progress", job->stage);
    if (outcome != JOB_HOPELESS)
        return;
    log_error("%s: still not getting on (%s, stage %u): callers are left to destroy it themselves",
              job_label(job, text), error ? strerror(-error) : "no progress", job->stage);
    dismiss_all(job, ENGINE_DECLINE, "the teardown does not get on");
}

/*
 * Make one step. 0: the job goes on; 1: it was finished and is freed. Only the very first step of a
 * job may begin a teardown, and its failure (negative) is for the caller; later ones are retried.
 */
static int step(struct engine *e, struct job *job, uint32_t max_us)
{
    unsigned int flags = job->steps || job->adopted ? XEN_STEP_ONLY_IF_DYING : 0;
    struct xen_step did = {0};
    struct job_step s = {.pages_left = job->pages_left, .stage = job->stage};
    enum job_outcome outcome;
    int r;

    r = e->ops->step(e->xen, &job->ident, max_us, flags, &did);
    if (r == -ESRCH && flags) {
        job->pages_left = 0;
        finish(e, job, "gone");
        return 1;
    }
    if (r < 0 && !flags)
        return r;
    if (r < 0) {
        s.error = r;
    } else {
        s = (struct job_step){
            .dead = did.life == XEN_LIFE_DEAD,
            .stage = did.stage,
            .error = did.error,
            .pages_left = did.pages_left,
            .pages_freed = did.pages_freed,
            .cpu_us = did.cpu_ns / 1000,
        };
    }
    outcome = job_stepped(&e->jobs, job, engine_now_us(), &s);
    pacer_stepped(&e->pacer, &e->pacer_conf, engine_now_us(), s.cpu_us);
    if (outcome == JOB_FINISHED) {
        finish(e, job, "dead");
        return 1;
    }
    set_state(job, JOB_FREEING);
    if (outcome != JOB_GOES_ON)
        trouble(job, outcome, s.error);
    return 0;
}

static void show_waiting(struct engine *e)
{
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        if (job->state == JOB_FREEING)
            set_state(job, JOB_WAITING);
    }
}

static void on_step(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;
    uint64_t now_us = engine_now_us(), wake_us, backlog = 0;
    struct job *job = job_next(&e->jobs, now_us, &wake_us);
    struct pacer_verdict v;
    unsigned int missed;

    if (e->degraded || e->stopping)
        return;
    if (!job) {
        if (wake_us != UINT64_MAX)
            arm(e->ev_step, wake_us - now_us);
        return;
    }
    /* Without figures the duty cycle alone has to do: a destroy always ends. */
    read_backlog(e, &backlog);
    v = pacer_next(&e->pacer, &e->pacer_conf, now_us, backlog);
    if (v.action == PACER_WAIT) {
        if (e->pacer.holding)
            show_waiting(e);
        arm(e->ev_step, v.wake_us - now_us);
        return;
    }
    if (v.escape && log_limit_pass(&e->escape_limit, now_us, 10000000, &missed))
        log_warning("the backlog of %" PRIu64 " MiB is not being scrubbed: releasing memory anyway "
                    "(%u times more since last said)",
                    backlog / 256, missed);
    step(e, job, (uint32_t)e->conf->step_us);
    update_busy(e);
    now_us = engine_now_us();
    if (e->jobs.count)
        arm(e->ev_step, e->pacer.ready_us > now_us ? e->pacer.ready_us - now_us : 0);
}

/* In degraded mode nothing else refreshes what is shown of the jobs. */
static void refresh(struct engine *e)
{
    struct xen_domain dom;
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        if (e->ops->domain_get(e->xen, job->ident.domid, &dom) == 0 &&
            ident_equal(&dom.ident, &job->ident))
            job->pages_left = dom.pages;
    }
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;
    struct engine_listener *l;
    char text[LABEL_SIZE];

    while ((l = turns_next(&e->turns, engine_now_us()))) {
        log_info("%s: its caller destroys it", job_label(l->job, text));
        set_state(l->job, JOB_FREEING);
        dismiss(l, ENGINE_DECLINE, e->reason);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;
    struct engine_listener *l, *next;
    struct job *job;

    if (e->degraded) {
        refresh(e);
        event_active(e->ev_turn, EV_TIMEOUT, 0);
    }
    TAILQ_FOREACH (job, &e->jobs.list, link) {
        for (l = TAILQ_FIRST(&job->waiters); l; l = next) {
            next = TAILQ_NEXT(l, of_job);
            l->notify(l, ENGINE_HEARTBEAT, job, NULL);
        }
    }
    update_busy(e);
    if (e->jobs.count)
        tell_systemd(e);
    if (e->jobs.count || e->busy || !TAILQ_EMPTY(&e->turns))
        arm(e->ev_tick, TICK_US);
}

static void on_lease(evutil_socket_t fd, short what, void *arg)
{
    apply_settings(arg);
}

static void on_names(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;

    e->ops->names_update(e->xen);
}

/* There is a job now. */
static void begin_work(struct engine *e)
{
    uint64_t now_us = engine_now_us();

    if (!evtimer_pending(e->ev_tick, NULL))
        arm(e->ev_tick, TICK_US);
    if (e->degraded)
        return;
    update_busy(e);
    if (!evtimer_pending(e->ev_step, NULL))
        arm(e->ev_step, e->pacer.ready_us > now_us ? e->pacer.ready_us - now_us : 0);
    tell_systemd(e);
}

static void adopt(struct engine *e, const struct xen_domain *dom)
{
    struct xen_step q;
    struct job *job;
    char text[LABEL_SIZE];

    if (dom->ident.domid == 0 ||
        e->ops->step(e->xen, &dom->ident, FIRST_STEP_US, XEN_STEP_QUERY, &q) < 0 ||
        q.life != XEN_LIFE_DYING)
        return;
    job = job_add(&e->jobs, &dom->ident, e->ops->name_of(e->xen, &dom->ident), q.pages_left, true,
                  engine_now_us());
    if (!job)
        return;
    job->stage = q.stage;
    log_notice("%s: found half torn down, %" PRIu64 " pages left: going on with it",
               job_label(job, text), q.pages_left);
}

static void adopt_all(struct engine *e)
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
        begin_work(e);
}

void engine_start(struct engine *e)
{
    int fd = e->ops->names_fd(e->xen);

    if (fd >= 0) {
        e->ev_names = event_new(e->base, fd, EV_READ | EV_PERSIST, on_names, e);
        if (e->ev_names)
            event_add(e->ev_names, NULL);
        /* What is there already has to be known before the domains are looked at. */
        e->ops->names_update(e->xen);
    }
    if (e->degraded) {
        log_warning("degraded: %s: domains are destroyed by their callers, one after another",
                    e->reason);
    } else {
        if (e->settings.warning[0])
            log_error("%s", e->settings.warning);
        apply_settings(e);
        adopt_all(e);
    }
    tell_systemd(e);
}

int engine_new(struct event_base *base, struct xen *xen, const struct xen_ops *ops,
               const struct config *conf, struct engine **ret, struct err *err)
{
    struct engine *e = calloc(1, sizeof(*e));
    struct xen_scrub scrub = {0};
    uint64_t dirty = 0;
    int r;

    if (!e)
        return err_set(err, ENOMEM, "out of memory");
    e->base = base;
    e->xen = xen;
    e->ops = ops;
    e->conf = conf;
    e->pacer_conf.duty_percent = (uint64_t)conf->duty_percent;
    e->pacer_conf.backlog_high_pages = (uint64_t)conf->backlog_high_mib * 256;
    e->pacer_conf.no_progress_us = (uint64_t)conf->no_progress_ms * 1000;
    e->started_us = engine_now_us();
    job_table_init(&e->jobs);
    TAILQ_INIT(&e->turns);
    e->ev_step = evtimer_new(base, on_step, e);
    e->ev_tick = evtimer_new(base, on_tick, e);
    e->ev_turn = evtimer_new(base, on_turn, e);
    e->ev_lease = evtimer_new(base, on_lease, e);
    if (!e->ev_step || !e->ev_tick || !e->ev_turn || !e->ev_lease) {
        engine_free(e);
        return err_set(err, ENOMEM, "out of memory");
    }

    r = ops->probe(xen, err);
    if (r < 0 && r != -ENOSYS) {
        engine_free(e);
        return r;
    }
    e->degraded = r < 0;
    if (e->degraded)
        snprintf(e->reason, sizeof(e->reason), "unpatched hypervisor");
    else if (ops->scrub_get(xen, false, &scrub) == 0) {
        for (unsigned int i = 0; i < scrub.n_nodes; i++)
            dirty += scrub.nodes[i].dirty;
    }
    pacer_init(&e->pacer, dirty);
    settings_init(&e->settings, xen, ops, conf);
    /* Of a scrubd before us that had no time to take them back. */
    e->settings.in_force = !e->degraded && (scrub.has_ceiling || scrub.has_mask);
    *ret = e;
    return 0;
}

void engine_free(struct engine *e)
{
    struct job *job;

    if (!e)
        return;
    while ((job = TAILQ_FIRST(&e->jobs.list)))
        job_remove(&e->jobs, job);
    if (e->ev_step)
        event_free(e->ev_step);
    if (e->ev_tick)
        event_free(e->ev_tick);
    if (e->ev_turn)
        event_free(e->ev_turn);
    if (e->ev_lease)
        event_free(e->ev_lease);
    if (e->ev_names)
        event_free(e->ev_names);
    free(e);
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
    char text[LABEL_SIZE];
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
        log_info("%s: one more caller", job_label(job, text));
    } else {
        known = e->ops->name_of(e->xen, &dom.ident);
        job =
            job_add(&e->jobs, &dom.ident, known ? known : name, dom.pages, false, engine_now_us());
        if (!job)
            return err_set(err, ENOMEM, "out of memory");
        log_info("%s: %s, %" PRIu64 " pages", job_label(job, text),
                 e->degraded ? "queued" : "teardown begins", dom.pages);
        r = e->degraded ? 0 : step(e, job, FIRST_STEP_US);
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
    begin_work(e);
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

bool engine_degraded(const struct engine *e)
{
    return e->degraded;
}

const char *engine_reason(const struct engine *e)
{
    return e->reason;
}

const struct job_table *engine_jobs(const struct engine *e)
{
    return &e->jobs;
}

const struct limits *engine_limits(const struct engine *e)
{
    return &e->settings.limits;
}

void engine_status(struct engine *e, struct status *ret)
{
    uint64_t dirty = 0;

    memset(ret, 0, sizeof(*ret));
    ret->degraded = e->degraded;
    ret->reason = e->degraded ? e->reason : e->settings.warning[0] ? e->settings.warning : NULL;
    ret->xen = e->ops->version(e->xen);
    ret->uptime_us = engine_now_us() - e->started_us;
    ret->jobs = e->jobs.count;
    ret->jobs_done = e->jobs_done;
    if (e->degraded || e->ops->scrub_get(e->xen, true, &ret->scrub) < 0)
        return;
    for (unsigned int i = 0; i < ret->scrub.n_nodes; i++)
        dirty += ret->scrub.nodes[i].dirty;
    ret->backlog_pages = pacer_backlog(&e->pacer, dirty);
    ret->baseline_pages = e->pacer.baseline_pages;
    ret->has_scrub = e->ops->cpus_online(e->xen, &ret->online) == 0;
}

static int put_limits_in_force(struct engine *e, const struct limits *before, struct err *err)
{
    int r = settings_apply(&e->settings, e->busy, err);

    if (r < 0)
        e->settings.limits = *before;
    arm_lease(e);
    if (r < 0)
        err->code = EIO; /* not one of the caller's values: see engine_set_limit() */
    return r < 0 ? -EIO : 0;
}

int engine_set_limit(struct engine *e, const uint64_t *ceiling_kib, const char *mask,
                     struct err *err)
{
    struct limits before = e->settings.limits;
    char text[CPULIST_TEXT];
    int r = settings_change(&e->settings, ceiling_kib, mask, err);

    if (r == 0)
        r = put_limits_in_force(e, &before, err);
    if (r < 0)
        return r;
    log_notice(
        "limits set: ceiling %" PRIu64 " KiB/s, scrub_cpus %s", e->settings.limits.ceiling_kib,
        e->settings.limits.all_cpus ? "all"
                                    : cpulist_format(&e->settings.limits.mask, text, sizeof(text)));
    return 0;
}

int engine_reset_limits(struct engine *e, struct err *err)
{
    struct limits before = e->settings.limits;
    bool in_force = e->settings.in_force;

    settings_init(&e->settings, e->xen, e->ops, e->conf);
    e->settings.in_force = in_force;
    log_notice("limits reset to those of the configuration");
    return put_limits_in_force(e, &before, err);
}

void engine_withdraw(struct engine *e)
{
    struct job *job, *next;
    int r;

    e->stopping = true;
    evtimer_del(e->ev_step);
    evtimer_del(e->ev_tick);
    evtimer_del(e->ev_lease);
    for (job = TAILQ_FIRST(&e->jobs.list); job && !e->degraded; job = next) {
        struct engine_listener *l;
        char text[LABEL_SIZE];

        next = TAILQ_NEXT(job, link);
        if (TAILQ_EMPTY(&job->waiters))
            continue;
        log_notice("%s: stopping, its callers finish it", job_label(job, text));
        while ((l = TAILQ_FIRST(&job->waiters))) {
            TAILQ_REMOVE(&job->waiters, l, of_job);
            l->job = NULL;
        }
        job_remove(&e->jobs, job);
    }
    r = e->degraded ? 0 : settings_withdraw(&e->settings);
    if (r < 0)
        log_error("cannot reset the scrubber: %s", strerror(-r));
}

void engine_drain(struct engine *e, unsigned int max_ms, const bool *hurry)
{
    uint64_t end_us = engine_now_us() + (uint64_t)max_ms * 1000, wake_us;
    struct job *job;
    char text[LABEL_SIZE];

    /* Short steps: a dom0 that goes on after us has its turns between them, and they cost no more
     * than one long one. */
    while (!*hurry && !e->degraded && engine_now_us() < end_us &&
           (job = job_next(&e->jobs, engine_now_us(), &wake_us))) {
        step(e, job, DRAIN_STEP_US);
        event_base_loop(e->base, EVLOOP_NONBLOCK);
    }
    TAILQ_FOREACH (job, &e->jobs.list, link) {
        if (!e->degraded)
            log_warning("%s: left half torn down, the next scrubd goes on with it",
                        job_label(job, text));
    }
}
