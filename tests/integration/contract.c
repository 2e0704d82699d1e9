/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "contract.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PAGES 8192u /* of the domains that are made: 32 MiB */
#define ABSENT 0x7f00u

static int n_checks, n_failed;

__attribute__((format(printf, 2, 3))) static bool check(bool ok, const char *fmt, ...)
{
    va_list ap;

    n_checks++;
    n_failed += !ok;
    printf("%sok %d - ", ok ? "" : "not ", n_checks);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
    return ok;
}

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void pause_ms(unsigned int ms)
{
    struct timespec ts = {0, (long)ms * 1000000};

    nanosleep(&ts, NULL);
}

static void check_domains(const struct contract *c)
{
    struct xen_domain some[16], one, dom;
    uint32_t first = 0;
    int n, i, r;

    r = c->ops->domain_get(c->xen, 0, &dom);
    check(r == 0 && dom.ident.domid == 0 && dom.pages > 0, "domain 0 is found: %d", r);
    r = c->ops->domain_get(c->xen, ABSENT, &dom);
    check(r == -ESRCH, "an absent domain is not: %d", r);
    n = c->ops->domain_list(c->xen, 0, some, 16);
    check(n >= 1 && some[0].ident.domid == 0, "the list begins with domain 0: %d domains", n);
    for (i = 0; i < n; i++) {
        r = c->ops->domain_list(c->xen, first, &one, 1);
        if (r != 1 || !ident_equal(&one.ident, &some[i].ident))
            break;
        first = one.ident.domid + 1;
    }
    check(i == n, "listed one by one they are the same, ascending");
    check(c->ops->domain_list(c->xen, IDENT_DOMID_MAX + 1, some, 16) == 0, "the list ends");
}

static void check_cpus(const struct contract *c)
{
    struct xen_domain dom0 = {0};
    struct cpulist online = {0}, hard = {0}, soft = {0}, kept;
    struct xen_cpu all[64], few[1];
    bool same_pool = false;
    char name[32] = "";
    int r, n;

    n = c->ops->cpus(c->xen, all, 64);
    check(n >= 1, "there are %d CPUs", n);
    r = c->ops->cpus(c->xen, few, 1);
    check(r == n && few[0].online == all[0].online && few[0].core == all[0].core,
          "the number is not limited by the room for them: %d", r);
    r = xen_cpus_online(c->xen, c->ops, &online);
    check(r == 0 && !cpulist_empty(&online), "%u of them are online", cpulist_count(&online));
    c->ops->domain_get(c->xen, 0, &dom0);
    for (int i = 0; i < n && i < 64; i++)
        same_pool |= all[i].online && all[i].cpupool == dom0.cpupool;
    check(same_pool, "domain 0's cpupool has an online CPU");
    r = c->ops->cpupool_name(c->xen, dom0.cpupool, name, sizeof(name));
    check(r == 0 && *name, "which is called %s: %d", name, r);
    r = c->ops->cpupool_name(c->xen, 4711, name, sizeof(name));
    check(r == -ENOENT, "an absent one is not: %d", r);
    check(!dom0.building && dom0.shutdown == XEN_SHUTDOWN_NONE, "domain 0 runs");
    r = c->ops->affinity(c->xen, &dom0.ident, &hard, &soft);
    check(r == 0 && cpulist_intersects(&hard, &online) && cpulist_intersects(&soft, &online),
          "domain 0 may run, and had better, on a CPU that is online: %d", r);
    kept = hard;
    dom0.ident.uuid[3] ^= 1;
    r = c->ops->affinity(c->xen, &dom0.ident, &hard, &soft);
    check(r == -ESRCH && cpulist_equal(&kept, &hard), "another handle: %d", r);
    dom0.ident.domid = ABSENT;
    r = c->ops->affinity(c->xen, &dom0.ident, &hard, &soft);
    check(r == -ESRCH, "an absent domain: %d", r);
}

static bool still_alive(const struct contract *c, const struct ident *id, uint64_t pages)
{
    struct xen_step q = {0};
    int r = c->ops->step(c->xen, id, 1000, XEN_STEP_QUERY, &q);

    return r == 0 && q.life == XEN_LIFE_ALIVE && q.pages_left == pages && q.pages_freed == 0;
}

