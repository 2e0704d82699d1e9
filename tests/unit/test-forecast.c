/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is foretold of a teardown, and how fast the host is found to scrub. */
#include "forecast.h"
#include "unit.h"

#define GIB 262144ull

/* 4 GiB in 1 s of CPU time, at half of it, and a scrubber of 2 GiB/s. */
static const struct forecast_input usual = {
    .pages = 4 * GIB,
    .duty = 500,
    .step_us = 2000,
    .ns_per_page = 954, /* 1000341 us */
    .slow_down = 1000,
    .backlog_high_pages = GIB,
    .scrub_pages_s = 2 * GIB,
    .max_teardown_us = 120000000,
};

static void check(const struct forecast_input *in, uint64_t dead_ms, uint64_t clean_ms, bool held)
{
    struct forecast f;

    forecast(in, &f);
    assert_int_equal(f.dead_us / 1000, dead_ms);
    assert_int_equal(f.clean_us / 1000, clean_ms);
    assert_int_equal(f.held, held);
}

static void paced(void **state)
{
    struct forecast_input in = usual;
    struct forecast f;

    check(&in, 2000, 2000, false);
    forecast(&in, &f);
    assert_true(f.measured);
    assert_int_equal(f.cpu_us, 1000341);
    assert_int_equal(f.steps, 501);
    in.slow_down = 1500; /* steps take half as long again on the clock */
    check(&in, 2500, 2500, false);
    in = usual;
    in.duty = 1000;
    check(&in, 1500, 2000, true); /* 3 GiB of it have to be scrubbed */
    in.duty = 250;
    check(&in, 4001, 4001, false);
}

/* The scrubber is slower than the steps. */
static void held(void **state)
{
    struct forecast_input in = usual;

    in.scrub_pages_s = GIB;
    check(&in, 3000, 4000, true);
    in.backlog_pages = GIB;
    check(&in, 4000, 5000, true);
    in.quick = true;
    check(&in, 1000, 5000, false);
    in = usual;
    in.scrub_pages_s = GIB / 128; /* nothing is held back longer than max_teardown */
    check(&in, 120000, 512000, false);
    in.max_teardown_us = 500000; /* it cannot be that fast */
    check(&in, 1000, 512000, false);
}

static void others(void **state)
{
    struct forecast_input in = usual;

    in.before_us = 1000000;
    check(&in, 4000, 4000, false);
}

static void unknown(void **state)
{
    struct forecast_input in = usual;
    struct forecast f;

    in.ns_per_page = in.slow_down = in.scrub_pages_s = 0;
    forecast(&in, &f);
    assert_false(f.measured);
    assert_int_equal(f.cpu_us, 4 * GIB * 1000 / 1000);
    assert_int_equal(f.clean_us, 0);
    assert_true(f.dead_us > 2 * f.cpu_us);
    in.pages = 0; /* there is a step even for nothing */
    forecast(&in, &f);
    assert_int_equal(f.steps, 1);
}

static void scrub_rate(void **state)
{
    struct scrub_rate r = {0};

    scrub_rate_saw(&r, 1000000, 5000, 100000);
    scrub_rate_saw(&r, 1030000, 10000, 95000); /* over too short a time */
    assert_int_equal(r.pages_s, 0);
    scrub_rate_saw(&r, 1200000, 25000, 80000);
    assert_int_equal(r.pages_s, 100000);
    scrub_rate_saw(&r, 1400000, 85000, 20000); /* 300000 a second, averaged */
    assert_int_equal(r.pages_s, 150000);
    /* It had nothing to do for a while: that time does not count. */
    scrub_rate_saw(&r, 1600000, 105000, 0);
    scrub_rate_saw(&r, 9000000, 105000, 50000);
    assert_int_equal(r.pages_s, 150000);
    scrub_rate_saw(&r, 9200000, 135000, 20000);
    assert_int_equal(r.pages_s, 150000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paced),   cmocka_unit_test(held),       cmocka_unit_test(others),
        cmocka_unit_test(unknown), cmocka_unit_test(scrub_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
