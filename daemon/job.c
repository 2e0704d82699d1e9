/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB_PER_PAGE 4

const char *job_state_name(enum job_state state)
{
    static const char *const names[] = {
        [JOB_NONE] = "none",       [JOB_QUEUED] = "queued", [JOB_FREEING] = "freeing",
        [JOB_WAITING] = "waiting", [JOB_PAUSED] = "paused", [JOB_SCRUBBING] = "scrubbing",
        [JOB_CLEAN] = "clean",
    };

    return names[state];
}

void job_table_init(struct job_table *t)
{
    *t = (struct job_table){0};
    TAILQ_INIT(&t->list);
    TAILQ_INIT(&t->due);
    TAILQ_INIT(&t->dead);
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

/*
 * How much CPU time a job still takes. By the time of a page in past jobs: a PV domain frees
 * nothing until its page tables are gone, so what it has used counts, not what it has freed. By its
 * own: the better the more it has freed.
 */
static void estimate(const struct job_table *t, struct job *job)
{
    uint64_t freed = job->pages_total - job->pages_left, past, own;
    uint64_t part = job->pages_total ? freed * 1000 / job->pages_total : 1000; /* permille */

    job->work_us = UINT64_MAX;
    own = freed ? job->cpu_us * job->pages_left / freed : 0;
    if (t->ns_per_page) {
        uint64_t all = t->ns_per_page * job->pages_total / 1000;
        uint64_t least = t->ns_per_page * job->pages_left / 4000; /* it proves to take longer */

        past = all > job->cpu_us + least ? all - job->cpu_us : least;
        part = part * part / 1000;
        job->work_us = (past * (1000 - part) + own * part) / 1000;
    } else if (freed >= JOB_MEASURED_PAGES && part >= 125) {
        job->work_us = own;
    }
}

/* The host's time of a page, from a job that is over. */
static void learn(struct job_table *t, const struct job *job)
{
    struct job *other;
    uint64_t ns;

    if (job->adopted || job->pages_total < JOB_MEASURED_PAGES || !job->cpu_us)
        return;
    ns = job->cpu_us * 1000 / job->pages_total;
    ns = t->ns_per_page ? (t->ns_per_page * 3 + ns) / 4 : ns;
    t->ns_per_page = ns ? ns : 1;
    TAILQ_FOREACH (other, &t->list, link) {
        estimate(t, other);
    }
}

static void undue(struct job_table *t, struct job *job)
{
    if (job->due_us != UINT64_MAX)
        TAILQ_REMOVE(&t->due, job, by_due);
    job->due_us = UINT64_MAX;
}

/* To its place in the order of due_us. */
static void set_due(struct job_table *t, struct job *job)
{
    struct job *after = NULL;

    t->changes++;
    undue(t, job);
    if (job->deadline_us)
        job->due_us = job->deadline_us;
    if (job->limit_us && job->limit_us < job->due_us)
        job->due_us = job->limit_us;
    if (job->due_us == UINT64_MAX)
        return;
    /* Mostly it is the last. */
    TAILQ_FOREACH_REVERSE(after, &t->due, job_list, by_due)
    {
        if (after->due_us <= job->due_us)
            break;
    }
    if (after)
        TAILQ_INSERT_AFTER(&t->due, after, job, by_due);
    else
        TAILQ_INSERT_HEAD(&t->due, job, by_due);
}

struct job *job_add(struct job_table *t, const struct job_spec *spec, uint64_t now_us)
{
    struct job *job = aligned_alloc(64, (sizeof(*job) + 63) / 64 * 64); /* of a cache line */

    if (!job)
        return NULL;
    memset(job, 0, sizeof(*job));
    job->id = ++t->last_id;
    job->ident = spec->ident;
    snprintf(job->name, sizeof(job->name), "%s", spec->name ? spec->name : "");
    job->state = JOB_QUEUED;
    job->adopted = spec->adopted;
    job->purpose = spec->purpose;
    job->priority = spec->priority;
    job->hurry = spec->hurry;
    job->quick = spec->quick;
    job->deadline_us = spec->deadline_us;
    job->limit_us = spec->limit_us;
    job->due_us = UINT64_MAX;
    job->toolstack_us = spec->toolstack_us;
    job->pages_total = job->pages_left = spec->pages;
    job->started_us = job->last_step_us = now_us;
    TAILQ_INIT(&job->waiters);
    sample(job, now_us);
    estimate(t, job);
    TAILQ_INSERT_TAIL(&t->list, job, link);
    t->count++;
    set_due(t, job);
    return job;
}

static void unlist(struct job_table *t, struct job *job)
{
    if (job->dead_us) {
        TAILQ_REMOVE(&t->dead, job, link);
        t->n_dead--;
        return;
    }
    undue(t, job);
    t->changes++;
    TAILQ_REMOVE(&t->list, job, link);
    t->count--;
}

void job_remove(struct job_table *t, struct job *job)
{
    unlist(t, job);
    free(job);
}

void job_bury(struct job_table *t, struct job *job, uint64_t now_us)
{
    unlist(t, job);
    job->dead_us = now_us;
    TAILQ_INSERT_TAIL(&t->dead, job, link);
    t->n_dead++;
}

static struct job *find_in(struct job_list *list, const struct ident *id)
{
    struct job *job;

    TAILQ_FOREACH (job, list, link) {
        if (ident_equal(&job->ident, id))
            return job;
    }
    return NULL;
}

struct job *job_find(struct job_table *t, const struct ident *id)
{
    struct job *job = find_in(&t->list, id);

    return job ? job : find_in(&t->dead, id);
}

void job_pause(struct job_table *t, struct job *job, uint64_t now_us, uint64_t until_us)
{
    t->changes++;
    if (!job->paused_until_us)
        job->paused_us = now_us;
    job->paused_until_us = until_us;
}

void job_resume(struct job_table *t, struct job *job, uint64_t now_us)
{
    uint64_t end_us = job->paused_until_us < now_us ? job->paused_until_us : now_us;

    if (!job->paused_until_us)
        return;
    if (job->limit_us)
        job->limit_us += end_us - job->paused_us;
    job->paused_us = job->paused_until_us = 0;
    set_due(t, job);
}

void job_hurry(struct job_table *t, struct job *job, uint64_t now_us)
{
    job->hurry = true;
    job_resume(t, job, now_us);
}

void job_set_deadline(struct job_table *t, struct job *job, uint64_t now_us, uint64_t deadline_us)
{
    job->deadline_us = deadline_us;
    job_resume(t, job, now_us);
    set_due(t, job);
}

bool job_rests(const struct job *job, uint64_t now_us, uint64_t *ret_until_us)
{
    uint64_t until_us =
        job->paused_until_us > job->not_before_us ? job->paused_until_us : job->not_before_us;

    *ret_until_us = until_us;
    return until_us > now_us;
}

enum job_outcome job_stepped(struct job_table *t, struct job *job, uint64_t now_us,
                             const struct job_step *step)
{
    bool moved = step->pages_freed || step->pages_left < job->pages_left ||
                 step->stage != job->stage || job->steps == 0;

    job->steps++;
    job->cpu_us += step->cpu_us;
    job->wall_us += step->wall_us;
    job->last_step_us = now_us;
    TAILQ_REMOVE(&t->list, job, link);
    TAILQ_INSERT_TAIL(&t->list, job, link);
    job->pages_left = step->pages_left;
    if (step->dead) {
        learn(t, job);
        return JOB_FINISHED;
    }
    job->stage = step->stage;
    if (job->pages_left > job->pages_total)
        job->pages_total = job->pages_left;
    sample(job, now_us);
    estimate(t, job);
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

uint64_t job_freeing_us(const struct job *job)
{
    return job->wall_us;
}

uint64_t job_waiting_us(const struct job *job, uint64_t now_us)
{
    uint64_t all_us = (job->dead_us ? job->dead_us : now_us) - job->started_us;

    return all_us > job->wall_us ? all_us - job->wall_us : 0;
}

uint64_t job_scrubbing_us(const struct job *job, uint64_t now_us)
{
    return job->dead_us ? (job->clean_us ? job->clean_us : now_us) - job->dead_us : 0;
}