/* What must not begin a teardown. */
static void check_refusals(const struct contract *c, const struct xen_domain *dom)
{
    struct xen_step s;
    struct ident other = dom->ident, absent = dom->ident, zero;
    struct xen_domain dom0;
    int r;

    if (c->ops->domain_get(c->xen, 0, &dom0) < 0)
        return;
    zero = dom0.ident;
    r = c->ops->step(c->xen, &zero, 1000, 0, &s);
    check(r == -EPERM, "a step on domain 0 is refused: %d", r);
    absent.domid = ABSENT;
    r = c->ops->step(c->xen, &absent, 1000, 0, &s);
    check(r == -ESRCH, "a step on an absent domain: %d", r);
    other.uuid[15] ^= 1;
    r = c->ops->step(c->xen, &other, 1000, 0, &s);
    check(r == -ESRCH, "a step with another handle: %d", r);
    r = c->ops->step(c->xen, &other, 1000, XEN_STEP_QUERY, &s);
    check(r == -ESRCH, "a query with another handle: %d", r);
    r = c->ops->step(c->xen, &dom->ident, 1000, XEN_STEP_ONLY_IF_DYING, &s);
    check(r == -EBUSY, "only if dying, on a domain that is not: %d", r);
    r = c->ops->step(c->xen, &dom->ident, 99, 0, &s);
    check(r == -EINVAL, "a step of 99 us: %d", r);
    r = c->ops->step(c->xen, &dom->ident, 1000001, 0, &s);
    check(r == -EINVAL, "a step of 1000001 us: %d", r);
    check(still_alive(c, &dom->ident, dom->pages), "all that has not touched the domain");
}

struct sum {
    unsigned int steps;
    uint64_t freed, longest_ns, cpu_ns;
    bool ordered, balanced; /* stage never shrank; freed is what left fell by */
    struct xen_step last;
};

/* Step until dead, or error. */
static int tear_down(const struct contract *c, const struct xen_domain *dom, uint32_t max_us,
                     struct sum *sum)
{
    uint64_t left = dom->pages;
    uint32_t stage = 0;
    int r;

    memset(sum, 0, sizeof(*sum));
    sum->ordered = sum->balanced = true;
    do {
        r = c->ops->step(c->xen, &dom->ident, max_us, sum->steps ? XEN_STEP_ONLY_IF_DYING : 0,
                         &sum->last);
        if (r < 0)
            return r;
        sum->steps++;
        sum->freed += sum->last.pages_freed;
        sum->cpu_ns += sum->last.cpu_ns;
        if (sum->last.cpu_ns > sum->longest_ns)
            sum->longest_ns = sum->last.cpu_ns;
        sum->ordered &= sum->last.stage >= stage;
        sum->balanced &= left - sum->last.pages_left == sum->last.pages_freed;
        stage = sum->last.stage;
        left = sum->last.pages_left;
        if (sum->last.error)
            return sum->last.error;
    } while (sum->last.life != XEN_LIFE_DEAD && sum->steps < 100000);
    return sum->last.life == XEN_LIFE_DEAD ? 0 : -ETIMEDOUT;
}

