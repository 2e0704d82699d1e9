/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_SCHEDULE_H
#define SIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct tally {
    uint64_t virtual_us, steps, destroys, escapes, pressed, firsts, kills;
    uint64_t deadlines_met, deadlines_refused, limits_met;
};

/*
 * One random schedule: a host, a configuration, and an hour or so of destroys, creates, pins,
 * hotplug, load and crashes, all from the seed. False if a promise was broken: text then says which
 * one. loud: tell what happens, and let the daemon log.
 */
bool schedule_run(uint64_t seed, bool loud, struct tally *tally, char text[256]);

/* So many, with seeds from first on. How many broke a promise; each of these is told. */
unsigned int schedule_many(uint64_t first, unsigned int count);

/* The big host: 12 TiB, 8 nodes, 512 CPUs, 1000 domains, 100 destroys at once. Reports its figures.
 * series: where to write memory over time, or NULL. False if a promise was broken. */
bool big_run(uint64_t seed, const char *series);

/* Destroys that nothing hurries end: on a busy host, after a pause. */
bool ends_run(uint64_t seed);

/* Destroys as the lab made them: duration and backlog within a tolerance? */
bool fit_check(uint64_t seed);

#endif
