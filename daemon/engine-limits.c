/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine-private.h"

#define BACKLOG_OLD_US 50000   /* others dirty memory too */
#define BACKLOG_GONE_PAGES 256 /* less is the noise of a running host */

int engine_read_backlog(struct engine *e, uint64_t *ret)
{
    struct xen_scrub scrub;
    uint64_t now_us = engine_now_us();
    unsigned int missed;
    int r = engine_heard(e, e->ops->scrub_get(e->xen, false, &scrub));

    if (r < 0) {
        if (r != -ENOSYS && log_limit_pass(&e->backlog_limit, now_us, 10000000, &missed))
            log_error("cannot read the backlog: %s", strerror(-r));
        return r;
    }
    *ret = 0;
    e->scrubbed_pages = 0;
    e->most_dirty_pages = 0;
    for (unsigned int i = 0; i < scrub.n_nodes; i++) {
        const struct xen_node *n = &scrub.nodes[i];

        *ret += n->dirty - n->boot;
        e->scrubbed_pages += n->idle + n->floor + n->alloc;
        if (n->dirty > e->most_dirty_pages)
            e->most_dirty_pages = n->dirty;
    }
    scrub_rate_saw(&e->scrub_rate, now_us, e->scrubbed_pages, *ret);
    e->backlog_pages = *ret;
    e->backlog_us = now_us;
    e->released_pages = 0;
    clean_look(&e->clean, &scrub, now_us);
    if (*ret <= BACKLOG_GONE_PAGES)
        e->dirty_since_us = 0;
    else if (!e->dirty_since_us)
        e->dirty_since_us = now_us;
    return 0;
}

int engine_bound_backlog(struct engine *e, uint64_t now_us, uint64_t *ret)
{
    uint64_t bound = e->backlog_pages + e->released_pages;

    if (e->plan.pacer.holding || bound > e->plan_conf.pace.backlog_high_pages || !e->backlog_us ||
        now_us - e->backlog_us > BACKLOG_OLD_US)
        return engine_read_backlog(e, ret);
    *ret = bound;
    return 0;
}

static void arm_lease(struct engine *e)
{
    if (e->settings.in_force)
        engine_arm(e->ev_lease, (uint64_t)e->conf->lease_s * 1000000 / 3);
    else
        evtimer_del(e->ev_lease);
}

void engine_apply_settings(struct engine *e)
{
    struct err err = {0};
    unsigned int missed;
    int r = e->degraded ? 0 : engine_heard(e, settings_apply(&e->settings, e->busy, &err));

    if (r < 0 && r != -ENOSYS &&
        log_limit_pass(&e->settings_limit, engine_now_us(), 10000000, &missed))
        log_error("%s", err.text);
    arm_lease(e);
}

void engine_update_busy(struct engine *e)
{
    uint64_t backlog = 0;
    bool busy = e->jobs.count > 0;

    if (e->degraded)
        return;
    if (!busy && e->busy && engine_read_backlog(e, &backlog) == 0)
        busy = backlog > BACKLOG_GONE_PAGES;
    if (busy == e->busy)
        return;
    e->busy = busy;
    engine_apply_settings(e);
}

void engine_refresh_ceiling(struct engine *e)
{
    uint64_t before = settings_ceiling(&e->settings), now_us = engine_now_us(), now;
    uint64_t age_us = e->dirty_since_us ? now_us - e->dirty_since_us : 0;
    unsigned int missed;

    /* Leaving, nothing may come in force again when those who wait are let go. */
    if (e->degraded || e->stopping)
        return;
    e->settings.lifted = !TAILQ_EMPTY(&e->waiters);
    e->settings.least_kib =
        settings_least(e->most_dirty_pages, age_us, (uint64_t)e->conf->max_dirty_age_s * 1000000);
    now = settings_ceiling(&e->settings);
    if (now == before)
        return;
    if (log_limit_pass(&e->ceiling_limit, now_us, 10000000, &missed))
        log_info("ceiling %" PRIu64 " -> %" PRIu64 " KiB/s (0: none): %s, the oldest of %" PRIu64
                 " MiB on a node dirty for at most %" PRIu64 " s",
                 before, now, e->settings.lifted ? "memory is wanted" : "nobody waits for memory",
                 e->most_dirty_pages / 256, age_us / 1000000);
    engine_apply_settings(e);
}

void engine_on_lease(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;

    /* Without a job nobody else would see that a domain was pinned elsewhere. */
    placer_look(e->placer, NULL);
    engine_apply_settings(e);
}

