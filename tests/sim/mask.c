/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <fnmatch.h>

#include "loop.h"
#include "world.h"

#define LOOKS_US                                                                                   \
    3000000 /* scrubd looks once a second while there is a job; dom0 may be squeezed               \
             */

/* CPUs that domains have been narrowed down to: those that are protected by name, or all. */
static struct cpulist narrow_cpus(const struct world *w, bool all_domains)
{
    struct cpulist all = {0};

    for (unsigned int i = 1; i < w->x->n_domains; i++) {
        const struct sim_domain *d = &w->x->domain[i];
        bool named = all_domains;

        for (unsigned int k = 0; k < w->conf.n_protect; k++)
            named |= fnmatch(w->conf.protect[k], d->name, 0) == 0;
        if (!d->used || d->life != XEN_LIFE_ALIVE || !named ||
            cpulist_count(&d->hard) >= w->x->n_cpus)
            continue;
        for (unsigned int k = 0; k < CPULIST_MAX / 64; k++)
            all.bits[k] |= d->hard.bits[k];
    }
    return all;
}

static bool is_sibling(const struct world *w, unsigned int cpu, const struct cpulist *of)
{
    for (unsigned int c = 0; c < w->x->n_cpus; c++) {
        if (w->x->cpu[c].online && cpulist_has(of, c) && w->x->cpu[c].core == w->x->cpu[cpu].core)
            return true;
    }
    return false;
}

void mask_check(struct world *w)
{
    struct cpulist no = narrow_cpus(w, false), pinned = narrow_cpus(w, true);
    bool clear[SIM_NODES] = {0}, any = false;
    const struct xen *x = w->x;

    if (w->conf.cpus_from != CONFIG_CPUS_AUTO || loop_now_us() < x->changed_us + LOOKS_US ||
        loop_now_us() < w->started_us + LOOKS_US)
        return;
    for (unsigned int c = 0; c < x->n_cpus; c++) {
        if (!x->cpu[c].online || cpulist_has(&no, c))
            continue;
        any = true;
        clear[x->cpu[c].node] |= !cpulist_has(&pinned, c) && !is_sibling(w, c, &pinned);
    }
    for (unsigned int c = 0; any && c < x->n_cpus; c++) {
        if (!x->cpu[c].may)
            continue;
        if (cpulist_has(&no, c))
            world_broken(w, "CPU %u may scrub, a protected domain runs there", c);
        else if (clear[x->cpu[c].node] && is_sibling(w, c, &no))
            world_broken(w, "CPU %u may scrub, a protected domain runs on its sibling", c);
    }
}
