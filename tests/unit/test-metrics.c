/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text for Prometheus: what becomes of a snapshot, with units, buckets, and names that guests
 * chose. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "metrics.h"

#define S 1000000ull

static struct status status;
static struct job_table jobs;
static struct registry registry;
static struct totals totals;
static struct xen_node nodes[3];
static uint64_t cpu_scrubbed[2];

/* A host with two nodes (id 1 has no memory) and two CPUs, of which the second may scrub. */
static struct metrics snapshot(void)
{
    struct metrics m = {.status = &status,
                        .jobs = &jobs,
                        .totals = &totals,
                        .has_free = true,
                        .free_pages = 256,
                        .start_s = 1.5,
                        .cpu_s = 0.25,
                        .resident_bytes = 5000000};

    status = (struct status){.xen = "4.17.5",
                             .now_us = 100 * S,
                             .jobs_done = 7,
                             .registry = &registry,
                             .has_scrub = true,
                             .backlog_pages = 512};
    job_table_init(&jobs);
    registry_init(&registry);
    totals_init(&totals);
    memset(nodes, 0, sizeof(nodes));
    nodes[0] = (struct xen_node){.ceiling_kib = 1024,
                                 .dirty = 512,
                                 .boot = 2,
                                 .dirtied = 1000,
                                 .idle = 400,
                                 .floor = 50,
                                 .alloc = 30,
                                 .dropped = 8,
                                 .throttled_ms = 1500};
    nodes[2] = (struct xen_node){.dirtied = 1};
    cpu_scrubbed[1] = 450;
    status.scrub = (struct xen_scrub){
        .lease_ms = 9000, .n_nodes = 3, .n_cpus = 2, .nodes = nodes, .cpu_scrubbed = cpu_scrubbed};
    cpulist_add(&status.scrub.mask, 1);
    cpulist_add(&status.online, 0);
    cpulist_add(&status.online, 1);
    return m;
}

static char *text_of(const struct metrics *m)
{
    size_t len;
    char *text = metrics_text(m, &len);

    assert_non_null(text);
    assert_int_equal(len, strlen(text));
    return text;
}

/* Is there this whole line? */
static bool has(const char *text, const char *line)
{
    for (const char *p = text; (p = strstr(p, line)); p++) {
        if ((p == text || p[-1] == '\n') && p[strlen(line)] == '\n')
            return true;
    }
    return false;
}

static void expect(const struct metrics *m, const char *const *lines, size_t n)
{
    char *text = text_of(m);

    for (size_t i = 0; i < n; i++) {
        if (!has(text, lines[i]))
            fail_msg("no line %s in\n%s", lines[i], text);
    }
    free(text);
}

static void figures(void **state)
{
    static const char *const lines[] = {
        "scrubd_build_info{version=\"" SCRUBD_VERSION "\",xen=\"4.17.5\"} 1",
        "scrubd_degraded 0",
        "scrubd_trouble 0",
        "scrubd_config_last_reload_successful 1",
        "process_start_time_seconds 1.500000",
        "process_cpu_seconds_total 0.250000",
        "process_resident_memory_bytes 5000000",
        "scrubd_teardowns_total 7",
        "scrubd_oldest_job_age_seconds 0.000000",
        "scrubd_zombies 0",
        "scrubd_host_free_bytes 1048576",
        "scrubd_backlog_bytes 2097152",
        "scrubd_lease_remaining_seconds 9.000000",
        "scrubd_node_dirty_bytes{node=\"0\"} 2097152",
        "scrubd_node_baseline_bytes{node=\"0\"} 8192",
        "scrubd_node_ceiling_bytes_per_second{node=\"0\"} 1048576",
        "scrubd_node_ceiling_bytes_per_second{node=\"2\"} 0",
        "scrubd_node_dirtied_bytes_total{node=\"2\"} 4096",
        "scrubd_node_scrubbed_bytes_total{node=\"0\",by=\"idle\"} 1638400",
        "scrubd_node_scrubbed_bytes_total{node=\"0\",by=\"floor\"} 204800",
        "scrubd_node_scrubbed_bytes_total{node=\"0\",by=\"alloc\"} 122880",
        "scrubd_node_dropped_bytes_total{node=\"0\"} 32768",
        "scrubd_node_throttled_seconds_total{node=\"0\"} 1.500",
        "scrubd_cpu_scrub_allowed{cpu=\"0\"} 0",
        "scrubd_cpu_scrub_allowed{cpu=\"1\"} 1",
        "scrubd_cpu_scrubbed_bytes_total{cpu=\"1\"} 1843200",
    };
    struct metrics m = snapshot();
    char *text = text_of(&m);

    assert_null(strstr(text, "node=\"1\""));
    free(text);
    expect(&m, lines, ARRAY_SIZE(lines));
}

