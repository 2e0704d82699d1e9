/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>

void registry_init(struct registry *r)
{
    TAILQ_INIT(&r->list);
    r->count = 0;
}

static void take(struct registry *r, struct registry_domain *d)
{
    TAILQ_REMOVE(&r->list, d, link);
    r->count--;
}

void registry_done(struct registry *r)
{
    struct registry_domain *d;

    while ((d = TAILQ_FIRST(&r->list))) {
        take(r, d);
        free(d);
    }
}

void registry_begin(struct registry *r)
{
    struct registry_domain *d;

    TAILQ_FOREACH (d, &r->list, link) {
        d->seen = false;
    }
}

static struct registry_domain *find(struct registry *r, const struct ident *id)
{
    struct registry_domain *d;

    TAILQ_FOREACH (d, &r->list, link) {
        if (ident_equal(&d->ident, id))
            return d;
    }
    return NULL;
}

const struct registry_domain *registry_saw(struct registry *r, const struct ident *id,
                                           const char *name, uint64_t pages, uint64_t now_us)
{
    struct registry_domain *d = find(r, id);
    bool was_zombie;

    if (!d) {
        d = calloc(1, sizeof(*d));
        if (!d)
            return NULL; /* the next look will tell */
        d->ident = *id;
        d->dead_us = now_us;
        TAILQ_INSERT_TAIL(&r->list, d, link);
        r->count++;
    }
    if (name && !d->name[0])
        snprintf(d->name, sizeof(d->name), "%s", name);
    d->seen = true;
    d->pages = pages;
    was_zombie = d->zombie;
    d->zombie = was_zombie || now_us - d->dead_us > REGISTRY_ZOMBIE_US;
    return d->zombie && !was_zombie ? d : NULL;
}

struct registry_domain *registry_take_gone(struct registry *r)
{
    struct registry_domain *d;

    TAILQ_FOREACH (d, &r->list, link) {
        if (!d->seen) {
            take(r, d);
            return d;
        }
    }
    return NULL;
}
