/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_JOB_H
#define SCRUBD_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ident.h"

/*
 * A job is the teardown of one domain, and then the scrubbing of its memory. Pure: what a step
 * brought comes in as an argument. Which job is stepped when is for plan.h.
 */
enum job_state {
    JOB_NONE = 0,
    JOB_QUEUED, /* no step yet */
    JOB_FREEING,
    JOB_WAITING,   /* for the backlog to be scrubbed */
    JOB_PAUSED,    /* by an operator, until paused_until_us */
    JOB_SCRUBBING, /* dead, its pages not all known to be scrubbed */
    JOB_CLEAN,     /* they are */
};

#define JOB_NAME 64
#define JOB_PRIORITY_MAX 10 /* -10..10, higher first */
#define JOB_SAMPLES 16
#define JOB_SAMPLE_US 250000
#define JOB_RETRY_US 1000000       /* after a step that went wrong */
#define JOB_SLOW_RETRY_US 10000000 /* once the callers were told to help themselves */
#define JOB_GIVE_UP 5              /* bad steps in a row until then */
#define JOB_MEASURED_PAGES 4096    /* what is smaller says little about the time of a page */

/* What a step did, in terms of the hypervisor. */
struct job_step {
    bool dead;
    uint32_t stage;
    int error; /* negative errno that stopped it, else 0 */
    uint64_t pages_left;
    uint64_t pages_freed;
    uint64_t cpu_us;  /* on the CPU, as the hypervisor counts */
    uint64_t wall_us; /* from call to return */
    uint64_t late_us; /* how much later than it should it began */
    uint64_t own_us;  /* that scrubd took before it, to decide */
};

/* What a job is to be. */
struct job_spec {
    struct ident ident;
    const char *name; /* NULL if unknown; copied */
    uint64_t pages;
    bool adopted;
    int priority;
    bool hurry, quick;    /* as in struct job */
    uint64_t deadline_us; /* 0: none */
    uint64_t limit_us;    /* 0: none */
    int64_t toolstack_us; /* -1: unknown */
    const char *purpose;  /* static text */
};

struct job {
    /* What plan_next() looks at in all jobs comes first. */
    TAILQ_ENTRY(job) link;
    int priority;
    bool hurry;               /* asked for as soon as can be */
    bool quick;               /* likewise, for what the destroy is for */
    uint64_t deadline_us;     /* asked for, 0: none */
    uint64_t paused_until_us; /* 0: not paused */
    uint64_t not_before_us;   /* after trouble: no step earlier */
    TAILQ_ENTRY(job) by_due;
    uint64_t due_us;   /* the earlier of deadline_us and limit_us, UINT64_MAX: none */
    uint64_t work_us;  /* CPU time that it still takes, by estimate; UINT64_MAX: unknown */
    uint64_t limit_us; /* where comfort ends (max_teardown_s), 0: none; a pause puts it off */
    uint64_t paused_us;
    /* what it is */
    uint64_t id; /* counts from 1 */
    struct ident ident;
    char name[JOB_NAME]; /* "" if unknown */
    enum job_state state;
    bool adopted;
    const char *purpose; /* what the domain ends for ("reboot", ...), NULL if unknown */
    /* what was done */
    uint64_t pages_total, pages_left;
    uint64_t steps, cpu_us, wall_us;
    /* when; the stages of a job are what lies between */
    uint64_t started_us, last_step_us;
    uint64_t dead_us;     /* 0: not yet */
    uint64_t gone_us;     /* when not a page of it was left, 0: not yet */
    uint64_t clean_us;    /* 0: not yet */
    int64_t toolstack_us; /* from the first sign of its end to the request; -1: unknown */
    /* trouble */
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

struct job_table {
    struct job_list list; /* to be torn down, in the order of their turns */
    struct job_list due;  /* those of list that have a due_us, the earliest first */
    struct job_list dead; /* being scrubbed, the oldest first */
    unsigned int count;   /* of list */
    unsigned int n_dead;  /* of dead */
    uint64_t last_id;
    uint64_t changes;     /* counts up: another job, or another wish */
    uint64_t ns_per_page; /* CPU time of a teardown, over past jobs; 0: none measured yet */
};

enum job_outcome {
    JOB_GOES_ON = 0,
    JOB_FINISHED, /* dead: job_bury() or job_remove() it */
    JOB_TROUBLE,  /* a bad step; tried again after JOB_RETRY_US */
    JOB_HOPELESS, /* the JOB_GIVE_UPth in a row: its callers had better act; tried on, slowly */
};

const char *job_state_name(enum job_state state);

void job_table_init(struct job_table *t);
/* Out of memory: NULL. job_remove() frees it, in whatever state it is. */
struct job *job_add(struct job_table *t, const struct job_spec *spec, uint64_t now_us);
void job_remove(struct job_table *t, struct job *job);
struct job *job_find(struct job_table *t, const struct ident *id); /* dead ones too */

/* The job is dead since now: it is to be scrubbed. */
void job_bury(struct job_table *t, struct job *job, uint64_t now_us);

/*
 * What may be asked of a job that is not dead. A pause holds it until until_us, or job_resume(),
 * which plan_next() does when that time has come, and puts limit_us off. hurry and a deadline (0:
 * none) end a pause.
 */
void job_pause(struct job_table *t, struct job *job, uint64_t now_us, uint64_t until_us);
void job_resume(struct job_table *t, struct job *job, uint64_t now_us);
void job_hurry(struct job_table *t, struct job *job, uint64_t now_us);
void job_set_deadline(struct job_table *t, struct job *job, uint64_t now_us, uint64_t deadline_us);

/* Is it to be left alone at this moment: paused, or put off after a bad step? *ret_until_us is
 * until when. */
bool job_rests(const struct job *job, uint64_t now_us, uint64_t *ret_until_us);

/*
 * Account for a step that ended at now_us; the job's turn is over. A step is bad if it ended with
 * an error, or if nothing moved, neither pages nor stage, during much CPU time: 5 s and 1 us a
 * page. (Much, since a PV domain's pages all stay referenced by its page tables until these are
 * gone.) Leaves job->state to the caller.
 */
enum job_outcome job_stepped(struct job_table *t, struct job *job, uint64_t now_us,
                             const struct job_step *step);

/* Memory released per second over the last seconds, in KiB. */
uint64_t job_rate_kib_s(const struct job *job, uint64_t now_us);

/* Its stages, so far: in steps; in none, until it died; from then until it was clean. */
uint64_t job_freeing_us(const struct job *job);
uint64_t job_waiting_us(const struct job *job, uint64_t now_us);
uint64_t job_scrubbing_us(const struct job *job, uint64_t now_us); /* 0 before it is dead */

#endif
