/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_REGISTRY_H
#define SCRUBD_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ident.h"

/*
 * The dead domains that are still there, whoever destroyed them. One that stays for longer than
 * REGISTRY_ZOMBIE_US is a zombie: somebody in the control domain holds on to its pages, and
 * toolstacks show it as (null). Pure: what a look at the host brought comes in as arguments.
 */
#define REGISTRY_ZOMBIE_US 2000000
#define REGISTRY_NAME 64

struct registry_domain {
    TAILQ_ENTRY(registry_domain) link;
    struct ident ident;
    char name[REGISTRY_NAME]; /* "" if unknown */
    uint64_t pages;
    uint64_t dead_us; /* when it was first seen dead */
    bool zombie;
    bool seen; /* in the present look */
};
TAILQ_HEAD(registry_list, registry_domain);

struct registry {
    struct registry_list list; /* in the order in which they were seen dead */
    unsigned int count;
};

void registry_init(struct registry *r);
void registry_done(struct registry *r);

/*
 * A look at all domains of the host: registry_begin(), registry_saw() for each dead one that still
 * is there, then registry_take_gone() until it gives NULL.
 *
 * registry_saw() returns the domain if it is a zombie from now on, and was none before. name may be
 * NULL. registry_take_gone() returns one that was not seen, which is the caller's to free().
 */
void registry_begin(struct registry *r);
const struct registry_domain *registry_saw(struct registry *r, const struct ident *id,
                                           const char *name, uint64_t pages, uint64_t now_us);
struct registry_domain *registry_take_gone(struct registry *r);

#endif
