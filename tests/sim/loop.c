/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#define EPOCH_US                                                                                   \
    1000000000ull /* monotonic clocks do not begin at 0: the host has been up before               \
                   */

struct event {
    LIST_ENTRY(event) link; /* while pending */
    event_callback_fn fn;
    void *arg;
    uint64_t due_us, late_us;
    bool pending;
};

struct event_base {
    int unused;
};

static LIST_HEAD(, event) pending = LIST_HEAD_INITIALIZER(pending);
static uint64_t now_us;

uint64_t (*loop_lateness)(void);
uint64_t loop_events;

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    ret->tv_sec = (time_t)(now_us / 1000000);
    ret->tv_nsec = (long)(now_us % 1000000 * 1000);
    return 0;
}

static uint64_t real_ns(clockid_t id)
{
    struct timespec ts;

    __real_clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t loop_real_cpu_ns(void)
{
    return real_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t loop_real_ns(void)
{
    return real_ns(CLOCK_MONOTONIC);
}

void loop_init(void)
{
    struct event *ev;

    while ((ev = LIST_FIRST(&pending)))
        event_del(ev);
    now_us = EPOCH_US;
    loop_events = 0;
    loop_lateness = NULL;
}

uint64_t loop_now_us(void)
{
    return now_us;
}

void loop_spend(uint64_t us)
{
    now_us += us;
}

/* The first that fires by then, taken off the list. */
static struct event *take_next(uint64_t until_us)
{
    struct event *ev, *best = NULL;

    LIST_FOREACH (ev, &pending, link) {
        if (!best || ev->due_us + ev->late_us < best->due_us + best->late_us)
            best = ev;
    }
    if (!best || best->due_us + best->late_us > until_us)
        return NULL;
    event_del(best);
    return best;
}

static void run_until(uint64_t until_us)
{
    struct event *ev;

    while ((ev = take_next(until_us))) {
        uint64_t at_us = ev->due_us + ev->late_us;

        if (at_us > now_us)
            now_us = at_us;
        loop_events++;
        ev->fn(-1, EV_TIMEOUT, ev->arg);
    }
}

void loop_until(uint64_t until_us)
{
    run_until(until_us);
    if (until_us > now_us)
        now_us = until_us;
}

/* --- libevent's --- */

struct event *event_new(struct event_base *base, evutil_socket_t fd, short what,
                        event_callback_fn fn, void *arg)
{
    struct event *ev = calloc(1, sizeof(*ev));

    if (ev) {
        ev->fn = fn;
        ev->arg = arg;
    }
    return ev;
}

int event_add(struct event *ev, const struct timeval *tv)
{
    event_del(ev);
    if (!tv) /* of a file descriptor: the model host has none */
        return 0;
    ev->due_us = now_us + (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
    /* Nobody sleeps for what is due at once. */
    ev->late_us = loop_lateness && (tv->tv_sec || tv->tv_usec) ? loop_lateness() : 0;
    ev->pending = true;
    LIST_INSERT_HEAD(&pending, ev, link);
    return 0;
}

int event_del(struct event *ev)
{
    if (ev->pending)
        LIST_REMOVE(ev, link);
    ev->pending = false;
    return 0;
}

void event_active(struct event *ev, int what, short calls)
{
    struct timeval none = {0};

    event_add(ev, &none);
    ev->late_us = 0;
}

int event_pending(const struct event *ev, short what, struct timeval *ret)
{
    return ev->pending ? EV_TIMEOUT : 0;
}

void event_free(struct event *ev)
{
    event_del(ev);
    free(ev);
}

int event_base_loop(struct event_base *base, int flags)
{
    run_until(now_us);
    return 0;
}
