/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "engine-private.h"

#define DUTY_OLD_US 10000000

/* CPU time that the teardowns under way still take, and how many they are. */
static uint64_t work_before(const struct engine *e, unsigned int *ret_jobs)
{
    uint64_t us = 0;
    struct job *job;

    *ret_jobs = e->jobs.count;
    TAILQ_FOREACH (job, &e->jobs.list, link) {
        us += job->work_us != UINT64_MAX ? job->work_us
                                         : job->pages_left * PLAN_SLOW_NS_PER_PAGE / 1000;
    }
    return us;
}

/* The scrubber can be held back below what was measured. */
static uint64_t scrub_pages_s(const struct engine *e)
{
    uint64_t ceiling = settings_ceiling(&e->settings) / 4;

    return ceiling && ceiling < e->scrub_rate.pages_s ? ceiling : e->scrub_rate.pages_s;
}

/* The duty of the last steps says nothing any more once they are long over. */
static unsigned int duty(const struct engine *e)
{
    if (!e->jobs.count && engine_now_us() - e->plan.pacer.adapted_us > DUTY_OLD_US)
        return (unsigned int)e->plan_conf.pace.duty_percent * 10;
    return pacer_duty(&e->plan.pacer, &e->plan_conf.pace);
}

static void look_ahead(struct engine *e, struct engine_forecast *f)
{
    struct forecast_input in = {
        .pages = f->domain.pages,
        .quick = f->quick || e->going_down,
        .duty = duty(e),
        .step_us = e->plan_conf.step_us,
        .ns_per_page = e->jobs.ns_per_page,
        .slow_down = e->plan.slow_down,
        .before_us = work_before(e, &f->jobs_before),
        .backlog_high_pages = e->plan_conf.pace.backlog_high_pages,
        .scrub_pages_s = scrub_pages_s(e),
        .max_teardown_us = e->plan_conf.max_teardown_us,
    };

    if (engine_read_backlog(e, &in.backlog_pages) < 0)
        in.backlog_pages = 0;
    forecast(&in, &f->forecast);
    f->step_us = in.step_us;
    f->duty_percent = in.quick ? 100 : in.duty / 10;
    f->scrub_kib_s = in.scrub_pages_s * 4;
}

int engine_forecast(struct engine *e, const struct engine_target *target,
                    struct engine_forecast *ret, struct err *err)
{
    struct engine_forecast f = {.way = ENGINE_IN_STEPS};
    int r = engine_find_domain(e, target, &f.domain, err);

    if (r < 0)
        return r;
    f.name = e->ops->name_of(e->xen, &f.domain.ident);
    f.purpose = engine_purpose(f.domain.shutdown);
    f.quick = e->conf->quick & (1u << f.domain.shutdown);
    f.job = job_find(&e->jobs, &f.domain.ident);
    if (f.job) {
        f.way = ENGINE_RUNNING;
    } else if (e->degraded) {
        f.way = ENGINE_BY_CALLER;
        f.reason = e->reason;
    } else if (engine_is_small(e, &f.domain)) {
        f.way = ENGINE_BY_CALLER;
        f.reason = "smaller than min_size_mib";
    } else {
        look_ahead(e, &f);
    }
    *ret = f;
    return 0;
}

int engine_health(struct engine *e, struct engine_health *ret, struct err *err)
{
    struct engine_health h = {.limits = &e->settings.limits, .conf = e->conf, .busy = e->busy};
    uint64_t backlog;
    int r = engine_read_backlog(e, &backlog);

    if (r == 0)
        r = engine_heard(e, e->ops->scrub_get(e->xen, false, &h.scrub));
    if (r < 0)
        return err_set(err, -r, "cannot read the scrubber: %s", strerror(-r));
    h.ceiling_kib = settings_ceiling(&e->settings);
    h.dirty_us = e->dirty_since_us ? engine_now_us() - e->dirty_since_us : 0;
    *ret = h;
    return 0;
}
