/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The floor: reached on a host without idle CPUs, for 250 us at a time and a quarter of a CPU, on
 * CPUs that may be taken only, and only for what idle CPUs leave undone.
 */
#include "heap.h"

#define KIB_OF(mib) ((uint64_t)(mib) << 10)
#define RUN (250 * US)
#define REST (750 * US)

static uint64_t inflow(uint64_t kib, s_time_t time)
{
    return (unsigned __int128)kib * time / SECONDS(4);
}

/* Much dirty memory on each node, and each CPU is busy. */
static void busy_host(unsigned int nodes, unsigned int cpus_per_node)
{
    struct ctl_state state;

    heap_init(nodes, cpus_per_node);
    heap.page_ns = 900;
    ctl_get(&state);
    for (unsigned int i = 0; i < nodes; i++)
        heap_free(i, 1ull << 40);
    for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++)
        host_busy(cpu, true);
}

static uint64_t scrubbed(void)
{
    uint64_t pages = 0;

    for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++)
        pages += heap.by_cpu[cpu];
    return pages;
}

static uint64_t runs(void)
{
    uint64_t n = 0;

    for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++)
        n += host.cpu[cpu].runs;
    return n;
}

static void rate(void **state)
{
    static const uint64_t kib[] = {4, 100, 1000, KIB_OF(4), KIB_OF(16), KIB_OF(64), KIB_OF(256)};

    for (size_t i = 0; i < ARRAY_SIZE(kib); i++) {
        uint64_t right = inflow(kib[i], SECONDS(20)), pages;
        struct ctl_state get;

        busy_host(1, 2);
        assert_int_equal(ctl_set(&(struct settings){.floor_kib = kib[i]}), 0);
        host_run(SECONDS(20));
        pages = scrubbed();
        if (pages > right + 1 || pages + 1 + inflow(kib[i], 20 * MS) < right)
            fail_msg("%llu KiB/s: %llu pages instead of %llu", (unsigned long long)kib[i],
                     (unsigned long long)pages, (unsigned long long)right);
        ctl_get(&get);
        assert_int_equal(get.nodes[0].floor, pages);
        assert_int_equal(get.nodes[0].idle, 0);
        assert_int_equal(get.cpus[0].floor + get.cpus[1].floor, pages);
        /* By turns. */
        assert_in_range(host.cpu[0].runs, host.cpu[1].runs - host.cpu[1].runs / 20 - 1,
                        host.cpu[1].runs + host.cpu[1].runs / 20 + 1);
    }
}

/* More than can be: a quarter of one CPU's time for a node, on whatever CPUs. */
static void quarter(void **state)
{
    busy_host(1, 3);
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = XEN_SCRUB_MAX_FLOOR_KIB}), 0);
    host_run(SECONDS(5));
    assert_in_range(host.cpu[0].run_ns + host.cpu[1].run_ns + host.cpu[2].run_ns,
                    SECONDS(5) * 18 / 100, SECONDS(5) * 253 / 1000);
    for (int cpu = 0; cpu < 3; cpu++) {
        assert_in_range(host.cpu[cpu].longest_run, RUN, RUN + 2 * heap.page_ns);
        assert_true(host.cpu[cpu].shortest_rest >= REST);
    }
}

/* The same where one CPU has to serve two nodes: it is a quarter of each CPU's time, too. */
static void quarter_of_a_cpu(void **state)
{
    busy_host(2, 2);
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = XEN_SCRUB_MAX_FLOOR_KIB, .mask = 1}),
                     0);
    host_run(SECONDS(5));
    assert_in_range(host.cpu[0].run_ns, SECONDS(5) * 18 / 100, SECONDS(5) * 253 / 1000);
    assert_in_range(host.cpu[0].longest_run, RUN, RUN + 2 * heap.page_ns);

    /* Where that is enough, each gets its floor. */
    busy_host(2, 2);
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(64), .mask = 1}), 0);
    host_run(SECONDS(5));
    for (int n = 0; n < 2; n++)
        assert_in_range(heap.on_node[0][n], inflow(KIB_OF(64), SECONDS(5)) * 98 / 100,
                        inflow(KIB_OF(64), SECONDS(5)) + 1);
}

static void excluded(void **state)
{
    for (int idle = 0; idle < 2; idle++)
        for (unsigned int allowed = 0; allowed < 4; allowed++) {
            busy_host(2, 2);
            assert_int_equal(
                ctl_set(&(struct settings){.floor_kib = KIB_OF(16), .mask = 1ull << allowed}), 0);
            for (unsigned int cpu = 0; idle && cpu < 4; cpu++)
                if (cpu != allowed)
                    host_busy(cpu, false);
            host_run(SECONDS(5));
            for (unsigned int cpu = 0; cpu < 4; cpu++)
                if (cpu != allowed) {
                    assert_int_equal(heap.by_cpu[cpu], 0);
                    assert_int_equal(host.cpu[cpu].runs, 0);
                    assert_int_equal(host.cpu[cpu].timers, 0);
                }
            assert_in_range(scrubbed(), 2 * inflow(KIB_OF(16), SECONDS(5)) * 98 / 100,
                            2 * inflow(KIB_OF(16), SECONDS(5)));
        }
}

