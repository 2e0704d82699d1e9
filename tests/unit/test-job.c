/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Jobs: turns, what a step's outcome leads to, rate and time left, and how they look as JSON. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "messages.h"

static struct job *add(struct job_table *t, uint32_t domid, uint64_t pages)
{
    struct ident id = {.domid = domid};

    return job_add(t, &id, "web", pages, false, 0);
}

static void clear(struct job_table *t)
{
    struct job *job;

    while ((job = TAILQ_FIRST(&t->list)))
        job_remove(t, job);
    assert_int_equal(t->count, 0);
}

static void turns(void **state)
{
    struct job_step step = {.stage = 1, .pages_left = 10, .pages_freed = 5, .cpu_us = 1};
    struct job_table t;
    struct job *jobs[3];
    uint64_t wake = 0;

    job_table_init(&t);
    for (uint32_t i = 0; i < 3; i++)
        jobs[i] = add(&t, i + 1, 1000);
    assert_int_equal(jobs[2]->id, 3);
    for (int i = 0; i < 9; i++) {
        struct job *job = job_next(&t, 0, &wake);

        assert_ptr_equal(job, jobs[i % 3]);
        assert_int_equal(job_stepped(&t, job, 0, &step), JOB_GOES_ON);
    }
    /* One that is put off does not hold up the others. */
    jobs[0]->not_before_us = 5000;
    assert_ptr_equal(job_next(&t, 4999, &wake), jobs[1]);
    jobs[1]->not_before_us = 7000;
    jobs[2]->not_before_us = 6000;
    assert_null(job_next(&t, 4999, &wake));
    assert_int_equal(wake, 5000);
    assert_ptr_equal(job_next(&t, 5000, &wake), jobs[0]);
    assert_ptr_equal(job_find(&t, &jobs[1]->ident), jobs[1]);
    clear(&t);
    assert_null(job_next(&t, 0, &wake));
    assert_true(wake == UINT64_MAX);
}

static void outcomes(void **state)
{
    /* Steps of one job, one after another. */
    static const struct {
        struct job_step step;
        enum job_outcome outcome;
        uint64_t put_off_us;
    } table[] = {
        {{.stage = 1, .pages_left = 1000, .cpu_us = 2000}, JOB_GOES_ON, 0},
        {{.stage = 1, .pages_left = 900, .pages_freed = 100, .cpu_us = 2000}, JOB_GOES_ON, 0},
        {{.stage = 1, .pages_left = 900, .error = -EBUSY}, JOB_TROUBLE, JOB_RETRY_US},
        {{.stage = 1, .pages_left = 900, .error = -EBUSY}, JOB_TROUBLE, JOB_RETRY_US},
        /* getting on ends the count */
        {{.stage = 1, .pages_left = 800, .pages_freed = 100, .cpu_us = 9}, JOB_GOES_ON, 0},
        {{.stage = 1, .pages_left = 800, .error = -EBUSY}, JOB_TROUBLE, JOB_RETRY_US},
        {{.stage = 1, .pages_left = 800, .error = -EBUSY}, JOB_TROUBLE, JOB_RETRY_US},
        {{.stage = 1, .pages_left = 800, .error = -EBUSY}, JOB_TROUBLE, JOB_RETRY_US},
        {{.stage = 1, .pages_left = 800, .error = -EBUSY}, JOB_TROUBLE, JOB_RETRY_US},
        {{.stage = 1, .pages_left = 800, .error = -EBUSY}, JOB_HOPELESS, JOB_SLOW_RETRY_US},
        {{.stage = 1, .pages_left = 800, .error = -EBUSY}, JOB_TROUBLE, JOB_SLOW_RETRY_US},
        /* a new stage is getting on too */
        {{.stage = 2, .pages_left = 800, .cpu_us = 9}, JOB_GOES_ON, 0},
        /* nothing moves, without an error: suspicious after 5 s and 1 us a page of CPU time */
        {{.stage = 2, .pages_left = 800, .cpu_us = 5000000}, JOB_GOES_ON, 0},
        {{.stage = 2, .pages_left = 800, .cpu_us = 1000}, JOB_GOES_ON, 0},
        {{.stage = 2, .pages_left = 800, .cpu_us = 1}, JOB_TROUBLE, JOB_RETRY_US},
        {{.stage = 3, .pages_left = 2, .pages_freed = 798, .dead = true}, JOB_FINISHED, 0},
    };
    struct job_table t;
    struct job *job;
    uint64_t now = 50;

    job_table_init(&t);
    job = add(&t, 1, 1000);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        job->not_before_us = 0;
        now += 100;
        if (job_stepped(&t, job, now, &table[i].step) != table[i].outcome)
            fail_msg("step %d", (int)i);
        assert_int_equal(job->not_before_us, table[i].put_off_us ? now + table[i].put_off_us : 0);
        assert_int_equal(job->pages_left, table[i].step.pages_left);
    }
    assert_int_equal(job->steps, ARRAY_SIZE(table));
    clear(&t);
}

