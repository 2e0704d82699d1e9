/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pacer: duty cycle, marks of the backlog, escapes, and whole teardowns on a simulated host. */
#include "unit.h"

#include <stdbool.h>

#include "pacer.h"

static const struct pacer_config conf = {
    .duty_percent = 50,
    .backlog_high_pages = 1000,
    .no_progress_us = 1000000,
};

static void duty(void **state)
{
    static const struct {
        uint64_t duty, cpu_us, pause_us;
    } table[] = {
        {50, 2000, 2000}, {10, 2000, 18000}, {100, 2000, 0},
        {1, 1000, 99000}, {80, 2000, 500},   {50, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct pacer_config c = conf;
        struct pacer p;
        struct pacer_verdict v;

        c.duty_percent = table[i].duty;
        pacer_init(&p);
        assert_int_equal(pacer_next(&p, &c, 5000, 0).action, PACER_STEP);
        pacer_stepped(&p, &c, 7000, table[i].cpu_us);
        v = pacer_next(&p, &c, 7000, 0);
        if (!table[i].pause_us) {
            assert_int_equal(v.action, PACER_STEP);
            continue;
        }
        assert_int_equal(v.action, PACER_WAIT);
        assert_int_equal(v.wake_us, 7000 + table[i].pause_us);
        assert_int_equal(pacer_next(&p, &c, v.wake_us - 1, 0).action, PACER_WAIT);
        assert_int_equal(pacer_next(&p, &c, v.wake_us, 0).action, PACER_STEP);
    }
}

/* A step during a pause (the first one of a new job) makes the pause longer, never shorter. */
static void duty_adds_up(void **state)
{
    struct pacer p;

    pacer_init(&p);
    pacer_stepped(&p, &conf, 10000, 2000);
    pacer_stepped(&p, &conf, 10500, 100);
    assert_int_equal(p.ready_us, 12100);
}

/* One pacer through a sequence of moments. */
static void marks(void **state)
{
    static const struct {
        uint64_t at_ms, backlog;
        enum pacer_action action;
        bool escape;
    } table[] = {
        {0, 0, PACER_STEP, false},
        {1, 1000, PACER_STEP, false}, /* at the mark is not over it */
        {2, 1001, PACER_WAIT, false},
        {12, 900, PACER_WAIT, false}, /* under the high mark, but not under the low one */
        {22, 501, PACER_WAIT, false},
        {32, 500, PACER_STEP, false},
        {33, 900, PACER_STEP, false},
        {34, 1200, PACER_WAIT, false},
        {1033, 1200, PACER_WAIT, false}, /* nothing has moved for 999 ms */
        {1034, 1200, PACER_STEP, true},
        {1035, 1300, PACER_WAIT, false}, /* what the escape released is no fall */
        {1533, 1300, PACER_WAIT, false},
        {1534, 1300, PACER_STEP, true}, /* half the time */
        {1783, 1400, PACER_WAIT, false},
        {1784, 1400, PACER_STEP, true},  /* a quarter */
        {1785, 1399, PACER_WAIT, false}, /* a fall */
        {2784, 1399, PACER_WAIT, false},
        {2785, 1399, PACER_STEP, true}, /* the whole time again */
        {2800, 100, PACER_STEP, false},
    };
    struct pacer p;

    pacer_init(&p);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        uint64_t now = table[i].at_ms * 1000;
        struct pacer_verdict v = pacer_next(&p, &conf, now, table[i].backlog);

        if (v.action != table[i].action || v.escape != table[i].escape)
            fail_msg("at %d ms: action %d, escape %d", (int)table[i].at_ms, v.action, v.escape);
        if (v.action == PACER_WAIT)
            assert_int_equal(v.wake_us, now + PACER_POLL_US);
    }
}

/* Never so often that waiting becomes spinning. */
static void escapes_have_a_floor(void **state)
{
    struct pacer p;
    uint64_t now = 0, last = 0, n = 0;

    pacer_init(&p);
    while (now < 10000000) {
        struct pacer_verdict v = pacer_next(&p, &conf, now, 5000 + n);

        if (v.action == PACER_WAIT) {
            assert_true(v.wake_us > now);
            now = v.wake_us;
            continue;
        }
        assert_true(v.escape);
        assert_true(n == 0 || now - last >= PACER_POLL_US);
        last = now;
        n++;
        pacer_stepped(&p, &conf, now, 0);
    }
    assert_in_range(n, 100, 2000);
}

/* A host that frees so much in a step and scrubs so much in a ms: what a teardown of 4 GiB comes
 * to. */
static void simulated(void **state)
{
    static const struct {
        uint64_t scrub_pages_ms;
        uint64_t duty;
        uint64_t min_ms, max_ms;
        uint64_t max_backlog;
    } table[] = {
        {1000, 50, 1850, 2000, 16384 + 2400}, /* scrubbing keeps up: duty alone decides */
        {1000, 10, 9400, 9700, 16384 + 2400},
        {200, 50, 5000, 5300, 16384 + 2400}, /* it does not: as fast as scrubbing */
        {0, 50, 3000, 15000, 1048576},       /* a host that never scrubs: it ends all the same */
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct pacer_config c = {table[i].duty, 16384, 1000000};
        uint64_t left = 1048576, dirty = 0, now = 0, then = 0, worst = 0;
        struct pacer p;

        pacer_init(&p);
        while (left) {
            uint64_t scrubbed = (now - then) * table[i].scrub_pages_ms / 1000, freed;
            struct pacer_verdict v;

            then = now;
            dirty -= scrubbed < dirty ? scrubbed : dirty;
            v = pacer_next(&p, &c, now, dirty);
            if (v.action == PACER_WAIT) {
                now = v.wake_us;
                continue;
            }
            freed = left < 2200 ? left : 2200;
            left -= freed;
            dirty += freed;
            worst = dirty > worst ? dirty : worst;
            now += 2000;
            pacer_stepped(&p, &c, now, 2000);
        }
        if (now / 1000 < table[i].min_ms || now / 1000 > table[i].max_ms)
            fail_msg("row %d: %d ms", (int)i, (int)(now / 1000));
        assert_in_range(worst, 1, table[i].max_backlog);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duty),      cmocka_unit_test(duty_adds_up),
        cmocka_unit_test(marks),     cmocka_unit_test(escapes_have_a_floor),
        cmocka_unit_test(simulated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
