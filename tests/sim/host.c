/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

#define BURST_US 20000.0
#define DUTY_MAX 0.25                        /* of a CPU, for a floor */
#define KIB_S(kib) ((double)(kib) / 4 / 1e6) /* KiB/s -> pages/us */
#define CEILING_MAX_KIB (1ull << 30)
#define FLOOR_MAX_KIB (1ull << 22)
#define LEASE_MAX_MS 3600000
#define DEAD_STAGE 9

/* --- Scrubbing --- */

static uint64_t scrubbed(const struct sim_node *n)
{
    return (uint64_t)n->idle + (uint64_t)n->floor + n->alloc;
}

static uint64_t node_dirty(const struct sim_node *n)
{
    return n->dirtied - scrubbed(n);
}

/* Scrub for dt_us, during which nothing changes. */
static void node_advance(struct sim_node *n, uint64_t now_us, double dt_us)
{
    double dirty = (double)n->dirtied - n->idle - n->floor - (double)n->alloc;
    double rate = n->possible, pages, limit;

    if (node_dirty(n) <= n->boot)
        n->clean_us = now_us;
    if (!node_dirty(n)) {
        /* What is left of a page goes too. */
        n->idle = (double)(uint64_t)n->idle;
        n->floor = (double)(uint64_t)n->floor;
        return;
    }
    if (n->floor_rate > rate)
        rate = n->floor_rate < n->forceable ? n->floor_rate : n->forceable;
    if (rate < n->possible)
        rate = n->possible;
    pages = rate * dt_us;
    if (n->ceiling_rate > 0 && node_dirty(n) > n->boot) {
        double room = n->ceiling_rate * BURST_US + 1;
        double idle_us = (double)(now_us - n->filled_us) - dt_us; /* before it was dirty */

        if (idle_us > 0)
            n->credit += n->ceiling_rate * idle_us;
        if (n->credit > room)
            n->credit = room;
        limit = n->credit + n->ceiling_rate * dt_us;
        if (pages > limit) {
            n->throttled_us += (pages - limit) / rate;
            pages = limit;
        }
        if (pages > dirty)
            pages = dirty;
        n->credit = limit - pages;
        n->filled_us = now_us;
    }
    if (pages > dirty)
        pages = dirty;
    if (rate > n->possible) {
        n->floor += pages * (rate - n->possible) / rate;
        n->idle += pages * n->possible / rate;
    } else {
        n->idle += pages;
    }
    if (node_dirty(n) < n->boot)
        n->boot = node_dirty(n);
    if (node_dirty(n) <= n->boot)
        n->clean_us = now_us;
}

bool host_cpu_may(const struct xen *x, unsigned int cpu)
{
    return x->cpu[cpu].may;
}

/* What each node can have, from the mask and the loads. */
static void see_cpus(struct xen *x)
{
    double busy[SIM_NODES], pool[SIM_NODES];
    bool some = false;

    for (unsigned int i = 0; i < x->n_nodes; i++) {
        busy[i] = 1;
        pool[i] = 0;
    }
    for (unsigned int c = 0; c < x->n_cpus; c++) {
        x->cpu[c].may = x->cpu[c].online && (!x->masked || cpulist_has(&x->mask, c));
        some |= x->cpu[c].may;
    }
    for (unsigned int c = 0; c < x->n_cpus; c++) {
        struct sim_cpu *cpu = &x->cpu[c];

        if (!some)
            cpu->may = cpu->online;
        if (!cpu->may)
            continue;
        busy[cpu->node] *= cpu->load;
        pool[cpu->node] += DUTY_MAX;
    }
    for (unsigned int i = 0; i < x->n_nodes; i++) {
        unsigned int by = i;

        for (unsigned int k = 0; k < x->n_nodes && pool[by] <= 0; k++)
            by = (i + k) % x->n_nodes;
        x->node[i].possible = x->model->scrub_pages_us * (1 - busy[by]);
        x->node[i].forceable = x->model->scrub_pages_us * (pool[by] < 1 ? pool[by] : 1);
    }
}

static void end_settings(struct xen *x)
{
    x->masked = x->limited = false;
    cpulist_clear(&x->mask);
    x->lease_ms = 0;
    x->lease_end_us = 0;
    for (unsigned int i = 0; i < x->n_nodes; i++) {
        x->node[i].ceiling_kib = x->node[i].floor_kib = 0;
        x->node[i].ceiling_rate = x->node[i].floor_rate = 0;
    }
    see_cpus(x);
}

