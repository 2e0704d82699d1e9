/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ceiling: exact over time and bounded in each moment, for every rate and for timers that are
 * late; waits some time instead of scrubbing page by page; spares what is dirty since boot.
 */
#include "heap.h"

#define KIB_OF(mib) ((uint64_t)(mib) << 10)
#define SLICE (10 * MS)

static const uint64_t rates[] = {
    4,           5,           7,           37,           100,           128,
    300,         396,         399,         400,          401,           700,
    1000,        1024,        4095,        10000,        KIB_OF(32),    KIB_OF(32) + 3,
    KIB_OF(128), KIB_OF(512), KIB_OF(999), KIB_OF(4096), KIB_OF(65536), XEN_SCRUB_MAX_KIB,
};

/* Pages that a rate lets in, rounded down. */
static uint64_t inflow(uint64_t kib, s_time_t time)
{
    return (unsigned __int128)kib * time / SECONDS(4);
}

/* What the bucket may hold: 20 ms, and a page or two where that is less. */
static uint64_t hold(uint64_t kib)
{
    return inflow(kib, 20 * MS) + 2;
}

/* A host where node 0 has endless dirty memory, none of it since boot. */
static void dirty_host(unsigned int cpus, const struct settings *s)
{
    struct ctl_state state;

    heap_init(1, cpus);
    ctl_get(&state);
    heap_free(0, 1ull << 50);
    if (s)
        assert_int_equal(ctl_set(s), 0);
    heap.log = true;
}

/*
 * One CPU scrubs all it may for so long, and is woken late each time, by up to late_max. Returns
 * the pages.
 */
static uint64_t scrub(s_time_t duration, s_time_t late_max, s_time_t page_ns)
{
    struct host_cpu *c = &host.cpu[host.current];
    s_time_t end = c->clock + duration, expires;
    uint64_t pages = 0, budget;

    while (c->clock < end) {
        budget = scrub_ctl_may(0, heap.node[0].dirty);
        if (budget) {
            budget = min_t(uint64_t, budget, (end - c->clock) / page_ns + 1);
            pages += budget;
            /* Some at a time, as pages lie in the heap. */
            for (uint64_t some, left = budget; left; left -= some) {
                some = min_t(uint64_t, left, budget / 64 + 1);
                c->clock += some * page_ns;
                heap_scrubbed(0, some);
            }
            continue;
        }
        host_the_timer(&expires);
        assert_true(expires > c->clock - SLICE);
        c->clock = max(c->clock, expires) + (late_max ? host_random(late_max) : 0);
        host_softirqs();
    }
    return pages;
}

static void exact(void **state)
{
    static const s_time_t late[] = {0, MS, 5 * MS, 9 * MS};

    for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
        for (size_t j = 0; j < ARRAY_SIZE(late); j++) {
            s_time_t time = rates[i] < 1000 ? SECONDS(500) : SECONDS(20), start;
            uint64_t pages, right;

            dirty_host(1, &(struct settings){.ceiling_kib = rates[i]});
            start = host.cpu[0].clock;
            pages = scrub(time, late[j], 1);
            right = inflow(rates[i], host.cpu[0].clock - start);
            if (pages > right + 1 || pages + hold(rates[i]) < right)
                fail_msg("%llu KiB/s, %lld us late: %llu pages instead of %llu",
                         (unsigned long long)rates[i], (long long)late[j] / 1000,
                         (unsigned long long)pages, (unsigned long long)right);
        }
}

/* Whatever timers do, and after any time without work: not above in any 100 ms. */
static void bounded(void **state)
{
    static const s_time_t late[] = {0, 9 * MS, 50 * MS, 2000 * MS};

    for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
        for (size_t j = 0; j < ARRAY_SIZE(late); j++) {
            uint64_t most, limit = inflow(rates[i], 100 * MS) + hold(rates[i]);

            dirty_host(1, &(struct settings){.ceiling_kib = rates[i]});
            for (int k = 0; k < 5; k++) {
                scrub(SECONDS(1), late[j], 1);
                host.cpu[0].clock += SECONDS(1) * k * k * k;
            }
            most = heap_most_in(0, 100 * MS);
            limit += limit / 500; /* some pages come at once, see above */
            if (most > limit)
                fail_msg("%llu KiB/s, %lld us late: %llu pages in 100 ms, at most %llu allowed",
                         (unsigned long long)rates[i], (long long)late[j] / 1000,
                         (unsigned long long)most, (unsigned long long)limit);
        }
}

