/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xenctrl.h>

#include "xen-real.h"

/* pCPUs and where domains may run on them, from libxc: libxl would want xenstore for it. */

static bool map_has(const uint8_t *map, unsigned int cpu)
{
    return map[cpu / 8] >> (cpu % 8) & 1;
}

/* Xen keeps the topology of a parked CPU, so that says nothing about being online. What is online
 * is in a cpupool, or among the CPUs that are free for one. */
static int fill_pools(xc_interface *xch, unsigned int n_bits, struct xen_cpu *ret, unsigned int n)
{
    xc_cpumap_t free_cpus = xc_cpupool_freeinfo(xch);
    xc_cpupoolinfo_t *pool;
    uint32_t id = 0;

    if (!free_cpus)
        return errno ? -errno : -EIO;
    for (unsigned int cpu = 0; cpu < n && cpu < n_bits; cpu++)
        ret[cpu].online = map_has(free_cpus, cpu);
    free(free_cpus);
    while ((pool = xc_cpupool_getinfo(xch, id))) {
        for (unsigned int cpu = 0; cpu < n && cpu < n_bits; cpu++) {
            if (!map_has(pool->cpumap, cpu))
                continue;
            ret[cpu].online = true;
            ret[cpu].cpupool = pool->cpupool_id;
        }
        id = pool->cpupool_id + 1;
        xc_cpupool_infofree(xch, pool);
    }
    return 0;
}

int xen_cpus_list(xc_interface *xch, struct xen_cpu *ret, size_t max)
{
    int n_bits = xc_get_max_cpus(xch);
    xc_cputopo_t *topo;
    unsigned int n = 0;

    if (n_bits <= 0)
        return errno ? -errno : -EIO;
    if (xc_cputopoinfo(xch, &n, NULL) < 0)
        return -errno;
    if (n > CPULIST_MAX)
        n = CPULIST_MAX;
    topo = calloc(n + 1, sizeof(*topo));
    if (!topo)
        return -ENOMEM;
    if (xc_cputopoinfo(xch, &n, topo) < 0) {
        int r = -errno;

        free(topo);
        return r;
    }
    for (unsigned int cpu = 0; cpu < n && cpu < max; cpu++) {
        ret[cpu] = (struct xen_cpu){
            .node = topo[cpu].node == XEN_INVALID_NODE_ID ? 0 : topo[cpu].node,
            .core = topo[cpu].core,
            .socket = topo[cpu].socket,
            .cpupool = XEN_CPUPOOL_NONE,
        };
    }
    free(topo);
    if (max) {
        int r = fill_pools(xch, (unsigned int)n_bits, ret, n < max ? n : (unsigned int)max);

        if (r < 0)
            return r;
    }
    return (int)n;
}

static void add_map(struct cpulist *l, const uint8_t *map, size_t size)
{
    for (size_t i = 0; i < size && i < CPULIST_MAX / 8; i++)
        l->bits[i / 8] |= (uint64_t)map[i] << (i % 8 * 8);
}

static bool is_full(const struct cpulist *l, int n_cpus)
{
    return cpulist_count(l) >= (unsigned int)n_cpus;
}

static bool is_down(xc_interface *xch, uint32_t domid, uint32_t vcpu)
{
    xc_vcpuinfo_t info;

    return xc_vcpu_getinfo(xch, domid, vcpu, &info) < 0 || !info.online;
}

int xen_cpus_affinity(xc_interface *xch, const struct ident *id, struct cpulist *ret_hard,
                      struct cpulist *ret_soft)
{
    struct cpulist hard = {0}, soft = {0};
    xc_cpumap_t hard_map, soft_map;
    xc_domaininfo_t info;
    int n_cpus = xc_get_max_cpus(xch), size = (n_cpus + 7) / 8, n;

    if (n_cpus <= 0)
        return errno ? -errno : -EIO;
    n = xc_domain_getinfolist(xch, id->domid, 1, &info);
    if (n < 0)
        return -errno;
    if (n == 0 || info.domain != id->domid || memcmp(info.handle, id->uuid, sizeof(id->uuid)))
        return -ESRCH;
    hard_map = xc_cpumap_alloc(xch);
    soft_map = xc_cpumap_alloc(xch);
    if (!hard_map || !soft_map) {
        free(hard_map);
        free(soft_map);
        return -ENOMEM;
    }
    /* Most guests may run everywhere, which their first vCPU tells. */
    for (uint32_t v = 0; info.max_vcpu_id != XEN_INVALID_MAX_VCPU_ID && v <= info.max_vcpu_id &&
                         !(is_full(&hard, n_cpus) && is_full(&soft, n_cpus));
         v++) {
        if (info.nr_online_vcpus && info.nr_online_vcpus <= info.max_vcpu_id &&
            is_down(xch, id->domid, v))
            continue;
        if (xc_vcpu_getaffinity(xch, id->domid, (int)v, hard_map, soft_map,
                                XEN_VCPUAFFINITY_HARD | XEN_VCPUAFFINITY_SOFT) < 0)
            continue; /* vCPU numbers may have gaps, and the domain may go at any time */
        add_map(&hard, hard_map, (size_t)size);
        add_map(&soft, soft_map, (size_t)size);
    }
    free(hard_map);
    free(soft_map);
    *ret_hard = hard;
    *ret_soft = soft;
    return 0;
}

int xen_cpus_memory_free(xc_interface *xch, uint64_t *ret_pages)
{
    xc_physinfo_t info;

    if (xc_physinfo(xch, &info) < 0)
        return -errno;
    *ret_pages = info.free_pages;
    return 0;
}
