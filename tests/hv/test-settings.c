/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What GET, SET, RESET and the lease do: bad input changes nothing, settings end when they are not
 * renewed, counters add up, and nothing happens while nothing is set.
 */
#include "heap.h"

#define SIZE_OF_UNION 128

_Static_assert(sizeof(struct xen_sysctl_scrub_control) <= SIZE_OF_UNION, "union of xen_sysctl");

/* Everything a GET tells, other than what time it is. */
static void assert_same(struct ctl_state *a, struct ctl_state *b)
{
    a->op.now_ns = b->op.now_ns = 0;
    a->op.mask.bitmap.p = b->op.mask.bitmap.p = NULL;
    a->op.nodes.p = b->op.nodes.p = NULL;
    a->op.cpus.p = b->op.cpus.p = NULL;
    assert_memory_equal(a, b, sizeof(*a));
}

/* As stock: an answer without a lock, a timer or a look at the clock. */
static void assert_stock(void)
{
    uint64_t locks = host.locks, ops = host.timer_ops;

    assert_false(scrub_ctl_active);
    assert_int_equal(scrub_ctl_may(0, 0), 0);
    assert_int_equal(scrub_ctl_may(0, 1), ~0u);
    assert_int_equal(scrub_ctl_may(0, ULONG_MAX), ~0u);
    assert_false(scrub_ctl_over(0, 1));
    assert_true(scrub_ctl_over(0, 0));
    heap_free(0, 100000);
    heap_scrubbed(0, 10);
    heap_alloc(0, 10, true);
    heap_alloc(0, 10, false);
    cpu_raise_softirq(0, TIMER_SOFTIRQ);
    host_run(SECONDS(1));
    assert_int_equal(heap.node[0].dirty, 0);
    assert_int_equal(host.locks, locks);
    assert_int_equal(host.timer_ops, ops);
}

static void nothing_set(void **state)
{
    heap_init(1, 2);
    assert_stock();
    assert_int_equal(host_active_timers(), 0);
}

static void nothing_set_again(void **state)
{
    for (int how = 0; how < 3; how++) {
        heap_init(1, 2);
        heap_free(0, 1000);
        assert_int_equal(
            ctl_set(&(struct settings){
                .ceiling_kib = 100, .floor_kib = 50, .mask = 1, .lease_ms = how ? 100 : 0}),
            0);
        host_run(50 * MS);
        if (how == 2)
            host_run(100 * MS);
        else if (how == 1)
            assert_int_equal(ctl_set(&(struct settings){0}), 0);
        else
            assert_int_equal(ctl_reset(), 0);
        host_run(MS);
        assert_int_equal(host_active_timers(), 0);
        assert_stock();
    }
}

static void set_and_get(void **state)
{
    struct xen_scrub_node nodes[3] = {
        {.ceiling_kib = 1000, .floor_kib = 1000},
        {.floor_kib = XEN_SCRUB_MAX_FLOOR_KIB},
        {.ceiling_kib = XEN_SCRUB_MAX_KIB},
    };
    struct ctl_state get;

    heap_init(3, 2);
    ctl_get(&get);
    assert_int_equal(get.op.nr_nodes, 3);
    assert_int_equal(get.op.nr_cpus, 6);
    assert_int_equal(get.op.flags, 0);
    assert_int_equal(get.op.lease_ms, 0);
    assert_int_equal(get.op.now_ns, SECONDS(1));
    assert_int_equal(get.mask, 0x3f);

    assert_int_equal(ctl_set(&(struct settings){.nodes = nodes, .mask = 0x15, .lease_ms = 5000}),
                     0);
    assert_true(scrub_ctl_active);
    host.cpu[0].clock += 2000 * MS;
    ctl_get(&get);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(get.nodes[i].ceiling_kib, nodes[i].ceiling_kib);
        assert_int_equal(get.nodes[i].floor_kib, nodes[i].floor_kib);
    }
    assert_int_equal(get.op.flags, XEN_SCRUB_MASKED);
    assert_int_equal(get.op.lease_ms, 3000);
    assert_int_equal(get.op.now_ns, SECONDS(3));
    assert_int_equal(get.mask, 0x15);

    /* All of it is replaced. */
    assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 1}), 0);
    ctl_get(&get);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(get.nodes[i].ceiling_kib, 1);
        assert_int_equal(get.nodes[i].floor_kib, 0);
    }
    assert_int_equal(get.op.flags, 0);
    assert_int_equal(get.op.lease_ms, 0);
    assert_int_equal(get.mask, 0x3f);

    assert_int_equal(ctl_reset(), 0);
    ctl_get(&get);
    for (int i = 0; i < 3; i++)
        assert_int_equal(get.nodes[i].ceiling_kib, 0);
}

