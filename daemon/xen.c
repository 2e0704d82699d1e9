/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "xen.h"

#include <errno.h>
#include <stdlib.h>

int xen_cpus_online(struct xen *x, const struct xen_ops *ops, struct cpulist *ret)
{
    struct xen_cpu *cpus = calloc(CPULIST_MAX, sizeof(*cpus));
    int n = cpus ? ops->cpus(x, cpus, CPULIST_MAX) : -ENOMEM;

    if (n >= 0)
        cpulist_clear(ret);
    for (int i = 0; i < n; i++) {
        if (cpus[i].online)
            cpulist_add(ret, (unsigned int)i);
    }
    free(cpus);
    return n < 0 ? n : 0;
}
