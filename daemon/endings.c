/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "endings.h"

uint64_t endings_since(const struct endings *e, const struct ident *id)
{
    for (unsigned int i = 0; i < ENDINGS_MAX; i++) {
        if (e->of[i].since_us && ident_equal(&e->of[i].ident, id))
            return e->of[i].since_us;
    }
    return 0;
}

void endings_saw(struct endings *e, const struct ident *id, uint64_t now_us)
{
    if (endings_since(e, id))
        return;
    e->of[e->next].ident = *id;
    e->of[e->next].since_us = now_us;
    e->next = (e->next + 1) % ENDINGS_MAX;
}