const struct limits *engine_limits(const struct engine *e)
{
    return &e->settings.limits;
}

void engine_status(struct engine *e, struct status *ret)
{
    int r;

    engine_update_names(e);
    memset(ret, 0, sizeof(*ret));
    r = e->degraded ? -ENOSYS : engine_heard(e, e->ops->scrub_get(e->xen, true, &ret->scrub));
    ret->degraded = e->degraded;
    ret->reason = e->degraded              ? e->reason
                  : e->settings.warning[0] ? e->settings.warning
                                           : e->names_trouble;
    ret->xen = e->ops->version(e->xen);
    ret->now_us = engine_now_us();
    ret->uptime_us = ret->now_us - e->started_us;
    ret->registry = &e->registry;
    ret->jobs = e->jobs.count;
    ret->jobs_done = e->jobs_done;
    if (r < 0)
        return;
    for (unsigned int i = 0; i < ret->scrub.n_nodes; i++) {
        ret->backlog_pages += ret->scrub.nodes[i].dirty - ret->scrub.nodes[i].boot;
        ret->baseline_pages += ret->scrub.nodes[i].boot;
    }
    ret->has_scrub = xen_cpus_online(e->xen, e->ops, &ret->online) == 0;
}

void engine_metrics(struct engine *e, struct status *status, struct metrics *ret)
{
    engine_status(e, status);
    ret->status = status;
    ret->jobs = &e->jobs;
    ret->totals = &e->totals;
    ret->has_free = e->ops->memory_free(e->xen, &ret->free_pages) == 0;
}

void engine_arm_limits(struct engine *e)
{
    uint64_t due_us = settings_next_us(&e->settings), now_us = engine_now_us();

    if (due_us)
        engine_arm(e->ev_limits, due_us > now_us ? due_us - now_us : 0);
    else
        evtimer_del(e->ev_limits);
}

/* What holds now, after a change. */
static void log_limits(const struct engine *e, const char *what, uint64_t for_us)
{
    const struct limits *l = &e->settings.limits;
    char text[CPULIST_TEXT], time[40] = "";

    if (for_us)
        snprintf(time, sizeof(time), " for %" PRIu64 " s", (for_us + 999999) / 1000000);
    log_notice("limits %s%s: ceiling %" PRIu64 " KiB/s, scrub_cpus %s", what, time, l->ceiling_kib,
               settings_cpus_text(l, text));
}

void engine_on_limits(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;

    if (settings_expire(&e->settings, engine_now_us())) {
        log_limits(e, "of before, as their time is over", 0);
        engine_apply_settings(e);
    }
    engine_arm_limits(e);
}

void engine_limit_ends(const struct engine *e, uint64_t *ret_ceiling_us, uint64_t *ret_cpus_us)
{
    const struct settings *s = &e->settings;
    uint64_t now_us = engine_now_us();

    *ret_ceiling_us = s->ceiling_until_us > now_us ? s->ceiling_until_us - now_us : 0;
    *ret_cpus_us = s->cpus_until_us > now_us ? s->cpus_until_us - now_us : 0;
}

static int put_limits_in_force(struct engine *e, const struct settings *before, struct err *err)
{
    int r = engine_heard(e, settings_apply(&e->settings, e->busy, err));

    if (r < 0)
        settings_restore(&e->settings, before);
    arm_lease(e);
    engine_arm_limits(e);
    if (r < 0)
        err->code = EIO; /* not one of the caller's values: see engine_set_limit() */
    return r < 0 ? -EIO : 0;
}

int engine_set_limit(struct engine *e, const uint64_t *ceiling_kib, const char *mask,
                     uint64_t for_us, struct err *err)
{
    struct settings before = e->settings;
    int r;

    if (!ceiling_kib && !mask)
        return 0; /* only asked for */
    r = settings_change(&e->settings, ceiling_kib, mask, for_us ? engine_now_us() + for_us : 0,
                        err);
    if (r == 0)
        r = put_limits_in_force(e, &before, err);
    if (r < 0)
        return r;
    log_limits(e, "set", for_us);
    return 0;
}

int engine_reset_limits(struct engine *e, struct err *err)
{
    struct settings before = e->settings;

    settings_init(&e->settings, e->xen, e->ops, e->conf);
    e->settings.in_force = before.in_force;
    engine_placement_reset(e);
    log_notice("limits reset to those of the configuration");
    return put_limits_in_force(e, &before, err);
}
