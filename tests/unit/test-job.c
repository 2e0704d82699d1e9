/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Jobs: turns, what a step's outcome leads to, rate and time left, and how they look as JSON. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "messages.h"

static struct job *add(struct job_table *t, uint32_t domid, uint64_t pages)
{
    struct job_spec spec = {
        .ident = {.domid = domid}, .name = "web", .pages = pages, .toolstack_us = -1};

    return job_add(t, &spec, 0);
}

static void clear(struct job_table *t)
{
    struct job *job;

    while ((job = TAILQ_FIRST(&t->list)))
        job_remove(t, job);
    assert_int_equal(t->count, 0);
}

static void order(struct job_table *t, const uint64_t *ids)
{
    struct job *job;

    TAILQ_FOREACH (job, &t->due, by_due) {
        assert_int_equal(job->id, *ids++);
    }
    assert_int_equal(*ids, 0);
}

/* What is asked of jobs: deadlines in their order, pauses that put off comfort's limit. */
static void asked(void **state)
{
    struct job_table t;
    struct job *jobs[3];
    uint64_t until;

    job_table_init(&t);
    for (uint32_t i = 0; i < 3; i++)
        jobs[i] = add(&t, i + 1, 1000);
    order(&t, (uint64_t[]){0});
    job_set_deadline(&t, jobs[1], 0, 500);
    job_set_deadline(&t, jobs[0], 0, 700);
    job_set_deadline(&t, jobs[2], 0, 600);
    order(&t, (uint64_t[]){2, 3, 1, 0});
    job_set_deadline(&t, jobs[1], 0, 650);
    order(&t, (uint64_t[]){3, 2, 1, 0});
    jobs[0]->limit_us = 100;
    job_pause(&t, jobs[0], 40, 90);
    assert_true(job_rests(jobs[0], 89, &until));
    assert_int_equal(until, 90);
    assert_false(job_rests(jobs[0], 90, &until));
    job_pause(&t, jobs[0], 60, 120); /* a longer one: since the first */
    job_resume(&t, jobs[0], 80);
    assert_int_equal(jobs[0]->limit_us, 140);
    assert_int_equal(jobs[0]->paused_until_us, 0);
    order(&t, (uint64_t[]){1, 3, 2, 0});
    job_resume(&t, jobs[0], 90); /* of none: nothing */
    assert_int_equal(jobs[0]->limit_us, 140);
    job_pause(&t, jobs[0], 100, 200);
    job_hurry(&t, jobs[0], 1000); /* it had ended by itself at 200 */
    assert_int_equal(jobs[0]->limit_us, 240);
    assert_true(jobs[0]->hurry);
    job_set_deadline(&t, jobs[2], 0, 0);
    order(&t, (uint64_t[]){1, 2, 0});
    job_remove(&t, jobs[1]);
    order(&t, (uint64_t[]){1, 0});
    clear(&t);
}

/* After its death: found still, in the other list, with its stages. */
static void dead(void **state)
{
    struct job_step step = {.dead = true, .cpu_us = 20, .wall_us = 30};
    struct ident id = {.domid = 1};
    struct job_table t;
    struct job *job;

    job_table_init(&t);
    job = add(&t, 1, 1000);
    job_set_deadline(&t, job, 0, 500);
    assert_int_equal(job_waiting_us(job, 60), 60);
    assert_int_equal(job_scrubbing_us(job, 60), 0);
    assert_int_equal(job_stepped(&t, job, 100, &step), JOB_FINISHED);
    job_bury(&t, job, 100);
    assert_int_equal(t.count, 0);
    assert_int_equal(t.n_dead, 1);
    assert_ptr_equal(job_find(&t, &id), job);
    order(&t, (uint64_t[]){0});
    assert_int_equal(job_freeing_us(job), 30);
    assert_int_equal(job_waiting_us(job, 900), 70);
    assert_int_equal(job_scrubbing_us(job, 900), 800);
    job->clean_us = 600;
    assert_int_equal(job_scrubbing_us(job, 900), 500);
    job_remove(&t, job);
    assert_int_equal(t.n_dead, 0);
    assert_null(job_find(&t, &id));
}

