/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_ENGINE_PRIVATE_H
#define SCRUBD_ENGINE_PRIVATE_H

#include "clean.h"
#include "endings.h"
#include <sys/stat.h>

#include "engine.h"
#include "log.h"
#include "plan.h"
#include "registry.h"
#include "totals.h"
#include "turns.h"

/*
 * Insides of the engine: engine.c steps, engine-callers.c deals with those who wait,
 * engine-requests.c changes jobs, engine-memory.c looks after those who wait for memory and what
 * is dead but dirty, engine-limits.c has the scrubber, engine-placement.c where it works,
 * engine-life.c what scrubd finds and leaves, engine-hypervisor.c that the patch comes and goes.
 * engine-forecast.c says what would be, and how things are.
 * engine-registry.c has dead domains that stay, engine-records.c what the journal keeps of jobs.
 */
struct engine {
    struct event_base *base;
    struct xen *xen;
    const struct xen_ops *ops;
    const struct config *conf;
    struct plan_conf plan_conf;
    struct plan plan;
    enum plan_why why; /* of the last step */
    struct job_table jobs;
    struct clean clean;
    struct endings endings;
    TAILQ_HEAD(engine_waiters, engine_waiter) waiters;
    bool going_down;           /* the host is */
    struct stat nologin;       /* as it was at start, st_ino 0 if it was not there */
    uint64_t step_due_us;      /* when ev_step should fire, 0: nobody knows */
    uint64_t scrubbed_pages;   /* by the host since boot, as last seen */
    uint64_t most_dirty_pages; /* of one node */
    struct scrub_rate scrub_rate;
    uint64_t backlog_pages, backlog_us; /* as last read, and when; 0: never */
    uint64_t released_pages;            /* by steps since */
    uint64_t dirty_since_us;            /* since when there is a backlog, 0: there is none */
    struct settings settings;
    struct placer *placer;
    struct ident everywhere; /* a protected domain that cannot be kept clear, as was last said */
    struct turns turns;
    bool degraded, stopping;
    char reason[200];
    char told[240];            /* to systemd, last */
    uint64_t leaving_until_us; /* all go as fast as they can, since the patch is to be taken out */
    uint64_t let_go_until_us;  /* and then it is not looked for */
    bool busy;                 /* jobs, or a backlog of theirs: as the settings last knew */
    uint64_t started_us;
    uint64_t jobs_done;
    struct totals totals;
    struct event *ev_step, *ev_tick, *ev_turn, *ev_lease, *ev_limits, *ev_names, *ev_memory,
        *ev_probe, *ev_blind;
    const char *names_trouble; /* as last logged */
    struct registry registry;
    struct event *ev_registry;
    struct log_limit why_limit, escape_limit, ceiling_limit, backlog_limit, settings_limit;
};

#define FIRST_STEP_US 100 /* marks and pauses the domain; the pacer decides about the rest */
#define ENGINE_UNPATCHED "unpatched hypervisor"

/* engine.c */
void engine_arm(struct event *ev, uint64_t delay_us);
void engine_set_state(struct job *job, enum job_state state); /* every change of it passes here */
/* What `systemctl status` shows, if it is something else than before. Once a second is enough: it
 * costs dom0 more than a step of a teardown does. */
void engine_tell_systemd(struct engine *e);
/* There is a job now, or another order of things. */
void engine_begin_work(struct engine *e);
/*
 * Make one step. 0: the job goes on; 1: it was finished and is freed. Only the very first step of a
 * job may begin a teardown, and its failure (negative) is for the caller, who removes the job;
 * later ones are retried. late_us, own_us: see struct job_step.
 */
int engine_step(struct engine *e, struct job *job, uint32_t max_us, uint64_t late_us,
                uint64_t own_us);

