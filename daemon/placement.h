/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_PLACEMENT_H
#define SCRUBD_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpulist.h"
#include "ident.h"

/*
 * Which pCPUs may scrub: those that are online, without the ones where protected domains may run
 * and their SMT siblings. Pure.
 *
 * A domain may run on its hard affinity, within its cpupool; where that is all of the pool, on its
 * soft affinity if that is narrower. Without a hard affinity within the pool, on all of it, as Xen
 * has it. Every node keeps a CPU that may scrub if siblings or soft affinities alone are in the
 * way; hard affinities give way only when no CPU at all would be left, those of domains that are
 * protected by no rule first.
 */

/* By what a domain is protected. */
enum placement_rule {
    PLACEMENT_UNPROTECTED = 0,
    PLACEMENT_BY_PIN, /* no rule: it is pinned to pCPUs of its own. Found by placement_compute() */
    PLACEMENT_BY_NAME,
    PLACEMENT_BY_UUID,
    PLACEMENT_BY_POOL,
    PLACEMENT_BY_REQUEST, /* scrubctl protect */
};

/* Why a CPU may scrub or may not. */
enum placement_why {
    PLACEMENT_FREE = 0,     /* in: nothing is against it */
    PLACEMENT_EVERYWHERE,   /* in: a protected domain may run on all CPUs, so that none is clear */
    PLACEMENT_NODE_SIBLING, /* in: a sibling of a protected domain's CPU, but its node needs one */
    PLACEMENT_NODE_SOFT,    /* in: a protected domain had better run there, but ... */
    PLACEMENT_LAST,         /* in: a protected domain may run there, but so it is with all CPUs */
    PLACEMENT_OFFLINE,      /* out */
    PLACEMENT_HARD,         /* out: a protected domain may run there */
    PLACEMENT_SOFT,         /* out: a protected domain had better run there */
    PLACEMENT_SIBLING,      /* out: it shares a core with such a CPU */
    PLACEMENT_N_WHYS,
};

struct placement_cpu {
    bool online;
    uint32_t node, core, socket, cpupool;
};

struct placement_domain {
    struct ident ident;
    uint32_t cpupool;
    enum placement_rule rule; /* BY_PIN is for placement_compute() to say */
    bool gone; /* runs no more: dying, or shut down; neither protected nor in anybody's way */
    struct cpulist hard, soft; /* as struct xen_ops has them; empty without a vCPU */
};

struct placement_verdict {
    enum placement_why why;
    int domain;  /* index into the domains, -1 if none has to do with it */
    int sibling; /* with a sibling, on which CPU the domain may run, else -1 */
};

/*
 * Fill in mask, for each CPU the verdict, and for each domain (ret_rules, n_domains) by what it is
 * protected. The mask is empty only if no CPU is online. Time grows with the product of CPUs and
 * protected domains, and with the number of domains. Needs no memory of its own but the stack's: 64
 * KiB.
 */
void placement_compute(const struct placement_cpu *cpus, size_t n_cpus,
                       const struct placement_domain *domains, size_t n_domains,
                       struct cpulist *ret_mask, struct placement_verdict *ret_verdicts,
                       enum placement_rule *ret_rules);

static inline bool placement_is_in(enum placement_why why)
{
    return why < PLACEMENT_OFFLINE;
}

/* "hard", ... for programs. */
const char *placement_why_name(enum placement_why why);
/* "pin", "name", ... */
const char *placement_rule_name(enum placement_rule rule);

/*
 * What a rule says of a domain: the kind of rule that matches it, or PLACEMENT_UNPROTECTED. The
 * rule is one that config_check_pattern() takes: "uuid:01234567-...", "pool:NAME", or a pattern of
 * names, as fnmatch(3). name and pool may be NULL: unknown. Domain 0 matches nothing.
 */
enum placement_rule placement_match(const char *text, const struct ident *id, const char *name,
                                    const char *pool);

#endif