/* A caller with less room, or none, gets what fits; buffers here are of the size that it says. */
static void get_with_less_room(void **state)
{
    heap_init(3, 5);
    heap_free(2, 77);
    for (uint32_t nodes = 0; nodes < 6; nodes++)
        for (uint32_t cpus = 0; cpus < 20; cpus += 3) {
            uint32_t bytes = (cpus + 7) / 8;
            struct xen_scrub_node *n = calloc(nodes, sizeof(*n));
            struct xen_scrub_cpu *c = calloc(cpus, sizeof(*c));
            uint8_t *m = calloc(bytes, 1);
            struct xen_sysctl_scrub_control op = {
                .version = XEN_SCRUB_CTL_VERSION,
                .nr_nodes = nodes,
                .nr_cpus = cpus,
                .mask = {{m}, cpus},
                .nodes = {n},
                .cpus = {c},
            };

            assert_int_equal(scrub_control(&op), 0);
            assert_int_equal(op.nr_nodes, 3);
            assert_int_equal(op.nr_cpus, 15);
            if (nodes > 2)
                assert_int_equal(n[2].dirty, 77);
            op.nodes.p = NULL;
            op.cpus.p = NULL;
            op.mask.bitmap.p = NULL;
            op.nr_nodes = op.nr_cpus = UINT32_MAX;
            assert_int_equal(scrub_control(&op), 0);
            free(n);
            free(c);
            free(m);
        }
}

/* Bad input, and all else that can fail. */

enum {
    NODES = 2,
    CPUS = 4,
    ROOM = (CPUS + 7) / 8
};

/* A SET, and what is to go wrong with it. */
struct call {
    struct xen_sysctl_scrub_control op;
    struct xen_scrub_node nodes[NODES];
    uint8_t mask[ROOM];
    bool no_nodes, no_mask, no_memory;
    unsigned int fault_at; /* which copy from or to the caller fails */
};

static const struct call good = {
    .op = {.version = XEN_SCRUB_CTL_VERSION,
           .op = XEN_SCRUB_SET,
           .lease_ms = XEN_SCRUB_MAX_LEASE_MS,
           .nr_nodes = NODES,
           .mask = {.nr_bits = CPUS}},
    .nodes = {{.ceiling_kib = 111, .floor_kib = 11}, {.ceiling_kib = 222, .floor_kib = 222}},
    .mask = {3},
};

#define WITH(field, value)                                                                         \
    {                                                                                              \
        offsetof(struct call, field), sizeof(((struct call *)0)->field), value                     \
    }

static const struct bad {
    const char *what;
    int error;
    struct {
        size_t offset, size;
        uint64_t value;
    } with[2];
} bad[] = {
    {"version 0", -EINVAL, {WITH(op.version, 0)}},
    {"version 2", -EINVAL, {WITH(op.version, 2)}},
    {"GET, version 2", -EINVAL, {WITH(op.version, 2), WITH(op.op, XEN_SCRUB_GET)}},
    {"RESET, version 0", -EINVAL, {WITH(op.version, 0), WITH(op.op, XEN_SCRUB_RESET)}},
    {"operation 3", -EINVAL, {WITH(op.op, 3)}},
    {"operation ~0", -EINVAL, {WITH(op.op, UINT32_MAX)}},
    {"flag 0", -EINVAL, {WITH(op.flags, XEN_SCRUB_MASKED)}},
    {"flag 31", -EINVAL, {WITH(op.flags, 1u << 31)}},
    {"long lease", -EINVAL, {WITH(op.lease_ms, XEN_SCRUB_MAX_LEASE_MS + 1)}},
    {"endless lease", -EINVAL, {WITH(op.lease_ms, UINT32_MAX)}},
    {"no nodes", -EINVAL, {WITH(op.nr_nodes, 0)}},
    {"few nodes", -EINVAL, {WITH(op.nr_nodes, NODES - 1)}},
    {"many nodes", -EINVAL, {WITH(op.nr_nodes, NODES + 1)}},
    {"all nodes", -EINVAL, {WITH(op.nr_nodes, UINT32_MAX)}},
    {"no bits", -EINVAL, {WITH(op.mask.nr_bits, 0)}},
    {"few bits", -EINVAL, {WITH(op.mask.nr_bits, CPUS - 1)}},
    {"many bits", -EINVAL, {WITH(op.mask.nr_bits, CPUS + 1)}},
    {"all bits", -EINVAL, {WITH(op.mask.nr_bits, UINT32_MAX)}},
    {"empty mask", -EINVAL, {WITH(mask[0], 0)}},
    {"mask of CPUs that are none", -EINVAL, {WITH(mask[0], 0xf0)}},
    {"mask of an offline CPU", -EINVAL, {WITH(mask[0], 8)}},
    {"ceiling 0", -EINVAL, {WITH(nodes[0].ceiling_kib, XEN_SCRUB_MAX_KIB + 1ull)}},
    {"ceiling 1", -EINVAL, {WITH(nodes[1].ceiling_kib, UINT64_MAX)}},
    {"floor 0",
     -EINVAL,
     {WITH(nodes[0].floor_kib, XEN_SCRUB_MAX_FLOOR_KIB + 1ull), WITH(nodes[0].ceiling_kib, 0)}},
    {"floor 1", -EINVAL, {WITH(nodes[1].floor_kib, UINT64_MAX), WITH(nodes[1].ceiling_kib, 0)}},
    {"floor 0 over ceiling", -EINVAL, {WITH(nodes[0].floor_kib, 112)}},
    {"floor 1 over ceiling", -EINVAL, {WITH(nodes[1].ceiling_kib, 221)}},
    {"null nodes", -EFAULT, {WITH(no_nodes, true)}},
    {"null mask", -EFAULT, {WITH(no_mask, true)}},
    {"nodes fault", -EFAULT, {WITH(fault_at, 1)}},
    {"mask faults", -EFAULT, {WITH(fault_at, 2)}},
    {"no memory", -ENOMEM, {WITH(no_memory, true)}},
};

