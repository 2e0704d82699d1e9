/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine-private.h"
#include "loop.h"

static struct world *the_world; /* pacer_next() has no other way to it */

void world_broken(struct world *w, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (w->broken[0])
        return;
    n = snprintf(w->broken, sizeof(w->broken), "at %.6f s: ", (double)loop_now_us() / 1e6 - 1000);
    va_start(ap, fmt);
    vsnprintf(w->broken + n, sizeof(w->broken) - (size_t)n, fmt, ap);
    va_end(ap);
}

/* --- Each decision --- */

struct plan_verdict __real_plan_next(struct plan *p, const struct plan_conf *conf,
                                     struct job_table *t, const struct plan_input *in);
struct plan_verdict __wrap_plan_next(struct plan *p, const struct plan_conf *conf,
                                     struct job_table *t, const struct plan_input *in);

/* The engine calls this one. */
struct plan_verdict __wrap_plan_next(struct plan *p, const struct plan_conf *conf,
                                     struct job_table *t, const struct plan_input *in)
{
    struct world *w = the_world;
    bool timed = w->n_decisions < w->n_timed;
    uint64_t began_ns = timed ? loop_real_ns() : 0;

    w->verdict = __real_plan_next(p, conf, t, in);
    /* scrubd's own time for a step. */
    if (!w->x->turned)
        loop_spend((uint64_t)w->x->model->turn_us);
    w->x->turned = true;
    if (timed)
        w->decisions_ns[w->n_decisions++] = loop_real_ns() - began_ns;
    if (w->verdict.action == PLAN_WAIT && w->verdict.wake_us <= in->now_us)
        world_broken(w, "it waits until now");
    if (w->verdict.action == PLAN_IDLE && t->count)
        world_broken(w, "idle with %u jobs", t->count);
    return w->verdict;
}

static bool pressed(const struct world *w)
{
    return w->verdict.why == PLAN_HURRY || w->verdict.why == PLAN_DEADLINE ||
           w->verdict.why == PLAN_WANTED;
}

/* --- Each step --- */

static struct destroy *destroy_of(struct world *w, const struct ident *id)
{
    for (unsigned int i = w->n_destroys; i-- > 0;) {
        if (ident_equal(&w->destroy[i].ident, id))
            return &w->destroy[i];
    }
    return NULL;
}

static bool holds(const struct world *w)
{
    for (unsigned int i = 0; i < WORLD_WAITERS; i++) {
        if (w->wait[i].used && !w->wait[i].waiter.press)
            return true;
    }
    return false;
}

/* A step that is not as the comfort limits have it needs an excuse. */
static void before_step(void *arg, const struct sim_domain *d, uint32_t max_us)
{
    struct world *w = arg;
    uint64_t backlog = host_backlog(w->x), high = (uint64_t)w->conf.backlog_high_mib * 256;
    uint64_t now_us = loop_now_us();
    const struct destroy *t = destroy_of(w, &d->ident);
    bool early = now_us < w->rested_us;

    if (d->ident.domid == 0)
        world_broken(w, "a step of domain 0");
    if (!w->accepting && !w->draining && now_us > w->mask_checked_us + 1000000) {
        w->mask_checked_us = now_us;
        mask_check(w);
    }
    if (!w->accepting && !w->draining && t && t->paused_until_us > now_us)
        world_broken(w, "a step of domain %u, which is paused", d->ident.domid);
    if (w->accepting) {
        w->excuses.firsts += backlog > high;
    } else if (w->draining) {
        w->excuses.drained++;
    } else if (pressed(w)) {
        w->excuses.pressed += backlog > high || early;
    } else if (early) {
        world_broken(w, "a step for domain %u, %llu us too early for the duty cycle",
                     d->ident.domid, (unsigned long long)(w->rested_us - now_us));
    } else if (w->verdict.why == PLAN_ESCAPE) {
        w->excuses.escapes++;
    } else if (backlog > high) {
        world_broken(w, "a step for domain %u while %llu pages are dirty, above the mark of %llu",
                     d->ident.domid, (unsigned long long)backlog, (unsigned long long)high);
    } else if (holds(w)) {
        world_broken(w, "a step for domain %u while somebody waits for clean memory",
                     d->ident.domid);
    }
}