/* After a long pause (also one where products overflow) there is a full bucket, not more and not
 * less. */
static void rested(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
        for (s_time_t pause = 1ll << 30; pause < 1ll << 57; pause *= 2) {
            uint64_t full = inflow(rates[i], 20 * MS);

            dirty_host(1, &(struct settings){.ceiling_kib = rates[i]});
            host.cpu[0].clock += pause;
            assert_in_range(scrub_ctl_may(0, heap.node[0].dirty), max_t(uint64_t, full, 1),
                            full + 2);
        }
}

/* A CPU that never has to wait is not slowed down, nor does any timer run. */
static void slower_than_the_ceiling(void **state)
{
    dirty_host(1, &(struct settings){.ceiling_kib = KIB_OF(1024)});
    host.cpu[0].clock += SECONDS(1);
    assert_in_range(scrub(SECONDS(5), 0, 10000), SECONDS(5) / 10000, SECONDS(5) / 10000 + 1);
    assert_int_equal(host_active_timers(), 0);
}

/* Two CPUs, one of them with a clock that is behind, take turns. */
static void clocks_that_differ(void **state)
{
    static const s_time_t skews[] = {-1, -300, -100 * US, -5 * MS, 5 * MS};

    for (size_t i = 0; i < ARRAY_SIZE(skews); i++) {
        uint64_t kib = KIB_OF(128), pages = 0, right;
        struct ctl_state before, after;
        s_time_t start;

        dirty_host(2, &(struct settings){.ceiling_kib = kib});
        ctl_get(&before);
        start = host.cpu[0].clock;
        host.cpu[1].skew = skews[i];
        while (host.cpu[0].clock < start + SECONDS(10)) {
            uint64_t budget = scrub_ctl_may(0, heap.node[0].dirty);

            host.cpu[host.current].clock += 10 * US + budget;
            heap_scrubbed(0, budget);
            pages += budget;
            host_enter(host_random(2));
            host_softirqs();
        }
        right = inflow(kib, SECONDS(10));
        assert_in_range(pages, right - hold(kib) - inflow(kib, 6 * MS),
                        right + hold(kib) + inflow(kib, 6 * MS));
        ctl_get(&after);
        assert_in_range(after.nodes[0].throttled_ns, before.nodes[0].throttled_ns, SECONDS(11));
    }
}

/* After a wait there is some work to do, not a page now and a page then. */
static void waits(void **state)
{
    uint64_t kib = KIB_OF(128);
    s_time_t start, expires;

    dirty_host(1, &(struct settings){.ceiling_kib = kib});
    start = host.cpu[0].clock;
    assert_int_equal(scrub_ctl_may(0, 100), 0);
    assert_int_equal(host_the_timer(&expires), 0);
    assert_int_equal(expires, start + SLICE);

    /* There would be something by now. */
    host.cpu[0].clock += SLICE - 1;
    assert_int_equal(scrub_ctl_may(0, 100), 0);
    host.cpu[0].clock += 1;
    host_softirqs();
    assert_int_equal(scrub_ctl_may(0, 1 << 30), inflow(kib, SLICE));
    assert_int_equal(host_active_timers(), 0);

    /* What is scrubbed meanwhile may be scrubbed at once, as long as it is something. */
    heap_scrubbed(0, inflow(kib, SLICE) - 3);
    assert_int_equal(scrub_ctl_may(0, 1 << 30), 3);
    heap_scrubbed(0, 3);
    assert_int_equal(scrub_ctl_may(0, 1 << 30), 0);
    host_the_timer(&expires);
    assert_int_equal(expires, host.cpu[0].clock + SLICE);
}

