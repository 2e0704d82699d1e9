/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "placement.h"

#include <fnmatch.h>
#include <string.h>

struct work {
    const struct placement_cpu *cpus;
    size_t n_cpus;
    const struct placement_domain *domains;
    size_t n_domains;
    struct placement_verdict *verdicts;
    enum placement_rule *rules;
    struct cpulist online;
    struct cpulist pool; /* the online CPUs of cpupool pool_id, if has_pool */
    uint32_t pool_id;
    bool has_pool;
    int everywhere; /* a protected domain that may run on every CPU, -1 = none */
};

/* Domains of one cpupool mostly follow each other. */
static const struct cpulist *pool_cpus(struct work *w, uint32_t id)
{
    if (w->has_pool && w->pool_id == id)
        return &w->pool;
    cpulist_clear(&w->pool);
    for (size_t cpu = 0; cpu < w->n_cpus; cpu++) {
        if (w->cpus[cpu].online && w->cpus[cpu].cpupool == id)
            cpulist_add(&w->pool, (unsigned int)cpu);
    }
    w->pool_id = id;
    w->has_pool = true;
    return &w->pool;
}

/* a & b into ret if that is neither empty nor all of b. */
static bool narrower(const struct cpulist *a, const struct cpulist *b, struct cpulist *ret)
{
    *ret = *a;
    cpulist_and(ret, b);
    return !cpulist_empty(ret) && !cpulist_equal(ret, b);
}

/* Find the domains that have pCPUs to themselves: CPUs that no other narrow hard affinity has. */
static void find_pinned(struct work *w)
{
    struct cpulist narrow, once = {0}, more = {0};

    for (size_t i = 0; i < w->n_domains; i++) {
        const struct placement_domain *d = &w->domains[i];

        w->rules[i] = d->gone || d->ident.domid == 0 ? PLACEMENT_UNPROTECTED : d->rule;
        if (d->gone || !narrower(&d->hard, pool_cpus(w, d->cpupool), &narrow))
            continue;
        for (size_t k = 0; k < CPULIST_MAX / 64; k++) {
            more.bits[k] |= once.bits[k] & narrow.bits[k];
            once.bits[k] |= narrow.bits[k];
        }
    }
    for (size_t i = 0; i < w->n_domains; i++) {
        const struct placement_domain *d = &w->domains[i];

        if (!d->gone && d->ident.domid != 0 && w->rules[i] == PLACEMENT_UNPROTECTED &&
            narrower(&d->hard, pool_cpus(w, d->cpupool), &narrow) &&
            !cpulist_intersects(&narrow, &more))
            w->rules[i] = PLACEMENT_BY_PIN;
    }
}

/* Hard before soft, and what somebody asked for before what we found out ourselves. */
static bool outweighs(const struct work *w, enum placement_why why, size_t domain,
                      const struct placement_verdict *v)
{
    if (v->why == PLACEMENT_FREE)
        return true;
    if (v->why != why)
        return why == PLACEMENT_HARD;
    return w->rules[v->domain] == PLACEMENT_BY_PIN && w->rules[domain] != PLACEMENT_BY_PIN;
}

static void exclude(struct work *w, size_t domain, const struct cpulist *run,
                    enum placement_why why)
{
    for (unsigned int cpu = 0; cpu < w->n_cpus; cpu++) {
        struct placement_verdict *v = &w->verdicts[cpu];

        if (cpulist_has(run, cpu) && outweighs(w, why, domain, v)) {
            v->why = why;
            v->domain = (int)domain;
        }
    }
}

static void exclude_domain(struct work *w, size_t i)
{
    const struct placement_domain *d = &w->domains[i];
    const struct cpulist *pool = pool_cpus(w, d->cpupool);
    enum placement_why why = PLACEMENT_HARD;
    struct cpulist run;

    if (cpulist_empty(&d->hard) || cpulist_empty(pool))
        return; /* it runs nowhere */
    if (!narrower(&d->hard, pool, &run)) {
        if (narrower(&d->soft, pool, &run))
            why = PLACEMENT_SOFT;
        else
            run = *pool;
    }
    if (!cpulist_equal(&run, &w->online))
        exclude(w, i, &run, why);
    else if (w->everywhere < 0)
        w->everywhere = (int)i;
}

static void exclude_siblings(struct work *w)
{
    for (size_t of = 0; of < w->n_cpus; of++) {
        const struct placement_verdict *v = &w->verdicts[of];

        if (v->why != PLACEMENT_HARD && v->why != PLACEMENT_SOFT)
            continue;
        for (size_t cpu = 0; cpu < w->n_cpus; cpu++) {
            if (w->verdicts[cpu].why != PLACEMENT_FREE || w->cpus[cpu].core != w->cpus[of].core ||
                w->cpus[cpu].socket != w->cpus[of].socket || w->cpus[cpu].node != w->cpus[of].node)
                continue;
            w->verdicts[cpu] = (struct placement_verdict){PLACEMENT_SIBLING, v->domain, (int)of};
        }
    }
}

static bool node_has_one(const struct work *w, uint32_t node)
{
    for (size_t cpu = 0; cpu < w->n_cpus; cpu++) {
        if (w->cpus[cpu].node == node && placement_is_in(w->verdicts[cpu].why))
            return true;
    }
    return false;
}

