/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_XEN_H
#define SCRUBD_XEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpulist.h"
#include "err.h"
#include "ident.h"

/*
 * The host as scrubd sees it: all that the rest of the daemon knows about Xen. The real one is
 * behind xen_real_open(), the fake one of the tests implements the same, and
 * tests/integration/contract.c holds both to what is said here.
 *
 * Functions return 0 or a negative errno. Nothing here blocks for longer than a hypercall takes.
 */
struct xen; /* of the implementation */

enum xen_life {
    XEN_LIFE_NONE = 0,
    XEN_LIFE_ALIVE,
    XEN_LIFE_DYING, /* teardown begun, not finished */
    XEN_LIFE_DEAD,  /* finished; somebody else's mappings may keep a few pages */
};

/* Why a domain has shut itself down: Xen's code plus one. */
enum xen_shutdown {
    XEN_SHUTDOWN_NONE = 0, /* it has not */
    XEN_SHUTDOWN_POWEROFF,
    XEN_SHUTDOWN_REBOOT,
    XEN_SHUTDOWN_SUSPEND,
    XEN_SHUTDOWN_CRASH,
    XEN_SHUTDOWN_WATCHDOG,
    XEN_SHUTDOWN_SOFT_RESET,
};

struct xen_domain {
    struct ident ident;
    uint64_t pages;
    bool dead; /* torn down in full, but still there */
    enum xen_shutdown shutdown;
    uint32_t cpupool;
    bool building; /* paused, and has never run: most likely its toolstack is still creating it */
};

#define XEN_CPUPOOL_NONE UINT32_MAX

struct xen_cpu {
    bool online; /* the rest means nothing if it is not */
    uint32_t node;
    uint32_t core, socket; /* CPUs with both the same are siblings: hardware threads of one core */
    uint32_t cpupool;      /* XEN_CPUPOOL_NONE if it is in none */
};

#define XEN_STEP_QUERY 1u         /* report only: never changes a domain */
#define XEN_STEP_ONLY_IF_DYING 2u /* go on with a teardown, never begin one: else -EBUSY */

struct xen_step {
    enum xen_life life;
    uint32_t stage; /* only ever grows */
    int error; /* negative errno that stopped the teardown, if it was neither time nor the end */
    uint32_t entries;
    uint64_t pages_left, pages_freed;
    uint64_t cpu_ns;
};

struct xen_node {
    uint64_t ceiling_kib, floor_kib; /* per second, 0 = none */
    uint64_t dirty, dirtied, idle, floor, alloc,
        dropped;   /* pages: dirty = dirtied - idle - floor - alloc - dropped */
    uint64_t boot; /* at most so many have been dirty ever since the host booted; only falls */
    uint64_t throttled_ms;
};

/*
 * How the host scrubs. Arrays belong to the implementation, and are valid until the next call of
 * scrub_get().
 */
struct xen_scrub {
    uint64_t now_ns;                       /* the hypervisor's clock */
    bool has_ceiling, has_floor, has_mask; /* settings in force */
    uint32_t lease_ms;                     /* left, 0 = none */
    unsigned int n_nodes, n_cpus;
    const struct xen_node *nodes;
    struct cpulist mask;          /* CPUs that may scrub at present: online ones */
    const uint64_t *cpu_scrubbed; /* n_cpus: pages scrubbed by each, idle or for a floor; NULL
                                     unless asked for */
};

/* What scrub_set() puts in force; it replaces what was in force before. */
struct xen_scrub_settings {
    uint64_t ceiling_kib, floor_kib; /* for each node, 0 = none; a floor at most 4 GiB, and not
                                      * above its ceiling */
    bool all_cpus;
    struct cpulist mask; /* unless all_cpus */
    uint32_t lease_ms;   /* settings end so long after the last scrub_set(), 0 = never */
};

struct xen_ops {
    void (*close)(struct xen *x); /* takes NULL */

    /* "4.17.5" of the hypervisor, for people. Belongs to x. */
    const char *(*version)(struct xen *x);

    /* 0 if the hypervisor has both operations, -ENOSYS if it is unpatched, other errors with text.
     */
    int (*probe)(struct xen *x, struct err *err);

    /* -ESRCH if there is no such domain. Domains that are dying or dead but still there are found.
     */
    int (*domain_get)(struct xen *x, uint32_t domid, struct xen_domain *ret);
    /* Fill in up to max domains with domid >= first, ascending. Returns how many. Domain 0 is one
     * of them. */
    int (*domain_list)(struct xen *x, uint32_t first, struct xen_domain *ret, size_t max);

    /*
     * One bounded teardown step: about max_us (100..1000000) on the CPU. -ESRCH if there is no
     * domain with this number and this handle, -EBUSY as above, -EPERM for domain 0 whatever the
     * hypervisor thinks.
     */
    int (*step)(struct xen *x, const struct ident *id, uint32_t max_us, unsigned int flags,
                struct xen_step *ret);

    int (*scrub_get)(struct xen *x, bool with_cpus, struct xen_scrub *ret);
    /* -EINVAL if no CPU of the mask is online, or a value is out of range: nothing has changed
     * then. */
    int (*scrub_set)(struct xen *x, const struct xen_scrub_settings *s);
    /* Back to the behaviour of stock Xen. */
    int (*scrub_reset)(struct xen *x);

    /*
     * Fill in up to max CPUs, by number. Returns how many there are, online or not; those beyond
     * CPULIST_MAX are left out.
     */
    int (*cpus)(struct xen *x, struct xen_cpu *ret, size_t max);
    /*
     * Where the domain's vCPUs may run (hard), and where they had better (soft): the union over
     * those that are online, or over all if none is; empty without any vCPU. As was set: with CPUs
     * that are offline, or in other cpupools. -ESRCH if there is no domain with this number and
     * this handle.
     */
    int (*affinity)(struct xen *x, const struct ident *id, struct cpulist *ret_hard,
                    struct cpulist *ret_soft);

    /* The name of a cpupool into ret, at most size bytes with the NUL. -ENOENT if it has none, or
     * if xenstore cannot be asked. */
    int (*cpupool_name)(struct xen *x, uint32_t cpupool, char *ret, size_t size);

    /* Pages that Xen can give to domains; dirty ones are among them. */
    int (*memory_free)(struct xen *x, uint64_t *ret_pages);

    /*
     * Names of domains, from xenstore, which may hang or go away: nothing here waits for it.
     * names_fd() is -1 if there is nothing to watch; else names_update() is to be called when it is
     * readable, and each second while there is something to do. name_of() gives the last name that
     * this domain had, also when xenstore has forgotten it, or NULL; valid until it is called
     * again. names_trouble() says why names do not change at present, as a constant text, or NULL.
     */
    int (*names_fd)(struct xen *x);
    void (*names_update)(struct xen *x);
    const char *(*names_trouble)(struct xen *x);
    const char *(*name_of)(struct xen *x, const struct ident *id);
};

/* Fill in the CPUs that are online, with ops->cpus(). */
int xen_cpus_online(struct xen *x, const struct xen_ops *ops, struct cpulist *ret);

/* Open the host that we run on: must be its control domain, as root. */
int xen_real_open(struct xen **ret, const struct xen_ops **ret_ops, struct err *err);

#endif
