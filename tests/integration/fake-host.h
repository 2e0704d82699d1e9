/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_FAKE_HOST_H
#define SCRUBD_FAKE_HOST_H

#include "xen.h"

/*
 * A host made of a file, so that it outlives the daemon that is killed on it, and that a test can
 * look at and change while the daemon runs (fakectl). Memory is scrubbed as time passes; steps take
 * the time that they say.
 */
#define FAKE_DOMAINS 256
#define FAKE_CPUS 8
#define FAKE_NODES 2 /* memory is on node 0 alone */

struct fake_domain {
    uint8_t used;
    uint32_t domid;
    uint8_t uuid[16];
    char name[64];
    uint32_t life; /* enum xen_life */
    uint32_t stage;
    uint64_t pages;
    uint64_t held;       /* pages that somebody else's mappings keep */
    uint64_t hard, soft; /* bitmaps of CPUs; both 0: no vCPU */
    uint32_t shutdown;   /* enum xen_shutdown */
    uint32_t cpupool, building;
};

struct fake_state {
    uint32_t magic;
    /* what a test sets */
    uint64_t patched;
    uint64_t probe_error;    /* positive errno */
    uint64_t online;         /* bitmap of CPUs */
    uint64_t idle;           /* whether CPUs have time to scrub */
    uint64_t free_pages_ms;  /* released per ms of step */
    uint64_t scrub_pages_ms; /* by each CPU that may */
    uint64_t step_error;     /* positive errno of the hypercall */
    uint64_t inner_error;    /* positive errno that stops the teardown */
    uint64_t stuck;          /* steps that free nothing, with step_ms of CPU time */
    uint64_t stuck_ms;
    uint64_t generation;  /* goes into the handles of new domains: a domid is used again */
    uint64_t names_stuck; /* xenstore hangs */
    uint64_t get_error;   /* of reading the scrubber */
    uint64_t set_error;
    uint64_t affinity_error;
    uint64_t affinity_us;  /* that each reading of an affinity takes */
    uint64_t smt;          /* CPUs 0 and 1, 2 and 3, and so on are siblings */
    uint64_t cpu_nodes;    /* nodes that the 8 CPUs are spread over, in order: 1, 2, 4 or 8 */
    uint64_t pool1_cpus;   /* bitmap of those in cpupool 1; others are in cpupool 0 */
    uint64_t no_pool_cpus; /* bitmap of those in none */
    uint64_t free_pages;
    /* what it can look at */
    uint64_t calls, steps, gets, sets, resets, affinities;
    uint64_t max_backlog;
    uint64_t longest_step_us;
    uint64_t running_steps, most_running_steps;
    uint64_t last_step_us, min_pause_us;
    /* the scrubber */
    uint64_t has_mask, mask, has_ceiling, ceiling_kib, floor_kib, lease_end_us, lease_ms;
    uint64_t dirty, dirtied, scrubbed, boot, throttled_us;
    uint64_t cpu_scrubbed[FAKE_CPUS];
    uint64_t last_us, carry;
    struct fake_domain domains[FAKE_DOMAINS];
};

/* A named number of the state that a test may set or read. */
struct fake_knob {
    const char *name;
    size_t offset;
};
extern const struct fake_knob fake_knobs[];
uint64_t *fake_knob(struct fake_state *st, const char *name); /* NULL if unknown */

/* Make (or make anew) the file of a host: patched, 4 CPUs, domain 0 alone. */
int fake_create(const char *path);
/* Lock the state for looking and changing; unlock soon. */
int fake_open(const char *path, struct xen **ret, struct err *err);
struct fake_state *fake_lock(struct xen *x);
void fake_unlock(struct xen *x);
void fake_close(struct xen *x);

/* With the state locked. */
struct fake_domain *fake_add(struct fake_state *st, uint32_t domid, const char *name,
                             uint64_t pages);
struct fake_domain *fake_find(struct fake_state *st, uint32_t domid);
void fake_advance(struct fake_state *st);
/* What XEN_DOMCTL_destroydomain does, at once. */
void fake_destroy(struct fake_state *st, struct fake_domain *d);

extern const struct xen_ops fake_ops;

/* For scrubd_main(): the host whose file $SCRUBD_FAKE_HOST names. */
int fake_open_env(struct xen **ret, const struct xen_ops **ret_ops, struct err *err);

#endif
