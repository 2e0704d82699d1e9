/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "clean.h"

void clean_look(struct clean *c, const struct xen_scrub *scrub, uint64_t now_us)
{
    c->n = scrub->n_nodes < CLEAN_NODES ? scrub->n_nodes : CLEAN_NODES;
    for (unsigned int i = 0; i < c->n; i++) {
        if (!scrub->nodes[i].dirty)
            c->zero_us[i] = now_us;
    }
}

bool clean_since(const struct clean *c, uint64_t then_us)
{
    for (unsigned int i = 0; i < c->n; i++) {
        if (c->zero_us[i] < then_us)
            return false;
    }
    return c->n > 0;
}