/* Slow rates wait for a page. */
static void waits_for_a_page(void **state)
{
    s_time_t start, expires;

    dirty_host(1, &(struct settings){.ceiling_kib = 4});
    start = host.cpu[0].clock;
    assert_int_equal(scrub_ctl_may(0, 100), 0);
    host_the_timer(&expires);
    assert_in_range(expires, start + SECONDS(1), start + SECONDS(1) + 2);
    host.cpu[0].clock = expires;
    host_softirqs();
    assert_int_equal(scrub_ctl_may(0, 100), 1);
}

static void no_dirty_page_no_timer(void **state)
{
    dirty_host(2, &(struct settings){.ceiling_kib = 4});
    assert_int_equal(scrub_ctl_may(0, 0), 0);
    assert_int_equal(host_active_timers(), 0);
}

/* A renewal is no reason for more, nor for less. */
static void renewed(void **state)
{
    uint64_t kib = KIB_OF(128), pages = 0, right;
    s_time_t start;

    dirty_host(1, &(struct settings){.ceiling_kib = kib});
    start = host.cpu[0].clock;
    for (int i = 0; i < 3000; i++) {
        host.cpu[0].clock += 3 * MS;
        assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = kib}), 0);
        host_softirqs();
        for (uint64_t budget; (budget = scrub_ctl_may(0, heap.node[0].dirty)); pages += budget)
            heap_scrubbed(0, budget);
    }
    right = inflow(kib, host.cpu[0].clock - start);
    assert_in_range(pages, right - hold(kib), right + 1);
}

/* A change starts from nothing. */
static void changed(void **state)
{
    uint64_t low = KIB_OF(64), high = KIB_OF(128);

    dirty_host(1, &(struct settings){.ceiling_kib = low});
    for (int i = 0; i < 500; i++) {
        assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = i & 1 ? high : low}), 0);
        scrub(host_random(40) * MS, MS, 1);
    }
    assert_true(heap_most_in(0, 100 * MS) <= inflow(high, 100 * MS) + hold(high));
}

/* What is dirty since boot does not wait; what comes on top of it does. */
static void boot_memory(void **state)
{
    struct ctl_state get;

    heap_init(1, 1);
    heap_free(0, 1000);
    ctl_get(&get);
    assert_int_equal(get.nodes[0].boot, 1000);
    assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 4}), 0);
    assert_int_equal(scrub_ctl_may(0, heap.node[0].dirty), UINT_MAX);

    heap_free(0, 1);
    assert_int_equal(scrub_ctl_may(0, heap.node[0].dirty), 0);
    host.cpu[0].clock += SECONDS(2);
    host_softirqs();
    assert_in_range(scrub_ctl_may(0, heap.node[0].dirty), 1, 2);
    heap_scrubbed(0, 1);
    assert_int_equal(scrub_ctl_may(0, heap.node[0].dirty), UINT_MAX);
    heap_scrubbed(0, 600);
    ctl_get(&get);
    assert_int_equal(get.nodes[0].boot, 400);

    /* It never grows again. */
    heap_free(0, 500);
    ctl_get(&get);
    assert_int_equal(get.nodes[0].boot, 400);
    heap_alloc(0, 900, true);
    ctl_get(&get);
    assert_int_equal(get.nodes[0].boot, 0);
    assert_int_equal(host_active_timers(), 0);
}

