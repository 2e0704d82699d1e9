/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>

#define KIB_PER_PAGE 4

const char *job_state_name(enum job_state state)
{
    switch (state) {
    case JOB_QUEUED:
        return "queued";
    case JOB_FREEING:
        return "freeing";
    case JOB_WAITING:
        return "waiting";
    case JOB_DEAD:
        return "dead";
    case JOB_NONE:
        break;
    }
    return "none";
}

void job_table_init(struct job_table *t)
{
    TAILQ_INIT(&t->list);
    t->count = 0;
    t->last_id = 0;
}

static void sample(struct job *job, uint64_t now_us)
{
    unsigned int last = (job->n_samples - 1) % JOB_SAMPLES;

    if (job->n_samples && now_us - job->samples[last].at_us < JOB_SAMPLE_US)
        return;
    job->samples[job->n_samples % JOB_SAMPLES].at_us = now_us;
    job->samples[job->n_samples % JOB_SAMPLES].pages_left = job->pages_left;
    job->n_samples++;
}

struct job *job_add(struct job_table *t, const struct ident *id, const char *name, uint64_t pages,
                    bool adopted, uint64_t now_us)
{
    struct job *job = calloc(1, sizeof(*job));

    if (!job)
        return NULL;
    job->id = ++t->last_id;
    job->ident = *id;
    snprintf(job->name, sizeof(job->name), "%s", name ? name : "");
    job->state = JOB_QUEUED;
    job->adopted = adopted;
    job->pages_total = job->pages_left = pages;
    job->started_us = now_us;
    TAILQ_INIT(&job->waiters);
    sample(job, now_us);
    TAILQ_INSERT_TAIL(&t->list, job, link);
    t->count++;
    return job;
}

void job_remove(struct job_table *t, struct job *job)
{
    TAILQ_REMOVE(&t->list, job, link);
    t->count--;
    free(job);
}

struct job *job_find(struct job_table *t, const struct ident *id)
{
    struct job *job;

    TAILQ_FOREACH (job, &t->list, link) {
        if (ident_equal(&job->ident, id))
            return job;
    }
    return NULL;
}

struct job *job_next(struct job_table *t, uint64_t now_us, uint64_t *ret_wake_us)
{
    struct job *job;
    uint64_t wake_us = UINT64_MAX;

    TAILQ_FOREACH (job, &t->list, link) {
        if (job->state == JOB_DEAD)
            continue;
        if (job->not_before_us <= now_us)
            return job;
        if (job->not_before_us < wake_us)
            wake_us = job->not_before_us;
    }
    *ret_wake_us = wake_us;
    return NULL;
}

enum job_outcome job_stepped(struct job_table *t, struct job *job, uint64_t now_us,
                             const struct job_step *step)
{
    bool moved = step->pages_freed || step->pages_left < job->pages_left ||
                 step->stage != job->stage || job->steps == 0;

    job->steps++;
    job->cpu_us += step->cpu_us;
    TAILQ_REMOVE(&t->list, job, link);
    TAILQ_INSERT_TAIL(&t->list, job, link);
    job->pages_left = step->pages_left;
    if (step->dead)
        return JOB_FINISHED;
    job->stage = step->stage;
    if (job->pages_left > job->pages_total)
        job->pages_total = job->pages_left;
    sample(job, now_us);
    if (moved) {
        job->progress_cpu_us = job->cpu_us;
        job->bad_steps = 0;
    }
    if (!step->error && job->cpu_us - job->progress_cpu_us <= 5000000 + job->pages_total)
        return JOB_GOES_ON;
    job->bad_steps++;
    job->not_before_us =
        now_us + (job->bad_steps >= JOB_GIVE_UP ? JOB_SLOW_RETRY_US : JOB_RETRY_US);
    return job->bad_steps == JOB_GIVE_UP ? JOB_HOPELESS : JOB_TROUBLE;
}

uint64_t job_rate_kib_s(const struct job *job, uint64_t now_us)
{
    unsigned int first = job->n_samples > JOB_SAMPLES ? job->n_samples - JOB_SAMPLES : 0;
    uint64_t then_us = job->samples[first % JOB_SAMPLES].at_us;
    uint64_t then_left = job->samples[first % JOB_SAMPLES].pages_left;

    /* Not before there is something to divide by: a rate over a moment means nothing. */
    if (now_us < then_us + 10000 || then_left <= job->pages_left)
        return 0;
    return (then_left - job->pages_left) * KIB_PER_PAGE * 1000 / ((now_us - then_us) / 1000);
}

int64_t job_eta_us(const struct job *job, uint64_t now_us)
{
    uint64_t rate = job_rate_kib_s(job, now_us);

    if (!rate)
        return -1;
    return (int64_t)(job->pages_left * KIB_PER_PAGE * 1000 / rate * 1000);
}
