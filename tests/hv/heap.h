/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HV_HEAP_H
#define HV_HEAP_H

/*
 * Free memory of the simulated host, and what the patch adds to page_alloc.c, on a model of it:
 * numbers of dirty pages instead of pages. node_to_scrub() and scrub_free_pages() ask and count as
 * the patched functions do.
 */

#include "host.h"
#include "public/sysctl.h"
#include "xen/scrub_ctl.h"

struct heap_event { /* pages scrubbed, other than at allocation */
    s_time_t time;
    uint64_t pages;
};

struct heap_node {
    uint64_t dirty, dirtied;
    bool scrubbing;
    /* Only while heap.log is set: */
    struct heap_event *events;
    size_t nr_events;
};

struct heap_run { /* of scrub_free_pages() */
    nodeid_t node;
    unsigned int budget, cnt;
};

struct heap {
    struct heap_node node[MAX_NUMNODES];
    struct heap_run run[NR_CPUS];
    s_time_t page_ns; /* to scrub a page */
    bool log;
    uint64_t by_cpu[NR_CPUS], on_node[NR_CPUS][MAX_NUMNODES];
    uint64_t calls; /* of scrub_free_pages() */
};
extern struct heap heap;

/* host_init(), and a heap without dirty pages. To be undone by heap_done(). */
void heap_init(unsigned int nodes, unsigned int cpus_per_node);
void heap_done(void);
/* Memory comes back dirty. Nobody is told. */
void heap_free(nodeid_t node, uint64_t pages);
/* Dirty memory is allocated. */
void heap_alloc(nodeid_t node, uint64_t pages, bool no_scrub);
/* Bookkeeping of a scrub: by the current CPU, now. */
void heap_scrubbed(nodeid_t node, uint64_t pages);
/* The most that was scrubbed in any window of this length. */
uint64_t heap_most_in(nodeid_t node, s_time_t window);

/* The settings of a SET, the same on each node unless given. */
struct settings {
    uint64_t ceiling_kib, floor_kib;
    uint64_t mask; /* 0: all CPUs */
    uint32_t lease_ms;
    const struct xen_scrub_node *nodes;
};
int ctl_set(const struct settings *s);
int ctl_reset(void);
struct ctl_state {
    struct xen_sysctl_scrub_control op;
    struct xen_scrub_node nodes[MAX_NUMNODES];
    struct xen_scrub_cpu cpus[NR_CPUS];
    uint64_t mask;
};
/* Fails the test if GET fails. */
void ctl_get(struct ctl_state *ret);

#endif