static void rate(void **state)
{
    struct job_table t;
    struct job *job;
    uint64_t now = 0;

    job_table_init(&t);
    job = add(&t, 1, 1048576);
    assert_int_equal(job_rate_kib_s(job, 5000), 0);
    assert_int_equal(job_eta_us(job, 5000), -1);
    /* 100 pages a ms for a second, then 10: the rate is that of the last seconds. */
    for (; now < 10000000; now += 10000) {
        uint64_t freed = now < 1000000 ? 1000 : 100;
        struct job_step step = {.stage = 1,
                                .pages_left = job->pages_left - freed,
                                .pages_freed = freed,
                                .cpu_us = 1000};

        job_stepped(&t, job, now + 10000, &step);
        if (now == 990000)
            assert_in_range(job_rate_kib_s(job, now + 10000), 396000, 404000);
    }
    assert_in_range(job_rate_kib_s(job, now), 39000, 41000);
    assert_in_range(job_eta_us(job, now) / 1000, (int64_t)(job->pages_left / 10 * 97 / 100),
                    (int64_t)(job->pages_left / 10 * 103 / 100));
    clear(&t);
}

static void json(void **state)
{
    struct job_table t;
    struct json_object *o;
    struct job *job;

    job_table_init(&t);
    job = add(&t, 7, 1000);
    o = messages_job(job, 2500);
    assert_string_equal(
        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
        "{\"id\":1,\"domid\":7,\"uuid\":\"00000000-0000-0000-0000-000000000000\",\"name\":\"web\","
        "\"state\":\"queued\",\"adopted\":false,\"pages_total\":1000,\"pages_left\":1000,"
        "\"steps\":0,\"hypervisor_us\":0,\"elapsed_ms\":2,\"rate_kib_s\":0}");
    json_object_put(o);
    job->name[0] = '\0';
    job->state = JOB_WAITING;
    o = messages_job(job, 2500);
    assert_null(wire_get_str(o, "name", NULL));
    assert_string_equal(wire_get_str(o, "state", ""), "waiting");
    json_object_put(o);
    clear(&t);
}

static void json_status(void **state)
{
    static const struct xen_node nodes[3] = {
        {.ceiling_kib = 5, .dirty = 7, .dirtied = 30, .idle = 20, .alloc = 2, .dropped = 1},
        {0}, /* a node without memory */
        {.dirtied = 1, .idle = 1},
    };
    static const uint64_t cpu_scrubbed[4] = {11, 0, 0, 4};
    struct status s = {
        .xen = "4.17",
        .uptime_us = 3999999,
        .has_scrub = true,
        .backlog_pages = 7,
        .scrub = {.n_nodes = 3, .n_cpus = 4, .nodes = nodes, .cpu_scrubbed = cpu_scrubbed},
    };
    struct json_object *o;

    cpulist_add(&s.online, 0);
    cpulist_add(&s.online, 1);
    cpulist_add(&s.scrub.mask, 1);
    o = messages_status(&s);
    assert_string_equal(
        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
        "{\"version\":\"" SCRUBD_VERSION "\",\"state\":\"ready\",\"xen\":\"4.17\",\"uptime_s\":3,"
        "\"jobs\":0,\"jobs_done\":0,\"backlog_pages\":7,\"baseline_pages\":0,\"mask\":\"1\","
        "\"nodes\":[{\"node\":0,\"ceiling_kib\":5,\"floor_kib\":0,\"dirty_pages\":7,\"dirtied\":30,"
        "\"idle\":20,"
        "\"alloc\":2,\"dropped\":1,\"floor\":0,\"throttled_ms\":0},{\"node\":2,\"ceiling_kib\":0,"
        "\"floor_kib\":0,"
        "\"dirty_pages\":0,\"dirtied\":1,\"idle\":1,\"alloc\":0,\"dropped\":0,\"floor\":0,"
        "\"throttled_ms\":0}],"
        "\"cpus\":[{\"cpu\":0,\"allowed\":false,\"scrubbed_pages\":11},{\"cpu\":1,\"allowed\":true,"
        "\"scrubbed_pages\":0},{\"cpu\":3,\"allowed\":false,\"scrubbed_pages\":4}]}");
    json_object_put(o);
    s.has_scrub = false;
    s.degraded = true;
    s.reason = "unpatched hypervisor";
    o = messages_status(&s);
    assert_string_equal(wire_get_str(o, "state", ""), "degraded");
    assert_string_equal(wire_get_str(o, "reason", ""), "unpatched hypervisor");
    assert_null(json_object_object_get(o, "mask"));
    assert_non_null(wire_get_obj(o, "nodes"));
    json_object_put(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns), cmocka_unit_test(outcomes),    cmocka_unit_test(rate),
        cmocka_unit_test(json),  cmocka_unit_test(json_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