/* A whole host with idle CPUs: the rate, who is woken, and silence at the end. */
static void whole_host(void **state)
{
    static const uint64_t mib[] = {1, 32, 128, 512};

    for (size_t i = 0; i < ARRAY_SIZE(mib); i++)
        for (int skewed = 0; skewed < 2; skewed++) {
            struct xen_scrub_node nodes[2] = {{.ceiling_kib = KIB_OF(mib[i])},
                                              {.ceiling_kib = KIB_OF(mib[i]) / 2}};
            struct ctl_state before, after;
            uint64_t pages[2], timers = 0, calls;

            heap_init(2, 2);
            heap.page_ns = 900;
            ctl_get(&before);
            for (int n = 0; n < 2; n++) {
                heap_free(n, inflow(nodes[n].ceiling_kib, SECONDS(6)));
                host.cpu[n * 2].skew = skewed * 700;
            }
            heap.log = true;
            assert_int_equal(ctl_set(&(struct settings){.nodes = nodes}), 0);
            host_run(SECONDS(5));
            for (int n = 0; n < 2; n++) {
                uint64_t kib = nodes[n].ceiling_kib, right = inflow(kib, SECONDS(5));

                pages[n] = heap.by_cpu[n * 2] + heap.by_cpu[n * 2 + 1];
                assert_in_range(pages[n], right - hold(kib), right + 1);
                assert_true(heap_most_in(n, 100 * MS) <= inflow(kib, 100 * MS) + hold(kib));
            }
            for (int cpu = 0; cpu < 4; cpu++)
                timers += host.cpu[cpu].timers;
            assert_in_range(timers, 1, 2 * 505);

            /* It was waiting except while it was scrubbing. */
            ctl_get(&after);
            for (int n = 0; n < 2; n++) {
                s_time_t waited = after.nodes[n].throttled_ns - before.nodes[n].throttled_ns;
                s_time_t work = pages[n] * heap.page_ns;

                assert_in_range(waited + work, SECONDS(5) - 60 * MS, SECONDS(5) + 60 * MS);
            }

            host_run(SECONDS(3));
            assert_int_equal(heap.node[0].dirty + heap.node[1].dirty, 0);
            assert_int_equal(host_active_timers(), 0);
            calls = heap.calls;
            host_run(SECONDS(10));
            assert_int_equal(heap.calls, calls);
        }
}

/* The time that was not waited to the end is not counted. */
static void throttled_time(void **state)
{
    struct ctl_state get;

    dirty_host(2, &(struct settings){.ceiling_kib = 4});
    assert_int_equal(scrub_ctl_may(0, 100), 0);
    host.cpu[0].clock += 100 * MS;
    assert_int_equal(ctl_reset(), 0);
    ctl_get(&get);
    assert_int_equal(get.nodes[0].throttled_ns, 100 * MS);

    /* Asking again during a wait is not waiting twice. */
    assert_int_equal(ctl_set(&(struct settings){.ceiling_kib = 4}), 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(scrub_ctl_may(0, 100), 0);
        host.cpu[0].clock += 10 * MS;
    }
    assert_int_equal(ctl_reset(), 0);
    ctl_get(&get);
    assert_int_equal(get.nodes[0].throttled_ns, 200 * MS);
    assert_int_equal(host_active_timers(), 0);
}

/* A CPU whose clock is behind takes the ceiling back just after it began to count. */
static void throttled_time_with_clocks_that_differ(void **state)
{
    struct ctl_state get;

    dirty_host(2, &(struct settings){.ceiling_kib = 4});
    host.cpu[1].skew = -200;
    assert_int_equal(scrub_ctl_may(0, 100), 0);
    host_enter(1);
    assert_int_equal(ctl_reset(), 0);
    ctl_get(&get);
    assert_in_range(get.nodes[0].throttled_ns, 0, MS);
}

static int done(void **state)
{
    heap_done();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(exact, done),
        cmocka_unit_test_teardown(bounded, done),
        cmocka_unit_test_teardown(rested, done),
        cmocka_unit_test_teardown(slower_than_the_ceiling, done),
        cmocka_unit_test_teardown(clocks_that_differ, done),
        cmocka_unit_test_teardown(waits, done),
        cmocka_unit_test_teardown(waits_for_a_page, done),
        cmocka_unit_test_teardown(no_dirty_page_no_timer, done),
        cmocka_unit_test_teardown(renewed, done),
        cmocka_unit_test_teardown(changed, done),
        cmocka_unit_test_teardown(boot_memory, done),
        cmocka_unit_test_teardown(whole_host, done),
        cmocka_unit_test_teardown(throttled_time, done),
        cmocka_unit_test_teardown(throttled_time_with_clocks_that_differ, done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
