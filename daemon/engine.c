/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "engine-private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#define TICK_US 1000000
/* Whether it is clean; those who waited for its death run first. */
#define DEAD_LOOK_US 10000
#define NOLOGIN "/run/nologin" /* is made while systemd brings the host down, or up */

uint64_t engine_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void engine_arm(struct event *ev, uint64_t delay_us)
{
    struct timeval tv = {(time_t)(delay_us / 1000000), (suseconds_t)(delay_us % 1000000)};

    evtimer_add(ev, &tv);
}

__attribute__((format(printf, 4, 0))) static void log_job(enum log_level level,
                                                          const struct job *job,
                                                          const struct log_field *fields,
                                                          const char *fmt, va_list ap)
{
    char uuid[IDENT_UUID_TEXT], text[800];
    struct log_subject about = {job->ident.domid, ident_uuid_text(&job->ident, uuid), job->id,
                                fields};
    int n = snprintf(text, sizeof(text), "dom=%u uuid=%s%s%s: ", about.domid, uuid,
                     job->name[0] ? " name=" : "", job->name);

    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
    log_about(&about, level, "%s", text);
}

void engine_log(enum log_level level, const struct job *job, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_job(level, job, NULL, fmt, ap);
    va_end(ap);
}

void engine_log_with(enum log_level level, const struct job *job, const struct log_field *fields,
                     const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_job(level, job, fields, fmt, ap);
    va_end(ap);
}

void engine_set_state(struct job *job, enum job_state state)
{
    /* Comes often, or has a line of its own that says more. */
    bool quiet = job->state == JOB_QUEUED || job->state == JOB_WAITING || state == JOB_WAITING ||
                 state == JOB_PAUSED || state == JOB_SCRUBBING || state == JOB_CLEAN;

    if (job->state == state)
        return;
    engine_log(quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, job, "%s -> %s, %" PRIu64 " pages left",
               job_state_name(job->state), job_state_name(state), job->pages_left);
    job->state = state;
}

void engine_tell_systemd(struct engine *e)
{
    char text[sizeof(e->told)];
    uint64_t pages = 0;
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        pages += job->pages_left;
    }
    if (e->degraded)
        snprintf(text, sizeof(text), "STATUS=Degraded: %s", e->reason);
    else if (!e->jobs.count)
        snprintf(text, sizeof(text), "STATUS=Idle, %" PRIu64 " domains torn down", e->jobs_done);
    else
        snprintf(text, sizeof(text), "STATUS=%u domain%s, %" PRIu64 " MiB left", e->jobs.count,
                 e->jobs.count == 1 ? "" : "s", pages / 256);
    if (!strcmp(text, e->told))
        return;
    strcpy(e->told, text);
    sd_notify(0, text);
}

static void finish(struct engine *e, struct job *job, const char *how)
{
    uint64_t now_us = engine_now_us();

    job_bury(&e->jobs, job, now_us);
    engine_set_state(job, JOB_SCRUBBING);
    engine_tell_dead(job); /* first: they wait, and dom0 may have one CPU only */
    engine_record_end(job, how, now_us);
    if (job->deadline_us && now_us > job->deadline_us)
        engine_log(LOG_LEVEL_WARNING, job, "that was %" PRIu64 " ms after its deadline",
                   (now_us - job->deadline_us) / 1000);
    e->jobs_done++;
    histogram_add(&e->totals.teardown, now_us - job->started_us);
    engine_watch_memory(e, DEAD_LOOK_US);
    engine_note_death(e);
}

static void trouble(struct engine *e, struct job *job, enum job_outcome outcome, int error)
{
    e->totals.bad_steps++;
    if (job->bad_steps == 1)
        engine_log(LOG_LEVEL_WARNING, job,
                   "the teardown does not get on (%s, stage %u), trying again every second",
                   error ? strerror(-error) : "no progress", job->stage);
    if (outcome != JOB_HOPELESS)
        return;
    engine_log(LOG_LEVEL_ERROR, job,
               "still not getting on (%s, stage %u): callers are left to destroy it themselves",
               error ? strerror(-error) : "no progress", job->stage);
    e->totals.declined[DECLINE_STUCK] += !TAILQ_EMPTY(&job->waiters);
    engine_dismiss_all(job, ENGINE_DECLINE, "the teardown does not get on");
}

int engine_step(struct engine *e, struct job *job, uint32_t max_us, uint64_t late_us,
                uint64_t own_us)
{
    unsigned int flags = job->steps || job->adopted ? XEN_STEP_ONLY_IF_DYING : 0;
    uint64_t start_us = engine_now_us(), now_us;
    struct xen_step did = {0};
    struct job_step s = {.pages_left = job->pages_left, .stage = job->stage};
    enum job_outcome outcome;
    int r;

    r = engine_heard(e, e->ops->step(e->xen, &job->ident, max_us, flags, &did));
    now_us = engine_now_us();
    if (r == -ESRCH && flags) {
        job->pages_left = 0;
        job->gone_us = now_us;
        finish(e, job, "gone");
        return 1;
    }
    if (r < 0 && !flags)
        return r;
    if (r == -ENOSYS)
        return 0;
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
    e->released_pages += s.pages_freed;
    s.wall_us = now_us - start_us;
    e->totals.freed_pages += s.pages_freed;
    histogram_add(&e->totals.step, s.wall_us);
    s.late_us = late_us;
    s.own_us = own_us;
    outcome = plan_stepped(&e->plan, &e->plan_conf, &e->jobs, job, now_us, &s);
    if (outcome == JOB_FINISHED) {
        finish(e, job, "dead");
        return 1;
    }
    engine_set_state(job, JOB_FREEING);
    if (outcome != JOB_GOES_ON)
        trouble(e, job, outcome, s.error);
    return 0;
}

