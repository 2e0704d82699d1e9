/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Placement: pins, affinities, cpupools, siblings, nodes, and what gives way
 * when nothing is left; and a large host. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "placement.h"

/* What a row leaves out is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define MAX_CPUS 16
#define MAX_DOMAINS 4
#define ALL 0xffffffffffffffffull

#define NONE PLACEMENT_UNPROTECTED
#define FREE PLACEMENT_FREE
#define EVERYWHERE PLACEMENT_EVERYWHERE
#define OFF PLACEMENT_OFFLINE
#define HARD PLACEMENT_HARD
#define SOFT PLACEMENT_SOFT
#define SIB PLACEMENT_SIBLING
#define NODE_SIB PLACEMENT_NODE_SIBLING
#define NODE_SOFT PLACEMENT_NODE_SOFT
#define LAST PLACEMENT_LAST
#define BY_PIN PLACEMENT_BY_PIN
#define BY_NAME PLACEMENT_BY_NAME

struct dom {
    uint32_t domid;
    uint64_t hard, soft;
    enum placement_rule rule;
    uint32_t pool;
    bool gone;
};

struct host {
    unsigned int n_cpus;
    uint64_t offline, pool1, no_pool;
    unsigned int threads;  /* to a core, 0 = 1 */
    unsigned int per_node; /* CPUs, 0 = all */
    unsigned int per_socket;
};

/* A host, its domains; what is expected: the mask, why for each CPU (then which
 * domid, 0 = no domain), and by what the domains are protected. */
