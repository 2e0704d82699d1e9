/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "loop.h"
#include "report.h"
#include "world.h"

#define GIB_PAGES (1ull << 18)
#define DOMAINS_MAX 60
#define ACTIONS_MAX 40

/* What the schedule is made of. */
struct schedule {
    struct rng rng;
    bool loud;
    struct sim_model model;
    struct config conf;
    struct xen *x;
    struct world *w;
    uint64_t began_us, ends_us;
    uint64_t destroys, kills;
};

static void tell(const struct schedule *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void tell(const struct schedule *s, const char *fmt, ...)
{
    va_list ap;

    if (!s->loud)
        return;
    printf("%12.6f  ", (double)(loop_now_us() - s->began_us) / 1e6);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

/* Between low and high, small ones as often as large ones. */
static uint64_t log_between(struct rng *rng, double low, double high)
{
    return (uint64_t)(low * pow(high / low, rng_unit(rng)));
}

static void make_model(struct schedule *s)
{
    bool lab = rng_chance(&s->rng, 50);
    /* No host is slower than the emulated one. */
    double slower = pow(4, rng_unit(&s->rng) * 2 - (lab ? 2 : 1));

    s->model = lab ? sim_lab : sim_metal;
    for (unsigned int k = 0; k < SIM_KINDS; k++) {
        for (unsigned int p = 0; p < SIM_PHASES; p++)
            s->model.kind[k].phases[p].us_per_page *= slower;
    }
    s->model.scrub_pages_us *= pow(4, rng_unit(&s->rng) * 2 - 1);
}

#define PICK(s, ...)                                                                               \
    ((const long[]){                                                                               \
        __VA_ARGS__}[rng_below(&(s)->rng, sizeof((const long[]){__VA_ARGS__}) / sizeof(long))])

static void make_conf(struct schedule *s)
{
    struct config *c = &s->conf;

    config_init(c);
    c->step_us = PICK(s, 500, 1000, 2000, 2000, 5000);
    c->duty_percent = PICK(s, 10, 25, 50, 50, 75, 100);
    c->backlog_high_mib = PICK(s, 16, 64, 256, 1024, 1024);
    c->no_progress_ms = PICK(s, 200, 1000, 1000);
    c->ceiling_mib_s = PICK(s, 0, 0, 64, 256, 1024);
    c->floor_mib_s = PICK(s, 0, 0, 16, 64);
    if (rng_chance(&s->rng, 60))
        snprintf(c->protect[c->n_protect++], sizeof(c->protect[0]), "g*3");
    c->min_size_mib = PICK(s, 0, 32, 32, 100);
    c->max_teardown_s = PICK(s, 10, 60, 120, 120, 3600);
    c->max_pause_s = PICK(s, 5, 60, 600);
    c->max_dirty_age_s = PICK(s, 0, 10, 600);
    tell(s,
         "step %ld us, duty %ld %%, backlog %ld MiB, no progress %ld ms, ceiling %ld, floor %ld, "
         "max teardown %ld s",
         c->step_us, c->duty_percent, c->backlog_high_mib, c->no_progress_ms, c->ceiling_mib_s,
         c->floor_mib_s, c->max_teardown_s);
}

static struct cpulist some_cpus(struct schedule *s)
{
    struct cpulist l = {0};
    unsigned int first = (unsigned int)rng_below(&s->rng, s->x->n_cpus), n;

    n = rng_chance(&s->rng, 50) ? (unsigned int)rng_between(&s->rng, 1, 4) : s->x->n_cpus;
    for (unsigned int i = 0; i < n; i++)
        cpulist_add(&l, (first + i) % s->x->n_cpus);
    return l;
}

static void pin(struct schedule *s, struct sim_domain *d)
{
    struct cpulist l = some_cpus(s);
    unsigned int vcpus = (unsigned int)rng_between(&s->rng, 1, 8);
    double load = rng_chance(&s->rng, 30) ? 1 : rng_unit(&s->rng) * 0.2;

    host_pin(s->x, d, &l, vcpus, load);
    tell(s, "domain %u: %u vCPUs on %u CPUs, load %.2f", d->ident.domid, vcpus, cpulist_count(&l),
         load);
}

static void create(struct schedule *s)
{
    uint32_t all = (1u << s->x->n_nodes) - 1;
    uint32_t nodes = rng_chance(&s->rng, 50) ? all : 1u << rng_below(&s->rng, s->x->n_nodes);
    uint64_t pages = log_between(&s->rng, 4096, 8.0 * GIB_PAGES);
    struct sim_domain *d = host_create(s->x, rng_chance(&s->rng, 50), pages, nodes);

    if (!d)
        return;
    tell(s, "domain %u created: %" PRIu64 " MiB on nodes %x", d->ident.domid, pages / 256, nodes);
    pin(s, d);
}

static void make_host(struct schedule *s)
{
    unsigned int nodes = (unsigned int)rng_between(&s->rng, 1, 8);
    unsigned int smt = (unsigned int)rng_between(&s->rng, 1, 2);
    unsigned int cpus = smt << rng_below(&s->rng, 5);
    uint64_t pages = log_between(&s->rng, 2.0 * GIB_PAGES, 64.0 * GIB_PAGES);
    unsigned int domains = (unsigned int)rng_between(&s->rng, 1, DOMAINS_MAX);

    s->x = host_new(&s->model, rng_next(&s->rng), nodes, cpus, smt, pages);
    if (!s->x)
        abort();
    tell(s, "%u nodes of %u CPUs (%u threads a core) and %" PRIu64 " MiB", nodes, cpus, smt,
         pages / 256);
    /* Memory that nobody has scrubbed since boot. */
    if (rng_chance(&s->rng, 20)) {
        for (unsigned int i = 0; i < nodes; i++)
            s->x->node[i].dirtied = s->x->node[i].boot = rng_below(&s->rng, pages / 2);
    }
    for (unsigned int i = 0; i < domains; i++)
        create(s);
}

static struct sim_domain *any_domain(struct schedule *s)
{
    struct sim_domain *d;

    for (unsigned int tries = 0; tries < 8; tries++) {
        d = &s->x->domain[rng_below(&s->rng, s->x->n_domains)];
        if (d->used && d->ident.domid && d->life == XEN_LIFE_ALIVE)
            return d;
    }
    return NULL;
}

static void destroy(struct schedule *s)
{
    struct sim_domain *d = any_domain(s);
    int priority = rng_chance(&s->rng, 80) ? 0 : (int)rng_below(&s->rng, 21) - 10;
    uint64_t deadline_us = 0;

    if (!d || !s->w->e)
        return;
    /* From what cannot be to what is easy. */
    if (rng_chance(&s->rng, 20))
        deadline_us = (uint64_t)(host_work_us(s->x, d) * pow(30, rng_unit(&s->rng) * 2 - 1)) + 1000;
    tell(s, "destroy of domain %u, %" PRIu64 " MiB, priority %d, deadline %" PRIu64 " ms",
         d->ident.domid, d->pages / 256, priority, deadline_us / 1000);
    s->destroys += world_destroy(s->w, d->ident.domid, priority, deadline_us) != NULL;
}

/* One that goes on, or NULL. */
static struct destroy *any_destroy(struct schedule *s)
{
    for (unsigned int tries = 0; tries < 8 && s->w->n_destroys; tries++) {
        struct destroy *t = &s->w->destroy[rng_below(&s->rng, s->w->n_destroys)];

        if (!t->ended_us)
            return t;
    }
    return NULL;
}

static void operate(struct schedule *s)
{
    struct destroy *t = any_destroy(s);
    int priority = (int)rng_below(&s->rng, 21) - 10;

    if (!t)
        return;
    switch (rng_below(&s->rng, 4)) {
    case 0:
        tell(s, "domain %u paused", t->ident.domid);
        world_pause(s->w, t);
        break;
    case 1:
        tell(s, "domain %u resumed", t->ident.domid);
        world_resume(s->w, t);
        break;
    case 2:
        tell(s, "domain %u in a hurry", t->ident.domid);
        world_hurry(s->w, t);
        break;
    default:
        tell(s, "domain %u has priority %d", t->ident.domid, priority);
        world_set_priority(s->w, t, priority);
    }
}

static void memory(struct schedule *s)
{
    bool press = rng_chance(&s->rng, 50);
    uint64_t us = rng_below(&s->rng, 10000000);

    tell(s, "somebody waits for clean memory for %" PRIu64 " ms, %s", us / 1000,
         press ? "pressing" : "holding");
    world_wait(s->w, press, us);
}

static void hotplug(struct schedule *s)
{
    unsigned int cpu = (unsigned int)rng_below(&s->rng, s->x->n_cpus);

    if (cpu == 0) /* never goes */
        return;
    host_set_online(s->x, cpu, !s->x->cpu[cpu].online);
    tell(s, "CPU %u %s", cpu, s->x->cpu[cpu].online ? "online" : "offline");
}

/* A crash, or a restart: short, or long enough for the lease to end. */
static void be_away(struct schedule *s)
{
    bool killed = rng_chance(&s->rng, 70);
    uint64_t us = rng_chance(&s->rng, 70) ? rng_below(&s->rng, 1000000)
                                          : ((uint64_t)s->conf.lease_s + 1) * 1000000;

    tell(s, "scrubd %s, for %" PRIu64 " ms", killed ? "is killed" : "is stopped", us / 1000);
    world_stop(s->w, killed);
    s->kills++;
    loop_until(loop_now_us() + us);
    host_advance(s->x);
    if (us > (uint64_t)s->conf.lease_s * 1000000 && host_settings_in_force(s->x))
        world_broken(s->w, "no daemon for %" PRIu64 " ms, and its settings stay", us / 1000);
    s->x->misuse.leases_ended = 0;
    world_start(s->w);
}

static void act(struct schedule *s)
{
    struct sim_domain *d;
    uint64_t what = rng_below(&s->rng, 100);

    if (what < 40) {
        /* Often several at once. */
        for (uint64_t n = rng_chance(&s->rng, 30) ? rng_between(&s->rng, 2, 12) : 1; n > 0; n--)
            destroy(s);
    } else if (what < 60) {
        operate(s);
    } else if (what < 65) {
        memory(s);
    } else if (what < 72) {
        create(s);
    } else if (what < 80) {
        d = any_domain(s);
        if (d)
            pin(s, d);
    } else if (what < 88) {
        hotplug(s);
    } else if (what < 94) {
        world_disturb(s->w);
        s->x->squeeze = rng_chance(&s->rng, 50) ? 0 : rng_unit(&s->rng) * 0.8;
        tell(s, "others take %.0f %% of dom0", s->x->squeeze * 100);
    } else {
        be_away(s);
    }
}

/*
 * By when all must have ended, if nothing happens any more: pauses end, then comfort does. Until
 * then jobs may have been held; after it their work has to be done, which an estimate that is wrong
 * at first may make twice as long.
 */
static uint64_t by_when_us(const struct schedule *s)
{
    double work_us = 0;

    for (unsigned int i = 0; i < s->w->n_destroys; i++)
        work_us += s->w->destroy[i].ended_us ? 0 : s->w->destroy[i].work_us;
    return loop_now_us() + (uint64_t)(s->conf.max_pause_s + s->conf.max_teardown_s + 30) * 1000000 +
           (uint64_t)(2 * work_us * (double)(s->conf.step_us + 1000) / (double)s->conf.step_us);
}

bool schedule_run(uint64_t seed, bool loud, struct tally *tally, char text[256])
{
    struct schedule s = {.rng = {seed}, .loud = loud};
    unsigned int actions;

    loop_init();
    s.began_us = loop_now_us();
    make_model(&s);
    make_conf(&s);
    make_host(&s);
    s.w = world_new(s.x, &s.conf);
    s.ends_us = s.began_us + rng_between(&s.rng, 60, 7200) * 1000000;
    actions = (unsigned int)rng_between(&s.rng, 2, ACTIONS_MAX);
    for (unsigned int i = 0; i < actions && !s.w->broken[0]; i++) {
        uint64_t left_us = s.ends_us > loop_now_us() ? s.ends_us - loop_now_us() : 0;

        /* Some close together, with what others set off still under way. */
        if (rng_chance(&s.rng, 50))
            left_us = left_us < 2000000 ? left_us : 2000000;
        else
            left_us /= actions - i;
        loop_until(loop_now_us() + rng_below(&s.rng, left_us * 2 + 1));
        act(&s);
    }
    s.x->squeeze = 0;
    if (!s.w->broken[0] && !world_finish(s.w, by_when_us(&s)))
        world_broken(s.w, "%u of %u destroys do not end", s.w->n_destroys - s.w->n_ended,
                     s.w->n_destroys);
    world_check_end(s.w);
    snprintf(text, 256, "%s", s.w->broken);
    tally->virtual_us += loop_now_us() - s.began_us;
    tally->steps += s.x->steps;
    tally->destroys += s.destroys;
    tally->kills += s.kills;
    tally->escapes += s.w->excuses.escapes;
    tally->pressed += s.w->excuses.pressed;
    tally->firsts += s.w->excuses.firsts;
    tally->deadlines_met += s.w->deadlines_met;
    tally->deadlines_refused += s.w->deadlines_refused;
    tally->limits_met += s.w->limits_met;
    world_free(s.w);
    host_free(s.x);
    return !text[0];
}

unsigned int schedule_many(uint64_t first, unsigned int count)
{
    struct tally t = {0};
    unsigned int bad = 0;
    uint64_t began_ns = loop_real_cpu_ns();
    double cpu_s;

    progress("schedules", 0, count);
    for (unsigned int i = 0; i < count; i++) {
        char text[256];

        if (!schedule_run(first + i, false, &t, text)) {
            if (bad++ < 20)
                printf("schedule %" PRIu64 ": %s\n", first + i, text);
        }
        progress("schedules", i + 1, count);
    }
    cpu_s = (double)(loop_real_cpu_ns() - began_ns) / 1e9;
    printf("%u schedules from seed %" PRIu64 ": %" PRIu64 " destroys, %" PRIu64 " steps, %" PRIu64
           " crashes; above the mark: %" PRIu64 " escapes, %" PRIu64 " pressed, %" PRIu64 " first "
           "steps; %" PRIu64 " deadlines and %" PRIu64 " limits met, %" PRIu64 " refused\n",
           count, first, t.destroys, t.steps, t.kills, t.escapes, t.pressed, t.firsts,
           t.deadlines_met, t.limits_met, t.deadlines_refused);
    report("schedules", count, "run", BAR_NONE, 0, NULL, 0);
    report("schedules-violated", bad, "of them", BAR_AT_MOST, 0, NULL, 0);
    report("schedules-speed", (double)t.virtual_us / 1e6 / cpu_s, "x real", BAR_AT_LEAST, 1e5, NULL,
           0);
    return bad;
}