static void show_waiting(struct engine *e)
{
    struct job *job;

    TAILQ_FOREACH (job, &e->jobs.list, link) {
        if (job->state == JOB_FREEING)
            engine_set_state(job, JOB_WAITING);
    }
}

static void arm_step(struct engine *e, uint64_t now_us, uint64_t at_us)
{
    e->step_due_us = at_us > now_us ? at_us : now_us;
    engine_arm(e->ev_step, e->step_due_us - now_us);
}

/* The pace has another reason than that of the last step. */
static void tell_why(struct engine *e, const struct plan_verdict *v, uint64_t backlog)
{
    bool changed = v->why != e->why && !(e->why == PLAN_WHY_NONE && v->why == PLAN_COMFORT);
    unsigned int missed;

    if (v->why == PLAN_ESCAPE) {
        e->totals.escapes++;
        if (log_limit_pass(&e->escape_limit, engine_now_us(), 10000000, &missed))
            log_warning("the backlog of %" PRIu64 " MiB is not being scrubbed: releasing memory "
                        "anyway (%u times more since last said)",
                        backlog / 256, missed);
        return;
    }
    e->why = v->why;
    /* Back and forth several times a second, when what there is to do just about fits. */
    if (changed && log_limit_pass(&e->why_limit, engine_now_us(), 1000000, &missed))
        engine_log(LOG_LEVEL_INFO, v->job,
                   "pace is now for %s: duty %u%%, needed %u%%, backlog %" PRIu64 " MiB",
                   plan_why_name(v->why), pacer_duty(&e->plan.pacer, &e->plan_conf.pace) / 10,
                   e->plan.press / 10, backlog / 256);
}

static struct plan_input look(struct engine *e, uint64_t now_us)
{
    struct plan_input in = {.now_us = now_us,
                            .press = e->going_down || now_us < e->leaving_until_us};
    struct engine_waiter *w;

    /* Without figures the duty cycle alone has to do: a destroy always ends. */
    engine_bound_backlog(e, now_us, &in.backlog_pages);
    TAILQ_FOREACH (w, &e->waiters, link) {
        if (w->press)
            in.press = true;
        else
            in.hold = true;
    }
    return in;
}

static void on_step(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;
    uint64_t now_us = engine_now_us(), late_us = 0;
    struct plan_input in;
    struct plan_verdict v;

    if (e->degraded || e->stopping)
        return;
    if (e->step_due_us && now_us > e->step_due_us)
        late_us = now_us - e->step_due_us;
    e->step_due_us = 0;
    in = look(e, now_us);
    if (e->degraded)
        return;
    v = plan_next(&e->plan, &e->plan_conf, &e->jobs, &in);
    switch (v.action) {
    case PLAN_IDLE:
        break;
    case PLAN_WAIT:
        if (v.why == PLAN_BACKLOG || v.why == PLAN_HELD)
            show_waiting(e);
        arm_step(e, now_us, v.wake_us);
        return;
    case PLAN_STEP:
        tell_why(e, &v, in.backlog_pages);
        engine_step(e, v.job, v.step_us, late_us, engine_now_us() - now_us);
        engine_update_busy(e);
        if (e->jobs.count && !e->degraded)
            arm_step(e, engine_now_us(),
                     pacer_ready_us(&e->plan.pacer, &e->plan_conf.pace, e->plan.press));
        break;
    }
    if (!e->jobs.count)
        e->why = PLAN_WHY_NONE;
}

/* A file that was there already when scrubd started is from the way up, or somebody's for good. */
static bool is_going_down(const struct engine *e)
{
    struct stat st;

    return stat(NOLOGIN, &st) == 0 &&
           (st.st_ino != e->nologin.st_ino || st.st_ctim.tv_sec != e->nologin.st_ctim.tv_sec ||
            st.st_ctim.tv_nsec != e->nologin.st_ctim.tv_nsec);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;
    uint64_t backlog;

    if (e->degraded) {
        engine_refresh(e);
        engine_forget_gone(e);
        event_active(e->ev_turn, EV_TIMEOUT, 0);
    }
    engine_heartbeats(e);
    engine_update_names(e);
    e->going_down = is_going_down(e);
    engine_update_busy(e);
    if (e->busy && e->settings.limits.ceiling_kib && engine_read_backlog(e, &backlog) == 0)
        engine_refresh_ceiling(e);
    /* Nothing announces that somebody pins a domain, or moves it to another cpupool. */
    if (!e->degraded && (e->jobs.count || e->busy))
        placer_look(e->placer, NULL);
    engine_tell_systemd(e);
    if (e->jobs.count || evtimer_pending(e->ev_memory, NULL) || e->busy || !TAILQ_EMPTY(&e->turns))
        engine_arm(e->ev_tick, TICK_US);
}

