/* SPDX-License-Identifier: MIT */
/*
 * scrub_ctl.h
 *
 * Tear a domain down in bounded steps, and control the scrubbing of freed memory: how fast, on which CPUs.
 *
 * Installed as xen/include/public/scrub_ctl.h. Tools that are built against headers without these operations
 * copy the structures below into the pad of struct xen_domctl and struct xen_sysctl. A hypervisor without them
 * answers -ENOSYS (probe with the sysctl: a domctl looks the domain up first, and may answer -ESRCH).
 */

#ifndef __XEN_PUBLIC_SCRUB_CTL_H__
#define __XEN_PUBLIC_SCRUB_CTL_H__

#ifdef __XEN__
#include "xen.h"
#else
#include <xen/xen.h>
#endif

/* Command numbers far from those in use, so that the interface versions need not change. */
#define XEN_DOMCTL_teardown_step  0x5c00
#define XEN_SYSCTL_scrub_control  0x5c00

/*
 * XEN_DOMCTL_teardown_step: do part of what XEN_DOMCTL_destroydomain does.
 *
 * The first step marks the domain dying and pauses it; there is no way back. A step ends when its time is used
 * up, or when the domain is dead. Steps and destroydomain may be mixed in any order, by any number of callers.
 *
 * The time starts when the hypervisor's domctl lock is held. It is kept to by everything that checks for
 * preemption; some stages do not (deassigning PCI devices, blowing the shadow tables, HVM device clean-up), and
 * a step that meets one of them lasts longer. Each step makes some progress, however short its time.
 *
 * Errors: -ESRCH   no such domain, or its handle is another one (the domid was reused)
 *         -EINVAL  unknown flag, max_us out of range, the caller's own domain, changed private fields
 *         -EBUSY   ONLY_IF_DYING, and the domain is alive
 *         -ENOSYS  hypervisor without this operation
 * On an error nothing has changed.
 */
struct xen_domctl_teardown_step {
    uint8_t handle[16];           /* IN: as in getdomaininfo */
    uint32_t max_us;              /* IN: time of the step; ignored with QUERY */
#define XEN_TEARDOWN_MIN_US          100
#define XEN_TEARDOWN_MAX_US      1000000
    uint32_t flags;               /* IN */
#define XEN_TEARDOWN_QUERY            (1u << 0) /* Report only. Never changes a domain. */
#define XEN_TEARDOWN_ONLY_IF_DYING    (1u << 1) /* Go on with a teardown, never begin one. */
    uint32_t state;               /* OUT */
#define XEN_TEARDOWN_ALIVE            0
#define XEN_TEARDOWN_DYING            1 /* being torn down: not finished */
#define XEN_TEARDOWN_DEAD             2 /* finished; pages that others still hold may remain */
    uint32_t stage;               /* OUT: number of the teardown stage reached. Only ever grows. For messages. */
    int32_t error;                /* OUT: what stopped the teardown, if it was neither time nor the end; else 0 */
    uint32_t entries;             /* OUT: how often the hypervisor was entered for this step */
    uint64_aligned_t pages_left;  /* OUT: pages that the domain still owns */
    uint64_aligned_t pages_freed; /* OUT: pages that it lost during this step */
    uint64_aligned_t cpu_ns;      /* OUT: time that the step took on the CPU, without waiting for the lock */
    uint64_aligned_t priv[3];     /* IN: 0. Used while the step continues. */
};
typedef struct xen_domctl_teardown_step xen_domctl_teardown_step_t;

/*
 * XEN_SYSCTL_scrub_control: read or change how free memory is scrubbed.
 *
 * Without settings the hypervisor scrubs as it always did: every idle CPU, as fast as it can. What is set here
 * governs idle scrubbing only; memory that is allocated while dirty is scrubbed at once, whatever is set.
 *
 * Errors: -EINVAL  unknown version, op or flag; nr_nodes or mask.nr_bits other than GET reports; a mask without
 *                  an online CPU; a ceiling above XEN_SCRUB_MAX_KIB; a lease above XEN_SCRUB_MAX_LEASE_MS
 *         -EPERM   not the control domain
 *         -EFAULT  a buffer cannot be read or written
 *         -ENOSYS  hypervisor without this operation
 * A SET or RESET that fails has changed nothing.
 */
#define XEN_SCRUB_CTL_VERSION     1

/* One per node id. */
struct xen_scrub_node {
    uint64_aligned_t ceiling_kib; /* IN for SET with CEILING, OUT for GET: KiB/s, 0 = none */
#define XEN_SCRUB_MAX_KIB         (1ull << 30)
    /*
     * OUT, pages; read under one lock, so that at any time
     *     dirty = dirtied - idle - alloc - dropped
     */
    uint64_aligned_t dirty;       /* free but not yet scrubbed */
    uint64_aligned_t dirtied;     /* ever freed unscrubbed, since boot, boot scrubbing included */
    uint64_aligned_t idle;        /* scrubbed by idle CPUs */
    uint64_aligned_t alloc;       /* scrubbed when allocated */
    uint64_aligned_t dropped;     /* handed out unscrubbed, to a user that overwrites them */
    uint64_aligned_t throttled_ns; /* OUT: time during which the ceiling held scrubbing back */
};
typedef struct xen_scrub_node xen_scrub_node_t;
DEFINE_XEN_GUEST_HANDLE(xen_scrub_node_t);

/* One per CPU number. */
struct xen_scrub_cpu {
    uint64_aligned_t idle;        /* OUT: pages that this CPU scrubbed while idle, since boot */
};
typedef struct xen_scrub_cpu xen_scrub_cpu_t;
DEFINE_XEN_GUEST_HANDLE(xen_scrub_cpu_t);

struct xen_sysctl_scrub_control {
    uint32_t version;             /* IN: XEN_SCRUB_CTL_VERSION */
    uint32_t op;                  /* IN */
#define XEN_SCRUB_GET                 0
#define XEN_SCRUB_SET                 1 /* what flags name; also renews the lease */
#define XEN_SCRUB_RESET               2 /* back to no settings; counters stay */
    uint32_t flags;               /* IN for SET: what to set. OUT for GET: what is set. */
#define XEN_SCRUB_CEILING             (1u << 0)
#define XEN_SCRUB_MASK                (1u << 1)
#define XEN_SCRUB_LEASE               (1u << 2)
    uint32_t lease_ms;            /* SET: settings end this long after the last SET; 0 = never. GET: time left. */
#define XEN_SCRUB_MAX_LEASE_MS    3600000
    uint32_t nr_nodes;            /* IN: room in nodes[] (SET CEILING: exactly as GET reports). OUT: node ids */
    uint32_t nr_cpus;             /* IN: room in cpus[]. OUT: CPU numbers, and the mask.nr_bits that SET wants */
    uint64_aligned_t now_ns;      /* OUT: the hypervisor's clock */
    struct xenctl_bitmap mask;    /* SET: CPUs that may scrub. GET: those that may at present (buffer optional) */
    XEN_GUEST_HANDLE_64(xen_scrub_node_t) nodes; /* GET: optional. SET: with CEILING. */
    XEN_GUEST_HANDLE_64(xen_scrub_cpu_t) cpus;   /* GET: optional */
};
typedef struct xen_sysctl_scrub_control xen_sysctl_scrub_control_t;

#endif /* __XEN_PUBLIC_SCRUB_CTL_H__ */

/*
 * Local variables:
 * mode: C
 * c-file-style: "BSD"
 * c-basic-offset: 4
 * tab-width: 4
 * indent-tabs-mode: nil
 * End:
 */
