/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine-private.h"

void engine_check_deadline(struct engine *e, const struct job *job, char *ret, size_t size)
{
    uint64_t now_us = engine_now_us(), need_us;

    if (plan_feasible(&e->plan, &e->jobs, job, now_us, &need_us))
        return;
    snprintf(ret, size,
             "the deadline in %" PRIu64 " ms cannot be met: all there is to do until then takes "
             "%" PRIu64 " ms",
             job->deadline_us > now_us ? (job->deadline_us - now_us) / 1000 : 0, need_us / 1000);
    engine_log(LOG_LEVEL_WARNING, job, "%s", ret);
}

static int find(struct engine *e, const struct engine_target *target, struct job **ret,
                struct err *err)
{
    struct job *job;

    if (e->degraded)
        return err_set(err, ENOTSUP, "%s", e->reason);
    TAILQ_FOREACH (job, &e->jobs.list, link) {
        if (job->ident.domid == target->domid &&
            (!target->uuid || !memcmp(target->uuid, job->ident.uuid, sizeof(job->ident.uuid)))) {
            *ret = job;
            return 0;
        }
    }
    return err_set(err, ESRCH, "no teardown of this domain is under way");
}

/* After a pause: as if there had been none. */
static void unpaused(struct job *job)
{
    if (job->state == JOB_PAUSED)
        engine_set_state(job, job->steps ? JOB_FREEING : JOB_QUEUED);
}

int engine_pause(struct engine *e, const struct engine_target *target, const struct job **ret_job,
                 struct err *err)
{
    uint64_t now_us = engine_now_us();
    struct job *job;
    int r = find(e, target, &job, err);

    if (r < 0)
        return r;
    job_pause(&e->jobs, job, now_us, now_us + (uint64_t)e->conf->max_pause_s * 1000000);
    engine_log(LOG_LEVEL_NOTICE, job, "paused, for %ld s at most", e->conf->max_pause_s);
    engine_set_state(job, JOB_PAUSED);
    engine_begin_work(e);
    *ret_job = job;
    return 0;
}

int engine_resume(struct engine *e, const struct engine_target *target, const struct job **ret_job,
                  struct err *err)
{
    struct job *job;
    int r = find(e, target, &job, err);

    if (r < 0)
        return r;
    job_resume(&e->jobs, job, engine_now_us());
    unpaused(job);
    engine_begin_work(e);
    *ret_job = job;
    return 0;
}

int engine_hurry(struct engine *e, const struct engine_target *target, uint64_t deadline_us,
                 struct engine_answer *ret, struct err *err)
{
    uint64_t now_us = engine_now_us();
    struct engine_answer answer = {0};
    struct job *job;
    int r = find(e, target, &job, err);

    if (r < 0)
        return r;
    if (deadline_us) {
        engine_log(LOG_LEVEL_NOTICE, job, "to be dead in %" PRIu64 " ms, comfort or not",
                   deadline_us / 1000);
        job_set_deadline(&e->jobs, job, now_us, now_us + deadline_us);
        engine_check_deadline(e, job, answer.reason, sizeof(answer.reason));
    } else {
        engine_log(LOG_LEVEL_NOTICE, job, "hurry, comfort or not");
        job_hurry(&e->jobs, job, now_us);
    }
    unpaused(job);
    engine_begin_work(e);
    answer.job = job;
    *ret = answer;
    return 0;
}

int engine_set_priority(struct engine *e, const struct engine_target *target, int priority,
                        const struct job **ret_job, struct err *err)
{
    struct job *job;
    int r = find(e, target, &job, err);

    if (r < 0)
        return r;
    engine_log(LOG_LEVEL_INFO, job, "priority %d -> %d", job->priority, priority);
    job->priority = priority;
    engine_begin_work(e);
    *ret_job = job;
    return 0;
}
