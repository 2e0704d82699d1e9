/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The mask: who scrubs, who is woken for whom, and what becomes of it when CPUs go offline.
 */
#include "heap.h"

/* All CPUs idle, and those that run by the mask. */
static void masked_host(unsigned int nodes, unsigned int cpus_per_node, uint64_t mask)
{
    struct ctl_state state;

    heap_init(nodes, cpus_per_node);
    ctl_get(&state);
    assert_int_equal(ctl_set(&(struct settings){.mask = mask}), 0);
    host_run(MS);
}

/* A vCPU blocks there, and the CPU goes through its idle loop. */
static void goes_idle(unsigned int cpu)
{
    host_busy(cpu, true);
    host_run(10 * US);
    host_busy(cpu, false);
    host_run(10 * US);
}

/* CPUs woken by what is done since the last call. */
static uint64_t woken(void)
{
    uint64_t mask = 0;

    for (unsigned int cpu = 0; cpu < NR_CPUS; cpu++) {
        if (host.cpu[cpu].raised)
            mask |= 1ull << cpu;
        host.cpu[cpu].raised = 0;
    }
    return mask;
}

static void only_who_may(void **state)
{
    for (uint64_t mask = 1; mask < 15; mask++) {
        struct ctl_state get;

        masked_host(1, 4, mask);
        ctl_get(&get);
        assert_int_equal(get.mask, mask);
        assert_int_equal(get.op.flags, XEN_SCRUB_MASKED);
        for (unsigned int i = 0; i < 40; i++) {
            heap_free(0, 1000);
            goes_idle(i % 4);
            host_run(10 * MS);
            assert_int_equal(heap.node[0].dirty, 0);
        }
        for (unsigned int cpu = 0; cpu < 4; cpu++)
            assert_true(!!heap.by_cpu[cpu] == (mask >> cpu & 1));
        /* A mask alone needs no timers. */
        assert_int_equal(host_active_timers(), 0);
        assert_int_equal(host.warnings, 0);
    }
}

static void all_is_no_mask(void **state)
{
    struct ctl_state get;

    masked_host(2, 2, 0xf);
    ctl_get(&get);
    assert_int_equal(get.mask, 0xf);
    assert_int_equal(get.op.flags, 0);
    assert_false(scrub_ctl_active);
}

static void offline_one_by_one(void **state)
{
    struct ctl_state get;

    masked_host(1, 4, 0xe);
    for (unsigned int gone = 1; gone < 4; gone++) {
        host_offline(gone);
        ctl_get(&get);
        assert_int_equal(get.mask, gone < 3 ? 0xe & (0xf << (gone + 1)) : 1);
        assert_int_equal(get.op.flags, XEN_SCRUB_MASKED);
        assert_int_equal(host.warnings, gone == 3);
        heap_free(0, 1000);
        goes_idle(0);
        host_run(10 * MS);
        assert_int_equal(heap.node[0].dirty, 0);
        assert_int_equal(heap.by_cpu[0], gone < 3 ? 0 : 1000);
    }

    /* One of them comes back, and only that one scrubs. */
    host_online(2);
    ctl_get(&get);
    assert_int_equal(get.mask, 4);
    for (int i = 0; i < 20; i++) {
        heap_free(0, 1000);
        goes_idle(i & 2);
        host_run(10 * MS);
        assert_int_equal(heap.node[0].dirty, 0);
    }
    assert_int_equal(heap.by_cpu[0], 1000);
    assert_int_equal(host.warnings, 1);

    /* Another mask is another matter. */
    assert_int_equal(ctl_set(&(struct settings){.mask = 0xc}), 0);
    host_offline(2);
    ctl_get(&get);
    ctl_get(&get);
    assert_int_equal(host.warnings, 2);
}