static const struct row {
    const char *what;
    struct host host;
    struct dom doms[MAX_DOMAINS];
    uint64_t mask;
    enum placement_why why[MAX_CPUS];
    uint32_t domid[MAX_CPUS];
    enum placement_rule rules[MAX_DOMAINS];
} rows[] = {
    {"no domain at all", {2}, {{0}}, 0x3, {FREE, FREE}, {0}, {NONE}},
    {"nothing to protect", {2}, {{0, ALL, ALL}, {1, ALL, ALL}}, 0x3, {FREE, FREE}, {0}, {NONE}},
    {"a pinned guest",
     {2},
     {{0, ALL, ALL}, {1, 0x2, ALL}},
     0x1,
     {FREE, HARD},
     {0, 1},
     {NONE, BY_PIN}},
    {"domain 0 pinned beside it is no obstacle, and no candidate",
     {2},
     {{0, 0x1, ALL}, {1, 0x2, ALL}},
     0x1,
     {FREE, HARD},
     {0, 1},
     {NONE, BY_PIN}},
    {"domain 0 cannot be protected", {2}, {{0, 0x1, ALL, BY_NAME}}, 0x3, {FREE}, {0}, {NONE}},
    {"a pCPU shared with domain 0's pin is nobody's own",
     {2},
     {{0, 0x2, ALL}, {1, 0x2, ALL}},
     0x3,
     {FREE, FREE},
     {0},
     {NONE, NONE}},
    {"two guests on one pCPU, a third of its own",
     {4},
     {{1, 0x6, ALL}, {2, 0x4, ALL}, {3, 0x8, ALL}},
     0x7,
     {FREE, FREE, FREE, HARD},
     {0, 0, 0, 3},
     {NONE, NONE, BY_PIN}},
    {"shared, but one of them by a rule",
     {4},
     {{1, 0x6, ALL, BY_NAME}, {2, 0x4, ALL}},
     0x9,
     {FREE, HARD, HARD, FREE},
     {0, 1, 1, 0},
     {BY_NAME, NONE}},
    {"a guest that may run everywhere does not share",
     {2},
     {{1, 0x2, ALL}, {2, 0x3, ALL}},
     0x1,
     {FREE, HARD},
     {0, 1},
     {BY_PIN, NONE}},
    {"pinned to all that is online is not pinned",
     {4, .offline = 0xc},
     {{1, 0x3, ALL}},
     0x3,
     {FREE, FREE, OFF, OFF},
     {0},
     {NONE}},
    {"a dying one protects nothing and is in nobody's way",
     {2},
     {{1, 0x2, ALL, .gone = true}, {2, 0x2, ALL}},
     0x1,
     {FREE, HARD},
     {0, 2},
     {NONE, BY_PIN}},
    {"a dying one is not protected by a rule either",
     {2},
     {{1, 0x2, ALL, BY_NAME, .gone = true}},
     0x3,
     {FREE, FREE},
     {0},
     {NONE}},
    {"without a vCPU it runs nowhere", {2}, {{1, 0, 0, BY_NAME}}, 0x3, {FREE}, {0}, {BY_NAME}},
    {"a rule, and everything: it cannot be kept clear",
     {2},
     {{1, ALL, ALL, BY_NAME}},
     0x3,
     {EVERYWHERE, EVERYWHERE},
     {1, 1},
     {BY_NAME}},
    {"one everywhere, one that can be kept clear",
     {2},
     {{1, ALL, ALL, BY_NAME}, {2, 0x2, ALL}},
     0x1,
     {EVERYWHERE, HARD},
     {1, 2},
     {BY_NAME, BY_PIN}},
    {"soft affinity counts where hard is everything",
     {4},
     {{1, ALL, 0x6, BY_NAME}},
     0x9,
     {FREE, SOFT, SOFT, FREE},
     {0, 1, 1, 0},
     {BY_NAME}},
    {"soft affinity alone protects nobody", {4}, {{1, ALL, 0x6}}, 0xf, {FREE}, {0}, {NONE}},
    {"hard affinity narrower: soft does not count",
     {4},
     {{1, 0x6, 0x2, BY_NAME}},
     0x9,
     {FREE, HARD, HARD, FREE},
     {0, 1, 1, 0},
     {BY_NAME}},
    {"hard outweighs soft on the same pCPU",
     {4},
     {{1, ALL, 0x6, BY_NAME}, {2, 0x4, ALL}},
     0x9,
     {FREE, SOFT, HARD, FREE},
     {0, 1, 2, 0},
     {BY_NAME, BY_PIN}},
    {"a hard affinity to what is offline is the whole pool, as Xen has it",
     {4, .offline = 0x8, .pool1 = 0x6},
     {{1, 0x8, ALL, BY_NAME, .pool = 1}},
     0x1,
     {FREE, HARD, HARD, OFF},
     {0, 1, 1, 0},
     {BY_NAME}},
    {"siblings",
     {4, .threads = 2},
     {{1, 0x8, ALL}},
     0x3,
     {FREE, FREE, SIB, HARD},
     {0, 0, 1, 1},
     {BY_PIN}},
    {"siblings of a soft affinity",
     {4, .threads = 2},
     {{1, ALL, 0x8, BY_NAME}},
     0x3,
     {FREE, FREE, SIB, SOFT},
     {0, 0, 1, 1},
     {BY_NAME}},
    {"four threads to a core, one offline",
     {8, .threads = 4, .offline = 0x20},
     {{1, 0x10, ALL}},
     0xf,
     {FREE, FREE, FREE, FREE, HARD, OFF, SIB, SIB},
     {0, 0, 0, 0, 1, 0, 1, 1},
     {BY_PIN}},
    {"core numbers begin anew in each node",
     {4, .threads = 2, .per_node = 2},
     {{1, 0x4, ALL}},
     0xb,
     {FREE, FREE, HARD, NODE_SIB},
     {0, 0, 1, 1},
     {BY_PIN}},
    {"and in each socket",
     {4, .threads = 2, .per_socket = 2},
     {{1, 0x4, ALL}},
     0x3,
     {FREE, FREE, HARD, SIB},
     {0, 0, 1, 1},
     {BY_PIN}},
    {"a node's siblings give way before soft affinities",
     {8, .threads = 2, .per_node = 4},
     {{1, ALL, 0x50, BY_NAME}},
     0xaf,
     {FREE, FREE, FREE, FREE, SOFT, NODE_SIB, SOFT, NODE_SIB},
     {0, 0, 0, 0, 1, 1, 1, 1},
     {BY_NAME}},
    {"soft affinities give way for a node",
     {4, .per_node = 2},
     {{1, ALL, 0xc, BY_NAME}},
     0xf,
     {FREE, FREE, NODE_SOFT, NODE_SOFT},
     {0, 0, 1, 1},
     {BY_NAME}},
    {"but hard ones of the node do not",
     {4, .per_node = 2},
     {{1, ALL, 0xc, BY_NAME}, {2, 0x8, ALL}},
     0x7,
     {FREE, FREE, NODE_SOFT, HARD},
     {0, 0, 1, 2},
     {BY_NAME, BY_PIN}},
    {"a node that is all pinned is served by another",
     {4, .per_node = 2},
     {{1, 0xc, ALL}},
     0x3,
     {FREE, FREE, HARD, HARD},
     {0, 0, 1, 1},
     {BY_PIN}},
    {"a node that is all offline needs nothing",
     {4, .per_node = 2, .offline = 0xc},
     {{1, 0x2, ALL}},
     0x1,
     {FREE, HARD, OFF, OFF},
     {0, 1, 0, 0},
     {BY_PIN}},
    {"all pCPUs pinned: pins give way",
     {2},
     {{1, 0x1, ALL}, {2, 0x2, ALL}},
     0x3,
     {LAST, LAST},
     {1, 2},
     {BY_PIN, BY_PIN}},
    {"all pCPUs pinned: pins give way before rules",
     {2},
     {{1, 0x1, ALL}, {2, 0x2, ALL, BY_NAME}},
     0x1,
     {LAST, HARD},
     {1, 2},
     {BY_PIN, BY_NAME}},
    {"all by rules: they give way",
     {2},
     {{1, 0x1, ALL, BY_NAME}, {2, 0x2, ALL, BY_NAME}},
     0x3,
     {LAST, LAST},
     {1, 2},
     {BY_NAME, BY_NAME}},
    {"what is protected by a rule outweighs a pin on the same pCPU",
     {4, .no_pool = 0x8},
     {{1, 0x2, ALL}, {2, ALL, ALL, BY_NAME}},
     0x8,
     {HARD, HARD, HARD, FREE},
     {2, 2, 2, 0},
     {BY_PIN, BY_NAME}},
    {"siblings give way when pins fill the cores",
     {4, .threads = 2},
     {{1, 0x1, ALL}, {2, 0x4, ALL}},
     0xa,
     {HARD, NODE_SIB, HARD, NODE_SIB},
     {1, 1, 2, 2},
     {BY_PIN, BY_PIN}},
    {"a cpupool by a rule is kept clear as a whole",
     {4, .pool1 = 0xc},
     {{1, ALL, ALL, PLACEMENT_BY_POOL, .pool = 1}},
     0x3,
     {FREE, FREE, HARD, HARD},
     {0, 0, 1, 1},
     {PLACEMENT_BY_POOL}},
    {"within a cpupool, narrower means narrower than the pool",
     {4, .pool1 = 0xc},
     {{1, 0xc, ALL, .pool = 1}, {2, 0x1, ALL, .pool = 0}},
     0xe,
     {HARD, FREE, FREE, FREE},
     {2, 0, 0, 0},
     {NONE, BY_PIN}},
    {"affinities count within the own pool alone",
     {4, .pool1 = 0xc},
     {{1, 0x7, ALL, .pool = 1}, {2, 0xd, ALL, .pool = 0}},
     0xa,
     {HARD, FREE, HARD, FREE},
     {2, 0, 1, 0},
     {BY_PIN, BY_PIN}},
    {"pCPUs in no pool scrub",
     {4, .no_pool = 0x8},
     {{1, 0x4, ALL, BY_NAME}},
     0xb,
     {FREE, FREE, HARD, FREE},
     {0, 0, 1, 0},
     {BY_NAME}},
    {"all of the only pool, but not all pCPUs",
     {4, .no_pool = 0x8},
     {{1, ALL, ALL, BY_NAME}},
     0x8,
     {HARD, HARD, HARD, FREE},
     {1, 1, 1, 0},
     {BY_NAME}},
    {"a pool without an online pCPU",
     {2},
     {{1, 0x1, ALL, BY_NAME, .pool = 7}},
     0x3,
     {FREE, FREE},
     {0},
     {BY_NAME}},
};