/* A line about a job: "dom=5 uuid=... name=web: " and the text. */
void engine_log(enum log_level level, const struct job *job, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, with more fields for the journal: see struct log_subject. */
void engine_log_with(enum log_level level, const struct job *job, const struct log_field *fields,
                     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* engine-records.c: lines about the end of a job, with its figures as fields. */
void engine_record_end(const struct job *job, const char *event, uint64_t now_us);
void engine_record_left(const struct job *job, uint64_t now_us); /* to its caller */
void engine_record_clean(const struct job *job, uint64_t now_us);

/* engine-callers.c */
/* "reboot", ...; NULL if it is not shut down. */
const char *engine_purpose(enum xen_shutdown shutdown);
/* As engine_destroy() does it. */
int engine_find_domain(struct engine *e, const struct engine_target *target, struct xen_domain *ret,
                       struct err *err);
/* Not worth it: the teardown is over as soon as it has begun. */
bool engine_is_small(const struct engine *e, const struct xen_domain *dom);
/* To all who wait for a job that is dead now. */
void engine_tell_dead(struct job *job);
/* The last event for all who wait for a job. */
void engine_dismiss_all(struct job *job, enum engine_event event, const char *reason);
void engine_heartbeats(struct engine *e);
void engine_on_turn(evutil_socket_t fd, short what, void *arg); /* of ev_turn */
/* In degraded mode: how many pages are left, since no step says so. */
void engine_refresh(struct engine *e);

/* engine-hypervisor.c */
/* Of what an operation of the patch has returned: -ENOSYS means that it is gone, and the engine
 * is degraded from now on. Returns r. */
int engine_heard(struct engine *e, int r);
void engine_look_for_patch(struct engine *e);                    /* if degraded */
void engine_on_probe(evutil_socket_t fd, short what, void *arg); /* of ev_probe */
/* The dead are forgotten: whether they are clean can no longer be known. */
void engine_on_blind(evutil_socket_t fd, short what, void *arg); /* of ev_blind */
/* Degraded: somebody waits for a turn with it, or has it. */
bool engine_has_caller(const struct engine *e, const struct job *job);
/* Degraded: is the job, which has no caller, one of a domain half torn down? Says so in the log. */
bool engine_is_left(struct engine *e, const struct job *job);
/* Degraded: no job without a caller for domains that are gone. */
void engine_forget_gone(struct engine *e);
/* Of a scrubd before us that had no time to take them back. */
void engine_find_settings(struct engine *e);

/* engine-life.c */
/* Go on with all that is half torn down, and has no job. */
void engine_adopt_all(struct engine *e);
/* Keep names up to date, and log when they no longer are, or are again. */
void engine_update_names(struct engine *e);

/* engine-requests.c */
/* If the job's deadline cannot be met: says so in the log and in ret, which is else left alone. */
void engine_check_deadline(struct engine *e, const struct job *job, char *ret, size_t size);

/* engine-memory.c */
/* The dead are looked after. */
void engine_on_memory(evutil_socket_t fd, short what, void *arg); /* of ev_memory */
/* There is something to look after, in so long. */
void engine_watch_memory(struct engine *e, uint64_t delay_us);

/* engine-registry.c */
/* Domains may have died: look what is left of them, and again each second as long as anything is.
 */
void engine_note_death(struct engine *e);
void engine_on_registry(evutil_socket_t fd, short what, void *arg); /* of ev_registry */

/* engine-limits.c */
/* Pages that await scrubbing, but for those dirty ever since boot; also looks for nodes that are
 * clean. Logs its failure, not too often. */
int engine_read_backlog(struct engine *e, uint64_t *ret);
/* Not more pages than this: what was read, and what steps have released since; read again where
 * that would make a difference, or is old. A hypercall less for most steps. */
int engine_bound_backlog(struct engine *e, uint64_t now_us, uint64_t *ret);
/* Bring the settings in line with whether there is something to do, if that changed. */
void engine_update_busy(struct engine *e);
/* Bring them in line, and renew the lease. */
void engine_apply_settings(struct engine *e);
/* The ceiling that is right at this moment, if that is another one than before. */
void engine_refresh_ceiling(struct engine *e);
void engine_on_lease(evutil_socket_t fd, short what, void *arg); /* of ev_lease */
/* Wake when the next of the limits that were set for a time is over. */
void engine_arm_limits(struct engine *e);
void engine_on_limits(evutil_socket_t fd, short what, void *arg); /* of ev_limits */

/* engine-placement.c */
int engine_placement_new(struct engine *e, struct err *err);
/* After a reset of the settings: forget what scrubctl protects. */
void engine_placement_reset(struct engine *e);

#endif
