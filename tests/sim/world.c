/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine-private.h"
#include "loop.h"

static struct world *the_world; /* plan_next() has no other way to it */

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

static enum plan_why why;

struct plan_verdict __wrap_plan_next(struct plan *p, const struct plan_conf *conf,
                                     struct job_table *t, const struct plan_input *in)
{
    struct world *w = the_world;
    bool timed = w->n_decisions < w->n_timed;
    uint64_t began_ns = timed ? loop_real_ns() : 0;
    struct plan_verdict v = __real_plan_next(p, conf, t, in);

    if (timed)
        w->decisions_ns[w->n_decisions++] = loop_real_ns() - began_ns;
    why = v.why;
    return v;
}

/* Is the step one that somebody presses for, so that comfort does not count? */
static bool is_pressed(void)
{
    return why == PLAN_HURRY || why == PLAN_DEADLINE || why == PLAN_WANTED;
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

static void before_step(void *arg, const struct sim_domain *d, uint32_t max_us)
{
    struct world *w = arg;
    uint64_t backlog = host_backlog(w->x), high = (uint64_t)w->conf.backlog_high_mib * 256;

    if (d->ident.domid == 0)
        world_broken(w, "a step of domain 0");
    if (!w->accepting && !is_pressed() && loop_now_us() < w->rested_us)
        world_broken(w, "a step for domain %u, %llu us too early for the duty cycle",
                     d->ident.domid, (unsigned long long)(w->rested_us - loop_now_us()));
    if (backlog <= high)
        return;
    if (w->accepting)
        w->firsts++;
    else if (why == PLAN_ESCAPE)
        w->escapes++;
    else if (is_pressed())
        w->pressed++;
    else
        world_broken(w, "a step for domain %u while %llu pages are dirty, above the mark of %llu",
                     d->ident.domid, (unsigned long long)backlog, (unsigned long long)high);
}

static void after_step(void *arg, const struct sim_domain *d, uint64_t freed, uint64_t cpu_us)
{
    struct world *w = arg;
    uint64_t backlog = host_backlog(w->x);
    struct destroy *t = destroy_of(w, &d->ident);

    w->work_us += (double)cpu_us;
    w->rested_us = loop_now_us() +
                   cpu_us * (100 - (uint64_t)w->conf.duty_percent) / (uint64_t)w->conf.duty_percent;
    if (backlog > w->most_backlog)
        w->most_backlog = backlog;
    if (freed > w->most_freed)
        w->most_freed = freed;
    for (unsigned int i = 0; i < w->n_destroys; i++) {
        struct destroy *o = &w->destroy[i];

        if (o == t || o->ended_us)
            continue;
        if (++o->overtaken > w->most_overtaken)
            w->most_overtaken = o->overtaken;
        if (t && !w->accepting && o->stepped_us < t->stepped_us)
            world_broken(w, "domain %u starves: domain %u has its second step before it",
                         o->ident.domid, t->ident.domid);
    }
    if (t) {
        t->steps++;
        t->stepped_us = loop_now_us();
        t->overtaken = 0;
        if (d->life == XEN_LIFE_DEAD && !t->ended_us) {
            t->ended_us = loop_now_us();
            w->n_ended++;
        }
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

static void notify(struct engine_listener *l, enum engine_event event, const struct job *job,
                   const char *reason)
{
    struct destroy *t = (struct destroy *)l;

    if (event == ENGINE_DECLINE)
        world_broken(t->world, "domain %u declined: %s", t->ident.domid, reason);
    if (event == ENGINE_DEAD && t->world->x->domain[t->ident.domid].used &&
        ident_equal(&t->world->x->domain[t->ident.domid].ident, &t->ident) &&
        t->world->x->domain[t->ident.domid].life != XEN_LIFE_DEAD)
        world_broken(t->world, "domain %u called dead, and is not", t->ident.domid);
}

void world_start(struct world *w)
{
    struct err err = {0};

    if (engine_new(NULL, w->x, &sim_ops, &w->conf, &w->e, &err) < 0) {
        fprintf(stderr, "engine_new: %s\n", err.text);
        abort();
    }
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

struct destroy *world_destroy(struct world *w, uint32_t domid)
{
    struct sim_domain *d = &w->x->domain[domid];
    struct engine_request req = {.target = {domid, d->ident.uuid}};
    struct engine_answer answer;
    struct destroy *t;
    struct err err = {0};
    int r;

    if (w->n_destroys == WORLD_DESTROYS)
        return NULL;
    t = &w->destroy[w->n_destroys++];
    memset(t, 0, sizeof(*t));
    t->world = w;
    t->listener.notify = notify;
    t->ident = d->ident;
    t->kind = d->kind;
    t->asked_us = loop_now_us();
    t->pages = d->pages;
    t->nodes = d->nodes;
    t->work_us = host_work_us(w->x, d);
    w->accepting = true;
    r = engine_destroy(w->e, &req, &t->listener, &answer, &err);
    w->accepting = false;
    if (r < 0) {
        world_broken(w, "destroy of domain %u refused: %s", domid, err.text);
        w->n_destroys--;
        return NULL;
    }
    return t;
}

void world_stop(struct world *w, bool killed)
{
    const bool hurry = false;

    if (!killed) {
        engine_withdraw(w->e);
        if (host_settings_in_force(w->x))
            world_broken(w, "it leaves, and its settings stay");
        w->accepting = true;
        engine_drain(w->e, 5000, &hurry);
        w->accepting = false;
    }
    engine_free(w->e);
    w->e = NULL;
    for (unsigned int i = 0; i < w->n_destroys; i++) {
        w->destroy[i].listener.job = NULL;
        w->destroy[i].overtaken = 0;
        w->destroy[i].stepped_us = loop_now_us(); /* the next one begins anew */
    }
    w->rested_us = 0; /* the next one knows nothing of it */
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