static bool bit(uint64_t bits, unsigned int i)
{
    return i < 64 && bits >> i & 1;
}

static void fill_cpus(const struct host *h, struct placement_cpu *cpus)
{
    unsigned int threads = h->threads ? h->threads : 1;
    unsigned int per_node = h->per_node ? h->per_node : h->n_cpus;
    unsigned int per_socket = h->per_socket ? h->per_socket : h->n_cpus;

    for (unsigned int i = 0; i < h->n_cpus; i++) {
        cpus[i] = (struct placement_cpu){
            .online = !bit(h->offline, i),
            .node = i / per_node,
            .socket = i / per_socket,
            .core = i % per_socket % per_node / threads,
            .cpupool = bit(h->no_pool, i) ? UINT32_MAX : bit(h->pool1, i),
        };
    }
}

static void fill_domain(const struct dom *d, struct placement_domain *ret)
{
    *ret = (struct placement_domain){
        .ident = {.domid = d->domid},
        .cpupool = d->pool,
        .rule = d->rule,
        .gone = d->gone,
        .hard = {.bits = {d->hard}},
        .soft = {.bits = {d->soft}},
    };
}

static void table(void **state)
{
    for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
        const struct row *row = &rows[r];
        struct placement_cpu cpus[MAX_CPUS];
        struct placement_domain doms[MAX_DOMAINS];
        struct placement_verdict v[MAX_CPUS];
        enum placement_rule rules[MAX_DOMAINS];
        struct cpulist mask;

        fill_cpus(&row->host, cpus);
        for (size_t i = 0; i < MAX_DOMAINS; i++)
            fill_domain(&row->doms[i], &doms[i]);
        placement_compute(cpus, row->host.n_cpus, doms, MAX_DOMAINS, &mask, v, rules);
        if (mask.bits[0] != row->mask)
            fail_msg("%s: mask %#llx", row->what, (unsigned long long)mask.bits[0]);
        for (size_t i = 0; i < row->host.n_cpus; i++) {
            if (v[i].why != row->why[i])
                fail_msg("%s: CPU %zu %s", row->what, i, placement_why_name(v[i].why));
            if ((v[i].domain < 0 ? 0 : doms[v[i].domain].ident.domid) != row->domid[i])
                fail_msg("%s: CPU %zu for index %d", row->what, i, v[i].domain);
            assert_int_equal(placement_is_in(v[i].why), mask.bits[0] >> i & 1);
            if (v[i].why == SIB || v[i].why == NODE_SIB)
                assert_int_equal(cpus[v[i].sibling].core, cpus[i].core);
            else
                assert_int_equal(v[i].sibling, -1);
        }
        for (size_t i = 0; i < MAX_DOMAINS; i++) {
            if (rules[i] != row->rules[i])
                fail_msg("%s: domain %zu by %s", row->what, i, placement_rule_name(rules[i]));
        }
    }
}

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