static void advance_to(struct xen *x, uint64_t now_us)
{
    double dt_us = (double)(now_us - x->now_us);

    for (unsigned int i = 0; i < x->n_nodes; i++)
        node_advance(&x->node[i], now_us, dt_us);
    x->now_us = now_us;
}

void host_advance(struct xen *x)
{
    uint64_t now_us = loop_now_us();

    if (x->lease_end_us && now_us >= x->lease_end_us) {
        advance_to(x, x->lease_end_us);
        end_settings(x);
        x->misuse.leases_ended++;
    }
    if (now_us > x->now_us)
        advance_to(x, now_us);
}

uint64_t host_dirty(const struct xen *x)
{
    uint64_t sum = 0;

    for (unsigned int i = 0; i < x->n_nodes; i++)
        sum += node_dirty(&x->node[i]);
    return sum;
}

uint64_t host_backlog(const struct xen *x)
{
    uint64_t sum = 0;

    for (unsigned int i = 0; i < x->n_nodes; i++)
        sum += node_dirty(&x->node[i]) - x->node[i].boot;
    return sum;
}

bool host_settings_in_force(const struct xen *x)
{
    return x->masked || x->limited;
}

/* --- Domains and CPUs --- */

struct xen *host_new(const struct sim_model *model, uint64_t seed, unsigned int nodes,
                     unsigned int cpus_per_node, unsigned int smt, uint64_t pages_per_node)
{
    struct xen *x = calloc(1, sizeof(*x));
    struct cpulist first = {0};
    struct sim_domain *dom0;

    if (!x)
        return NULL;
    x->rng.state = seed;
    x->model = model;
    x->now_us = loop_now_us();
    x->n_nodes = nodes;
    x->n_cpus = nodes * cpus_per_node;
    x->smt = smt;
    for (unsigned int i = 0; i < nodes; i++)
        x->node[i].pages = pages_per_node;
    for (unsigned int c = 0; c < x->n_cpus; c++)
        x->cpu[c] = (struct sim_cpu){.online = true,
                                     .node = c / cpus_per_node,
                                     .core = c / smt,
                                     .socket = c / cpus_per_node};
    dom0 = host_create(x, SIM_PV, 1 << 18, 1);
    strcpy(dom0->name, "Domain-0");
    memset(dom0->ident.uuid, 0, sizeof(dom0->ident.uuid));
    cpulist_add(&first, 0);
    host_pin(x, dom0, &first, 1, 0.05);
    return x;
}

void host_free(struct xen *x)
{
    free(x);
}

static uint64_t node_used(const struct xen *x, unsigned int node)
{
    uint64_t sum = 0;

    for (unsigned int i = 0; i < x->n_domains; i++) {
        const struct sim_domain *d = &x->domain[i];

        if (d->used && d->nodes >> node & 1)
            sum += d->pages / (unsigned int)__builtin_popcount(d->nodes) + 1;
    }
    return sum;
}

uint64_t host_guest_pages(const struct xen *x)
{
    uint64_t sum = 0;

    for (unsigned int i = 0; i < x->n_domains; i++) {
        if (x->domain[i].used)
            sum += x->domain[i].pages;
    }
    return sum;
}

struct sim_domain *host_create(struct xen *x, enum sim_kind kind, uint64_t pages, uint32_t nodes)
{
    struct sim_domain *d = NULL;
    unsigned int n = (unsigned int)__builtin_popcount(nodes), domid;

    host_advance(x);
    for (domid = 0; domid < SIM_DOMAINS && x->domain[domid].used; domid++)
        ;
    if (domid == SIM_DOMAINS)
        return NULL;
    for (unsigned int i = 0; i < x->n_nodes; i++) {
        struct sim_node *node = &x->node[i];
        uint64_t used, take = pages / n + 1, clean;

        if (!(nodes >> i & 1))
            continue;
        used = node_used(x, i);
        if (used + take > node->pages)
            return NULL;
        /* Xen takes clean pages first. */
        clean = node->pages - used - node_dirty(node);
        if (take > clean)
            node->alloc += take - clean;
        if (node_dirty(node) < node->boot)
            node->boot = node_dirty(node);
    }
    d = &x->domain[domid];
    *d = (struct sim_domain){.used = true,
                             .kind = kind,
                             .life = XEN_LIFE_ALIVE,
                             .nodes = nodes,
                             .pages = pages,
                             .pages_full = pages};
    d->ident.domid = domid;
    x->generation++;
    memcpy(d->ident.uuid, &x->generation, sizeof(x->generation));
    d->ident.uuid[15] = 1;
    d->name[0] = 'g';
    for (unsigned int k = domid, at = 4; at > 0; at--, k /= 10)
        d->name[at] = (char)('0' + k % 10);
    if (domid >= x->n_domains)
        x->n_domains = domid + 1;
    return d;
}