/* In the middle of scrubbing. */
static void goes_offline_while_scrubbing(void **state)
{
    masked_host(1, 3, 6);
    heap_free(0, 1 << 20);
    for (int i = 0; i < 10; i++) {
        unsigned int cpu = 1 + i % 2;
        uint64_t pages;

        goes_idle(0);
        host_run(10 * MS);
        pages = heap.by_cpu[cpu];
        host_offline(cpu);
        assert_true(heap.by_cpu[cpu] <= pages + 1);
        assert_false(heap.node[0].scrubbing);
        pages = heap.by_cpu[cpu];
        goes_idle(0);
        host_run(10 * MS);
        assert_int_equal(heap.by_cpu[cpu], pages);
        host_online(cpu);
    }
    assert_int_equal(heap.by_cpu[0], 0);
    assert_int_equal(heap.by_cpu[1] + heap.by_cpu[2] + heap.node[0].dirty, 1 << 20);
}

static void served(void **state)
{
    static const struct {
        uint64_t mask, online;
        bool served[2];
    } table[] = {
        {0xf, 0xf, {true, true}},  {0x1, 0xf, {true, false}}, {0x4, 0xf, {false, true}},
        {0x5, 0xf, {true, true}},  {0x5, 0xe, {false, true}}, {0x6, 0xb, {true, false}},
        {0x1, 0xe, {true, true}},  {0x8, 0x7, {true, true}},  {0x3, 0xd, {true, false}},
        {0xf, 0xc, {false, true}}, {0xe, 0x3, {true, false}},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        masked_host(2, 2, table[i].mask);
        for (unsigned int cpu = 0; cpu < 4; cpu++)
            if (!(table[i].online >> cpu & 1))
                host_offline(cpu);
        for (int node = 0; node < 2; node++)
            if (scrub_ctl_node_served(node) != table[i].served[node])
                fail_msg("row %zu, node %d", i, node);
    }
}

/* The nearest idle one that may, of another node only where the node has none that may. */
static void who_is_woken(void **state)
{
    static const struct {
        uint64_t mask, busy;
        uint64_t woken; /* one of these, for node 1 of 4 with 2 CPUs each */
    } table[] = {
        {0xff, 0x00, 0x00}, /* nothing set: nobody is denied */
        {0x7f, 0x00, 0x0c}, {0x7f, 0x04, 0x08}, {0x7f, 0x0c, 0x00}, {0x08, 0x00, 0x08},
        {0x08, 0xf7, 0x08}, {0x73, 0x00, 0x30}, {0x73, 0x10, 0x20}, {0x73, 0x30, 0x03},
        {0x63, 0x20, 0x03}, {0x43, 0x00, 0x03}, {0x43, 0x03, 0x40}, {0x40, 0x00, 0x40},
        {0x41, 0x41, 0x00},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        for (int turns = 0; turns < 4; turns++) {
            uint64_t mask;

            masked_host(4, 2, table[i].mask);
            host.distance[2][1] = host.distance[1][2] = 15; /* nearer than node 0 ... */
            host.distance[3][1] = host.distance[1][3] = 40; /* ... and than node 3 */
            for (unsigned int cpu = 0; cpu < 8; cpu++)
                host_busy(cpu, table[i].busy >> cpu & 1);
            host_run(MS);
            for (int j = 0; j < turns; j++) {
                heap_free(1, 10);
                scrub_ctl_kick();
                host_run(MS);
                heap_alloc(1, heap.node[1].dirty, false);
            }
            woken();
            heap_free(1, 1000);
            host_enter(7 - turns % 2);
            if (scrub_ctl_active)
                scrub_ctl_kick();
            mask = woken();
            if ((mask & ~table[i].woken) || !mask != !table[i].woken || (mask & (mask - 1)))
                fail_msg("row %zu: woken %llx, not one of %llx", i, (unsigned long long)mask,
                         (unsigned long long)table[i].woken);
        }
}

/* CPUs that are equally good take turns. */
static void turns(void **state)
{
    uint64_t seen = 0;

    masked_host(1, 4, 0xe);
    woken();
    for (int i = 0; i < 3; i++) {
        heap_free(0, 1);
        scrub_ctl_kick();
        seen |= woken();
        heap_alloc(0, 1, false);
    }
    assert_int_equal(seen, 0xe);
}

/* Nobody is woken for a node that is clean, or that is being scrubbed. */
static void nobody_in_vain(void **state)
{
    masked_host(2, 2, 0xe);
    woken();
    scrub_ctl_kick();
    assert_int_equal(woken(), 0);
    heap_free(0, 1000);
    heap.node[0].scrubbing = true;
    scrub_ctl_kick();
    assert_int_equal(woken(), 0);
    heap.node[0].scrubbing = false;
    scrub_ctl_kick();
    assert_int_equal(woken(), 2);
}

/* A node without a CPU that may scrub gets clean, by others. */
static void node_without_a_cpu(void **state)
{
    static const struct {
        uint64_t mask, ceiling_kib;
    } table[] = {{0x3, 0}, {0x1, 0}, {0x3, 128 << 10}, {0x1, 128 << 10}};

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        masked_host(3, 2, table[i].mask);
        assert_int_equal(
            ctl_set(&(struct settings){.mask = table[i].mask, .ceiling_kib = table[i].ceiling_kib}),
            0);
        for (unsigned int n = 0; n < 3; n++)
            heap_free(n, 10000);
        goes_idle(4);
        host_run(SECONDS(1));
        for (unsigned int n = 0; n < 3; n++)
            assert_int_equal(heap.node[n].dirty, 0);
        for (unsigned int cpu = 0; cpu < 6; cpu++)
            assert_true(!heap.by_cpu[cpu] || (table[i].mask >> cpu & 1));
    }
}

