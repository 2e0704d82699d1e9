/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_BYTES 4096

static void head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* One without labels. */
static void value(FILE *f, const char *name, const char *type, const char *help, uint64_t v)
{
    head(f, name, type, help);
    fprintf(f, "%s %" PRIu64 "\n", name, v);
}

static void seconds(FILE *f, const char *name, const char *type, const char *help, double s)
{
    head(f, name, type, help);
    fprintf(f, "%s %.6f\n", name, s);
}

/*
 * The value of a label. Guests' owners choose names, and one byte that is not UTF-8 would have
 * Prometheus throw all of the host's metrics away.
 */
static void label(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            fputc('\\', f);
        fputc(*text >= 0x20 && *text < 0x7f ? *text : '?', f);
    }
}

static void histogram(FILE *f, const char *name, const char *help, const struct histogram *h)
{
    uint64_t n = 0;

    head(f, name, "histogram", help);
    for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        n += h->counts[i];
        fprintf(f, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)h->bounds_us[i] / 1e6, n);
    }
    n += h->counts[HISTOGRAM_BUCKETS];
    fprintf(f, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, n);
    fprintf(f, "%s_sum %.6f\n%s_count %" PRIu64 "\n", name, (double)h->sum_us / 1e6, name, n);
}

static void put_daemon(FILE *f, const struct metrics *m)
{
    head(f, "scrubd_build_info", "gauge", "Versions of scrubd and of the hypervisor.");
    fprintf(f, "scrubd_build_info{version=\"" SCRUBD_VERSION "\",xen=\"");
    label(f, m->status->xen);
    fprintf(f, "\"} 1\n");
    value(f, "scrubd_degraded", "gauge",
          "1 if the hypervisor lacks the patch: nothing is limited then.", m->status->degraded);
    value(f, "scrubd_trouble", "gauge",
          "1 if something is wrong with the settings or with xenstore; scrubctl status says what.",
          !m->status->degraded && m->status->reason);
    value(f, "scrubd_config_last_reload_successful", "gauge",
          "0 if the configuration file had a mistake when it was last read.", !m->reload_failed);
    seconds(f, "process_start_time_seconds", "gauge", "When scrubd started, in Unix time.",
            m->start_s);
    seconds(f, "process_cpu_seconds_total", "counter",
            "CPU time of scrubd, that in the hypervisor included.", m->cpu_s);
    value(f, "process_resident_memory_bytes", "gauge", "Memory that scrubd has resident.",
          m->resident_bytes);
}

struct job_sums {
    uint64_t states[JOB_CLEAN + 1], pages, oldest_us;
};

static void sum_jobs(struct job_sums *sums, const struct job_list *list, uint64_t now_us)
{
    const struct job *job;

    TAILQ_FOREACH (job, list, link) {
        uint64_t age_us = now_us - job->started_us;

        sums->states[job->state]++;
        if (job->dead_us)
            continue;
        sums->pages += job->pages_left;
        if (age_us > sums->oldest_us)
            sums->oldest_us = age_us;
    }
}