static int make_call(const struct call *call, struct xen_scrub_node *nodes, uint8_t *mask)
{
    struct xen_sysctl_scrub_control op = call->op;
    int rc;

    memcpy(nodes, call->nodes, sizeof(call->nodes));
    memcpy(mask, call->mask, sizeof(call->mask));
    op.nodes.p = call->no_nodes ? NULL : nodes;
    op.mask.bitmap.p = call->no_mask ? NULL : mask;
    host.copies = 0;
    host.fault_at = call->fault_at;
    host.no_memory = call->no_memory;
    rc = scrub_control(&op);
    host.fault_at = 0;
    host.no_memory = false;
    assert_int_equal(host.locks_held, 0);
    return rc;
}

static uint64_t raised(void)
{
    uint64_t n = 0;

    for (unsigned int cpu = 0; cpu < CPUS; cpu++)
        n += host.cpu[cpu].raised;
    return n;
}

static void bad_input(void **state)
{
    /* As much as a caller who tells the truth would have there, for sanitizers to watch. */
    struct xen_scrub_node *nodes = malloc(NODES * sizeof(*nodes));
    uint8_t *mask = malloc(ROOM);

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        for (int set = 0; set < 2; set++) {
            struct call call = good;
            struct ctl_state before, after;
            struct host_state *vars;
            uint64_t ops, softirqs;
            int rc;

            for (int j = 0; j < 2; j++)
                memcpy((char *)&call + bad[i].with[j].offset, &bad[i].with[j].value,
                       bad[i].with[j].size);

            heap_init(NODES, CPUS / NODES);
            ctl_get(&before);
            host_offline(3);
            heap_free(0, 100000);
            heap_free(1, 100000);
            if (set)
                assert_int_equal(
                    ctl_set(&(struct settings){
                        .ceiling_kib = 5555, .floor_kib = 55, .mask = 5, .lease_ms = 9999}),
                    0);
            host_run(33 * MS);
            ctl_get(&before);
            ops = host.timer_ops;
            softirqs = raised();
            vars = host_save();

            rc = make_call(&call, nodes, mask);
            if (rc != bad[i].error)
                fail_msg("%s: %d instead of %d", bad[i].what, rc, bad[i].error);
            if (!host_equal(vars, nodes, NODES * sizeof(*nodes)))
                fail_msg("%s: changed something", bad[i].what);
            host_free_state(vars);
            assert_int_equal(host.timer_ops, ops);
            assert_int_equal(raised(), softirqs);
            assert_int_equal(scrub_ctl_active, set);
            ctl_get(&after);
            assert_same(&before, &after);
        }
    free(nodes);
    free(mask);
}

