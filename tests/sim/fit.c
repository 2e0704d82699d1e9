/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop.h"
#include "report.h"
#include "schedule.h"
#include "world.h"

/*
 * The lab's host, 6 GiB and 2 CPUs, and a destroy of the guest that ./measure destroyed there. The
 * constants come from teardowns by hand and from scrubbing by itself: what scrubd does is not in
 * them.
 */
#define RUNS 9
#define DURATION_TOLERANCE 0.15
#define BACKLOG_TOLERANCE 0.5

struct got {
    double ms, backlog;
};

static double backlog_sum, backlog_n;

static void look(struct world *w)
{
    double b = (double)host_backlog(w->x);

    backlog_sum += b;
    backlog_n += b > 0;
}

static struct got run(enum sim_kind kind, uint64_t seed)
{
    struct config conf;
    struct sim_domain *d;
    struct destroy *t;
    struct got got = {0};
    struct world *w;
    struct xen *x;

    config_init(&conf);
    loop_init();
    x = host_new(&sim_lab, seed, 1, 2, 1, 6ull << 18);
    if (!x)
        abort();
    w = world_new(x, &conf);
    d = host_create(x, kind, sim_lab_seen[kind].pages, 1);
    backlog_sum = backlog_n = 0;
    w->look = look;
    t = world_destroy(w, d->ident.domid, 0, 0);
    if (world_finish(w, loop_now_us() + 60000000)) {
        got.ms = (double)(t->ended_us - t->asked_us) / 1000;
        got.backlog = backlog_sum / backlog_n;
    }
    world_free(w);
    host_free(x);
    return got;
}

bool fit_check(uint64_t seed)
{
    static const char *const names[][2] = {{"fit-pv", "fit-pv-backlog"},
                                           {"fit-pvh", "fit-pvh-backlog"}};
    bool fine = true;

    for (unsigned int kind = 0; kind < SIM_KINDS; kind++) {
        const struct sim_seen *seen = &sim_lab_seen[kind];
        double ms = 0, backlog = 0;

        for (unsigned int i = 0; i < RUNS; i++) {
            struct got got = run(kind, seed + i);

            ms += got.ms / RUNS;
            backlog += got.backlog / RUNS;
        }
        report(names[kind][0], fabs(ms / seen->ms - 1) * 100, "% off", BAR_AT_MOST,
               DURATION_TOLERANCE * 100, (const double[]){ms, seen->ms}, 2);
        report(names[kind][1], fabs(backlog / seen->backlog_pages - 1) * 100, "% off", BAR_AT_MOST,
               BACKLOG_TOLERANCE * 100, (const double[]){backlog, seen->backlog_pages}, 2);
        printf("      %.0f ms here, %.0f in the lab; backlog %.0f pages, %.0f\n", ms, seen->ms,
               backlog, seen->backlog_pages);
        fine &= fabs(ms / seen->ms - 1) <= DURATION_TOLERANCE &&
                fabs(backlog / seen->backlog_pages - 1) <= BACKLOG_TOLERANCE;
    }
    return fine;
}
