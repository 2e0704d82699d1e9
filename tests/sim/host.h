/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "model.h"
#include "rng.h"
#include "xen.h"

/*
 * The model host: nodes with memory, CPUs, domains, and how Xen frees and scrubs, in virtual time.
 * The daemon sees it through struct xen_ops. It is a flow model: between two events all rates are
 * constant, and dirty memory changes in a straight line.
 *
 *   scrubbing   Each node is scrubbed by one CPU at a time, as in Xen, at the model's rate, for as
 *               much of the time as at least one of the CPUs that may is idle: 1 - product of their
 *               loads. The loads come from the domains' vCPUs, spread evenly over their hard
 *               affinity. A node none of whose CPUs may is served by the nearest node that has one.
 *   ceiling     a token bucket that holds 20 ms
 *   floor       whatever is idle, but never more than a quarter of each CPU that may
 *   mask, lease as scrub_control has them; a mask with no online CPU means all
 *   freeing     a domain goes through the phases of model.h for its kind
 */

#define SIM_NODES 16
#define SIM_CPUS 512
#define SIM_DOMAINS 2048 /* domids are below */

struct sim_cpu {
    bool online;
    unsigned int node, core, socket, cpupool;
    double load; /* 0..1: of the time it runs guests */
    bool may;    /* scrub: what the hypervisor makes of the mask */
};

struct sim_node {
    uint64_t pages;  /* memory */
    double possible; /* scrubbing, pages/us, if nothing limits it */
    double forceable;
    uint64_t ceiling_kib, floor_kib;
    double ceiling_rate, floor_rate; /* pages/us */
    double credit;                   /* pages */
    uint64_t filled_us;
    double idle, floor; /* scrubbed ever */
    uint64_t dirtied, alloc, boot;
    double throttled_us;
    uint64_t clean_us; /* when last nothing was dirty but since boot */
};

struct sim_domain {
    bool used;
    struct ident ident;
    char name[32];
    enum sim_kind kind;
    enum xen_life life;
    uint32_t nodes; /* bit for each that its memory is on, evenly */
    uint64_t pages, pages_full;
    unsigned int phase; /* of the teardown */
    double phase_us;    /* that were spent in it */
    double owed_pages;  /* free, but not yet told: parts of a page */
    unsigned int next_node;
    unsigned int vcpus;
    double load; /* of each */
    uint32_t cpupool;
    struct cpulist hard, soft;
};

/* What breaks a promise to the hypervisor; the host only counts. */
struct sim_misuse {
    uint64_t bad_sets;      /* scrub_set() that Xen refuses: an empty mask above all */
    uint64_t nested_steps;  /* one step within another */
    uint64_t alive_stepped; /* ONLY_IF_DYING missing where a teardown was not to begin */
    uint64_t leases_ended;
};

struct xen {
    struct rng rng;
    const struct sim_model *model;
    uint64_t now_us; /* to which it has been brought */
    unsigned int n_nodes, n_cpus, smt;
    struct sim_node node[SIM_NODES];
    struct sim_cpu cpu[SIM_CPUS];
    struct sim_domain domain[SIM_DOMAINS];
    unsigned int n_domains; /* domids in use are below */
    uint32_t generation;    /* makes handles unique */
    /* settings */
    uint64_t changed_us; /* what CPUs or domains there are, or where they run */
    bool masked, limited;
    struct cpulist mask;
    uint32_t lease_ms;
    uint64_t lease_end_us;
    /* dom0 */
    double squeeze; /* 0..1: part of dom0's time that others take */
    bool in_step;
    bool turned; /* scrubd has had its own time for the next step */
    struct sim_misuse misuse;
    uint64_t steps, gets, sets;
    /* Told of each step: how many pages it released. NULL if nobody listens. */
    void (*before_step)(void *arg, const struct sim_domain *d, uint32_t max_us);
    void (*after_step)(void *arg, const struct sim_domain *d, uint64_t freed, uint64_t cpu_us);
    void *arg;
    struct xen_node scrub_nodes[SIM_NODES]; /* what scrub_get() points at */
    uint64_t cpu_scrubbed[SIM_CPUS];
};

/* Allocate a host of so many nodes of pages_per_node each, with so many CPUs each. */
struct xen *host_new(const struct sim_model *model, uint64_t seed, unsigned int nodes,
                     unsigned int cpus_per_node, unsigned int smt, uint64_t pages_per_node);
void host_free(struct xen *x);

/* Bring it to the present. All below and all of the daemon's calls do that first. */
void host_advance(struct xen *x);

/* Create a domain: NULL if there is no memory or number for it. nodes: where its memory is. Its
 * memory is scrubbed as it is taken. */
struct sim_domain *host_create(struct xen *x, enum sim_kind kind, uint64_t pages, uint32_t nodes);
/* Its CPUs, and how much each of its vCPUs runs. */
void host_pin(struct xen *x, struct sim_domain *d, const struct cpulist *hard, unsigned int vcpus,
              double load);
/* At once, without scrubd. */
void host_destroy(struct xen *x, struct sim_domain *d);
void host_set_online(struct xen *x, unsigned int cpu, bool online);

/* Pages of all nodes. */
uint64_t host_dirty(const struct xen *x);
uint64_t host_backlog(const struct xen *x); /* above what has been dirty ever since boot */
uint64_t host_guest_pages(const struct xen *x);
/* On-CPU time in us that the rest of its teardown takes. */
double host_work_us(const struct xen *x, const struct sim_domain *d);
bool host_cpu_may(const struct xen *x, unsigned int cpu);
bool host_settings_in_force(const struct xen *x);

extern const struct xen_ops sim_ops;

#endif