/* The same call without the mistake is fine: the table tests what it says. */
static void good_input(void **state)
{
    struct xen_scrub_node nodes[NODES];
    uint8_t mask[ROOM];
    struct host_state *vars;

    heap_init(NODES, CPUS / NODES);
    host_offline(3);
    vars = host_save();
    assert_int_equal(make_call(&good, nodes, mask), 0);
    assert_false(host_equal(vars, nodes, sizeof(nodes)));
    host_free_state(vars);
}

/* A GET that cannot write its answer. */
static void get_faults(void **state)
{
    for (unsigned int fault_at = 1; fault_at <= NODES + 2; fault_at++) {
        struct ctl_state before, after, unused;
        struct host_state *vars;
        int rc;

        heap_init(NODES, 2);
        assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 5, .mask = 1}), 0);
        ctl_get(&before);
        unused = before;
        vars = host_save();
        host.copies = 0;
        host.fault_at = fault_at;
        rc = scrub_control(&unused.op);
        assert_int_equal(rc, -EFAULT);
        assert_true(host_equal(vars, NULL, 0));
        host_free_state(vars);
        host.fault_at = 0;
        ctl_get(&after);
        assert_same(&before, &after);
    }
}

/* Lease. */

static void lease_expires(void **state)
{
    struct ctl_state get;
    s_time_t end;

    heap_init(2, 2);
    ctl_get(&get);
    heap_free(0, 1 << 20);
    heap_free(1, 1 << 20);
    assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 40, .mask = 6, .lease_ms = 1000}),
                     0);
    end = host.cpu[0].clock + 1000 * MS;
    host_run_until(end - MS);
    ctl_get(&get);
    assert_int_equal(get.op.lease_ms, 1);
    assert_true(scrub_ctl_active);
    assert_int_equal(heap.by_cpu[0] + heap.by_cpu[3], 0);
    assert_in_range(heap.node[0].dirty, (1 << 20) - 10, 1 << 20);

    /* Everyone scrubs. */
    host_run_until(end + MS);
    assert_false(scrub_ctl_active);
    assert_int_equal(host.warnings, 1);
    ctl_get(&get);
    assert_int_equal(get.op.flags, 0);
    assert_int_equal(get.op.lease_ms, 0);
    assert_int_equal(get.mask, 0xf);
    assert_int_equal(get.nodes[0].ceiling_kib, 0);
    host_run(SECONDS(2));
    assert_int_equal(heap.node[0].dirty + heap.node[1].dirty, 0);
    assert_int_equal(host_active_timers(), 0);

    /* Only once. */
    host_run(SECONDS(5));
    assert_int_equal(host.warnings, 1);
}

static void lease_renewed(void **state)
{
    const struct settings s = {.ceiling_kib = 40, .mask = 6, .lease_ms = 1000};

    heap_init(2, 2);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ctl_set(&s), 0);
        host_run(999 * MS);
        assert_true(scrub_ctl_active);
    }
    assert_int_equal(host.warnings, 0);
    host_run(2 * MS);
    assert_false(scrub_ctl_active);
}

/* The timer has fired, but someone else has the lock: then the handler finds a new lease. */
static void lease_renewed_at_the_last_moment(void **state)
{
    const struct settings s = {.ceiling_kib = 40, .lease_ms = 1000};

    heap_init(1, 2);
    for (int last = 0; last < 3; last++) {
        struct host_cpu *c = &host.cpu[0];
        struct timer *lease;
        s_time_t expires;

        assert_int_equal(ctl_set(&s), 0);
        assert_int_equal(host_the_timer(&expires), host.current);
        lease = host_timer_of(expires);
        c->clock = expires;
        lease->active = false; /* it fires ... */
        if (last == 0)
            assert_int_equal(ctl_set(&s), 0);
        else if (last == 1)
            assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 40}), 0);
        else
            assert_int_equal(ctl_reset(), 0);
        lease->function(lease->data); /* ... and runs */
        assert_int_equal(host.warnings, 0);
        assert_true(scrub_ctl_active == (last < 2));
    }
}

/* A lease that was taken back does not end what comes after it. */
static void lease_taken_back(void **state)
{
    for (int how = 0; how < 3; how++) {
        heap_init(1, 2);
        assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 40, .lease_ms = 1000}), 0);
        host_run(500 * MS);
        if (how != 1)
            assert_int_equal(ctl_reset(), 0);
        if (how)
            assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 50}), 0);
        host_run(SECONDS(5));
        assert_true(scrub_ctl_active == !!how);
        assert_int_equal(host.warnings, 0);
    }
}

