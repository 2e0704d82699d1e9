/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The plan: whose turn it is, how fast things go, what is said of the future, and when memory is
 * known to be clean. */
#include "unit.h"

#include <string.h>
#include <time.h>

#include "clean.h"
#include "endings.h"
#include "plan.h"

static const struct plan_conf conf = {
    .pace = {.duty_percent = 50, .backlog_high_pages = 1000, .no_progress_us = 1000000},
    .step_us = 2000,
    .max_teardown_us = 120000000,
};

/* A host in virtual time: what the plan says is done, a step takes its time and frees accordingly.
 */
struct host {
    struct plan plan;
    struct plan_conf conf;
    struct job_table jobs;
    struct plan_input in;
    uint64_t us_per_page; /* of a teardown */
    uint64_t died_us[200];
};

static void host_init(struct host *h)
{
    memset(h, 0, sizeof(*h));
    plan_init(&h->plan);
    h->conf = conf;
    h->us_per_page = 1;
    h->in.now_us = 1000000;
    job_table_init(&h->jobs);
}

static void host_done(struct host *h)
{
    struct job *job;

    while ((job = TAILQ_FIRST(&h->jobs.list)))
        job_remove(&h->jobs, job);
}

static struct job *add(struct host *h, struct job_spec spec)
{
    spec.ident.domid = (uint32_t)h->jobs.last_id + 1;
    return job_add(&h->jobs, &spec, h->in.now_us);
}

static struct plan_verdict next(struct host *h)
{
    return plan_next(&h->plan, &h->conf, &h->jobs, &h->in);
}

static void do_step(struct host *h, const struct plan_verdict *v)
{
    uint64_t pages = v->step_us / h->us_per_page;
    struct job *job = v->job;
    struct job_step s = {.stage = 1, .cpu_us = v->step_us, .wall_us = v->step_us};

    s.pages_freed = pages < job->pages_left ? pages : job->pages_left;
    s.pages_left = job->pages_left - s.pages_freed;
    s.dead = !s.pages_left;
    h->in.now_us += v->step_us;
    if (plan_stepped(&h->plan, &h->conf, &h->jobs, job, h->in.now_us, &s) == JOB_FINISHED) {
        h->died_us[job->id] = h->in.now_us;
        job_remove(&h->jobs, job);
    }
}

/* Until end_us or until there is no job. Returns the CPU time of all steps. */
static uint64_t run(struct host *h, uint64_t end_us)
{
    uint64_t cpu_us = 0;

    while (h->in.now_us < end_us) {
        struct plan_verdict v = next(h);

        if (v.action == PLAN_IDLE)
            break;
        if (v.action == PLAN_WAIT) {
            assert_true(v.wake_us > h->in.now_us);
            h->in.now_us = v.wake_us;
            continue;
        }
        cpu_us += v.step_us;
        do_step(h, &v);
    }
    return cpu_us;
}