static void load(struct xen *x, const struct sim_domain *d, double sign)
{
    unsigned int n = cpulist_count(&d->hard);

    for (unsigned int c = 0; n && c < x->n_cpus; c++) {
        if (cpulist_has(&d->hard, c))
            x->cpu[c].load += sign * d->load * d->vcpus / n;
    }
}

/* Loads add up to more than there is: what a CPU cannot run waits. */
static void see_loads(struct xen *x)
{
    for (unsigned int c = 0; c < x->n_cpus; c++)
        x->cpu[c].load = 0;
    for (unsigned int i = 0; i < x->n_domains; i++) {
        if (x->domain[i].used && x->domain[i].life == XEN_LIFE_ALIVE)
            load(x, &x->domain[i], 1);
    }
    for (unsigned int c = 0; c < x->n_cpus; c++) {
        if (x->cpu[c].load > 1)
            x->cpu[c].load = 1;
    }
    see_cpus(x);
}

void host_pin(struct xen *x, struct sim_domain *d, const struct cpulist *hard, unsigned int vcpus,
              double load_each)
{
    host_advance(x);
    x->changed_us = loop_now_us();
    d->hard = *hard;
    d->soft = *hard;
    d->vcpus = vcpus;
    d->load = load_each;
    see_loads(x);
}

void host_set_online(struct xen *x, unsigned int cpu, bool online)
{
    host_advance(x);
    x->changed_us = loop_now_us();
    x->cpu[cpu].online = online;
    see_cpus(x);
}

/* --- Freeing --- */

/* Go on with a teardown for that long at most; returns the time that it did not need. */
static double tear_down(const struct xen *x, struct sim_domain *d, double us)
{
    while (us > 0 && d->life == XEN_LIFE_DYING) {
        const struct sim_phase *p = &x->model->kind[d->kind].phases[d->phase];
        double all_us = p->us_per_page * (double)d->pages_full;
        double now_us = all_us - d->phase_us < us ? all_us - d->phase_us : us;

        if (all_us > 0)
            d->owed_pages += p->released * (double)d->pages_full * now_us / all_us;
        d->phase_us += now_us;
        us -= now_us;
        if (d->phase_us < all_us - 1e-6)
            break;
        d->phase_us = 0;
        if (++d->phase == SIM_PHASES)
            d->life = XEN_LIFE_DEAD;
    }
    return us > 0 ? us : 0;
}

double host_work_us(const struct xen *x, const struct sim_domain *d)
{
    struct sim_domain copy = *d;
    double endless = 1e18;

    if (copy.life == XEN_LIFE_ALIVE)
        copy.life = XEN_LIFE_DYING;
    return endless - tear_down(x, &copy, endless);
}

static void release(struct xen *x, struct sim_domain *d, uint64_t pages)
{
    unsigned int n = (unsigned int)__builtin_popcount(d->nodes);

    d->pages -= pages;
    for (unsigned int k = 0; k < n; k++) {
        uint64_t share = pages / (n - k);

        do
            d->next_node = (d->next_node + 1) % x->n_nodes;
        while (!(d->nodes >> d->next_node & 1));
        x->node[d->next_node].dirtied += share;
        pages -= share;
    }
}

static struct sim_domain *find(struct xen *x, const struct ident *id)
{
    struct sim_domain *d = id->domid < SIM_DOMAINS ? &x->domain[id->domid] : NULL;

    return d && d->used && ident_equal(&d->ident, id) ? d : NULL;
}

static void report(const struct sim_domain *d, struct xen_step *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->life = d->life;
    ret->stage = d->life == XEN_LIFE_DEAD    ? DEAD_STAGE
                 : d->life == XEN_LIFE_DYING ? 1 + d->phase
                                             : 0;
    ret->pages_left = d->pages;
}

static int sim_step(struct xen *x, const struct ident *id, uint32_t max_us, unsigned int flags,
                    struct xen_step *ret)
{
    struct sim_domain *d = find(x, id);
    double budget_us, did_us;
    uint64_t freed, us;