#define BIG_CPUS 512
#define BIG_DOMAINS 1000

struct big {
    struct placement_cpu cpus[BIG_CPUS];
    struct placement_domain doms[BIG_DOMAINS];
    struct placement_verdict verdicts[BIG_CPUS];
    enum placement_rule rules[BIG_DOMAINS];
    struct cpulist mask;
};

static struct big *big_host(void)
{
    struct big *b = calloc(1, sizeof(*b));
    struct host h = {BIG_CPUS, .threads = 2, .per_node = 64};

    assert_non_null(b);
    fill_cpus(&h, b->cpus);
    for (unsigned int i = 0; i < BIG_CPUS; i++)
        b->cpus[i].cpupool = 0;
    for (unsigned int i = 0; i < BIG_DOMAINS; i++) {
        b->doms[i].ident.domid = i;
        memset(&b->doms[i].hard, 0xff, BIG_CPUS / 8);
        memset(&b->doms[i].soft, 0xff, BIG_CPUS / 8);
    }
    return b;
}

static void compute(struct big *b)
{
    placement_compute(b->cpus, BIG_CPUS, b->doms, BIG_DOMAINS, &b->mask, b->verdicts, b->rules);
}

/* 512 pCPUs, 8 nodes, 1000 domains, most of them protected. */
static void large_host(void **state)
{
    struct big *b = big_host();
    uint64_t began_us;

    for (unsigned int i = 1; i < BIG_DOMAINS; i++) {
        if (i % 4 == 1) {
            cpulist_clear(&b->doms[i].hard);
            cpulist_add(&b->doms[i].hard, i / 4 * 2);
        } else {
            b->doms[i].rule = BY_NAME;
            cpulist_clear(&b->doms[i].soft);
            for (unsigned int k = 0; k < 8; k++)
                cpulist_add(&b->doms[i].soft, 64 * 7 + (i + k) % 64);
        }
    }
    began_us = now_us();
    compute(b);
    /* It is 2 ms; sanitizers and a busy machine make more of it. */
    assert_true(now_us() - began_us < 200000);
    /* In nodes 0 to 6 the siblings of the pinned give way, in node 7 what is not
     * pinned does. */
    for (unsigned int i = 0; i < 64 * 7; i++)
        assert_int_equal(b->verdicts[i].why, i % 2 ? NODE_SIB : HARD);
    for (unsigned int i = 64 * 7; i < BIG_CPUS; i++)
        assert_true(b->verdicts[i].why == (i % 2 == 0 && i / 2 < 250 ? HARD : NODE_SOFT));
    free(b);
}

