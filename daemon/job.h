/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_JOB_H
#define SCRUBD_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ident.h"

/*
 * A job is the teardown of one domain. Pure: what a step brought comes in as an argument.
 */
enum job_state {
    JOB_NONE = 0,
    JOB_QUEUED, /* no step yet */
    JOB_FREEING,
    JOB_WAITING, /* for the backlog to be scrubbed */
    JOB_DEAD,
};

#define JOB_NAME 64
#define JOB_SAMPLES 16
#define JOB_SAMPLE_US 250000
#define JOB_RETRY_US 1000000       /* after a step that went wrong */
#define JOB_SLOW_RETRY_US 10000000 /* once the callers were told to help themselves */
#define JOB_GIVE_UP 5              /* bad steps in a row until then */

/* What a step did, in terms of the hypervisor. */
struct job_step {
    bool dead;
    uint32_t stage;
    int error; /* negative errno that stopped it, else 0 */
    uint64_t pages_left;
    uint64_t pages_freed;
    uint64_t cpu_us;
};

struct job {
    TAILQ_ENTRY(job) link;
    uint64_t id; /* counts from 1 */
    struct ident ident;
    char name[JOB_NAME]; /* "" if unknown */
    enum job_state state;
    bool adopted;
    uint64_t pages_total, pages_left;
    uint64_t steps, cpu_us;
    uint64_t started_us;
    /* trouble */
    uint64_t not_before_us; /* no step earlier */
    unsigned int bad_steps; /* in a row */
    uint32_t stage;
    uint64_t progress_cpu_us; /* cpu_us when it last got on */
    /* rate */
    struct {
        uint64_t at_us, pages_left;
    } samples[JOB_SAMPLES]; /* ring, n_samples were ever written */
    unsigned int n_samples;
    TAILQ_HEAD(job_waiters, engine_listener) waiters; /* of the engine */
};
TAILQ_HEAD(job_list, job);

/* Jobs in the order of their turns: the first eligible one is next, and goes to the end after its
 * step. */
struct job_table {
    struct job_list list;
    unsigned int count;
    uint64_t last_id;
};

enum job_outcome {
    JOB_GOES_ON = 0,
    JOB_FINISHED,
    JOB_TROUBLE,  /* a bad step; tried again after JOB_RETRY_US */
    JOB_HOPELESS, /* the JOB_GIVE_UPth in a row: its callers had better act; tried on, slowly */
};

const char *job_state_name(enum job_state state);

void job_table_init(struct job_table *t);
/* Out of memory: NULL. job_remove() frees it. */
struct job *job_add(struct job_table *t, const struct ident *id, const char *name, uint64_t pages,
                    bool adopted, uint64_t now_us);
void job_remove(struct job_table *t, struct job *job);
struct job *job_find(struct job_table *t, const struct ident *id);

/* The job whose turn it is. If none may be stepped at now_us: NULL, and *ret_wake_us says when one
 * may. */
struct job *job_next(struct job_table *t, uint64_t now_us, uint64_t *ret_wake_us);

/*
 * Account for a step that ended at now_us; the job's turn is over. A step is bad if it ended with
 * an error, or if nothing moved, neither pages nor stage, during much CPU time: 5 s and 1 us a
 * page. (Much, since a PV domain's pages all stay referenced by its page tables until these are
 * gone.) Leaves job->state to the caller.
 */
enum job_outcome job_stepped(struct job_table *t, struct job *job, uint64_t now_us,
                             const struct job_step *step);

/* Memory released per second over the last seconds, in KiB; microseconds until dead, or -1 if
 * unknown. */
uint64_t job_rate_kib_s(const struct job *job, uint64_t now_us);
int64_t job_eta_us(const struct job *job, uint64_t now_us);

#endif
