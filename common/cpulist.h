/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_CPULIST_H
#define SCRUBD_CPULIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define CPULIST_MAX 4096  /* CPU numbers 0..4095: more than Xen can be built for */
#define CPULIST_TEXT 1024 /* room that is enough for a usual list as text */

/* A set of CPU numbers. */
struct cpulist {
    uint64_t bits[CPULIST_MAX / 64];
};

static inline bool cpulist_has(const struct cpulist *l, unsigned int cpu)
{
    return cpu < CPULIST_MAX && (l->bits[cpu / 64] >> (cpu % 64) & 1);
}

static inline void cpulist_add(struct cpulist *l, unsigned int cpu)
{
    if (cpu < CPULIST_MAX)
        l->bits[cpu / 64] |= 1ull << (cpu % 64);
}

void cpulist_clear(struct cpulist *l);
bool cpulist_empty(const struct cpulist *l);
bool cpulist_equal(const struct cpulist *a, const struct cpulist *b);
bool cpulist_intersects(const struct cpulist *a, const struct cpulist *b);
void cpulist_and(struct cpulist *l, const struct cpulist *with); /* l &= with */
unsigned int cpulist_count(const struct cpulist *l);

/*
 * Parse "0-3,6" (spaces around numbers allowed). -EINVAL with a text that says what is wrong, for
 * an empty list, a number above CPULIST_MAX - 1, a range that runs backwards, anything else. "all"
 * is for the caller.
 */
int cpulist_parse(const char *text, struct cpulist *ret, struct err *err);

/* Write "0-3,6" into buf, "" for the empty set. A list that does not fit ends in ",...". Returns
 * buf. */
char *cpulist_format(const struct cpulist *l, char *buf, size_t size);

#endif