static void relax_node(struct work *w, uint32_t node, enum placement_why from,
                       enum placement_why to)
{
    if (node_has_one(w, node))
        return;
    for (size_t cpu = 0; cpu < w->n_cpus; cpu++) {
        if (w->cpus[cpu].node == node && w->verdicts[cpu].why == from)
            w->verdicts[cpu].why = to;
    }
}

static void relax_nodes(struct work *w)
{
    for (size_t cpu = 0; cpu < w->n_cpus; cpu++) {
        /* Once a node: its other CPUs have been seen to when the first one was. */
        if (!w->cpus[cpu].online || placement_is_in(w->verdicts[cpu].why))
            continue;
        relax_node(w, w->cpus[cpu].node, PLACEMENT_SIBLING, PLACEMENT_NODE_SIBLING);
        relax_node(w, w->cpus[cpu].node, PLACEMENT_SOFT, PLACEMENT_NODE_SOFT);
    }
}

static size_t fill_mask(const struct work *w, struct cpulist *ret)
{
    size_t n = 0;

    cpulist_clear(ret);
    for (unsigned int cpu = 0; cpu < w->n_cpus; cpu++) {
        if (placement_is_in(w->verdicts[cpu].why)) {
            cpulist_add(ret, cpu);
            n++;
        }
    }
    return n;
}

static void relax_all(struct work *w, bool pinned_alone)
{
    for (size_t cpu = 0; cpu < w->n_cpus; cpu++) {
        struct placement_verdict *v = &w->verdicts[cpu];

        if (v->why == PLACEMENT_HARD && (!pinned_alone || w->rules[v->domain] == PLACEMENT_BY_PIN))
            v->why = PLACEMENT_LAST;
    }
}

static void name_everywhere(struct work *w)
{
    for (size_t cpu = 0; cpu < w->n_cpus && w->everywhere >= 0; cpu++) {
        if (w->verdicts[cpu].why == PLACEMENT_FREE) {
            w->verdicts[cpu].why = PLACEMENT_EVERYWHERE;
            w->verdicts[cpu].domain = w->everywhere;
        }
    }
}

void placement_compute(const struct placement_cpu *cpus, size_t n_cpus,
                       const struct placement_domain *domains, size_t n_domains,
                       struct cpulist *ret_mask, struct placement_verdict *ret_verdicts,
                       enum placement_rule *ret_rules)
{
    struct work w = {
        .cpus = cpus,
        .n_cpus = n_cpus < CPULIST_MAX ? n_cpus : CPULIST_MAX,
        .domains = domains,
        .n_domains = n_domains,
        .verdicts = ret_verdicts,
        .rules = ret_rules,
        .everywhere = -1,
    };

    for (unsigned int cpu = 0; cpu < w.n_cpus; cpu++) {
        ret_verdicts[cpu] = (struct placement_verdict){
            cpus[cpu].online ? PLACEMENT_FREE : PLACEMENT_OFFLINE, -1, -1};
        if (cpus[cpu].online)
            cpulist_add(&w.online, cpu);
    }
    find_pinned(&w);
    for (size_t i = 0; i < n_domains; i++) {
        if (w.rules[i] != PLACEMENT_UNPROTECTED)
            exclude_domain(&w, i);
    }
    exclude_siblings(&w);
    relax_nodes(&w);
    if (!fill_mask(&w, ret_mask)) {
        relax_all(&w, true);
        if (!fill_mask(&w, ret_mask))
            relax_all(&w, false);
        fill_mask(&w, ret_mask);
    }
    name_everywhere(&w);
}

const char *placement_why_name(enum placement_why why)
{
    static const char *const names[PLACEMENT_N_WHYS] = {
        [PLACEMENT_FREE] = "free",
        [PLACEMENT_EVERYWHERE] = "everywhere",
        [PLACEMENT_NODE_SIBLING] = "node_needs_sibling",
        [PLACEMENT_NODE_SOFT] = "node_needs_soft",
        [PLACEMENT_LAST] = "last",
        [PLACEMENT_OFFLINE] = "offline",
        [PLACEMENT_HARD] = "hard",
        [PLACEMENT_SOFT] = "soft",
        [PLACEMENT_SIBLING] = "sibling",
    };

    return names[why];
}

const char *placement_rule_name(enum placement_rule rule)
{
    static const char *const names[] = {
        [PLACEMENT_UNPROTECTED] = "none", [PLACEMENT_BY_PIN] = "pin",
        [PLACEMENT_BY_NAME] = "name",     [PLACEMENT_BY_UUID] = "uuid",
        [PLACEMENT_BY_POOL] = "pool",     [PLACEMENT_BY_REQUEST] = "request",
    };

    return names[rule];
}

static const char *after(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(text, prefix, len) ? NULL : text + len;
}

enum placement_rule placement_match(const char *text, const struct ident *id, const char *name,
                                    const char *pool)
{
    const char *rest;
    uint8_t uuid[16];

    if (id->domid == 0)
        return PLACEMENT_UNPROTECTED;
    if ((rest = after(text, "uuid:")))
        return ident_parse_uuid(rest, uuid) && !memcmp(uuid, id->uuid, sizeof(uuid))
                   ? PLACEMENT_BY_UUID
                   : PLACEMENT_UNPROTECTED;
    if ((rest = after(text, "pool:")))
        return pool && !strcmp(rest, pool) ? PLACEMENT_BY_POOL : PLACEMENT_UNPROTECTED;
    return name && fnmatch(text, name, 0) == 0 ? PLACEMENT_BY_NAME : PLACEMENT_UNPROTECTED;
}
