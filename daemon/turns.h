/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_TURNS_H
#define SCRUBD_TURNS_H

#include <stdint.h>
#include <sys/queue.h>

struct engine_listener;

/*
 * The queue of degraded mode: callers who destroy by themselves, one at a time. Who is first has
 * the turn until it leaves, or for TURNS_MAX_US: nobody waits for ever because of somebody who does
 * not leave.
 */
#define TURNS_MAX_US 60000000ull

TAILQ_HEAD(turns, engine_listener);

/* The listener whose turn begins now, or NULL. Its turn_us is set. */
struct engine_listener *turns_next(struct turns *t, uint64_t now_us);

#endif