void engine_begin_work(struct engine *e)
{
    if (!evtimer_pending(e->ev_tick, NULL))
        engine_arm(e->ev_tick, TICK_US);
    if (e->degraded)
        return;
    if (!e->jobs.count)
        return;
    e->going_down = is_going_down(e);
    engine_update_busy(e);
    /* The plan says how long to wait, by what there is now. */
    e->step_due_us = 0;
    engine_arm(e->ev_step, 0);
}

static void take_config(struct engine *e)
{
    const struct config *conf = e->conf;

    e->plan_conf = (struct plan_conf){
        .pace = {.duty_percent = (uint64_t)conf->duty_percent,
                 .backlog_high_pages = (uint64_t)conf->backlog_high_mib * 256,
                 .no_progress_us = (uint64_t)conf->no_progress_ms * 1000},
        .step_us = (uint32_t)conf->step_us,
        .max_teardown_us = (uint64_t)conf->max_teardown_s * 1000000,
    };
}

void engine_reconfigure(struct engine *e, const struct config *before)
{
    take_config(e);
    settings_reconfigure(&e->settings, before);
    if (e->degraded)
        return;
    engine_arm_limits(e);
    if (e->settings.warning[0])
        log_error("%s", e->settings.warning);
    placer_look(e->placer, NULL);
    engine_apply_settings(e);
    /* The pause that goes on may be one of many seconds, by the old figures. */
    engine_begin_work(e);
}

int engine_new(struct event_base *base, struct xen *xen, const struct xen_ops *ops,
               const struct config *conf, struct engine **ret, struct err *err)
{
    struct engine *e = calloc(1, sizeof(*e));
    int r;

    if (!e)
        return err_set(err, ENOMEM, "out of memory");
    e->base = base;
    e->xen = xen;
    e->ops = ops;
    e->conf = conf;
    take_config(e);
    e->started_us = engine_now_us();
    if (stat(NOLOGIN, &e->nologin) < 0)
        e->nologin.st_ino = 0;
    job_table_init(&e->jobs);
    TAILQ_INIT(&e->turns);
    TAILQ_INIT(&e->waiters);
    registry_init(&e->registry);
    e->ev_step = evtimer_new(base, on_step, e);
    e->ev_tick = evtimer_new(base, on_tick, e);
    e->ev_turn = evtimer_new(base, engine_on_turn, e);
    e->ev_lease = evtimer_new(base, engine_on_lease, e);
    e->ev_limits = evtimer_new(base, engine_on_limits, e);
    e->ev_memory = evtimer_new(base, engine_on_memory, e);
    e->ev_registry = evtimer_new(base, engine_on_registry, e);
    e->ev_probe = evtimer_new(base, engine_on_probe, e);
    e->ev_blind = evtimer_new(base, engine_on_blind, e);
    if (!e->ev_step || !e->ev_tick || !e->ev_turn || !e->ev_lease || !e->ev_limits ||
        !e->ev_memory || !e->ev_registry || !e->ev_probe || !e->ev_blind) {
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
        snprintf(e->reason, sizeof(e->reason), ENGINE_UNPATCHED);
    r = engine_placement_new(e, err);
    if (r < 0) {
        engine_free(e);
        return r;
    }
    plan_init(&e->plan);
    totals_init(&e->totals);
    settings_init(&e->settings, xen, ops, conf);
    if (!e->degraded)
        engine_find_settings(e);
    *ret = e;
    return 0;
}

void engine_free(struct engine *e)
{
    struct job *job;

    if (!e)
        return;
    while ((job = TAILQ_FIRST(&e->jobs.list)) || (job = TAILQ_FIRST(&e->jobs.dead)))
        job_remove(&e->jobs, job);
    if (e->ev_step)
        event_free(e->ev_step);
    if (e->ev_tick)
        event_free(e->ev_tick);
    if (e->ev_turn)
        event_free(e->ev_turn);
    if (e->ev_lease)
        event_free(e->ev_lease);
    if (e->ev_limits)
        event_free(e->ev_limits);
    registry_done(&e->registry);
    if (e->ev_registry)
        event_free(e->ev_registry);
    if (e->ev_names)
        event_free(e->ev_names);
    if (e->ev_memory)
        event_free(e->ev_memory);
    if (e->ev_probe)
        event_free(e->ev_probe);
    if (e->ev_blind)
        event_free(e->ev_blind);
    placer_free(e->placer);
    free(e);
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

int64_t engine_eta_us(const struct engine *e, const struct job *job)
{
    return e->degraded ? -1 : plan_eta_us(&e->plan, &e->jobs, job, engine_now_us());
}
