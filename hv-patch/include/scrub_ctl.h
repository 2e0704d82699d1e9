/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a dead domain's memory: when it is freed, who scrubs it.
 *
 * Tools built against headers without these operations copy the structures
 * into the pad of struct xen_domctl and struct xen_sysctl.
 */

#ifndef __XEN_PUBLIC_SCRUB_CTL_H__
#define __XEN_PUBLIC_SCRUB_CTL_H__

#ifdef __XEN__
#include "xen.h"
#else
#include <xen/xen.h>
#endif

/*
 * XEN_DOMCTL_teardown_step: do part of what XEN_DOMCTL_destroydomain does.
 *
 * The first step marks the domain dying and pauses it; there is no way back.
 * A step ends when its time is used up, or when the domain is dead.  Steps and
 * destroydomain may be mixed in any order, by any number of callers.
 *
 * The time starts when the hypervisor's domctl lock is held.  Some stages do
 * not check for preemption (deassigning PCI devices, blowing the shadow
 * tables, HVM device clean-up): a step that meets one of them lasts longer.
 * Each step makes some progress, however short.
 *
 * Errors: -ESRCH   no such domain, or with another handle (domids are reused)
 *         -EINVAL  unknown flag, max_us out of range, the caller's own domain,
 *                  private fields changed
 *         -EBUSY   ONLY_IF_DYING, and the domain is alive
 *         -EFAULT  the structure cannot be written.  If it could at first, the
 *                  step may have been done.
 */

/* Far from the numbers in use: the interface version need not change. */
#define XEN_DOMCTL_teardown_step      0x5c00

struct xen_domctl_teardown_step {
    uint8_t handle[16];           /* IN: as reported by getdomaininfo */
    uint32_t max_us;              /* IN: time for this step; unused by QUERY */
#define XEN_TEARDOWN_MIN_US           100
#define XEN_TEARDOWN_MAX_US           1000000
    uint32_t flags;               /* IN */
#define XEN_TEARDOWN_QUERY            (1u << 0) /* Report, change nothing */
#define XEN_TEARDOWN_ONLY_IF_DYING    (1u << 1) /* Go on, but never begin */
    uint32_t state;               /* OUT */
#define XEN_TEARDOWN_ALIVE            0
#define XEN_TEARDOWN_DYING            1 /* Begun, not finished */
#define XEN_TEARDOWN_DEAD             2 /* Pages held by others may remain */
    uint32_t stage;               /* OUT: only grows; a number for messages */
    int32_t error;                /* OUT: what, other than time or the end, */
                                  /*      stopped the teardown; else 0 */
    uint32_t entries;             /* OUT: entries to the hypervisor */
    uint64_aligned_t pages_left;  /* OUT: pages that the domain owns */
    uint64_aligned_t pages_freed; /* OUT: pages that it lost in this step */
    uint64_aligned_t cpu_ns;      /* OUT: time on the CPU, not the waiting */
    uint64_aligned_t priv[2];     /* IN: 0. Used while the step continues. */
};

/*
 * XEN_SYSCTL_scrub_control: read or change how free memory is scrubbed.
 *
 * Without settings any idle CPU scrubs, as fast as it can.  What was dirty at
 * boot stays out of the ceiling.  Memory that is allocated while dirty is
 * scrubbed right then, whatever is set.
 *
 * Errors: -EINVAL  unknown version or op; flags set; nr_nodes or mask.nr_bits
 *                  not as reported by GET; a mask without an online CPU; a
 *                  rate or the lease out of range; a floor above its ceiling
 *         -EPERM   caller is not privileged
 *         -EFAULT  a buffer cannot be read or written
 *         -ENOSYS  hypervisor without either operation; the domctl would look
 *                  the domain up first, and may answer -ESRCH
 * A SET or RESET that fails has changed nothing.
 */
#define XEN_SYSCTL_scrub_control      0x5c00
#define XEN_SCRUB_CTL_VERSION         1

/* One for each node id.  Counters are in pages and since boot. */
struct xen_scrub_node {
    uint64_aligned_t ceiling_kib; /* IN/OUT: KiB per second at most; 0: any */
#define XEN_SCRUB_MAX_KIB             (1u << 30)
    /*
     * IN/OUT: KiB per second at least.  If no CPU is idle, CPUs are taken from
     * vCPUs for 250 us at a time, by turns, at most for a quarter of one CPU's
     * time; not under core scheduling, nor from the RTDS and ARINC653
     * schedulers.
     */
    uint64_aligned_t floor_kib;
#define XEN_SCRUB_MAX_FLOOR_KIB       (1u << 22)
    /* OUT: consistent; dirty = dirtied - idle - floor - alloc - dropped. */
    uint64_aligned_t dirty;       /* Free, but not scrubbed yet, ... */
    uint64_aligned_t boot;        /* ... of which so many since boot */
    uint64_aligned_t dirtied;     /* Freed without having been scrubbed */
    uint64_aligned_t idle;        /* Scrubbed by idle CPUs */
    uint64_aligned_t floor;       /* Scrubbed to keep the floor */
    uint64_aligned_t alloc;       /* Scrubbed when allocated */
    uint64_aligned_t dropped;     /* Allocated by one who overwrites them */
    uint64_aligned_t throttled_ns; /* Time waited because of the ceiling */
};
typedef struct xen_scrub_node xen_scrub_node_t;
DEFINE_XEN_GUEST_HANDLE(xen_scrub_node_t);

/* One for each CPU number.  OUT: pages */
struct xen_scrub_cpu {
    uint64_aligned_t idle, floor; /* Scrubbed while idle, for a floor */
};
typedef struct xen_scrub_cpu xen_scrub_cpu_t;
DEFINE_XEN_GUEST_HANDLE(xen_scrub_cpu_t);

struct xen_sysctl_scrub_control {
    uint32_t version;             /* IN: XEN_SCRUB_CTL_VERSION */
    uint32_t op;                  /* IN */
#define XEN_SCRUB_GET                 0
#define XEN_SCRUB_SET                 1 /* All of it; renews the lease, too */
#define XEN_SCRUB_RESET               2 /* No settings.  Counters stay. */
    uint32_t flags;               /* SET: 0 */
#define XEN_SCRUB_MASKED              (1u << 0) /* GET: not all CPUs may */
    uint32_t lease_ms;            /* SET: reset by itself so long after the */
                                  /*      last SET, 0 for never */
                                  /* GET: time left */
#define XEN_SCRUB_MAX_LEASE_MS        3600000
    uint32_t nr_nodes;            /* IN: room in nodes[]. OUT: node ids */
    uint32_t nr_cpus;             /* IN: room in cpus[]. OUT: CPU numbers */
    uint64_aligned_t now_ns;      /* OUT: the hypervisor's clock */
    struct xenctl_bitmap mask;    /* SET: who may scrub; nr_bits = nr_cpus */
                                  /* GET: who may at present; optional */
    XEN_GUEST_HANDLE_64(xen_scrub_node_t) nodes; /* SET: nr_nodes of them */
                                  /* GET: optional */
    XEN_GUEST_HANDLE_64(xen_scrub_cpu_t) cpus; /* GET: optional */
};

#endif /* __XEN_PUBLIC_SCRUB_CTL_H__ */