    host_advance(x);
    if (id->domid == 0)
        return -EPERM;
    if (!d)
        return -ESRCH;
    if (flags & XEN_STEP_QUERY) {
        report(d, ret);
        return 0;
    }
    if (max_us < 100 || max_us > 1000000)
        return -EINVAL;
    if ((flags & XEN_STEP_ONLY_IF_DYING) && d->life == XEN_LIFE_ALIVE)
        return -EBUSY;
    x->misuse.nested_steps += x->in_step;
    x->in_step = true;
    x->turned = false;
    x->steps++;
    if (x->before_step)
        x->before_step(x->arg, d, max_us);
    if (d->life == XEN_LIFE_ALIVE) {
        d->life = XEN_LIFE_DYING;
        x->changed_us = loop_now_us();
        see_loads(x);
    }
    budget_us = max_us + x->model->kind[d->kind].overshoot_us[rng_below(&x->rng, SIM_DECILES)];
    if (budget_us < 50) /* Xen guarantees some progress */
        budget_us = 50;
    did_us = budget_us - tear_down(x, d, budget_us);
    us = (uint64_t)did_us + 1;
    freed = d->life == XEN_LIFE_DEAD ? d->pages : (uint64_t)d->owed_pages;
    if (freed > d->pages)
        freed = d->pages;
    d->owed_pages -= (double)freed;
    /* Others may have the CPU in the middle of it. */
    loop_spend(us + (uint64_t)((double)us * x->squeeze / (1.01 - x->squeeze)));
    host_advance(x);
    release(x, d, freed);
    report(d, ret);
    ret->pages_freed = freed;
    ret->cpu_ns = us * 1000;
    ret->entries = 1;
    x->in_step = false;
    if (x->after_step)
        x->after_step(x->arg, d, freed, us);
    if (d->life == XEN_LIFE_DEAD)
        d->used = false;
    return 0;
}

void host_destroy(struct xen *x, struct sim_domain *d)
{
    host_advance(x);
    release(x, d, d->pages);
    d->used = false;
    x->changed_us = loop_now_us();
    see_loads(x);
}

/* --- The rest of struct xen_ops --- */

static const char *sim_version(struct xen *x)
{
    return "4.17-sim";
}

static int sim_probe(struct xen *x, struct err *err)
{
    return 0;
}

static void to_domain(const struct sim_domain *d, struct xen_domain *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->ident = d->ident;
    ret->pages = d->pages;
    ret->shutdown = XEN_SHUTDOWN_NONE;
    ret->cpupool = d->cpupool;
    ret->building = false;
}

static int sim_domain_get(struct xen *x, uint32_t domid, struct xen_domain *ret)
{
    if (domid >= x->n_domains || !x->domain[domid].used)
        return -ESRCH;
    to_domain(&x->domain[domid], ret);
    return 0;
}

static int sim_domain_list(struct xen *x, uint32_t first, struct xen_domain *ret, size_t max)
{
    size_t n = 0;

    for (; first < x->n_domains && n < max; first++) {
        if (x->domain[first].used)
            to_domain(&x->domain[first], &ret[n++]);
    }
    return (int)n;
}

static int sim_scrub_get(struct xen *x, bool with_cpus, struct xen_scrub *ret)
{
    host_advance(x);
    x->gets++;
    memset(ret, 0, offsetof(struct xen_scrub, mask));
    ret->now_ns = x->now_us * 1000;
    ret->n_nodes = x->n_nodes;
    ret->n_cpus = x->n_cpus;
    ret->nodes = x->scrub_nodes;
    ret->has_mask = x->masked;
    if (x->lease_end_us)
        ret->lease_ms = (uint32_t)((x->lease_end_us - x->now_us) / 1000);
    for (unsigned int i = 0; i < x->n_nodes; i++) {
        const struct sim_node *n = &x->node[i];
        struct xen_node *r = &x->scrub_nodes[i];

        ret->has_ceiling |= n->ceiling_kib != 0;
        ret->has_floor |= n->floor_kib != 0;
        r->ceiling_kib = n->ceiling_kib;
        r->floor_kib = n->floor_kib;
        r->dirty = node_dirty(n);
        r->dirtied = n->dirtied;
        r->idle = (uint64_t)n->idle;
        r->floor = (uint64_t)n->floor;
        r->alloc = n->alloc;
        r->boot = n->boot;
        r->throttled_ms = (uint64_t)(n->throttled_us / 1000);
    }
    ret->cpu_scrubbed = with_cpus ? x->cpu_scrubbed : NULL;
    memset(&ret->mask, 0, sizeof(ret->mask));
    for (unsigned int c = 0; with_cpus && c < x->n_cpus; c++) {
        if (x->cpu[c].may)
            cpulist_add(&ret->mask, c);
    }
    return 0;
}

