/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_SETTINGS_H
#define SCRUBD_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "xen.h"

/* How scrubbing is to be limited. */
struct limits {
    uint64_t ceiling_kib, floor_kib; /* per node and second, 0 = none */
    enum config_cpus cpus_from;
    bool all_cpus;                      /* with CONFIG_CPUS_AUTO as it is at present */
    struct cpulist mask;                /* unless all_cpus */
    bool ceiling_by_hand, cpus_by_hand; /* set by settings_change(), not by the configuration */
};

/*
 * What scrubd wants of the hypervisor's scrubber, and whether it is in force there. The mask is in
 * force always, the rates only while there are jobs or a backlog; with neither, the hypervisor
 * has no settings, and no lease to renew.
 */
struct settings {
    struct xen *xen;
    const struct xen_ops *ops;
    const struct config *conf;
    struct limits limits;
    struct limits lasting; /* what is wanted again when the times below are over */
    uint64_t ceiling_until_us, cpus_until_us; /* of limits, 0: as lasting says */
    bool lifted;                              /* no ceiling: somebody waits for clean memory */
    uint64_t
        least_kib;  /* a ceiling, if there is one, is at least this; UINT64_MAX: there is none */
    bool auto_none; /* placement has said nothing yet, or all CPUs */
    struct cpulist auto_mask; /* unless auto_none: what placement has found */
    bool in_force;
    char warning[200]; /* what is wrong with the configured ones, "" if nothing is */
};

/* Take what the configuration says, as far as this host can: sets warning otherwise. Changes
 * nothing in the host. */
void settings_init(struct settings *s, struct xen *xen, const struct xen_ops *ops,
                   const struct config *conf);

/* The configuration is not what it was before: what has changed in it replaces what was wanted. */
void settings_reconfigure(struct settings *s, const struct config *before);
/*
 * The rate per node, in KiB a second, at which the pages of a node become clean before they have
 * been dirty for max_age_us (0: no matter how long), if the oldest of them have been for age_us. A
 * quarter more, in steps of an eighth of its power of two, so that it is not another one each time.
 * UINT64_MAX if it is too late for any. Pure, as the next one.
 */
uint64_t settings_least(uint64_t pages, uint64_t age_us, uint64_t max_age_us);
/* The ceiling that is to be in force while there is something to do, 0 = none. */
uint64_t settings_ceiling(const struct settings *s);

/* Bring the host to what is wanted, and renew the lease. busy: there are jobs or a backlog. */
int settings_apply(struct settings *s, bool busy, struct err *err);

/* Change what is wanted, until until_us (0: lastingly); NULL leaves as it is. -EINVAL with text if
 * a value is bad: err->text names the field first. */
int settings_change(struct settings *s, const uint64_t *ceiling_kib, const char *mask,
                    uint64_t until_us, struct err *err);

/* What was wanted for a time that is over by now_us is no longer. True if there was such a thing.
 */
bool settings_expire(struct settings *s, uint64_t now_us);

/* When the next one is over, 0: there is none. */
uint64_t settings_next_us(const struct settings *s);

/* Want what was wanted before, where that could not be put in force. */
void settings_restore(struct settings *s, const struct settings *before);

/* What placement has found, NULL for all CPUs. True if that changes what is wanted. */
bool settings_place(struct settings *s, const struct cpulist *mask);

/* "auto", "all", or the list, into buf of CPULIST_TEXT bytes, which it returns. */
const char *settings_cpus_text(const struct limits *l, char *buf);

/* Take everything back that is in force. */
int settings_withdraw(struct settings *s);

#endif