static bool like(const struct destroy *a, const struct destroy *b)
{
    return a->priority == b->priority && !a->hurried && !b->hurried && !a->deadline_us &&
           !b->deadline_us;
}

/* Another one had a step at now_us. */
static void check_turn(struct world *w, struct destroy *o, const struct destroy *t, uint64_t now_us)
{
    uint64_t since_us = o->stepped_us > o->paused_until_us ? o->stepped_us : o->paused_until_us;
    uint64_t waited_us = now_us - since_us;

    /* A deadline that was asked for comes before all when it presses. */
    if (o->ended_us || o->paused_until_us > now_us || t->deadline_us + PLAN_DEMAND_US > now_us)
        return;
    if (!pressed(w) && like(o, t) && since_us < t->stepped_us && w->pressed_us < t->stepped_us)
        world_broken(w, "domain %u has its second step before the first of domain %u",
                     t->ident.domid, o->ident.domid);
    if (waited_us <= PLAN_STARVE_US)
        return;
    if (waited_us > w->longest_starving_us)
        w->longest_starving_us = waited_us;
    /* One in four is for those who starve, the one that does for the longest first. */
    if (++o->starving_steps > 4 * (o->rivals + 2))
        world_broken(w, "domain %u starves: %llu steps for others in %llu ms", o->ident.domid,
                     (unsigned long long)o->starving_steps, (unsigned long long)waited_us / 1000);
}

static void check_end(struct world *w, struct destroy *t)
{
    uint64_t late_us = (uint64_t)w->conf.step_us * 2 + 10000; /* the step that ends it */

    if (t->pages >= JOB_MEASURED_PAGES && t->asked_us >= w->started_us)
        w->measured = true;
    if (t->deadline_us && t->deadline_feasible) {
        if (t->ended_us > t->deadline_us + late_us)
            world_broken(w, "domain %u misses its deadline by %llu ms, which was feasible",
                         t->ident.domid, (unsigned long long)(t->ended_us - t->deadline_us) / 1000);
        w->deadlines_met++;
    }
    if (t->limit_feasible) {
        if (t->ended_us > t->asked_us + (uint64_t)w->conf.max_teardown_s * 1010000 + late_us)
            world_broken(w, "domain %u takes %llu ms, %ld s are allowed", t->ident.domid,
                         (unsigned long long)(t->ended_us - t->asked_us) / 1000,
                         w->conf.max_teardown_s);
        w->limits_met++;
    }
}

/* A pause follows each step, but for the first ones after a rest for all; one that a job begins
 * with may fall into it, and makes it longer: how long it was is the pacer's business, which may
 * have lowered the duty. */
static void note_rest(struct world *w, uint64_t now_us, uint64_t cpu_us)
{
    uint64_t duty = (uint64_t)w->conf.duty_percent, over_us;

    if (now_us - cpu_us >= w->rest_from_us + w->rest_cpu_us * (100 - duty) / duty)
        w->rest_cpu_us = 0;
    else if (!w->accepting && w->rest_cpu_us > PACER_BURST_US)
        w->rest_cpu_us = PACER_BURST_US;
    if (!w->accepting || !w->rest_cpu_us)
        w->rest_from_us = now_us;
    w->rest_cpu_us += cpu_us;
    over_us = w->rest_cpu_us > PACER_BURST_US ? w->rest_cpu_us - PACER_BURST_US : 0;
    w->rested_us = w->rest_from_us + over_us * (100 - duty) / duty;
}

static void after_step(void *arg, const struct sim_domain *d, uint64_t freed, uint64_t cpu_us)
{
    struct world *w = arg;
    uint64_t backlog = host_backlog(w->x), now_us = loop_now_us();
    struct destroy *t = destroy_of(w, &d->ident);

    w->work_us += (double)cpu_us;
    note_rest(w, now_us, cpu_us);
    if (!pressed(w) && backlog > w->most_backlog)
        w->most_backlog = backlog;
    if (freed > w->most_freed)
        w->most_freed = freed;
    if (!t)
        return;
    for (unsigned int i = 0; i < w->n_destroys && !w->accepting && !w->draining; i++) {
        if (&w->destroy[i] != t)
            check_turn(w, &w->destroy[i], t, now_us);
    }
    if (pressed(w))
        w->pressed_us = now_us;
    t->stepped_us = now_us;
    t->starving_steps = 0;
    t->rivals = w->n_destroys - w->n_ended;
    if (d->life == XEN_LIFE_DEAD && !t->ended_us) {
        t->ended_us = now_us;
        w->n_ended++;
        check_end(w, t);
    }
    if (w->look)
        w->look(w);
}