/* RESET is heard by CPUs that sleep. */
static void reset_wakes(void **state)
{
    struct ctl_state get;

    heap_init(1, 2);
    ctl_get(&get);
    heap_free(0, 100000);
    assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 4, .mask = 1}), 0);
    host_run(SECONDS(1));
    assert_in_range(heap.node[0].dirty, 99990, 100000);
    assert_int_equal(ctl_reset(), 0);
    host_run(SECONDS(1));
    assert_int_equal(heap.node[0].dirty, 0);
    assert_int_equal(host_active_timers(), 0);
}

/* A GET wakes, too: those who are not torn down in steps have nobody else to do it. */
static void get_wakes(void **state)
{
    struct ctl_state get;

    heap_init(1, 3);
    assert_int_equal(ctl_set(&(struct settings){.mask = 4}), 0);
    host_run(MS);
    heap_free(0, 1000);
    host_run(SECONDS(1));
    assert_int_equal(heap.node[0].dirty, 1000);
    ctl_get(&get);
    host_run(SECONDS(1));
    assert_int_equal(heap.by_cpu[2], 1000);
}

/* Counters. */

static void counters(void **state)
{
    struct xen_scrub_node last[3] = {0};

    heap_init(3, 2);
    for (int i = 0; i < 4000; i++) {
        struct ctl_state get;
        nodeid_t node = host_random(3);
        uint64_t idle = 0, floor = 0, scrubbed = 0, cpu_idle = 0, cpu_floor = 0, kib;

        switch (host_random(8)) {
        case 0:
        case 1:
            heap_free(node, host_random(20000));
            break;
        case 2:
            heap_alloc(node, host_random(heap.node[node].dirty + 1), false);
            break;
        case 3:
            heap_alloc(node, host_random(heap.node[node].dirty + 1), true);
            break;
        case 4:
            kib = host_random(1 << 17);
            assert_int_equal(ctl_set(&(struct settings){
                                 .ceiling_kib = kib,
                                 .floor_kib = kib / (1 + host_random(3)),
                                 .mask = host_random(64),
                                 .lease_ms = host_random(100),
                             }),
                             0);
            break;
        case 5:
            if (!host_random(4))
                assert_int_equal(ctl_reset(), 0);
            break;
        default:
            host_busy(host_random(6), host_random(3));
        }
        host_run(host_random(20 * MS));

        ctl_get(&get);
        for (int n = 0; n < 3; n++) {
            const struct xen_scrub_node *now = &get.nodes[n];

            assert_int_equal(now->dirty, heap.node[n].dirty);
            assert_int_equal(now->dirtied, heap.node[n].dirtied);
            assert_int_equal(now->dirty,
                             now->dirtied - now->idle - now->floor - now->alloc - now->dropped);
            assert_true(now->boot <= now->dirty);
            assert_true(now->idle >= last[n].idle && now->floor >= last[n].floor);
            assert_true(now->alloc >= last[n].alloc && now->dropped >= last[n].dropped);
            assert_true((s_time_t)now->throttled_ns <= host.cpu[0].clock);
            last[n] = *now;
            idle += now->idle;
            floor += now->floor;
        }
        for (int cpu = 0; cpu < 6; cpu++) {
            cpu_idle += get.cpus[cpu].idle;
            cpu_floor += get.cpus[cpu].floor;
            scrubbed += heap.by_cpu[cpu];
            assert_int_equal(get.cpus[cpu].idle + get.cpus[cpu].floor, heap.by_cpu[cpu]);
        }
        assert_int_equal(cpu_idle, idle);
        assert_int_equal(cpu_floor, floor);
        assert_int_equal(scrubbed, idle + floor);
    }
    /* It did happen. */
    for (int n = 0; n < 3; n++)
        assert_true(last[n].idle && last[n].floor && last[n].alloc && last[n].dropped &&
                    last[n].throttled_ns);
}

static int done(void **state)
{
    heap_done();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nothing_set, done),
        cmocka_unit_test_teardown(nothing_set_again, done),
        cmocka_unit_test_teardown(set_and_get, done),
        cmocka_unit_test_teardown(get_with_less_room, done),
        cmocka_unit_test_teardown(bad_input, done),
        cmocka_unit_test_teardown(good_input, done),
        cmocka_unit_test_teardown(get_faults, done),
        cmocka_unit_test_teardown(lease_expires, done),
        cmocka_unit_test_teardown(lease_renewed, done),
        cmocka_unit_test_teardown(lease_renewed_at_the_last_moment, done),
        cmocka_unit_test_teardown(lease_taken_back, done),
        cmocka_unit_test_teardown(reset_wakes, done),
        cmocka_unit_test_teardown(get_wakes, done),
        cmocka_unit_test_teardown(counters, done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
