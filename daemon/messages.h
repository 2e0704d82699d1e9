/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_MESSAGES_H
#define SCRUBD_MESSAGES_H

#include "job.h"
#include "registry.h"
#include "wire.h"
#include "xen.h"

/*
 * The objects that org.scrubd speaks of, as JSON. Pure.
 */
extern const char messages_interface[]; /* org.scrubd.varlink */
extern const char messages_service[];   /* org.varlink.service.varlink */

struct status {
    const char *reason; /* why degraded, or what is wrong with the settings; NULL if nothing is */
    bool degraded;
    const char *xen; /* version */
    uint64_t now_us, uptime_us;
    unsigned int jobs;
    uint64_t jobs_done;
    const struct registry *registry; /* of which the zombies are told; may be NULL */
    bool has_scrub;                  /* what follows is there */
    uint64_t backlog_pages, baseline_pages;
    struct xen_scrub scrub;
    struct cpulist online;
};

/* eta_us: until it is dead, -1 if unknown. */
struct json_object *messages_job(const struct job *job, uint64_t now_us, int64_t eta_us);
struct json_object *messages_status(const struct status *s);

/* Node ids may have holes: one without memory that never had dirty pages tells nobody anything. */
bool messages_node_is_used(const struct xen_scrub *scrub, unsigned int number);

#endif
