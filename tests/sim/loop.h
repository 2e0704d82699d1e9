/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_LOOP_H
#define SIM_LOOP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Virtual time, and the few functions of libevent that the daemon's engine calls, on it. Time
 * passes only in loop_until(), between events, and where the model host spends it (loop_spend()).
 * The programs are linked with --wrap=clock_gettime, so that the daemon's code reads this clock.
 */

/* Forget all events; the clock begins anew. */
void loop_init(void);

uint64_t loop_now_us(void);

/* The code that runs now takes so long: timers that fall due meanwhile fire late. */
void loop_spend(uint64_t us);

/* Run what falls due until then; the clock is then there, or, if the last event took longer, later.
 */
void loop_until(uint64_t until_us);

/* By how much the timer that fires next is late, in us; asked for each. NULL: none ever is. */
extern uint64_t (*loop_lateness)(void);

/* Events that were run since loop_init(). */
extern uint64_t loop_events;

/* Of the machine that the program runs on: CPU time of this process in ns. */
uint64_t loop_real_cpu_ns(void);
uint64_t loop_real_ns(void);

#endif