/* Timers of nodes keep off the CPUs that may not scrub, whoever sets them. */
static void timers_keep_off(void **state)
{
    for (unsigned int caller = 0; caller < 4; caller++) {
        s_time_t expires;

        masked_host(2, 2, 4);
        assert_int_equal(
            ctl_set(&(struct settings){.mask = 4, .floor_kib = 1024, .ceiling_kib = 4096}), 0);
        host_run(MS);
        heap_free(0, 1 << 30);
        host_enter(caller);
        scrub_ctl_kick();
        assert_int_equal(host_the_timer(&expires), 2);
        host_run(SECONDS(1));
        for (unsigned int cpu = 0; cpu < 4; cpu++)
            assert_true((cpu == 2) == !!host.cpu[cpu].timers);
        assert_true(heap.by_cpu[2] > 0);
    }
}

static uint64_t inactive_seen;
static bool must_be_active;

static void another_cpu_looks(void)
{
    unsigned int current = host.current;

    host.current = 1;
    scrub_ctl_node_served(0);
    if (must_be_active && !scrub_ctl_active)
        inactive_seen++;
    host.current = current;
}

/* Other CPUs read settings without a lock: half old, half new must do no harm. */
static void while_it_changes(void **state)
{
    static const struct settings table[] = {
        {.ceiling_kib = 4096}, {.ceiling_kib = 4096, .mask = 0x8},
        {.mask = 0x4},         {.ceiling_kib = 1024, .mask = 0x8},
        {.floor_kib = 1024},
    };
    struct ctl_state get;

    heap_init(1, 4);
    ctl_get(&get);
    host.look = another_cpu_looks;
    inactive_seen = 0;
    for (int renew = 0; renew < 2; renew++)
        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
            for (int again = 0; again <= renew; again++) {
                must_be_active = renew || i > 0;
                assert_int_equal(ctl_set(&table[i]), 0);
            }
    /* No CPU may believe that nothing is set, nor that no CPU may scrub. */
    assert_int_equal(inactive_seen, 0);
    assert_int_equal(host.warnings, 0);
}

static int done(void **state)
{
    heap_done();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(only_who_may, done),
        cmocka_unit_test_teardown(all_is_no_mask, done),
        cmocka_unit_test_teardown(offline_one_by_one, done),
        cmocka_unit_test_teardown(goes_offline_while_scrubbing, done),
        cmocka_unit_test_teardown(served, done),
        cmocka_unit_test_teardown(who_is_woken, done),
        cmocka_unit_test_teardown(turns, done),
        cmocka_unit_test_teardown(nobody_in_vain, done),
        cmocka_unit_test_teardown(node_without_a_cpu, done),
        cmocka_unit_test_teardown(timers_keep_off, done),
        cmocka_unit_test_teardown(while_it_changes, done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