static void check_teardown(const struct contract *c)
{
    struct xen_domain dom, again;
    struct xen_step s = {0};
    struct sum sum;
    /* Several steps' worth, even where a busy emulator ends a step 100 ms late. */
    uint64_t pages = 16 * PAGES;
    uint64_t free_before = 0, free_after = 0;
    int domid, r;

    r = c->ops->memory_free(c->xen, &free_before);
    check(r == 0 && free_before > pages, "%" PRIu64 " pages are free: %d", free_before, r);
    domid = c->make(c->arg, pages);
    if (!check(domid > 0, "a domain can be made: %d", domid))
        return;
    c->ops->memory_free(c->xen, &free_after);
    check(free_before - free_after >= pages, "which takes them");
    r = c->ops->domain_get(c->xen, (uint32_t)domid, &dom);
    check(r == 0 && dom.pages >= pages, "it is found with its pages: %d, %" PRIu64, r, dom.pages);
    check(still_alive(c, &dom.ident, dom.pages), "a query says alive");
    check(still_alive(c, &dom.ident, dom.pages), "a second query says the same");
    check_refusals(c, &dom);

    r = c->ops->step(c->xen, &dom.ident, 100, 0, &s);
    check(r == 0 && s.life == XEN_LIFE_DYING, "the first step marks it dying: %d, life %d", r,
          s.life);
    check(s.pages_freed < dom.pages, "and does not free it all");
    r = c->ops->step(c->xen, &dom.ident, 100, XEN_STEP_QUERY, &s);
    check(r == 0 && s.life == XEN_LIFE_DYING, "a query says dying: %d", r);
    check(c->ops->domain_get(c->xen, (uint32_t)domid, &again) == 0, "a dying domain is found");
    r = tear_down(c, &again, 500, &sum);
    check(r == 0, "steps of 500 us bring it to its end: %d, %u steps", r, sum.steps);
    check(sum.steps >= 2, "more than one of them");
    check(sum.longest_ns < sum.cpu_ns / 2, "the longest took %" PRIu64 " of %" PRIu64 " us",
          sum.longest_ns / 1000, sum.cpu_ns / 1000);
    check(sum.ordered, "the stage never shrank");
    check(sum.balanced && sum.freed + sum.last.pages_left == again.pages, "no page is lost");
    check(sum.last.pages_left < 64, "%" PRIu64 " pages stay", sum.last.pages_left);
    r = c->ops->step(c->xen, &dom.ident, 500, 0, &s);
    check(r == -ESRCH || (r == 0 && s.life == XEN_LIFE_DEAD), "one more step finds it dead: %d", r);
    c->unmake(c->arg, (uint32_t)domid);
    c->ops->memory_free(c->xen, &free_before);
    check(free_before - free_after >= pages - 64, "it is free again, clean or not");
}

static bool balanced(const struct xen_scrub *g)
{
    for (unsigned int i = 0; i < g->n_nodes; i++) {
        const struct xen_node *n = &g->nodes[i];

        if (n->dirty != n->dirtied - n->idle - n->floor - n->alloc - n->dropped ||
            n->boot > n->dirty)
            return false;
    }
    return true;
}

static uint64_t dirty(const struct contract *c)
{
    struct xen_scrub g;
    uint64_t sum = 0;

    if (c->ops->scrub_get(c->xen, false, &g) < 0)
        return UINT64_MAX;
    for (unsigned int i = 0; i < g.n_nodes; i++)
        sum += g.nodes[i].dirty;
    return sum;
}

static bool wait_clean(const struct contract *c, unsigned int timeout_ms)
{
    uint64_t end = now_us() + timeout_ms * 1000ull;

    while (dirty(c) > 64) {
        if (now_us() > end)
            return false;
        pause_ms(5);
    }
    return true;
}

static uint64_t others_idle(const struct xen_scrub *g, unsigned int cpu)
{
    uint64_t sum = 0;

    for (unsigned int i = 0; i < g->n_cpus; i++)
        sum += i == cpu ? 0 : g->cpu_scrubbed[i];
    return sum;
}

/* Make a domain and tear it down with quick steps. */
static uint64_t soil(const struct contract *c)
{
    struct xen_domain dom;
    struct sum sum = {0};
    int domid = c->make(c->arg, PAGES);

    if (domid <= 0 || c->ops->domain_get(c->xen, (uint32_t)domid, &dom) < 0 ||
        tear_down(c, &dom, 100000, &sum) < 0)
        return 0;
    c->unmake(c->arg, (uint32_t)domid);
    return sum.freed;
}

