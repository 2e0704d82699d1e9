/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan.h"

#include <string.h>

#define RANK_URGENT (4 * JOB_PRIORITY_MAX) /* above all priorities */
#define PRESS_ALL 1000

const char *plan_why_name(enum plan_why why)
{
    static const char *const names[] = {
        [PLAN_WHY_NONE] = "none",
        [PLAN_COMFORT] = "comfort",
        [PLAN_ESCAPE] = "the backlog does not fall",
        [PLAN_HURRY] = "hurry",
        [PLAN_DEADLINE] = "a deadline",
        [PLAN_WANTED] = "memory that is wanted",
        [PLAN_PAUSE] = "pause",
        [PLAN_BACKLOG] = "backlog",
        [PLAN_HELD] = "clean memory",
        [PLAN_RESTING] = "resting",
    };

    return names[why];
}

void plan_init(struct plan *p)
{
    memset(p, 0, sizeof(*p));
    pacer_init(&p->pacer);
}

/* CPU time that a job still takes. A step at least: one without a page left is not dead yet. */
static uint64_t work_us(const struct job *job, uint64_t ns_per_page)
{
    uint64_t us = job->work_us != UINT64_MAX ? job->work_us : job->pages_left * ns_per_page / 1000;

    return us ? us : 1;
}

static bool is_urgent(const struct job *job, uint64_t now_us)
{
    return job->hurry || job->quick || (job->deadline_us && job->deadline_us <= now_us);
}

static int rank(const struct job *job, uint64_t now_us)
{
    return job->priority + (is_urgent(job, now_us) ? RANK_URGENT : 0);
}

/* Permille of its CPU time that a step takes on the clock. */
static uint64_t slow_down(const struct plan *p)
{
    return p->slow_down ? p->slow_down : PLAN_SLOW_DOWN;
}

static unsigned int share(const struct plan *p, uint64_t work, uint64_t left_us)
{
    uint64_t use_us = left_us > PLAN_SPARE_US ? left_us - PLAN_SPARE_US : 1;
    uint64_t permille = (work + work / 2) * slow_down(p) / use_us;

    return permille > 100 * PRESS_ALL ? 100 * PRESS_ALL : (unsigned int)permille;
}

static struct job_demand demand(const struct plan *p, const struct job_table *t, uint64_t now_us)
{
    struct job_demand d = {0};
    uint64_t all = 0, asked = 0, until_us;
    struct job *job;

    TAILQ_FOREACH (job, &t->due, by_due) {
        uint64_t left_us = job->due_us > now_us ? job->due_us - now_us : 0;
        uint64_t work = work_us(job, PLAN_SLOW_NS_PER_PAGE);
        unsigned int s;

        if (job_rests(job, now_us, &until_us))
            continue;
        if (!d.oldest)
            d.oldest = job;
        all += work;
        s = share(p, all, left_us);
        d.all = s > d.all ? s : d.all;
        if (!job->deadline_us || job->deadline_us <= now_us)
            continue;
        asked += work;
        s = share(p, asked, job->deadline_us - now_us);
        d.asked = s > d.asked ? s : d.asked;
        if (!d.first || job->deadline_us < d.first->deadline_us)
            d.first = job;
    }
    return d;
}

/* Of those that may be stepped: the first of the highest rank, and the one that had none for the
 * longest. */
struct choice {
    struct job *best, *hungriest;
    int best_rank;
    uint64_t wake_us; /* when another one may */
};

static struct choice choose(struct job_table *t, uint64_t now_us)
{
    struct choice c = {.wake_us = UINT64_MAX};
    struct job *job;
    uint64_t until_us;

    TAILQ_FOREACH (job, &t->list, link) {
        int r;

        if (job->paused_until_us && job->paused_until_us <= now_us)
            job_resume(t, job, now_us);
        if (job_rests(job, now_us, &until_us)) {
            c.wake_us = until_us < c.wake_us ? until_us : c.wake_us;
            continue;
        }
        r = rank(job, now_us);
        if (!c.best || r > c.best_rank) {
            c.best = job;
            c.best_rank = r;
        }
        if (!c.hungriest)
            c.hungriest = job; /* turns are in that order */
    }
    return c;
}

static struct job *turn_of(struct plan *p, const struct choice *c, const struct job_demand *d,
                           unsigned int comfort, uint64_t now_us)
{
    uint64_t until_us;

    if (d->first && d->asked > comfort && !job_rests(d->first, now_us, &until_us))
        return d->first;
    if (p->turns >= 3 && now_us - c->hungriest->last_step_us >= PLAN_STARVE_US) {
        p->turns = 0;
        return c->hungriest;
    }
    p->turns++;
    if (d->oldest && d->all > comfort && c->best_rank < RANK_URGENT - JOB_PRIORITY_MAX &&
        !job_rests(d->oldest, now_us, &until_us))
        return d->oldest;
    return c->best;
}

/* The speed so far, with what has passed since it was last taken. */
static unsigned int speed_now(const struct plan *p, uint64_t now_us)
{
    uint64_t us = p->speed_from_us && now_us > p->speed_from_us ? now_us - p->speed_from_us : 0;
    unsigned int last;

    if (us < PLAN_SPEED_US)
        return p->speed;
    last = (unsigned int)(p->speed_cpu_us * 1000 / us);
    return p->speed ? (p->speed * 3 + last) / 4 : last;
}

static void take_speed(struct plan *p, uint64_t now_us)
{
    if (p->speed_from_us && now_us - p->speed_from_us < PLAN_SPEED_US)
        return;
    p->speed = speed_now(p, now_us);
    p->speed_from_us = now_us;
    p->speed_cpu_us = 0;
}

