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

/* The burst is over: pauses follow from here on. */
static void spend(struct pacer *p, const struct pacer_config *c, uint64_t now_us)
{
    pacer_init(p);
    p->granted = true;
    pacer_stepped(p, c, now_us, PACER_BURST_US, 0);
    assert_int_equal(pacer_ready_us(p, c, 0), now_us);
}

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

        uint64_t end_us = 50000 + table[i].cpu_us;

        c.duty_percent = table[i].duty;
        spend(&p, &c, 50000);
        assert_int_equal(pacer_next(&p, &c, 50000, 0, 0).action, PACER_STEP);
        pacer_stepped(&p, &c, end_us, table[i].cpu_us, 0);
        v = pacer_next(&p, &c, end_us, 0, 0);
        if (!table[i].pause_us) {
            assert_int_equal(v.action, PACER_STEP);
            continue;
        }
        assert_int_equal(v.action, PACER_WAIT);
        assert_int_equal(v.wake_us, end_us + table[i].pause_us);
        assert_int_equal(pacer_next(&p, &c, v.wake_us - 1, 0, 0).action, PACER_WAIT);
        assert_int_equal(pacer_next(&p, &c, v.wake_us, 0, 0).action, PACER_STEP);
    }
}

/* A step during a pause (the first one of a new job) makes the pause longer, never shorter. */
static void duty_adds_up(void **state)
{
    struct pacer p;

    spend(&p, &conf, 50000);
    assert_int_equal(pacer_next(&p, &conf, 50000, 0, 0).action, PACER_STEP);
    pacer_stepped(&p, &conf, 52000, 2000, 0);
    pacer_stepped(&p, &conf, 52500, 100, 0);
    assert_int_equal(pacer_ready_us(&p, &conf, 0), 52000 + 2100);
}

/* After a rest that makes up for all, steps need no pauses at first. */
static void burst(void **state)
{
    static const struct {
        uint64_t duty, rest_us, free_us;
    } table[] = {
        {50, 0, 0},    {50, 29999, 0},     {50, 30000, 30000}, {50, 10000000, 30000},
        {75, 9999, 0}, {75, 10000, 30000}, {10, 269999, 0},    {10, 270000, 30000},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct pacer_config c = conf;
        uint64_t now = 50000 + table[i].rest_us, free_us = 0;
        struct pacer p;

        c.duty_percent = table[i].duty;
        spend(&p, &c, 50000);
        while (pacer_next(&p, &c, now, 0, 0).action == PACER_STEP) {
            now += 1000;
            pacer_stepped(&p, &c, now, 1000, 0);
            free_us += 1000;
        }
        /* The last one is what the pause is for. */
        assert_int_equal(free_us, table[i].free_us + 1000);
    }
}

/* What a press skipped is not made up for later. */
static void press_is_forgiven(void **state)
{
    struct pacer p;
    uint64_t now = 50000;

    pacer_init(&p);
    for (; now < 1000000; now += 2000) {
        assert_int_equal(pacer_next(&p, &conf, now, 0, 1000).action, PACER_STEP);
        pacer_stepped(&p, &conf, now + 2000, 2000, 0);
    }
    assert_int_equal(pacer_ready_us(&p, &conf, 0), now + 2000);
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
        struct pacer_verdict v = pacer_next(&p, &conf, now, table[i].backlog, 0);

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
        struct pacer_verdict v = pacer_next(&p, &conf, now, 5000 + n, 0);

        if (v.action == PACER_WAIT) {
            assert_true(v.wake_us > now);
            now = v.wake_us;
            continue;
        }
        assert_true(v.escape);
        assert_true(n == 0 || now - last >= PACER_POLL_US);
        last = now;
        n++;
        pacer_stepped(&p, &conf, now, 0, 0);
    }
    assert_in_range(n, 100, 2000);
}