static void check_counters(const struct contract *c)
{
    struct xen_scrub g = {0};
    uint64_t dirtied, cpu_sum = 0, node_sum = 0, freed;
    int r;

    check(wait_clean(c, 60000), "the host gets clean");
    r = c->ops->scrub_get(c->xen, true, &g);
    check(r == 0 && g.n_nodes >= 1 && g.n_cpus >= 1 && g.cpu_scrubbed && g.now_ns,
          "the scrubber can be read: %d, %u nodes, %u CPUs", r, g.n_nodes, g.n_cpus);
    if (r < 0)
        return;
    check(balanced(&g),
          "dirty = dirtied - idle - floor - alloc - dropped, of which boot is a part");
    check(!g.has_mask && !g.has_ceiling && g.lease_ms == 0, "nothing is set at first");
    dirtied = g.nodes[0].dirtied;
    for (unsigned int i = 1; i < g.n_nodes; i++)
        dirtied += g.nodes[i].dirtied;
    freed = soil(c);
    check(freed > 0, "a domain frees %" PRIu64 " pages", freed);
    check(wait_clean(c, 60000), "which get scrubbed");
    c->ops->scrub_get(c->xen, true, &g);
    check(balanced(&g), "still balanced");
    for (unsigned int i = 0; i < g.n_nodes; i++) {
        dirtied -= g.nodes[i].dirtied;
        node_sum += g.nodes[i].idle + g.nodes[i].floor;
    }
    for (unsigned int i = 0; i < g.n_cpus; i++)
        cpu_sum += g.cpu_scrubbed[i];
    check(-dirtied >= freed, "at least as many were dirtied: %" PRIu64, -dirtied);
    check(cpu_sum == node_sum, "CPUs together scrubbed what nodes saw: %" PRIu64 ", %" PRIu64,
          cpu_sum, node_sum);
    r = c->ops->scrub_get(c->xen, false, &g);
    check(r == 0 && !g.cpu_scrubbed, "CPUs are left out unless asked for");
}

static void check_bad_settings(const struct contract *c)
{
    struct xen_scrub_settings s = {.all_cpus = false};
    struct xen_scrub g;
    int r;

    r = c->ops->scrub_set(c->xen, &s);
    check(r == -EINVAL, "an empty mask: %d", r);
    cpulist_add(&s.mask, CPULIST_MAX - 1);
    r = c->ops->scrub_set(c->xen, &s);
    check(r == -EINVAL, "a mask without an online CPU: %d", r);
    s.all_cpus = true;
    s.ceiling_kib = (1ull << 30) + 1;
    r = c->ops->scrub_set(c->xen, &s);
    check(r == -EINVAL, "a ceiling out of range: %d", r);
    s.ceiling_kib = 4096;
    s.floor_kib = 4097;
    r = c->ops->scrub_set(c->xen, &s);
    check(r == -EINVAL, "a floor above its ceiling: %d", r);
    s.ceiling_kib = 0;
    s.floor_kib = (1ull << 22) + 1;
    r = c->ops->scrub_set(c->xen, &s);
    check(r == -EINVAL, "a floor out of range: %d", r);
    s.floor_kib = 0;
    s.lease_ms = 3600001;
    r = c->ops->scrub_set(c->xen, &s);
    check(r == -EINVAL, "a lease out of range: %d", r);
    c->ops->scrub_get(c->xen, false, &g);
    check(!g.has_mask && !g.has_ceiling && !g.has_floor && !g.lease_ms, "and nothing has changed");
}

static void check_mask(const struct contract *c)
{
    struct xen_scrub_settings s = {.lease_ms = 60000};
    struct xen_scrub g;
    struct cpulist online, only = {0};
    uint64_t others, freed;
    unsigned int cpu = 0;
    int r;

    r = xen_cpus_online(c->xen, c->ops, &online);
    check(r == 0 && !cpulist_empty(&online), "%u CPUs are online: %d", cpulist_count(&online), r);
    c->ops->scrub_get(c->xen, true, &g);
    check(cpulist_equal(&g.mask, &online), "all of them may scrub");
    while (cpulist_has(&online, cpu + 1))
        cpu++;
    cpulist_add(&only, cpu);
    s.mask = only;
    r = c->ops->scrub_set(c->xen, &s);
    check(r == 0, "a mask of CPU %u is taken: %d", cpu, r);
    c->ops->scrub_get(c->xen, true, &g);
    check(g.has_mask && cpulist_equal(&g.mask, &only), "and reported");
    check(g.lease_ms > 0 && g.lease_ms <= 60000, "so is the lease: %u ms", g.lease_ms);
    others = others_idle(&g, cpu);
    freed = soil(c);
    check(freed && wait_clean(c, 60000), "this CPU alone gets the host clean");
    c->ops->scrub_get(c->xen, true, &g);
    check(others_idle(&g, cpu) == others, "no other scrubbed a page");
    s.all_cpus = true;
    r = c->ops->scrub_set(c->xen, &s);
    c->ops->scrub_get(c->xen, false, &g);
    check(r == 0 && cpulist_equal(&g.mask, &online), "all CPUs replace the mask");
}

