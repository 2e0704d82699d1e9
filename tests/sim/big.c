/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop.h"
#include "report.h"
#include "schedule.h"
#include "world.h"

#define NODES 8
#define CPUS_PER_NODE 64
#define NODE_PAGES (12ull << 28 >> 3) /* 12 TiB in all */
#define DOMAINS 1000
#define DOMAIN_PAGES (3ull << 20) /* 12 GiB: all of them fit */
#define DESTROYS 100
#define SERIES_US 100000
#define CEILING_MIB_S 1024
#define COMFORT_S 3600 /* max_teardown_s that does not press */
#define DECISIONS 2000000u

static FILE *series;
static uint64_t began_us, next_us;

static void look(struct world *w)
{
    uint64_t now_us = loop_now_us(), left = 0;

    if (now_us < next_us)
        return;
    next_us = now_us + SERIES_US;
    for (unsigned int i = 0; i < w->n_destroys; i++) {
        const struct destroy *t = &w->destroy[i];

        left += t->ended_us ? 0 : w->x->domain[t->ident.domid].pages;
    }
    fprintf(series, "%.3f %.2f %.3f\n", (double)(now_us - began_us) / 1e6,
            (double)host_backlog(w->x) / 256, (double)left / 262144);
}

/* Domains of either kind, each on one node, none of them busy. */
static struct xen *make_host(uint64_t seed)
{
    struct xen *x = host_new(&sim_metal, seed, NODES, CPUS_PER_NODE, 2, NODE_PAGES);
    struct rng rng = {seed};

    if (!x)
        abort();
    for (unsigned int i = 0; i < DOMAINS; i++) {
        unsigned int node = i % NODES;
        struct sim_domain *d = host_create(x, rng_chance(&rng, 50), DOMAIN_PAGES, 1u << node);

        if (!d)
            abort();
        for (unsigned int c = 0; c < CPUS_PER_NODE; c++)
            cpulist_add(&d->hard, node * CPUS_PER_NODE + c);
        d->soft = d->hard;
        d->vcpus = 4;
        d->load = 0.08;
    }
    host_pin(x, &x->domain[1], &x->domain[1].hard, 4, 0.08); /* has all loads added up */
    return x;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void report_decisions(struct world *w)
{
    double sum = 0, n = w->n_decisions;

    qsort(w->decisions_ns, w->n_decisions, sizeof(*w->decisions_ns), compare);
    for (unsigned int i = 0; i < w->n_decisions; i++)
        sum += (double)w->decisions_ns[i];
    /* With the clock's own time in it. */
    report("decision", sum / n / 1000, "us", BAR_AT_MOST, 2,
           (const double[]){(double)w->decisions_ns[(size_t)(n * 0.5)] / 1000,
                            (double)w->decisions_ns[(size_t)(n * 0.99)] / 1000,
                            (double)w->decisions_ns[w->n_decisions - 1] / 1000},
           3);
}

static double ended_s(const struct world *w)
{
    uint64_t last_us = began_us;

    for (unsigned int i = 0; i < w->n_destroys; i++) {
        if (w->destroy[i].ended_us > last_us)
            last_us = w->destroy[i].ended_us;
    }
    return (double)(last_us - began_us) / 1e6;
}

/* name: of the figures. True if no promise was broken. */
static bool run(const char *name, uint64_t seed, long ceiling_mib_s, long max_teardown_s)
{
    struct config conf;
    struct xen *x;
    struct world *w;
    double bound_s, took_s, high;
    uint64_t cpu_ns;
    char text[64];
    bool fine;

#define FIGURE(what) (snprintf(text, sizeof(text), "%s-%s", name, what), text)
    config_init(&conf);
    conf.ceiling_mib_s = ceiling_mib_s;
    if (max_teardown_s)
        conf.max_teardown_s = max_teardown_s;
    high = (double)conf.backlog_high_mib * 256;
    loop_init();
    x = make_host(seed);
    w = world_new(x, &conf);
    w->n_timed = DECISIONS;
    w->decisions_ns = calloc(DECISIONS, sizeof(*w->decisions_ns));
    if (!w->decisions_ns)
        abort();
    cpu_ns = loop_real_cpu_ns();
    began_us = loop_now_us();
    next_us = 0;
    for (unsigned int i = 0; i < DESTROYS; i++)
        world_destroy(w, 1 + i * (DOMAINS / DESTROYS) + i % NODES, 0, 0);
    bound_s = world_bound_us(w) / 1e6;
    w->look = series ? look : NULL;
    if (!world_finish(w, began_us + 86400000000ull))
        world_broken(w, "%u destroys do not end", w->n_destroys - w->n_ended);
    cpu_ns = loop_real_cpu_ns() - cpu_ns;
    took_s = ended_s(w);
    world_check_end(w);
    report(FIGURE("total"), took_s / bound_s, "x bound", BAR_AT_MOST, 1.05,
           (const double[]){took_s, bound_s}, 2);
    report(FIGURE("backlog"), ((double)w->most_backlog - high) / (double)w->most_freed,
           "steps over", BAR_AT_MOST, 1,
           (const double[]){(double)w->most_backlog, high, (double)w->most_freed}, 3);
    report(FIGURE("escapes"), (double)w->excuses.escapes, "steps", BAR_NONE, 0, NULL, 0);
    report(FIGURE("starving"), (double)w->longest_starving_us / 1e6, "s", BAR_NONE, 0, NULL, 0);
    report(FIGURE("violated"), w->broken[0] != 0, "promises", BAR_AT_MOST, 0, NULL, 0);
    report(FIGURE("speed"), took_s / ((double)cpu_ns / 1e9), "x real", BAR_NONE, 0,
           (const double[]){took_s, (double)x->steps}, 2);
    if (!ceiling_mib_s)
        report_decisions(w);
    fine = !w->broken[0];
    if (!fine)
        printf("%s, seed %" PRIu64 ": %s\n", name, seed, w->broken);
    free(w->decisions_ns);
    world_free(w);
    host_free(x);
    return fine;
}

bool big_run(uint64_t seed, const char *path)
{
    bool fine;

    series = path ? fopen(path, "we") : NULL;
    fine = run("big", seed, 0, COMFORT_S);
    if (series)
        fputs("\n\n", series);
    fine &= run("big-ceiling", seed, CEILING_MIB_S, COMFORT_S);
    if (series)
        fclose(series);
    return fine;
}