/* A press shortens the pause that is under way, and lets go of what is held back. */
static void press(void **state)
{
    static const struct {
        unsigned int press;
        uint64_t pause_us;
    } table[] = {{0, 6000},  {100, 6000}, {250, 6000}, {500, 2000},
                 {800, 500}, {1000, 0},   {5000, 0}};
    struct pacer_config c = conf;
    struct pacer p;

    c.duty_percent = 25;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        spend(&p, &c, 8000);
        assert_int_equal(pacer_next(&p, &c, 8000, 0, 0).action, PACER_STEP);
        pacer_stepped(&p, &c, 10000, 2000, 0);
        assert_int_equal(pacer_ready_us(&p, &c, table[i].press), 10000 + table[i].pause_us);
        assert_int_equal(pacer_next(&p, &c, 20000, 5000, table[i].press).action,
                         table[i].press ? PACER_STEP : PACER_WAIT);
    }
    /* That it was held meanwhile goes on. */
    assert_true(p.holding);
    assert_int_equal(pacer_next(&p, &c, 20000, 900, 0).action, PACER_WAIT);
}

/* Steps for so long with so much strain each: what becomes of the duty. */
static void adapts(void **state)
{
    static const struct {
        uint64_t ms, strain_us;
        unsigned int min, max;
    } table[] = {
        {500, 0, 500, 500},     {20, 20000, 500, 500}, /* one late moment is none: not yet, and then
                                                          it is over */
        {500, 0, 250, 500},     {2000, 0, 500, 500},    {300, 4000, 125, 250},
        {5000, 4000, 125, 125},                         /* a quarter is the least */
        {600, 0, 200, 400},     {2000, 1999, 500, 500}, /* and back */
    };
    uint64_t now = 1000000;
    struct pacer p;

    pacer_init(&p);
    assert_int_equal(pacer_duty(&p, &conf), 500);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        for (uint64_t end = now + table[i].ms * 1000; now < end; now += 10000)
            pacer_stepped(&p, &conf, now, 2000, table[i].strain_us);
        if (pacer_duty(&p, &conf) < table[i].min || pacer_duty(&p, &conf) > table[i].max)
            fail_msg("row %d: %u", (int)i, pacer_duty(&p, &conf));
    }
}

/* The least duty there is has a quarter too, and time that goes backwards is no division by zero.
 */
static void adapts_to_the_least(void **state)
{
    struct pacer_config c = conf;
    struct pacer p;

    c.duty_percent = 1;
    pacer_init(&p);
    for (uint64_t now = 0; now < 10000000; now += 50000)
        pacer_stepped(&p, &c, now, 2000, 50000);
    assert_int_equal(pacer_duty(&p, &c), 2);
    /* Configured to be lower than what is in force. */
    p.duty = 900;
    assert_int_equal(pacer_duty(&p, &c), 10);
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
        {1000, 10, 9130, 9430, 16384 + 2400},
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
            v = pacer_next(&p, &c, now, dirty, 0);
            if (v.action == PACER_WAIT) {
                now = v.wake_us;
                continue;
            }
            freed = left < 2200 ? left : 2200;
            left -= freed;
            dirty += freed;
            worst = dirty > worst ? dirty : worst;
            now += 2000;
            pacer_stepped(&p, &c, now, 2000, 0);
        }
        if (now / 1000 < table[i].min_ms || now / 1000 > table[i].max_ms)
            fail_msg("row %d: %d ms", (int)i, (int)(now / 1000));
        assert_in_range(worst, 1, table[i].max_backlog);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duty),
        cmocka_unit_test(duty_adds_up),
        cmocka_unit_test(burst),
        cmocka_unit_test(press_is_forgiven),
        cmocka_unit_test(marks),
        cmocka_unit_test(escapes_have_a_floor),
        cmocka_unit_test(press),
        cmocka_unit_test(adapts),
        cmocka_unit_test(adapts_to_the_least),
        cmocka_unit_test(simulated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
