/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_CLEAN_H
#define SCRUBD_CLEAN_H

#include "xen.h"

/*
 * When is a dead domain's memory known to be scrubbed? The hypervisor counts dirty pages a node,
 * not whose they were, and does not scrub in the order of deaths. So: once each node has been
 * seen without a dirty page at some moment after the last page of the domain was freed. Pages that
 * somebody was given unscrubbed, since he overwrites all of them, count as scrubbed. Pure.
 */
#define CLEAN_NODES 64 /* as many as Xen has */

struct clean {
    unsigned int n;
    uint64_t zero_us[CLEAN_NODES]; /* when each was last seen without a dirty page */
};

/* What the nodes look like at now_us. */
void clean_look(struct clean *c, const struct xen_scrub *scrub, uint64_t now_us);

/* Is what was freed until then_us known to be scrubbed? */
bool clean_since(const struct clean *c, uint64_t then_us);

#endif
