/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "turns.h"

#include "engine.h"

struct engine_listener *turns_next(struct turns *t, uint64_t now_us)
{
    struct engine_listener *l;

    TAILQ_FOREACH (l, t, of_queue) {
        if (!l->turn_us) {
            l->turn_us = now_us;
            return l;
        }
        if (now_us - l->turn_us < TURNS_MAX_US)
            return NULL;
    }
    return NULL;
}
