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

static FILE *series;

static void look(struct world *w)
{
    static uint64_t next_us, t0_us;
    uint64_t now_us = loop_now_us();

    if (now_us < next_us && t0_us <= now_us)
        return;
    if (t0_us > now_us || !next_us)
        t0_us = now_us;
    next_us = now_us + SERIES_US;
    fprintf(series, "%.3f %.1f %.3f\n", (double)(now_us - t0_us) / 1e6,
            (double)host_backlog(w->x) / 256, 0.0);
}

static struct xen *make_host(uint64_t seed)
{
    struct xen *x = host_new(&sim_metal, seed, NODES, CPUS_PER_NODE, 2, NODE_PAGES);
    struct rng rng = {seed};

    if (!x)
        abort();
    for (unsigned int i = 0; i < DOMAINS; i++) {
        unsigned int node = i % NODES;
        struct sim_domain *d = host_create(x, rng_chance(&rng, 50), DOMAIN_PAGES, 1u << node);
        struct cpulist l = {0};

        if (!d)
            abort();
        for (unsigned int c = 0; c < CPUS_PER_NODE; c++)
            cpulist_add(&l, node * CPUS_PER_NODE + c);
        d->hard = d->soft = l;
        d->vcpus = 4;
        d->load = 0.08;
    }
    host_pin(x, &x->domain[1], &x->domain[1].hard, 4, 0.08);
    return x;
}

bool big_run(uint64_t seed, const char *path)
{
    struct config conf;
    struct xen *x;
    struct world *w;
    uint64_t began_us, last_us = 0, cpu_ns;
    double bound_s, took_s, cpu_s;
    uint64_t high;
    bool fine;

    config_init(&conf);
    high = (uint64_t)conf.backlog_high_mib * 256;
    loop_init();
    x = make_host(seed);
    w = world_new(x, &conf);
    series = path ? fopen(path, "we") : NULL;
    w->look = series ? look : NULL;
    cpu_ns = loop_real_cpu_ns();
    began_us = loop_now_us();
    for (unsigned int i = 0; i < DESTROYS; i++)
        world_destroy(w, 1 + i * (DOMAINS / DESTROYS) + i % NODES);
    if (!world_finish(w, began_us + 86400000000ull))
        world_broken(w, "%u destroys do not end", w->n_destroys - w->n_ended);
    cpu_s = (double)(loop_real_cpu_ns() - cpu_ns) / 1e9;
    world_check_end(w);
    for (unsigned int i = 0; i < w->n_destroys; i++) {
        if (w->destroy[i].ended_us > last_us)
            last_us = w->destroy[i].ended_us;
    }
    bound_s = world_bound_us(w) / 1e6;
    took_s = (double)(last_us - began_us) / 1e6;
    report("big-total", took_s / bound_s, "x bound", BAR_AT_MOST, 1.05,
           (const double[]){took_s, bound_s}, 2);
    report("big-backlog", ((double)w->most_backlog - (double)high) / (double)w->most_freed,
           "steps over", BAR_AT_MOST, 1,
           (const double[]){(double)w->most_backlog, (double)high, (double)w->most_freed}, 3);
    report("big-escapes", (double)w->escapes, "steps", BAR_NONE, 0, NULL, 0);
    report("big-steps", (double)x->steps, "steps", BAR_NONE, 0, NULL, 0);
    report("big-overtaken", (double)w->most_overtaken, "steps", BAR_AT_MOST, DESTROYS, NULL, 0);
    report("big-violated", w->broken[0] != 0, "promises", BAR_AT_MOST, 0, NULL, 0);
    report("big-speed", took_s / cpu_s, "x real", BAR_NONE, 0, NULL, 0);
    fine = !w->broken[0];
    if (!fine)
        printf("big host, seed %" PRIu64 ": %s\n", seed, w->broken);
    if (series)
        fclose(series);
    world_free(w);
    host_free(x);
    return fine;
}