/* KiB that were scrubbed while idle, on all nodes. */
static uint64_t scrubbed_kib(const struct contract *c, uint64_t *ret_ns)
{
    struct xen_scrub g = {0};
    uint64_t sum = 0;

    c->ops->scrub_get(c->xen, false, &g);
    for (unsigned int i = 0; i < g.n_nodes; i++)
        sum += g.nodes[i].idle;
    *ret_ns = g.now_ns;
    return sum * 4;
}

static void check_ceiling(const struct contract *c)
{
    struct xen_scrub_settings s = {
        .all_cpus = true, .lease_ms = 60000, .ceiling_kib = 8192, .floor_kib = 4096};
    struct xen_scrub g;
    uint64_t from_ns, to_ns, from_kib, kib, limit_kib, end;
    struct {
        uint64_t at_ms, kib;
    } samples[150];
    unsigned int n_samples = 0;
    int r = c->ops->scrub_set(c->xen, &s);

    check(r == 0, "a ceiling of 8 MiB/s is taken: %d", r);
    c->ops->scrub_get(c->xen, false, &g);
    check(g.has_ceiling && g.nodes[0].ceiling_kib == 8192, "and reported");
    check(g.has_floor && g.nodes[0].floor_kib == 4096, "and so is a floor below it");
    check(!g.has_mask, "all CPUs are no mask");
    check(soil(c) > 0, "a domain of 32 MiB ends");
    from_kib = scrubbed_kib(c, &from_ns);
    end = now_us() + 1500000;
    do {
        pause_ms(10);
        kib = scrubbed_kib(c, &to_ns) - from_kib;
        if (n_samples < 150) {
            samples[n_samples].at_ms = (to_ns - from_ns) / 1000000;
            samples[n_samples++].kib = kib;
        }
    } while (now_us() < end);
    limit_kib = 8192 * (to_ns - from_ns) / 1000000000;
    /* On each node; and what a CPU scrubs at a time may be just ahead. */
    if (!check(kib <= (limit_kib * 105 / 100 + 1024) * g.n_nodes,
               "scrubbed %" PRIu64 " of %" PRIu64 " KiB", kib, limit_kib)) {
        for (unsigned int i = 0; i < n_samples; i += 5)
            printf("# at %" PRIu64 " ms: %" PRIu64 " KiB\n", samples[i].at_ms, samples[i].kib);
    }
    /* An emulator that lacks CPU time cannot use all of it. */
    check(kib >= limit_kib / 2, "which is not much less than allowed");
    check(dirty(c) > 64, "it is not finished");
    r = c->ops->scrub_reset(c->xen);
    check(r == 0 && wait_clean(c, 60000), "without the ceiling it soon is: %d", r);
}

static void check_lease(const struct contract *c)
{
    struct xen_scrub_settings s = {.lease_ms = 400};
    struct xen_scrub g;
    uint64_t began, end;
    int r;

    cpulist_add(&s.mask, 0);
    began = now_us();
    r = c->ops->scrub_set(c->xen, &s);
    c->ops->scrub_get(c->xen, false, &g);
    check(r == 0 && g.has_mask, "settings with a lease of 400 ms: %d", r);
    end = began + 5000000;
    while (c->ops->scrub_get(c->xen, false, &g) == 0 && g.has_mask && now_us() < end)
        pause_ms(5);
    check(!g.has_mask && !g.has_ceiling, "end by themselves");
    check(now_us() - began >= 390000, "not too early: %" PRIu64 " ms", (now_us() - began) / 1000);
    s.lease_ms = 60000;
    c->ops->scrub_set(c->xen, &s);
    r = c->ops->scrub_reset(c->xen);
    c->ops->scrub_get(c->xen, false, &g);
    check(r == 0 && !g.has_mask && !g.has_ceiling && !g.lease_ms, "a reset ends them: %d", r);
}

int contract_run(const struct contract *c)
{
    struct err err = {0};
    const char *version = c->ops->version(c->xen);
    int r = c->ops->probe(c->xen, &err);

    check(version && *version, "version %s", version ? version : "-");
    if (check(r == 0, "the hypervisor has the operations: %d %s", r, err.text)) {
        check_domains(c);
        check_cpus(c);
        check_teardown(c);
        check_counters(c);
        check_bad_settings(c);
        check_mask(c);
        check_ceiling(c);
        check_lease(c);
    }
    printf("1..%d\n", n_checks);
    return n_failed;
}