/* Whose turn it is, of jobs that differ in one thing: the ids of a few steps. */
static void turns(void **state)
{
    static const struct {
        const char *what;
        struct job_spec specs[3];
        const char *order;
    } table[] = {
        {"equals", {{.priority = 1}, {.priority = 1}, {.priority = 1}}, "123123123"},
        {"priority", {{.priority = -1}, {.priority = 2}, {.priority = 2}}, "232323232"},
        {"hurry", {{.priority = 10}, {.hurry = true}, {.priority = 10}}, "222222222"},
        {"quick",
         {{.priority = 10}, {.quick = true, .priority = -10}, {.priority = 0}},
         "222222222"},
        {"both", {{.quick = true}, {.hurry = true}, {.priority = 9}}, "121212121"},
        {"a deadline far away",
         {{.deadline_us = 900000000}, {.priority = 1}, {.priority = 0}},
         "222222222"},
        {"near",
         {{.priority = 9}, {.priority = -9, .deadline_us = 2500000}, {.priority = 0}},
         "222222222"},
        {"the earlier",
         {{.deadline_us = 2900000}, {.priority = 0}, {.deadline_us = 2800000}},
         "333333333"},
        {"passed", {{.priority = 9}, {.deadline_us = 900000}, {.priority = 0}}, "222222222"},
        {"a limit", {{.priority = 9}, {.limit_us = 1100000}, {.priority = 0}}, "222222222"},
        {"a limit, but", {{.hurry = true}, {.limit_us = 1100000}, {.priority = 0}}, "111111111"},
        {"a limit far away",
         {{.priority = 9}, {.limit_us = 900000000}, {.priority = 0}},
         "111111111"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct host h;
        char order[10] = "";

        host_init(&h);
        for (int j = 0; j < 3; j++) {
            struct job_spec spec = table[i].specs[j];

            spec.pages = 1000000;
            add(&h, spec);
        }
        for (size_t n = 0; n < 9;) {
            struct plan_verdict v = next(&h);

            if (v.action == PLAN_WAIT) {
                h.in.now_us = v.wake_us;
                continue;
            }
            order[n++] = (char)('0' + v.job->id);
            do_step(&h, &v);
        }
        if (strcmp(order, table[i].order))
            fail_msg("%s: %s instead of %s", table[i].what, order, table[i].order);
        host_done(&h);
    }
}

/* A low priority beside endless work of a higher one: at least a step a second or so, and not a
 * quarter of all. */
static void nobody_starves(void **state)
{
    struct job *low, *others[3];
    struct host h;
    uint64_t longest = 0, steps;

    host_init(&h);
    low = add(&h, (struct job_spec){.pages = 100000000, .priority = -10});
    for (int i = 0; i < 3; i++)
        others[i] = add(&h, (struct job_spec){.pages = 100000000, .hurry = i == 0, .priority = 10});
    steps = low->steps;
    for (int i = 0; i < 300; i++) {
        uint64_t before = low->last_step_us;

        run(&h, h.in.now_us + 100000);
        if (low->last_step_us == before && h.in.now_us - before > longest)
            longest = h.in.now_us - before;
    }
    steps = low->steps;
    assert_in_range(steps, 25, 31); /* of 30 s */
    assert_in_range(longest, 500000, 1200000);
    assert_in_range(others[1]->steps, 25, 31);
    assert_true(others[0]->steps > 100 * steps);
    host_done(&h);
}

/* The pace: what part of 10 s the steps get of one job with a million seconds of work, or so much
 * as is said. */
static void pace(void **state)
{
    static const struct {
        const char *what;
        struct job_spec spec;
        struct plan_input in;
        uint64_t duty, min_ms, max_ms;
        enum plan_why why;
    } table[] = {
        {"comfort", {.pages = 1u << 30}, {.press = false}, 50, 5005, 5025, PLAN_COMFORT},
        {"all duty", {.pages = 1u << 30}, {.press = false}, 100, 9990, 10010, PLAN_COMFORT},
        {"hurry",
         {.pages = 1u << 30, .hurry = true},
         {.press = false},
         10,
         9990,
         10010,
         PLAN_HURRY},
        {"quick",
         {.pages = 1u << 30, .quick = true},
         {.press = false},
         10,
         9990,
         10010,
         PLAN_HURRY},
        {"wanted", {.pages = 1u << 30}, {.press = true}, 10, 9990, 10010, PLAN_WANTED},
        /* 100 s of work by the guess, half as much again, until 200 s from now: 75 % */
        {"deadline",
         {.pages = 100000000, .deadline_us = 201000000},
         {0},
         10,
         7400,
         7600,
         PLAN_DEADLINE},
        {"limit",
         {.pages = 100000000, .limit_us = 201000000},
         {.press = false},
         10,
         7400,
         7600,
         PLAN_DEADLINE},
        {"easy",
         {.pages = 100000000, .limit_us = 999000000},
         {.press = false},
         50,
         5005,
         5025,
         PLAN_COMFORT},
        {"too late",
         {.pages = 1u << 30, .limit_us = 900000},
         {.press = false},
         10,
         9990,
         10010,
         PLAN_DEADLINE},
        {"backlog", {.pages = 1u << 30}, {.backlog_pages = 1001}, 50, 1, 4000, PLAN_ESCAPE},
        {"backlog, but",
         {.pages = 1u << 30, .hurry = true},
         {.backlog_pages = 1001},
         50,
         9990,
         10010,
         PLAN_HURRY},
        {"held", {.pages = 1u << 30}, {.hold = true}, 50, 0, 0, PLAN_WHY_NONE},
        {"held, but",
         {.pages = 1u << 30, .hurry = true},
         {.hold = true},
         50,
         9990,
         10010,
         PLAN_HURRY},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct host h;
        struct plan_verdict v;
        uint64_t ms;

        host_init(&h);
        h.in = table[i].in;
        h.in.now_us = 1000000;
        h.conf.pace.duty_percent = table[i].duty;
        add(&h, table[i].spec);
        ms = run(&h, 11000000) / 1000;
        if (ms < table[i].min_ms || ms > table[i].max_ms)
            fail_msg("%s: %d ms", table[i].what, (int)ms);
        for (int n = 0; n < 10000; n++) {
            v = next(&h);
            if (v.action == PLAN_STEP)
                break;
            h.in.now_us = v.wake_us;
        }
        if (v.action == PLAN_STEP && v.why != table[i].why)
            fail_msg("%s: %s", table[i].what, plan_why_name(v.why));
        assert_true((v.action == PLAN_STEP) == (table[i].why != PLAN_WHY_NONE));
        host_done(&h);
    }
}

/* All its pages are free, and it is not dead: its limit presses as ever. */
static void not_a_page_left(void **state)
{
    struct plan_verdict v;
    struct host h;

    host_init(&h);
    h.in.now_us = 1000000;
    h.in.backlog_pages = 1001;
    add(&h, (struct job_spec){.pages = 0, .limit_us = 900000});
    v = next(&h);
    assert_int_equal(v.action, PLAN_STEP);
    assert_int_equal(v.why, PLAN_DEADLINE);
    host_done(&h);
}

/* Jobs with deadlines that can just be met, and with comfort's limits, of different sizes: all are
 * met, whether the time of a page is known or not, and whatever else there is to do. */
static void deadlines_are_met(void **state)
{
    static const struct {
        uint64_t known_ns, us_per_page;
        uint64_t stretch; /* percent of the shortest time there is */
    } table[] = {{0, 1, 150}, {1000, 1, 120}, {800, 1, 150}, {2000, 1, 115}, {1000, 1, 500}};

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        uint64_t due[10], work = 0;
        struct host h;

        host_init(&h);
        h.jobs.ns_per_page = table[i].known_ns;
        h.us_per_page = table[i].us_per_page;
        h.conf.pace.duty_percent = 25;
        add(&h, (struct job_spec){.pages = 50000000, .priority = 10});
        for (int n = 0; n < 10; n++) {
            uint64_t pages = 100000 * (uint64_t)(n * 7 % 10 + 1);
            struct job_spec spec = {.pages = pages};

            work += pages * table[i].us_per_page;
            due[n] = h.in.now_us + work * table[i].stretch / 100;
            spec.deadline_us = due[n];
            assert_non_null(add(&h, spec));
        }
        run(&h, due[9]);
        for (int n = 0; n < 10; n++) {
            if (!h.died_us[n + 2] || h.died_us[n + 2] > due[n])
                fail_msg("row %d: job %d died at %d ms, due at %d ms", (int)i, n,
                         (int)(h.died_us[n + 2] / 1000), (int)(due[n] / 1000));
        }
        host_done(&h);
    }
}