static bool any_online(const struct xen *x, const struct cpulist *mask)
{
    for (unsigned int c = 0; c < x->n_cpus; c++) {
        if (x->cpu[c].online && cpulist_has(mask, c))
            return true;
    }
    return false;
}

static int sim_scrub_set(struct xen *x, const struct xen_scrub_settings *s)
{
    host_advance(x);
    if ((!s->all_cpus && !any_online(x, &s->mask)) || s->ceiling_kib > CEILING_MAX_KIB ||
        s->floor_kib > FLOOR_MAX_KIB || (s->ceiling_kib && s->floor_kib > s->ceiling_kib) ||
        s->lease_ms > LEASE_MAX_MS) {
        /* scrubd looks at the CPUs once a second, and cannot know yet of those that just went. */
        x->misuse.bad_sets += x->now_us > x->changed_us + 2000000;
        return -EINVAL;
    }
    x->sets++;
    x->masked = !s->all_cpus;
    x->mask = s->mask;
    x->limited = s->ceiling_kib || s->floor_kib;
    for (unsigned int i = 0; i < x->n_nodes; i++) {
        struct sim_node *n = &x->node[i];

        if (n->ceiling_kib == s->ceiling_kib && n->floor_kib == s->floor_kib)
            continue;
        n->ceiling_kib = s->ceiling_kib;
        n->floor_kib = s->floor_kib;
        n->ceiling_rate = KIB_S(s->ceiling_kib);
        n->floor_rate = KIB_S(s->floor_kib);
        n->credit = 0;
        n->filled_us = x->now_us;
    }
    x->lease_ms = s->lease_ms;
    x->lease_end_us = s->lease_ms ? x->now_us + s->lease_ms * 1000ull : 0;
    see_cpus(x);
    return 0;
}

static int sim_scrub_reset(struct xen *x)
{
    host_advance(x);
    end_settings(x);
    return 0;
}

static int sim_cpus(struct xen *x, struct xen_cpu *ret, size_t max)
{
    for (unsigned int c = 0; c < x->n_cpus && c < max; c++) {
        const struct sim_cpu *cpu = &x->cpu[c];

        ret[c] = (struct xen_cpu){.online = cpu->online,
                                  .node = cpu->node,
                                  .core = cpu->core,
                                  .socket = cpu->socket,
                                  .cpupool = cpu->cpupool};
    }
    return (int)x->n_cpus;
}

static int sim_affinity(struct xen *x, const struct ident *id, struct cpulist *ret_hard,
                        struct cpulist *ret_soft)
{
    const struct sim_domain *d = find(x, id);

    if (!d)
        return -ESRCH;
    *ret_hard = d->hard;
    *ret_soft = d->soft;
    return 0;
}

static int sim_cpupool_name(struct xen *x, uint32_t cpupool, char *ret, size_t size)
{
    snprintf(ret, size, cpupool ? "pool-%u" : "Pool-0", cpupool);
    return 0;
}

static int sim_memory_free(struct xen *x, uint64_t *ret_pages)
{
    *ret_pages = 0;
    for (unsigned int i = 0; i < x->n_nodes; i++)
        *ret_pages += x->node[i].pages;
    *ret_pages -= host_guest_pages(x);
    return 0;
}

static int sim_names_fd(struct xen *x)
{
    return -1;
}

static void sim_names_update(struct xen *x)
{
}

static const char *sim_names_trouble(struct xen *x)
{
    return NULL;
}

static const char *sim_name_of(struct xen *x, const struct ident *id)
{
    struct sim_domain *d = find(x, id);

    return d ? d->name : NULL;
}

static void sim_close(struct xen *x)
{
}

const struct xen_ops sim_ops = {
    .close = sim_close,
    .version = sim_version,
    .probe = sim_probe,
    .domain_get = sim_domain_get,
    .domain_list = sim_domain_list,
    .step = sim_step,
    .scrub_get = sim_scrub_get,
    .scrub_set = sim_scrub_set,
    .scrub_reset = sim_scrub_reset,
    .cpus = sim_cpus,
    .affinity = sim_affinity,
    .cpupool_name = sim_cpupool_name,
    .memory_free = sim_memory_free,
    .names_fd = sim_names_fd,
    .names_update = sim_names_update,
    .names_trouble = sim_names_trouble,
    .name_of = sim_name_of,
};