/* --- The daemon and its callers --- */

static uint64_t lateness(void)
{
    struct rng *rng = &the_world->x->rng;
    double late = the_world->x->model->lateness_us[rng_below(rng, SIM_DECILES)];

    if (the_world->x->squeeze > 0)
        late += the_world->x->squeeze * 20000 * rng_unit(rng);
    return (uint64_t)late;
}

/* Its nodes have had no dirty memory but that of the boot since it died. */
static bool is_clean(const struct world *w, const struct destroy *t)
{
    for (unsigned int i = 0; i < w->x->n_nodes; i++) {
        if ((t->nodes >> i & 1) && w->x->node[i].clean_us < t->ended_us)
            return false;
    }
    return true;
}

static void notify(struct engine_listener *l, enum engine_event event, const struct job *job,
                   const char *reason)
{
    struct destroy *t = (struct destroy *)l;

    host_advance(t->world->x);
    if (event == ENGINE_DECLINE)
        world_broken(t->world, "domain %u declined: %s", t->ident.domid, reason);
    if ((event == ENGINE_DEAD || event == ENGINE_CLEAN) && !t->ended_us)
        world_broken(t->world, "domain %u called dead, and is not", t->ident.domid);
    if (event == ENGINE_CLEAN && !is_clean(t->world, t))
        world_broken(t->world, "domain %u called clean, and is not", t->ident.domid);
}

/* Whoever has new neighbours in its class is in no turn with them. */
static void forget_turns(struct world *w)
{
    for (unsigned int i = 0; i < w->n_destroys; i++) {
        w->destroy[i].stepped_us = loop_now_us();
        w->destroy[i].rivals = w->n_destroys - w->n_ended;
    }
}

void world_start(struct world *w)
{
    struct err err = {0};

    if (engine_new(NULL, w->x, &sim_ops, &w->conf, &w->e, &err) < 0) {
        fprintf(stderr, "engine_new: %s\n", err.text);
        abort();
    }
    w->started_us = loop_now_us();
    forget_turns(w);
    engine_start(w->e);
}

struct world *world_new(struct xen *x, const struct config *conf)
{
    struct world *w = calloc(1, sizeof(*w));

    if (!w)
        abort();
    w->x = x;
    w->conf = *conf;
    x->before_step = before_step;
    x->after_step = after_step;
    x->arg = w;
    the_world = w;
    loop_lateness = lateness;
    world_start(w);
    return w;
}

void world_free(struct world *w)
{
    engine_free(w->e);
    the_world = NULL;
    loop_lateness = NULL;
    free(w);
}

/*
 * Time that the model needs at full pace for this one and for those that come before it, with some
 * to spare. all: for all that there are, else for the earlier deadlines.
 */
static uint64_t need_us(const struct world *w, const struct destroy *t, bool all)
{
    double us = 0, step_us = (double)w->conf.step_us;

    for (unsigned int i = 0; i < w->n_destroys; i++) {
        const struct destroy *o = &w->destroy[i];

        if (o->ended_us)
            continue;
        if (o == t || all || o->hurried || (o->deadline_us && o->deadline_us <= t->deadline_us))
            us += host_work_us(w->x, &w->x->domain[o->ident.domid]);
    }
    return (uint64_t)(us * (step_us + w->x->model->turn_us + 300) / step_us * 1.3) + 100000;
}

struct destroy *world_destroy(struct world *w, uint32_t domid, int priority, uint64_t deadline_us)
{
    struct sim_domain *d = &w->x->domain[domid];
    struct engine_request req = {.target = {domid, d->ident.uuid},
                                 .has_priority = priority != 0,
                                 .priority = priority,
                                 .deadline_us = deadline_us};
    struct engine_answer answer = {0};
    struct err err = {0};
    struct destroy *t;
    int r;