static void put_jobs(FILE *f, const struct metrics *m)
{
    const struct totals *t = m->totals;
    struct job_sums sums = {0};

    sum_jobs(&sums, &m->jobs->list, m->status->now_us);
    sum_jobs(&sums, &m->jobs->dead, m->status->now_us);
    head(f, "scrubd_jobs", "gauge", "Domains that are being torn down or scrubbed, by state.");
    for (enum job_state s = JOB_QUEUED; s < JOB_CLEAN; s++)
        fprintf(f, "scrubd_jobs{state=\"%s\"} %" PRIu64 "\n", job_state_name(s), sums.states[s]);
    value(f, "scrubd_jobs_remaining_bytes", "gauge",
          "Memory that domains under teardown still have.", sums.pages * PAGE_BYTES);
    seconds(f, "scrubd_oldest_job_age_seconds", "gauge",
            "For how long the oldest teardown has been under way, 0 without any.",
            (double)sums.oldest_us / 1e6);
    value(f, "scrubd_teardowns_total", "counter",
          "Domains that were torn down; when degraded, by their callers.", m->status->jobs_done);
    head(f, "scrubd_declined_total", "counter",
         "Destroys that scrubd left to their callers, by reason.");
    for (enum decline d = DECLINE_SMALL; d < DECLINES; d++)
        fprintf(f, "scrubd_declined_total{reason=\"%s\"} %" PRIu64 "\n", decline_name(d),
                t->declined[d]);
    histogram(f, "scrubd_teardown_duration_seconds", "From request to death of a domain.",
              &t->teardown);
    histogram(f, "scrubd_scrub_duration_seconds",
              "From death of a domain until its memory was known to be clean.", &t->scrub);
    histogram(f, "scrubd_step_duration_seconds", "How long each teardown step kept a CPU of dom0.",
              &t->step);
    value(f, "scrubd_bad_steps_total", "counter", "Steps that failed or did not get on.",
          t->bad_steps);
    value(f, "scrubd_freed_bytes_total", "counter", "Memory released by steps.",
          t->freed_pages * PAGE_BYTES);
    value(f, "scrubd_unscrubbed_releases_total", "counter",
          "Steps made although the backlog did not fall: on a host without idle time.", t->escapes);
    histogram(f, "scrubd_create_wait_seconds",
              "How long creates of domains waited for clean memory.", &t->create_wait);
    value(f, "scrubd_create_wait_timeouts_total", "counter",
          "Creates that had waited for create_wait_s, and went on with memory still dirty.",
          t->create_timeouts);
}

static void put_zombies(FILE *f, const struct status *s)
{
    const struct registry_domain *d;
    uint64_t count = 0, pages = 0, oldest_us = 0;

    head(f, "scrubd_zombie_held_bytes", "gauge",
         "Memory of a dead domain that something in dom0 holds on to.");
    TAILQ_FOREACH (d, &s->registry->list, link) {
        if (!d->zombie)
            continue;
        pages += d->pages;
        if (s->now_us - d->dead_us > oldest_us)
            oldest_us = s->now_us - d->dead_us;
        if (count++ >= METRICS_ZOMBIES)
            continue;
        fprintf(f, "scrubd_zombie_held_bytes{domid=\"%u\",name=\"", d->ident.domid);
        label(f, d->name);
        fprintf(f, "\"} %" PRIu64 "\n", d->pages * PAGE_BYTES);
    }
    value(f, "scrubd_zombies", "gauge", "Dead domains that something in dom0 holds on to.", count);
    value(f, "scrubd_zombies_held_bytes", "gauge", "Memory of all of them.", pages * PAGE_BYTES);
    seconds(f, "scrubd_oldest_zombie_age_seconds", "gauge",
            "For how long the oldest of them has been dead, 0 without any.",
            (double)oldest_us / 1e6);
}

struct node_metric {
    const char *name, *labels, *type, *help; /* help NULL: of the one before, other labels */
    size_t offset;
    uint64_t unit; /* bytes of one */
};