/* Without the patch, or the figures, there are no series that would say 0. */
static void degraded(void **state)
{
    static const char *const lines[] = {"scrubd_degraded 1", "scrubd_trouble 0",
                                        "scrubd_config_last_reload_successful 0"};
    struct metrics m = snapshot();
    char *text;

    status.degraded = true;
    status.reason = "unpatched hypervisor";
    status.has_scrub = m.has_free = false;
    m.reload_failed = true;
    expect(&m, lines, ARRAY_SIZE(lines));
    text = text_of(&m);
    assert_null(strstr(text, "scrubd_backlog_bytes"));
    assert_null(strstr(text, "scrubd_node_"));
    assert_null(strstr(text, "scrubd_host_free"));
    free(text);
}

static void job_states(void **state)
{
    static const char *const lines[] = {
        "scrubd_jobs{state=\"queued\"} 1",    "scrubd_jobs{state=\"freeing\"} 0",
        "scrubd_jobs{state=\"paused\"} 1",    "scrubd_jobs{state=\"scrubbing\"} 1",
        "scrubd_jobs_remaining_bytes 135168", "scrubd_oldest_job_age_seconds 60.000000",
    };
    struct metrics m = snapshot();
    struct job *dead;
    struct job *list[] = {
        job_add(&jobs, &(struct job_spec){.pages = 1000, .ident = {.domid = 1}}, 10 * S),
        job_add(&jobs, &(struct job_spec){.pages = 32, .ident = {.domid = 2}}, 40 * S),
        job_add(&jobs, &(struct job_spec){.pages = 1, .ident = {.domid = 3}}, 99 * S),
    };

    dead = list[0];
    dead->state = JOB_SCRUBBING;
    job_bury(&jobs, dead, 50 * S);
    list[1]->state = JOB_PAUSED;
    expect(&m, lines, ARRAY_SIZE(lines));
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        job_remove(&jobs, list[i]);
}

/* Buckets count up; what lies on a bound is in its bucket. */
static void histograms(void **state)
{
    static const char *const lines[] = {
        "scrubd_step_duration_seconds_bucket{le=\"0.0005\"} 1",
        "scrubd_step_duration_seconds_bucket{le=\"0.002\"} 2",
        "scrubd_step_duration_seconds_bucket{le=\"0.003\"} 3",
        "scrubd_step_duration_seconds_bucket{le=\"1\"} 3",
        "scrubd_step_duration_seconds_bucket{le=\"+Inf\"} 4",
        "scrubd_step_duration_seconds_sum 1.504502",
        "scrubd_step_duration_seconds_count 4",
        "scrubd_teardown_duration_seconds_bucket{le=\"0.1\"} 0",
        "scrubd_teardown_duration_seconds_bucket{le=\"+Inf\"} 1",
        "scrubd_create_wait_seconds_count 0",
        "scrubd_declined_total{reason=\"small\"} 0",
        "scrubd_declined_total{reason=\"stuck\"} 3",
        "scrubd_freed_bytes_total 40960",
    };
    struct metrics m = snapshot();

    histogram_add(&totals.step, 500);
    histogram_add(&totals.step, 2000);
    histogram_add(&totals.step, 2002);
    histogram_add(&totals.step, 3 * S / 2);
    histogram_add(&totals.teardown, 700 * S);
    totals.declined[DECLINE_STUCK] = 3;
    totals.freed_pages = 10;
    expect(&m, lines, ARRAY_SIZE(lines));
}

/* Whatever a domain is called, it cannot spoil the text; and there is an end to them. */
static void zombies(void **state)
{
    static const char *const lines[] = {
        "scrubd_zombie_held_bytes{domid=\"7\",name=\"a\\\\b\\\"c?d?(\"} 12288",
        "scrubd_zombie_held_bytes{domid=\"1000\",name=\"\"} 4096",
        "scrubd_zombies 101",
        "scrubd_zombies_held_bytes 421888",
        "scrubd_oldest_zombie_age_seconds 90.000000",
    };
    struct metrics m = snapshot();
    unsigned int n = 0;
    char *text;

    registry_begin(&registry);
    registry_saw(&registry, &(struct ident){.domid = 7}, "a\\b\"c\nd\xc3\x28", 3, 10 * S);
    for (uint32_t i = 0; i < 100; i++)
        registry_saw(&registry, &(struct ident){.domid = 1000 + i}, NULL, 1, 50 * S);
    registry_saw(&registry, &(struct ident){.domid = 8}, "just dead", 1, 99 * S);
    registry_saw(&registry, &(struct ident){.domid = 7}, NULL, 3, 100 * S);
    for (uint32_t i = 0; i < 100; i++)
        registry_saw(&registry, &(struct ident){.domid = 1000 + i}, NULL, 1, 100 * S);
    expect(&m, lines, ARRAY_SIZE(lines));
    text = text_of(&m);
    for (const char *p = text; (p = strstr(p, "scrubd_zombie_held_bytes{")); p++)
        n++;
    assert_int_equal(n, METRICS_ZOMBIES);
    assert_null(strstr(text, "just dead"));
    free(text);
    registry_done(&registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),    cmocka_unit_test(degraded), cmocka_unit_test(job_states),
        cmocka_unit_test(histograms), cmocka_unit_test(zombies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