    if (w->n_destroys == WORLD_DESTROYS || !w->e)
        return NULL;
    t = &w->destroy[w->n_destroys++];
    memset(t, 0, sizeof(*t));
    t->world = w;
    t->listener.notify = notify;
    t->listener.wants_clean = domid % 3 == 0;
    t->ident = d->ident;
    t->kind = d->kind;
    t->asked_us = t->stepped_us = loop_now_us();
    t->pages = d->pages;
    t->nodes = d->nodes;
    t->work_us = host_work_us(w->x, d);
    t->priority = priority;
    if (deadline_us) {
        world_disturb(w); /* it may come before others */
        t->deadline_us = t->asked_us + deadline_us;
        t->deadline_feasible = need_us(w, t, false) < deadline_us && w->x->squeeze <= 0;
    }
    t->limit_feasible =
        need_us(w, t, true) < (uint64_t)w->conf.max_teardown_s * 1000000 && w->x->squeeze <= 0;
    w->accepting = true;
    r = engine_destroy(w->e, &req, &t->listener, &answer, &err);
    w->accepting = false;
    if (r < 0 || answer.event == ENGINE_DECLINE) {
        if (r < 0 || t->pages >= (uint64_t)w->conf.min_size_mib * 256)
            world_broken(w, "destroy of domain %u refused: %s%s", domid, err.text, answer.reason);
        w->n_destroys--;
        host_destroy(w->x, d);
        return NULL;
    }
    if (t->pages < (uint64_t)w->conf.min_size_mib * 256)
        world_broken(w, "domain %u is too small, and taken", domid);
    if (deadline_us && t->work_us > 2 * (double)deadline_us && w->measured) {
        if (!answer.reason[0] && !t->ended_us)
            world_broken(w, "domain %u needs %.0f ms and has %llu, and nobody is told", domid,
                         t->work_us / 1000, (unsigned long long)deadline_us / 1000);
        w->deadlines_refused++;
    }
    /* An estimate may be wrong, but not that wrong. */
    if (t->deadline_feasible && answer.reason[0] && need_us(w, t, false) * 2 < deadline_us)
        world_broken(w, "domain %u: '%s' of a deadline that is feasible", domid, answer.reason);
    return t;
}

static struct engine_target target(const struct destroy *t)
{
    return (struct engine_target){t->ident.domid, t->ident.uuid};
}

static void check_answer(struct world *w, const struct destroy *t, int r, const struct err *err)
{
    if (r < 0)
        world_broken(w, "domain %u refused: %s", t->ident.domid, err->text);
}

void world_pause(struct world *w, struct destroy *t)
{
    struct engine_target who = target(t);
    const struct job *job;
    struct err err = {0};

    if (!w->e)
        return;
    check_answer(w, t, engine_pause(w->e, &who, &job, &err), &err);
    t->deadline_feasible = t->limit_feasible = false;
    t->paused_until_us = loop_now_us() + (uint64_t)w->conf.max_pause_s * 1000000;
}

void world_resume(struct world *w, struct destroy *t)
{
    struct engine_target who = target(t);
    const struct job *job;
    struct err err = {0};

    if (!w->e)
        return;
    check_answer(w, t, engine_resume(w->e, &who, &job, &err), &err);
    t->paused_until_us = 0;
    forget_turns(w);
}

void world_hurry(struct world *w, struct destroy *t)
{
    struct engine_target who = target(t);
    struct engine_answer answer;
    struct err err = {0};

    if (!w->e)
        return;
    world_disturb(w);
    check_answer(w, t, engine_hurry(w->e, &who, 0, &answer, &err), &err);
    t->hurried = true;
    t->paused_until_us = 0;
}

void world_set_priority(struct world *w, struct destroy *t, int priority)
{
    struct engine_target who = target(t);
    const struct job *job;
    struct err err = {0};

    if (!w->e)
        return;
    check_answer(w, t, engine_set_priority(w->e, &who, priority, &job, &err), &err);
    t->priority = priority;
    forget_turns(w);
}

static void poll_wait(struct engine_waiter *waiter, const struct engine_memory *m)
{
    struct wait *wait = (struct wait *)waiter;

    if (m->backlog_pages && loop_now_us() < wait->until_us)
        return;
    engine_unwait(wait->world->e, waiter);
    wait->used = false;
}

