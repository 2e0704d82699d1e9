/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "engine-private.h"

/*
 * What remains of a job in the journal, where `scrubctl history` finds it: SCRUBD_EVENT is dead,
 * gone (somebody else finished it), caller (left to its caller, scrubd is degraded) or clean.
 * Figures are decimal; those that are not known are absent.
 */
struct record {
    struct log_field fields[12];
    char texts[12][24];
    size_t n;
};

static void add_text(struct record *r, const char *key, const char *value)
{
    r->fields[r->n++] = (struct log_field){key, value};
}

static void add_number(struct record *r, const char *key, uint64_t value)
{
    snprintf(r->texts[r->n], sizeof(r->texts[0]), "%" PRIu64, value);
    add_text(r, key, r->texts[r->n]);
}

/* The stages until its end. */
static void add_stages(struct record *r, const struct job *job, uint64_t now_us)
{
    add_text(r, "SCRUBD_NAME", job->name[0] ? job->name : NULL);
    add_text(r, "SCRUBD_PURPOSE", job->purpose);
    add_number(r, "SCRUBD_PAGES", job->pages_total);
    add_number(r, "SCRUBD_STEPS", job->steps);
    if (job->toolstack_us >= 0)
        add_number(r, "SCRUBD_TOOLSTACK_MS", (uint64_t)job->toolstack_us / 1000);
    add_number(r, "SCRUBD_WAITING_MS", job_waiting_us(job, now_us) / 1000);
    add_number(r, "SCRUBD_FREEING_MS", job_freeing_us(job) / 1000);
    add_number(r, "SCRUBD_HYPERVISOR_MS", job->cpu_us / 1000);
}

void engine_record_end(const struct job *job, const char *event, uint64_t now_us)
{
    struct record r = {0};
    char toolstack[40] = "";

    if (job->toolstack_us >= 0)
        snprintf(toolstack, sizeof(toolstack), "toolstack %" PRIi64 " ms, ",
                 job->toolstack_us / 1000);
    add_text(&r, "SCRUBD_EVENT", event);
    add_stages(&r, job, now_us);
    engine_log_with(LOG_LEVEL_INFO, job, r.fields,
                    "%s after %" PRIu64 " ms: %swaiting %" PRIu64 " ms, freeing %" PRIu64
                    " ms in %" PRIu64 " steps, %" PRIu64 " ms in the hypervisor, %" PRIu64
                    " of %" PRIu64 " pages left",
                    event, (now_us - job->started_us) / 1000, toolstack,
                    job_waiting_us(job, now_us) / 1000, job_freeing_us(job) / 1000, job->steps,
                    job->cpu_us / 1000, job->pages_left, job->pages_total);
}

void engine_record_left(const struct job *job, uint64_t now_us)
{
    struct record r = {0};

    add_text(&r, "SCRUBD_EVENT", "caller");
    add_stages(&r, job, now_us);
    engine_log_with(LOG_LEVEL_INFO, job, r.fields,
                    "its caller is done with it after %" PRIu64 " ms",
                    (now_us - job->started_us) / 1000);
}

void engine_record_clean(const struct job *job, uint64_t now_us)
{
    struct record r = {0};

    add_text(&r, "SCRUBD_EVENT", "clean");
    add_number(&r, "SCRUBD_SCRUBBING_MS", job_scrubbing_us(job, now_us) / 1000);
    engine_log_with(LOG_LEVEL_INFO, job, r.fields, "clean, scrubbing took %" PRIu64 " ms",
                    job_scrubbing_us(job, now_us) / 1000);
}
