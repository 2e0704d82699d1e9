/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine-private.h"

#define LOOK_US 1000000
#define DEATH_LOOK_US 200000 /* its toolstack, which still cleans up, goes first */
#define LIST_CHUNK 64

__attribute__((format(printf, 3, 4))) static void say(enum log_level level,
                                                      const struct registry_domain *d,
                                                      const char *fmt, ...)
{
    char uuid[IDENT_UUID_TEXT], text[256];
    struct log_subject about = {d->ident.domid, ident_uuid_text(&d->ident, uuid), 0, NULL};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    log_about(&about, level, "dom=%u uuid=%s%s%s: %s", about.domid, uuid,
              d->name[0] ? " name=" : "", d->name, text);
}

static void saw(struct engine *e, const struct xen_domain *dom, uint64_t now_us)
{
    const struct registry_domain *zombie;

    if (!dom->dead)
        return;
    zombie = registry_saw(&e->registry, &dom->ident, e->ops->name_of(e->xen, &dom->ident),
                          dom->pages, now_us);
    if (zombie)
        say(LOG_LEVEL_WARNING, zombie,
            "a zombie: dead, but something still holds on to it and to %" PRIu64 " of its pages",
            zombie->pages);
}

static void forget_gone(struct engine *e, uint64_t now_us)
{
    struct registry_domain *d;

    while ((d = registry_take_gone(&e->registry))) {
        engine_watch_memory(e, 0);
        if (d->zombie)
            say(LOG_LEVEL_INFO, d, "the zombie is gone after %" PRIu64 " s",
                (now_us - d->dead_us) / 1000000);
        free(d);
    }
}

static int look(struct engine *e)
{
    struct xen_domain doms[LIST_CHUNK];
    uint64_t now_us = engine_now_us();
    uint32_t first = 0;
    int n;

    registry_begin(&e->registry);
    do {
        n = e->ops->domain_list(e->xen, first, doms, LIST_CHUNK);
        if (n < 0)
            return n;
        for (int i = 0; i < n; i++)
            saw(e, &doms[i], now_us);
        if (n > 0)
            first = doms[n - 1].ident.domid + 1;
    } while (n == LIST_CHUNK);
    forget_gone(e, now_us);
    return 0;
}

void engine_on_registry(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;

    if (look(e) < 0 || e->registry.count)
        engine_arm(e->ev_registry, LOOK_US);
}

void engine_note_death(struct engine *e)
{
    if (!evtimer_pending(e->ev_registry, NULL))
        engine_arm(e->ev_registry, DEATH_LOOK_US);
}