/* Whatever the host: never an empty mask, no CPU that is offline, and no reason
 * without cause. */
static void random_hosts(void **state)
{
    struct big *b = big_host();
    unsigned int seed = (unsigned int)time(NULL);

    print_message("seed %u\n", seed);
    srand(seed);
    for (unsigned int round = 0; round < 200; round++) {
        unsigned int n_cpus = 1 + (unsigned int)rand() % 40, n_doms = (unsigned int)rand() % 30;
        unsigned int threads = 1 + (unsigned int)rand() % 2;
        bool any = false;

        for (unsigned int i = 0; i < n_cpus; i++) {
            b->cpus[i] = (struct placement_cpu){.online = rand() % 5 != 0,
                                                .node = i * 3 / n_cpus,
                                                .core = i / threads,
                                                .cpupool = (uint32_t)rand() % 2};
            any |= b->cpus[i].online;
        }
        for (unsigned int i = 0; i < n_doms; i++) {
            struct dom d = {
                i, ALL, ALL, rand() % 3 ? NONE : BY_NAME, (uint32_t)rand() % 2, rand() % 10 == 0};

            if (rand() % 2)
                d.hard = 1ull << rand() % 40 | 1ull << rand() % 40;
            if (rand() % 2)
                d.soft = 1ull << rand() % 40 | 1ull << rand() % 40;
            fill_domain(&d, &b->doms[i]);
        }
        placement_compute(b->cpus, n_cpus, b->doms, n_doms, &b->mask, b->verdicts, b->rules);
        assert_int_equal(any, !cpulist_empty(&b->mask));
        for (unsigned int i = 0; i < n_cpus; i++) {
            const struct placement_verdict *v = &b->verdicts[i];

            assert_int_equal(b->cpus[i].online, v->why != OFF);
            assert_int_equal(placement_is_in(v->why), cpulist_has(&b->mask, i));
            assert_int_equal(v->why == FREE || v->why == OFF, v->domain < 0);
            if (v->domain >= 0)
                assert_int_not_equal(b->rules[v->domain], NONE);
        }
    }
    free(b);
}

static void patterns(void **state)
{
    static const struct ident id = {5,
                                    {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23,
                                     0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}};
    static const struct {
        const char *text, *name, *pool;
        enum placement_rule rule;
    } table[] = {
        {"web*", "web1", NULL, BY_NAME},
        {"web*", "db1", NULL, NONE},
        {"web*", NULL, NULL, NONE},
        {"web[12]", "web2", NULL, BY_NAME},
        {"web[12]", "web3", NULL, NONE},
        {"*", "", NULL, BY_NAME},
        {"uuid:01234567-89ab-cdef-0123-456789abcdef", NULL, NULL, PLACEMENT_BY_UUID},
        {"uuid:01234567-89AB-cdef-0123-456789abcdef", "x", "y", PLACEMENT_BY_UUID},
        {"uuid:01234567-89ab-cdef-0123-456789abcdee", NULL, NULL, NONE},
        {"uuid:01234567", "uuid:01234567", NULL, NONE},
        {"pool:rt", "rt", "rt", PLACEMENT_BY_POOL},
        {"pool:rt", "rt", "rt2", NONE},
        {"pool:rt", "pool:rt", NULL, NONE},
    };
    struct ident dom0 = {0};

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        enum placement_rule rule =
            placement_match(table[i].text, &id, table[i].name, table[i].pool);

        if (rule != table[i].rule)
            fail_msg("%s: %s", table[i].text, placement_rule_name(rule));
    }
    assert_int_equal(placement_match("*", &dom0, "Domain-0", NULL), NONE);
}

static void names(void **state)
{
    for (enum placement_why why = 0; why < PLACEMENT_N_WHYS; why++) {
        assert_non_null(placement_why_name(why));
        for (enum placement_why other = 0; other < why; other++)
            assert_string_not_equal(placement_why_name(why), placement_why_name(other));
    }
    for (enum placement_rule rule = 0; rule <= PLACEMENT_BY_REQUEST; rule++)
        assert_non_null(placement_rule_name(rule));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),    cmocka_unit_test(large_host), cmocka_unit_test(random_hosts),
        cmocka_unit_test(patterns), cmocka_unit_test(names),
    };

    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