/* Where it would take more than one CPU, or time that was promised. */
static void untouchable(void **state)
{
    static const struct {
        unsigned int sched, granularity;
        bool no_pool, ok;
    } table[] = {
        {XEN_SCHEDULER_CREDIT, 1, false, true},    {XEN_SCHEDULER_CREDIT2, 1, false, true},
        {XEN_SCHEDULER_NULL, 1, false, true},      {XEN_SCHEDULER_RTDS, 1, false, false},
        {XEN_SCHEDULER_ARINC653, 1, false, false}, {XEN_SCHEDULER_CREDIT2, 2, false, false},
        {XEN_SCHEDULER_CREDIT2, 4, false, false},  {XEN_SCHEDULER_CREDIT2, 1, true, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        for (int both = 0; both < 2; both++) {
            busy_host(1, 2);
            for (int cpu = 1 - both; cpu < 2; cpu++) {
                host.cpu[cpu].scheduler.sched_id = table[i].sched;
                host.cpu[cpu].sr.granularity = table[i].granularity;
                if (table[i].no_pool)
                    host.cpu[cpu].sr.cpupool = NULL;
            }
            assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(16)}), 0);
            host_run(SECONDS(1));
            assert_int_equal(!!host.cpu[1].runs, table[i].ok);
            assert_int_equal(!!host.cpu[0].runs, table[i].ok || !both);

            /* When idle it may do as much as ever. */
            host_busy(1, false);
            host_run(SECONDS(1));
            assert_true(heap.by_cpu[1] > SECONDS(1) / heap.page_ns * 9 / 10);
            assert_int_equal(sched_res_rculock.readers, 0);
        }
}

/* One that became so after it was chosen, or was chosen and went offline. */
static void untouchable_by_now(void **state)
{
    for (int how = 0; how < 5; how++) {
        unsigned int chosen;

        busy_host(1, 4);
        assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(16), .mask = 0xe}), 0);
        host_run(200 * MS);
        assert_true(scrubbed() > 0);
        /* Until a CPU has been chosen, and has not begun. */
        while ((chosen = host_tasklet_on()) == NR_CPUS)
            host_run(200);
        memset(heap.by_cpu, 0, sizeof(heap.by_cpu));
        if (how == 0)
            host.cpu[chosen].scheduler.sched_id = XEN_SCHEDULER_RTDS;
        else if (how == 1)
            host.cpu[chosen].sr.granularity = 2;
        else if (how == 2)
            host.cpu[chosen].sr.cpupool = NULL;
        else if (how == 3)
            assert_int_equal(
                ctl_set(&(struct settings){.floor_kib = KIB_OF(16), .mask = 0xe ^ 1 << chosen}), 0);
        else
            host_offline(chosen);
        assert_int_equal(host_tasklet_on(), how < 4 ? chosen : 0);
        host_run(100 * MS);

        /* It goes on elsewhere. */
        assert_int_equal(heap.by_cpu[chosen] + heap.by_cpu[0], 0);
        assert_in_range(scrubbed(), inflow(KIB_OF(16), 80 * MS), inflow(KIB_OF(16), 120 * MS));
    }
}

/* An idle CPU does it all: nobody is disturbed. */
static void idle_cpu(void **state)
{
    struct ctl_state get;

    busy_host(1, 3);
    host_busy(1, false);
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(16)}), 0);
    host_run(SECONDS(2));
    assert_int_equal(runs(), 0);
    assert_int_equal(heap.by_cpu[1], scrubbed());
    ctl_get(&get);
    assert_int_equal(get.nodes[0].floor, 0);

    /* What it did beyond the floor is no credit: the floor goes on at once without it. */
    host_busy(1, true);
    host_run(SECONDS(1));
    assert_in_range(scrubbed() - heap.by_cpu[1] + host.cpu[1].runs, 1, UINT64_MAX);
    ctl_get(&get);
    assert_in_range(get.nodes[0].floor, inflow(KIB_OF(16), 960 * MS),
                    inflow(KIB_OF(16), SECONDS(1) + 11 * MS));
}

/* An idle CPU now and then, which does more than the floor asks for. */
static void idle_now_and_then(void **state)
{
    static const uint64_t kib[] = {KIB_OF(4), KIB_OF(64)};

    for (size_t i = 0; i < ARRAY_SIZE(kib); i++) {
        struct ctl_state get;

        busy_host(1, 1);
        assert_int_equal(ctl_set(&(struct settings){.floor_kib = kib[i]}), 0);
        for (int j = 0; j < 200; j++) {
            host_busy(0, false);
            host_run(7 * MS);
            host_busy(0, true);
            host_run(8 * MS);
        }
        /* Not more than what was owed when it was busy. */
        ctl_get(&get);
        assert_true(get.nodes[0].idle > inflow(kib[i], SECONDS(3)));
        assert_in_range(get.nodes[0].floor, 0, inflow(kib[i], 200 * 8 * MS));
    }
}

