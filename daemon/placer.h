/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_PLACER_H
#define SCRUBD_PLACER_H

#include <event2/event.h>
#include <sys/queue.h>

#include "config.h"
#include "placement.h"
#include "xen.h"

/*
 * Looks at the host's CPUs and domains, and has placement compute the mask of what it sees. A look
 * takes one hypercall or more for each domain, so it is made in turns that leave the event loop to
 * others in between; on most hosts there is one turn.
 */
struct placer;

#define PLACER_REQUESTS 64

/* Why a CPU may scrub or not, and for whom. */
struct placer_cpu {
    struct placement_cpu cpu;
    enum placement_why why;
    bool has_domain;
    struct ident ident; /* if has_domain */
    int sibling;        /* as in struct placement_verdict */
};

struct placer_domain {
    struct ident ident;
    enum placement_rule rule;
    char text[CONFIG_PATTERN]; /* the rule that matched, "" if it was a domain or a pin */
    struct cpulist hard;       /* as Xen has it */
};

/* What the last look found. */
struct placer_view {
    struct cpulist online, mask;
    bool all; /* the mask is all that is online */
    unsigned int n_cpus;
    struct placer_cpu *cpus;
    unsigned int n_domains; /* protected ones, ascending */
    struct placer_domain *domains;
};

/* A rule of scrubctl protect: a domain, or a pattern. */
struct placer_request {
    bool is_domain;
    struct ident ident;
    char pattern[CONFIG_PATTERN];
};

/* Somebody who waits for a look to end. done() may not free or make looks. */
struct placer_look {
    TAILQ_ENTRY(placer_look) link;
    bool waiting;
    void (*done)(struct placer_look *l);
};

/*
 * changed() is called at the end of each look, from within placer_look() or from the loop;
 * is_ending() tells which domains are being torn down. conf may change between looks.
 */
int placer_new(struct event_base *base, struct xen *xen, const struct xen_ops *ops,
               const struct config *conf, void (*changed)(void *arg),
               bool (*is_ending)(void *arg, const struct ident *id), void *arg, struct placer **ret,
               struct err *err);
void placer_free(struct placer *p); /* takes NULL */

/* Look now, for as long as a turn may last; goes on by itself. l, unless NULL, is told of the end
 * of a look that began no earlier than now: true if that was within this call, and it is not
 * told. */
bool placer_look(struct placer *p, struct placer_look *l);
void placer_forget(struct placer *p, struct placer_look *l);
/* Look in a moment: for what comes in bursts. */
void placer_look_soon(struct placer *p);
/* No more looks. */
void placer_stop(struct placer *p);

/* Valid until the end of the next look. Empty before the first one. */
const struct placer_view *placer_view(const struct placer *p);

/* Protect a domain, or what matches the pattern, if on, else no longer. -EINVAL with text for a bad
 * pattern, -ENOSPC with text; *ret_changed: it was not so before. */
int placer_request(struct placer *p, const struct placer_request *req, bool on, bool *ret_changed,
                   struct err *err);
void placer_request_none(struct placer *p);
const struct placer_request *placer_requests(const struct placer *p, unsigned int *ret_n);

#endif