/* Can it be done? */
static void feasible(void **state)
{
    static const struct {
        uint64_t known_ns, deadline_us;
        bool other_before;
        bool feasible;
        uint64_t need_us;
    } table[] = {
        {1000, 3000000, false, true, 0},
        {1000, 1999999, false, false, 1000000},
        {1000, 2000000, false, true, 0},
        {1000, 3000000, true, true, 0},
        {1000, 2999999, true, false, 2000000},
        {0, 1050000, false, true, 0}, /* nothing is known: what no host can */
        {0, 1049999, false, false, 50000},
        {1000, 0, false, true, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct host h;
        struct job *job;
        uint64_t need = 0;

        host_init(&h);
        h.jobs.ns_per_page = table[i].known_ns;
        add(&h, (struct job_spec){.pages = 1000000,
                                  .deadline_us = table[i].other_before ? 1500000 : 9000000});
        job = add(&h, (struct job_spec){.pages = 1000000, .deadline_us = table[i].deadline_us});
        if (plan_feasible(&h.plan, &h.jobs, job, h.in.now_us, &need) != table[i].feasible ||
            need != table[i].need_us)
            fail_msg("row %d: %d us", (int)i, (int)need);
        host_done(&h);
    }
}

/* An estimate, once there is one, comes true within a tenth; before that there is none. */
static void eta(void **state)
{
    struct job *jobs[4];
    int64_t eta_us[4];
    uint64_t then;
    struct host h;

    host_init(&h);
    h.conf.pace.duty_percent = 40;
    for (int i = 0; i < 4; i++)
        jobs[i] = add(&h, (struct job_spec){.pages = 1000000 * (uint64_t)(i + 1),
                                            .priority = i == 3 ? 5 : 0});
    assert_int_equal(plan_eta_us(&h.plan, &h.jobs, jobs[3], h.in.now_us), -1);
    run(&h, 4000000);
    assert_true(plan_eta_us(&h.plan, &h.jobs, jobs[3], h.in.now_us) > 0);
    /* that no page of these was freed yet says all about them */
    assert_int_equal(plan_eta_us(&h.plan, &h.jobs, jobs[0], h.in.now_us), -1);
    run(&h, 15000000);
    then = h.in.now_us;
    assert_int_equal(h.jobs.count, 3);
    for (int i = 0; i < 3; i++)
        eta_us[i] = plan_eta_us(&h.plan, &h.jobs, jobs[i], then);
    job_pause(&h.jobs, jobs[2], then, then + 1);
    assert_int_equal(plan_eta_us(&h.plan, &h.jobs, jobs[2], then), -1);
    job_resume(&h.jobs, jobs[2], then);
    run(&h, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        int64_t took_us = (int64_t)(h.died_us[i + 1] - then);

        assert_in_range(eta_us[i], took_us * 9 / 10, took_us * 11 / 10);
    }
}

/* Steps of one job with so much strain each. */
static void strained(struct host *h, struct job *job, unsigned int steps, uint64_t late_us)
{
    while (steps-- > 0) {
        struct job_step s = {.stage = 1, .cpu_us = 2000, .wall_us = 2000, .late_us = late_us};

        h->in.now_us += 20000;
        s.pages_freed = 1;
        s.pages_left = job->pages_left - 1;
        plan_stepped(&h->plan, &h->conf, &h->jobs, job, h->in.now_us, &s);
    }
}

/* What the duty of one teardown came down to, in the next one: after a while it is forgotten. */
static void squeeze_is_forgotten(void **state)
{
    static const struct {
        const char *what;
        uint64_t gap_us;
        bool stays;       /* the first job, which is paused meanwhile */
        uint64_t late_us; /* of steps of the second one */
        unsigned int min, max;
    } table[] = {
        {"at once", 10000, false, 0, 125, 160},
        {"in a while", PACER_ADAPT_US, false, 0, 500, 500},
        {"the first goes on", 1000000, true, 0, 1, 160},
        {"still squeezed", 10000000, false, 8000, 250, 499},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct job *first, *second;
        struct host h;

        host_init(&h);
        first = add(&h, (struct job_spec){.pages = 1000});
        strained(&h, first, 100, 8000);
        assert_int_equal(pacer_duty(&h.plan.pacer, &h.conf.pace), 125);
        if (table[i].stays)
            job_pause(&h.jobs, first, h.in.now_us, UINT64_MAX);
        else
            job_remove(&h.jobs, first);
        h.in.now_us += table[i].gap_us;
        second = add(&h, (struct job_spec){.pages = 1000});
        strained(&h, second, table[i].late_us ? 10 : 1, table[i].late_us);
        if (pacer_duty(&h.plan.pacer, &h.conf.pace) < table[i].min ||
            pacer_duty(&h.plan.pacer, &h.conf.pace) > table[i].max)
            fail_msg("%s: %u", table[i].what, pacer_duty(&h.plan.pacer, &h.conf.pace));
        host_done(&h);
    }
}

/* Pauses: nothing while they last, and they end by themselves. */
static void pauses(void **state)
{
    struct plan_verdict v;
    struct job *job;
    struct host h;

    host_init(&h);
    assert_int_equal(next(&h).action, PLAN_IDLE);
    job = add(&h, (struct job_spec){.pages = 1000000, .limit_us = 5000000});
    job_pause(&h.jobs, job, 1000000, 4000000);
    v = next(&h);
    assert_int_equal(v.action, PLAN_WAIT);
    assert_int_equal(v.why, PLAN_RESTING);
    assert_int_equal(v.wake_us, 4000000);
    h.in.now_us = 3999999;
    assert_int_equal(next(&h).action, PLAN_WAIT);
    h.in.now_us = 4000000;
    v = next(&h);
    assert_ptr_equal(v.job, job);
    assert_int_equal(job->limit_us, 8000000);
    assert_int_equal(job->paused_until_us, 0);
    /* Another one goes on meanwhile. */
    job_pause(&h.jobs, job, 4000000, 9000000);
    add(&h, (struct job_spec){.pages = 10});
    assert_int_equal(next(&h).job->id, 2);
    host_done(&h);
}

/* A decision with 100 jobs takes less than 2 us; here 20 are allowed, for a loaded machine. */
static void is_fast(void **state)
{
    struct timespec a, b;
    struct host h;

    host_init(&h);
    for (int i = 0; i < 100; i++)
        add(&h, (struct job_spec){.pages = 1u << 30, .limit_us = 999000000});
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (int i = 0; i < 20000; i++) {
        struct plan_verdict v = next(&h);

        if (v.action == PLAN_WAIT)
            h.in.now_us = v.wake_us;
        else
            do_step(&h, &v);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    assert_true((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < 20000 * 20);
    print_message("%d ns a decision\n",
                  (int)(((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec) / 20000));
    host_done(&h);
}

static void clean(void **state)
{
    struct xen_node nodes[2] = {{.dirty = 5}, {.dirty = 0}};
    struct xen_scrub scrub = {.n_nodes = 2, .nodes = nodes};
    struct clean c = {0};

    assert_false(clean_since(&c, 0)); /* nobody has looked */
    clean_look(&c, &scrub, 100);
    assert_false(clean_since(&c, 50));
    nodes[0].dirty = 0;
    nodes[1].dirty = 7;
    clean_look(&c, &scrub, 200);
    assert_true(clean_since(&c, 100)); /* never both at once, but each after that */
    assert_false(clean_since(&c, 101));
    nodes[1].dirty = 0;
    clean_look(&c, &scrub, 300);
    assert_true(clean_since(&c, 300));
    assert_false(clean_since(&c, 301));
}

static void endings(void **state)
{
    struct ident id = {.domid = 1}, other = {.domid = 1, .uuid = {1}};
    struct endings e = {0};

    assert_int_equal(endings_since(&e, &id), 0);
    endings_saw(&e, &id, 100);
    endings_saw(&e, &id, 200);
    assert_int_equal(endings_since(&e, &id), 100);
    assert_int_equal(endings_since(&e, &other), 0); /* the number is used again */
    endings_saw(&e, &other, 300);
    assert_int_equal(endings_since(&e, &other), 300);
    for (uint32_t i = 0; i < ENDINGS_MAX - 1; i++) {
        struct ident more = {.domid = 2 + i};

        endings_saw(&e, &more, 400);
    }
    assert_int_equal(endings_since(&e, &id), 0); /* the oldest is forgotten */
    assert_int_equal(endings_since(&e, &other), 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(pace),
        cmocka_unit_test(not_a_page_left),
        cmocka_unit_test(deadlines_are_met),
        cmocka_unit_test(feasible),
        cmocka_unit_test(eta),
        cmocka_unit_test(squeeze_is_forgotten),
        cmocka_unit_test(pauses),
        cmocka_unit_test(is_fast),
        cmocka_unit_test(clean),
        cmocka_unit_test(endings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