static void boot_memory(void **state)
{
    struct ctl_state get;

    heap_init(1, 1);
    host_busy(0, true);
    heap_free(0, 10000);
    ctl_get(&get);
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(16)}), 0);
    host_run(SECONDS(1));
    assert_int_equal(host_active_timers(), 0);
    assert_int_equal(scrubbed() + runs(), 0);

    heap_free(0, 1000);
    scrub_ctl_kick();
    host_run(SECONDS(5));
    assert_in_range(scrubbed(), 1000, 1000 + RUN / heap.page_ns + 1);
    assert_int_equal(host_active_timers(), 0);
}

static void nothing_dirty(void **state)
{
    struct ctl_state get;

    heap_init(2, 2);
    ctl_get(&get);
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(16)}), 0);
    host_run(SECONDS(1));
    assert_int_equal(host_active_timers(), 0);
    for (int cpu = 0; cpu < 4; cpu++)
        host_busy(cpu, true);
    heap_free(0, 3000);
    scrub_ctl_kick();
    host_run(SECONDS(5));
    assert_int_equal(scrubbed(), 3000);
    assert_int_equal(heap.by_cpu[2] + heap.by_cpu[3], 0);
    assert_int_equal(host_active_timers(), 0);
}

/* Both: the floor is reached, and the ceiling is kept. */
static void with_a_ceiling(void **state)
{
    static const struct {
        uint64_t ceiling, floor;
    } mib[] = {{16, 16}, {32, 16}, {256, 256}, {1024, 16}};

    for (size_t i = 0; i < ARRAY_SIZE(mib); i++) {
        uint64_t ceiling = KIB_OF(mib[i].ceiling), floor = KIB_OF(mib[i].floor);

        busy_host(1, 2);
        heap.log = true;
        assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = ceiling, .floor_kib = floor}),
                         0);
        host_run(SECONDS(5));
        assert_in_range(scrubbed(), inflow(floor, SECONDS(5)) * 90 / 100,
                        inflow(floor, SECONDS(5)) + 1);
        assert_true(heap_most_in(0, 100 * MS) <= inflow(ceiling, 120 * MS) + 2);
    }
}

/* At most 100 ms of it are owed at once. */
static void burst(void **state)
{
    uint64_t kib = KIB_OF(16);

    busy_host(1, 1);
    host.cpu[0].scheduler.sched_id = XEN_SCHEDULER_RTDS;
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = kib}), 0);
    host_run(SECONDS(5));
    assert_int_equal(scrubbed(), 0);
    host.cpu[0].scheduler.sched_id = XEN_SCHEDULER_CREDIT2;
    host_run(SECONDS(1));
    assert_in_range(scrubbed(), inflow(kib, 980 * MS), inflow(kib, 1120 * MS));
}

static void reset_ends_it(void **state)
{
    busy_host(1, 1);
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(256)}), 0);
    for (int i = 0; i < 50; i++) {
        uint64_t pages;

        host_run(3 * MS + i * 20 * US);
        pages = scrubbed();
        assert_int_equal(ctl_reset(), 0);
        host_run(SECONDS(1));
        assert_int_equal(scrubbed(), pages);
        assert_int_equal(host_active_timers(), 0);
        assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(256)}), 0);
        host_run(200 * MS);
        assert_true(scrubbed() > pages);
    }
}

/* Its tasklet and timer go elsewhere then, to a CPU that may not scrub. */
static void cpu_goes_offline(void **state)
{
    busy_host(1, 4);
    assert_int_equal(ctl_set(&(struct settings){.floor_kib = KIB_OF(64), .mask = 0xe}), 0);
    for (int i = 0; i < 30; i++) {
        unsigned int cpu = 1 + i % 3;
        uint64_t pages = scrubbed(), by_cpu;

        host_run(5 * MS + i * 30 * US);
        host_offline(cpu);
        by_cpu = heap.by_cpu[cpu];
        host_run(300 * MS);
        assert_int_equal(heap.by_cpu[cpu], by_cpu);
        assert_in_range(scrubbed() - pages, inflow(KIB_OF(64), 280 * MS),
                        inflow(KIB_OF(64), 330 * MS));
        host_online(cpu);
    }
    assert_int_equal(heap.by_cpu[0], 0);
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
        cmocka_unit_test_teardown(rate, done),
        cmocka_unit_test_teardown(quarter, done),
        cmocka_unit_test_teardown(quarter_of_a_cpu, done),
        cmocka_unit_test_teardown(excluded, done),
        cmocka_unit_test_teardown(untouchable, done),
        cmocka_unit_test_teardown(untouchable_by_now, done),
        cmocka_unit_test_teardown(idle_cpu, done),
        cmocka_unit_test_teardown(idle_now_and_then, done),
        cmocka_unit_test_teardown(boot_memory, done),
        cmocka_unit_test_teardown(nothing_dirty, done),
        cmocka_unit_test_teardown(with_a_ceiling, done),
        cmocka_unit_test_teardown(burst, done),
        cmocka_unit_test_teardown(reset_ends_it, done),
        cmocka_unit_test_teardown(cpu_goes_offline, done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