void world_wait(struct world *w, bool press, uint64_t us)
{
    struct wait *wait = w->wait;

    while (wait < w->wait + WORLD_WAITERS && wait->used)
        wait++;
    if (wait == w->wait + WORLD_WAITERS || !w->e)
        return;
    world_disturb(w);
    *wait = (struct wait){.waiter = {.press = press, .poll = poll_wait},
                          .world = w,
                          .used = true,
                          .until_us = loop_now_us() + us};
    engine_wait(w->e, &wait->waiter);
}

void world_disturb(struct world *w)
{
    for (unsigned int i = 0; i < w->n_destroys; i++)
        w->destroy[i].deadline_feasible = w->destroy[i].limit_feasible = false;
}

void world_stop(struct world *w, bool killed)
{
    const bool hurry = false;

    world_disturb(w);
    for (unsigned int i = 0; i < WORLD_WAITERS; i++) {
        if (w->wait[i].used)
            engine_unwait(w->e, &w->wait[i].waiter);
        w->wait[i].used = false;
    }
    if (!killed) {
        engine_withdraw(w->e);
        if (host_settings_in_force(w->x))
            world_broken(w, "it leaves, and its settings stay");
        w->draining = true;
        engine_drain(w->e, 5000, &hurry);
        w->draining = false;
    }
    engine_free(w->e);
    w->e = NULL;
    w->measured = false;
    w->rested_us = w->rest_cpu_us =
        0; /* the next one knows nothing of it, nor of what was asked for */
    for (unsigned int i = 0; i < w->n_destroys; i++) {
        struct destroy *t = &w->destroy[i];

        memset(&t->listener, 0, sizeof(t->listener));
        t->listener.notify = notify;
        t->priority = 0;
        t->hurried = false;
        t->deadline_us = t->paused_until_us = t->starving_steps = 0;
    }
}

bool world_finish(struct world *w, uint64_t until_us)
{
    while (w->n_ended < w->n_destroys && loop_now_us() < until_us)
        loop_until(loop_now_us() + 1000000);
    return w->n_ended == w->n_destroys;
}

void world_check_end(struct world *w)
{
    const struct sim_misuse *m = &w->x->misuse;

    if (m->nested_steps)
        world_broken(w, "%llu steps within another one", (unsigned long long)m->nested_steps);
    if (m->bad_sets)
        world_broken(w, "%llu settings that Xen refuses", (unsigned long long)m->bad_sets);
    if (m->leases_ended)
        world_broken(w, "%llu leases ended under a daemon that runs",
                     (unsigned long long)m->leases_ended);
    if (engine_jobs(w->e)->count)
        world_broken(w, "%u jobs left", engine_jobs(w->e)->count);
    /* Rates are for as long as there is something to limit. */
    for (unsigned int i = 0; i < 3600 && w->x->limited && w->x->sets; i++) {
        bool clean;

        host_advance(w->x);
        clean = !host_backlog(w->x);
        loop_until(loop_now_us() + 2000000);
        if (clean && w->x->limited) {
            world_broken(w, "all is clean, and there still is a limit");
            break;
        }
    }
}

double world_bound_us(const struct world *w)
{
    double work_us = 0, scrub_us = 0, high = (double)w->conf.backlog_high_mib * 256;
    double pages[SIM_NODES] = {0};

    for (unsigned int i = 0; i < w->n_destroys; i++) {
        const struct destroy *t = &w->destroy[i];

        work_us += t->work_us;
        for (unsigned int k = 0; k < w->x->n_nodes; k++) {
            if (t->nodes >> k & 1)
                pages[k] += (double)t->pages / __builtin_popcount(t->nodes);
        }
    }
    for (unsigned int i = 0; i < w->x->n_nodes; i++) {
        const struct sim_node *n = &w->x->node[i];
        double rate = n->possible, us;

        if (rate < n->floor_rate)
            rate = n->floor_rate < n->forceable ? n->floor_rate : n->forceable;
        if (n->ceiling_rate > 0 && rate > n->ceiling_rate)
            rate = n->ceiling_rate;
        us = rate > 0 ? (pages[i] - high / w->x->n_nodes) / rate : 0;
        if (us > scrub_us)
            scrub_us = us;
    }
    work_us *= 100.0 / (double)w->conf.duty_percent;
    return work_us > scrub_us ? work_us : scrub_us;
}
