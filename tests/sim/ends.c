/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>

#include "loop.h"
#include "report.h"
#include "schedule.h"
#include "world.h"

/*
 * A destroy of 4 GiB ends although nothing presses it (max_teardown_s is an hour): on a host whose
 * CPUs are all busy, without a floor, so that no page is ever scrubbed; and after a pause that
 * nobody ends.
 */
#define PAUSE_S 5
#define PAGES (1ull << 20)

static bool run(const char *name, uint64_t seed, bool busy, bool paused, double limit_s)
{
    struct config conf;
    struct sim_domain *d, *spinner;
    struct cpulist all = {.bits = {3}};
    struct destroy *t;
    struct world *w;
    struct xen *x;
    double s;
    bool fine;

    config_init(&conf);
    conf.max_teardown_s = 3600;
    conf.max_pause_s = PAUSE_S;
    conf.backlog_high_mib = 64;
    loop_init();
    x = host_new(&sim_lab, seed, 1, 2, 1, 8ull << 18);
    if (!x)
        abort();
    w = world_new(x, &conf);
    spinner = host_create(x, SIM_PV, 1 << 16, 1);
    host_pin(x, spinner, &all, 2, busy ? 1 : 0);
    d = host_create(x, SIM_PVH, PAGES, 1);
    t = world_destroy(w, d->ident.domid, 0, 0);
    if (paused)
        world_pause(w, t);
    if (!world_finish(w, loop_now_us() + 3000000000ull))
        world_broken(w, "it does not end");
    s = t->ended_us ? (double)(t->ended_us - t->asked_us) / 1e6 : 3000;
    report(name, s, "s", BAR_AT_MOST, limit_s, NULL, 0);
    fine = !w->broken[0] && s <= limit_s && (!busy || w->excuses.escapes);
    if (w->broken[0])
        printf("%s: %s\n", name, w->broken);
    world_free(w);
    host_free(x);
    return fine;
}

bool ends_run(uint64_t seed)
{
    bool fine = run("ends-busy", seed, true, false, 20);

    return run("ends-paused", seed, false, true, PAUSE_S + 10) && fine;
}