/* CPU time that is left, by the measured time of a page. */
static void work(void **state)
{
    struct job_step step = {.stage = 1, .pages_left = 1000000, .cpu_us = 1000};
    struct job_table t;
    struct job *job;

    job_table_init(&t);
    job = add(&t, 1, 1000000);
    assert_true(job->work_us == UINT64_MAX);
    job_stepped(&t, job, 1, &step);
    assert_true(job->work_us == UINT64_MAX);
    step.pages_left = 900000;
    job_stepped(&t, job, 2, &step);
    assert_true(job->work_us == UINT64_MAX); /* a tenth says too little */
    step = (struct job_step){.stage = 1, .pages_left = 500000, .cpu_us = 498000};
    job_stepped(&t, job, 3, &step);
    assert_int_equal(job->work_us, 500000); /* as much again */
    step = (struct job_step){.dead = true, .cpu_us = 500000};
    job_stepped(&t, job, 4, &step);
    assert_int_equal(t.ns_per_page, 1000);
    job_remove(&t, job);

    /* The next one is known at once; one that frees nothing gets on by what it uses. */
    job = add(&t, 2, 2000000);
    assert_int_equal(job->work_us, 2000000);
    step = (struct job_step){.stage = 1, .pages_left = 2000000, .cpu_us = 1200000};
    job_stepped(&t, job, 1, &step);
    assert_int_equal(job->work_us, 800000);
    /* Twice as slow as others: a quarter of the usual time is kept, its own time comes in. */
    step = (struct job_step){.stage = 1, .pages_left = 1000000, .cpu_us = 800000};
    job_stepped(&t, job, 2, &step);
    assert_in_range(job->work_us, 600000, 1000000);
    step = (struct job_step){.dead = true, .cpu_us = 2000000};
    job_stepped(&t, job, 3, &step);
    assert_int_equal(t.ns_per_page, 1250); /* a quarter of the way to 2000 */
    job_remove(&t, job);

    /* What is small, or began before us, teaches nothing. */
    job = add(&t, 3, 4095);
    step = (struct job_step){.dead = true, .cpu_us = 99};
    job_stepped(&t, job, 1, &step);
    job_remove(&t, job);
    job = add(&t, 4, 1000000);
    job->adopted = true;
    job_stepped(&t, job, 1, &step);
    assert_int_equal(t.ns_per_page, 1250);
    job_remove(&t, job);
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
    clear(&t);
}

static void json(void **state)
{
    struct job_table t;
    struct json_object *o;
    struct job *job;

    job_table_init(&t);
    job = add(&t, 7, 1000);
    o = messages_job(job, 2500, -1);
    assert_string_equal(
        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
        "{\"id\":1,\"domid\":7,\"uuid\":\"00000000-0000-0000-0000-000000000000\",\"name\":\"web\","
        "\"state\":\"queued\",\"adopted\":false,\"pages_total\":1000,\"pages_left\":1000,"
        "\"steps\":0,\"hypervisor_us\":0,\"elapsed_ms\":2,\"rate_kib_s\":0,"
        "\"priority\":0,\"hurry\":false,\"waiting_ms\":2,\"freeing_ms\":0}");
    json_object_put(o);
    job->name[0] = '\0';
    job->state = JOB_PAUSED;
    job->quick = true;
    job->purpose = "reboot";
    job->deadline_us = 9500;
    job->paused_until_us = 4500;
    job->toolstack_us = 700999;
    o = messages_job(job, 2500, 61999);
    assert_null(wire_get_str(o, "name", NULL));
    assert_string_equal(wire_get_str(o, "state", ""), "paused");
    assert_string_equal(wire_get_str(o, "purpose", ""), "reboot");
    assert_true(wire_get_bool(o, "hurry", false));
    assert_int_equal(wire_get_int(o, "eta_ms", -1), 61);
    assert_int_equal(wire_get_int(o, "deadline_ms", -1), 7);
    assert_int_equal(wire_get_int(o, "paused_ms", -1), 2);
    assert_int_equal(wire_get_int(o, "toolstack_ms", -1), 700);
    json_object_put(o);
    o = messages_job(job, 99000, 0);
    assert_int_equal(wire_get_int(o, "deadline_ms", -1), 0);
    json_object_put(o);
    job_bury(&t, job, 100000);
    o = messages_job(job, 150000, -1);
    assert_int_equal(wire_get_int(o, "scrubbing_ms", -1), 50);
    json_object_put(o);
    job_remove(&t, job);
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
        "\"nodes\":[{\"node\":0,\"ceiling_kib\":5,\"floor_kib\":0,\"dirty_pages\":7,\"backlog_"
        "pages\":7,\"dirtied\":30,"
        "\"idle\":20,"
        "\"alloc\":2,\"dropped\":1,\"floor\":0,\"throttled_ms\":0},{\"node\":2,\"ceiling_kib\":0,"
        "\"floor_kib\":0,"
        "\"dirty_pages\":0,\"backlog_pages\":0,\"dirtied\":1,\"idle\":1,\"alloc\":0,\"dropped\":0,"
        "\"floor\":0,"
        "\"throttled_ms\":0}],"
        "\"cpus\":[{\"cpu\":0,\"allowed\":false,\"scrubbed_pages\":11},{\"cpu\":1,\"allowed\":true,"
        "\"scrubbed_pages\":0},{\"cpu\":3,\"allowed\":false,\"scrubbed_pages\":4}],\"zombies\":[]"
        "}");
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
        cmocka_unit_test(asked),       cmocka_unit_test(dead), cmocka_unit_test(work),
        cmocka_unit_test(outcomes),    cmocka_unit_test(rate), cmocka_unit_test(json),
        cmocka_unit_test(json_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