static void put_nodes(FILE *f, const struct xen_scrub *scrub)
{
#define NODE(member) offsetof(struct xen_node, member)
#define SCRUBBED "scrubd_node_scrubbed_bytes_total"
    static const struct node_metric metrics[] = {
        {"scrubd_node_dirty_bytes", "", "gauge", "Free memory of the node that is not scrubbed.",
         NODE(dirty), PAGE_BYTES},
        {"scrubd_node_baseline_bytes", "", "gauge",
         "Part of it that has been dirty ever since the host booted.", NODE(boot), PAGE_BYTES},
        {"scrubd_node_ceiling_bytes_per_second", "", "gauge",
         "The most that is scrubbed at present, 0: no limit.", NODE(ceiling_kib), 1024},
        {"scrubd_node_floor_bytes_per_second", "", "gauge",
         "The least that is scrubbed at present, 0: none.", NODE(floor_kib), 1024},
        {"scrubd_node_dirtied_bytes_total", "", "counter",
         "Memory that became dirty since the host booted.", NODE(dirtied), PAGE_BYTES},
        {SCRUBBED, ",by=\"idle\"", "counter",
         "Memory that was scrubbed: by idle CPUs, for the floor, when it was allocated.",
         NODE(idle), PAGE_BYTES},
        {SCRUBBED, ",by=\"floor\"", "counter", NULL, NODE(floor), PAGE_BYTES},
        {SCRUBBED, ",by=\"alloc\"", "counter", NULL, NODE(alloc), PAGE_BYTES},
        {"scrubd_node_dropped_bytes_total", "", "counter",
         "Dirty memory given to owners who overwrite it.", NODE(dropped), PAGE_BYTES},
    };
    const struct node_metric *m;

    for (m = metrics; m < metrics + sizeof(metrics) / sizeof(*metrics); m++) {
        if (m->help)
            head(f, m->name, m->type, m->help);
        for (unsigned int i = 0; i < scrub->n_nodes; i++) {
            const char *node = (const char *)&scrub->nodes[i];

            if (messages_node_is_used(scrub, i))
                fprintf(f, "%s{node=\"%u\"%s} %" PRIu64 "\n", m->name, i, m->labels,
                        *(const uint64_t *)(node + m->offset) * m->unit);
        }
    }
    head(f, "scrubd_node_throttled_seconds_total", "counter",
         "Time for which the ceiling held scrubbing back.");
    for (unsigned int i = 0; i < scrub->n_nodes; i++) {
        if (messages_node_is_used(scrub, i))
            fprintf(f, "scrubd_node_throttled_seconds_total{node=\"%u\"} %.3f\n", i,
                    (double)scrub->nodes[i].throttled_ms / 1e3);
    }
#undef SCRUBBED
#undef NODE
}

static void put_cpus(FILE *f, const struct status *s)
{
    head(f, "scrubd_cpu_scrub_allowed", "gauge", "1 if the physical CPU may scrub at present.");
    for (unsigned int cpu = 0; cpu < s->scrub.n_cpus; cpu++) {
        if (cpulist_has(&s->online, cpu))
            fprintf(f, "scrubd_cpu_scrub_allowed{cpu=\"%u\"} %d\n", cpu,
                    cpulist_has(&s->scrub.mask, cpu));
    }
    head(f, "scrubd_cpu_scrubbed_bytes_total", "counter",
         "Memory that the physical CPU scrubbed, idle or for the floor.");
    for (unsigned int cpu = 0; cpu < s->scrub.n_cpus; cpu++) {
        if (s->scrub.cpu_scrubbed[cpu] || cpulist_has(&s->online, cpu))
            fprintf(f, "scrubd_cpu_scrubbed_bytes_total{cpu=\"%u\"} %" PRIu64 "\n", cpu,
                    s->scrub.cpu_scrubbed[cpu] * PAGE_BYTES);
    }
}

static void put_scrubber(FILE *f, const struct metrics *m)
{
    const struct status *s = m->status;

    if (m->has_free)
        value(f, "scrubd_host_free_bytes", "gauge",
              "Memory that Xen can give to domains, dirty or not.", m->free_pages * PAGE_BYTES);
    if (!s->has_scrub)
        return;
    value(f, "scrubd_backlog_bytes", "gauge",
          "Memory of dead domains that waits to be scrubbed, on all nodes.",
          s->backlog_pages * PAGE_BYTES);
    seconds(f, "scrubd_lease_remaining_seconds", "gauge",
            "For how long the hypervisor keeps the settings by itself, 0 if there are none.",
            s->scrub.lease_ms / 1e3);
    put_nodes(f, &s->scrub);
    if (s->scrub.cpu_scrubbed)
        put_cpus(f, s);
}

char *metrics_text(const struct metrics *m, size_t *ret_len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, ret_len);
    bool failed;

    if (!f)
        return NULL;
    put_daemon(f, m);
    put_jobs(f, m);
    put_zombies(f, m->status);
    put_scrubber(f, m);
    failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
