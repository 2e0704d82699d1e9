/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdint.h>

/* splitmix64: the same numbers everywhere for the same seed. */
struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* 0..n-1 */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
    return n ? rng_next(r) % n : 0;
}

static inline uint64_t rng_between(struct rng *r, uint64_t low, uint64_t high)
{
    return low + rng_below(r, high - low + 1);
}

/* 0..1 */
static inline double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) / 9007199254740992.0;
}

static inline int rng_chance(struct rng *r, unsigned int percent)
{
    return rng_below(r, 100) < percent;
}

#endif