/* Nothing to step from now on: the speed of the next time is another one. */
static void forget_speed(struct plan *p)
{
    p->speed = 0;
    p->speed_from_us = 0;
    p->speed_cpu_us = 0;
}

static struct plan_verdict rest(struct plan *p, const struct job_table *t, uint64_t wake_us)
{
    struct plan_verdict v = {.action = t->count ? PLAN_WAIT : PLAN_IDLE,
                             .why = t->count ? PLAN_RESTING : PLAN_WHY_NONE,
                             .wake_us = wake_us};

    forget_speed(p);
    p->press = 0;
    return v;
}

struct plan_verdict plan_next(struct plan *p, const struct plan_conf *conf, struct job_table *t,
                              const struct plan_input *in)
{
    struct plan_verdict v = {.action = PLAN_STEP, .why = PLAN_COMFORT, .step_us = conf->step_us};
    unsigned int comfort = pacer_duty(&p->pacer, &conf->pace);
    struct choice c = choose(t, in->now_us);
    struct pacer_verdict pace;

    if (!c.best)
        return rest(p, t, c.wake_us);
    take_speed(p, in->now_us);
    if (in->now_us >= p->demand_until_us || t->changes != p->demand_changes) {
        p->demand = demand(p, t, in->now_us);
        p->demand_until_us = in->now_us + PLAN_DEMAND_US;
        p->demand_changes = t->changes;
    }
    p->press = 0;
    if (p->demand.all > comfort) {
        p->press = p->demand.all;
        v.why = PLAN_DEADLINE;
    }
    if (in->press || c.best_rank >= RANK_URGENT - JOB_PRIORITY_MAX) {
        p->press = PRESS_ALL > p->press ? PRESS_ALL : p->press;
        v.why = in->press ? PLAN_WANTED : PLAN_HURRY;
    }
    pace = pacer_next(&p->pacer, &conf->pace, in->now_us, in->backlog_pages, p->press);
    if (pace.action == PACER_WAIT || (in->hold && !p->press)) {
        v.action = PLAN_WAIT;
        v.why = in->hold && !p->press           ? PLAN_HELD
                : p->pacer.holding && !p->press ? PLAN_BACKLOG
                                                : PLAN_PAUSE;
        v.wake_us = pace.action == PACER_WAIT ? pace.wake_us : in->now_us + PACER_POLL_US;
        return v;
    }
    if (pace.escape)
        v.why = PLAN_ESCAPE;
    v.job = turn_of(p, &c, &p->demand, comfort, in->now_us);
    return v;
}

enum job_outcome plan_stepped(struct plan *p, const struct plan_conf *conf, struct job_table *t,
                              struct job *job, uint64_t now_us, const struct job_step *step)
{
    uint64_t stolen_us = step->wall_us > step->cpu_us ? step->wall_us - step->cpu_us : 0;
    uint64_t clock_us = step->cpu_us + stolen_us + step->late_us + step->own_us;
    enum job_outcome outcome;

    if (step->cpu_us >= 100) {
        uint64_t permille = clock_us * 1000 / step->cpu_us;

        /* An outlier says nothing of the next ones. */
        p->slow_down = (slow_down(p) * 31 + (permille < 4000 ? permille : 4000)) / 32;
    }
    p->speed_cpu_us += step->cpu_us;
    /* The first step of a job that is alone: until then there was none. */
    if (!job->steps && t->count == 1 &&
        now_us > p->pacer.rest_from_us + step->wall_us + PACER_ADAPT_US)
        pacer_forget_strain(&p->pacer);
    pacer_stepped(&p->pacer, &conf->pace, now_us, step->cpu_us, stolen_us + step->late_us);
    outcome = job_stepped(t, job, now_us, step);
    if (outcome == JOB_FINISHED && t->count == 1)
        forget_speed(p);
    return outcome;
}

int64_t plan_eta_us(const struct plan *p, const struct job_table *t, const struct job *job,
                    uint64_t now_us)
{
    unsigned int speed = speed_now(p, now_us);
    uint64_t ahead = job->work_us, until_us;
    int own = rank(job, now_us);
    struct job *other;

    if (job->dead_us || !speed || job->work_us == UINT64_MAX || job_rests(job, now_us, &until_us))
        return -1;
    TAILQ_FOREACH (other, &t->list, link) {
        int r = rank(other, now_us);

        if (other == job || r < own || job_rests(other, now_us, &until_us))
            continue;
        if (other->work_us == UINT64_MAX)
            return -1;
        /* Equals take turns. */
        ahead += r > own || other->work_us < job->work_us ? other->work_us : job->work_us;
    }
    return (int64_t)(ahead * 1000 / speed);
}

bool plan_feasible(const struct plan *p, const struct job_table *t, const struct job *job,
                   uint64_t now_us, uint64_t *ret_need_us)
{
    uint64_t need = work_us(job, PLAN_FAST_NS_PER_PAGE), until_us;
    struct job *other;

    if (!job->deadline_us)
        return true;
    TAILQ_FOREACH (other, &t->list, link) {
        if (other != job && other->deadline_us > now_us && other->deadline_us <= job->deadline_us &&
            !job_rests(other, now_us, &until_us))
            need += work_us(other, PLAN_FAST_NS_PER_PAGE);
    }
    need = need * (p->slow_down ? p->slow_down : 1000) / 1000;
    if (now_us + need <= job->deadline_us)
        return true;
    *ret_need_us = need;
    return false;
}
