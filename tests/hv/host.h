/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HV_HOST_H
#define HV_HOST_H

/*
 * A host for the code under test: CPUs with clocks, timers, softirqs, tasklets, idle loops, locks
 * that notice misuse, and guest memory that may be unreadable. Time is simulated: the CPU that is
 * behind all others is the one that runs. What breaks a rule of Xen (a lock taken twice, say)
 * fails the test that runs.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mock.h"

#define MS MILLISECS(1)
#define US MICROSECS(1)

struct host_cpu {
    s_time_t clock; /* how far it has run */
    s_time_t skew;  /* of what NOW() says there */
    bool busy;      /* a vCPU runs there whenever it may */
    bool asleep, pending;
    bool in_run; /* of scrub_free_pages(), between two parts of it */
    struct vcpu idle;
    struct sched_resource sr;
    struct scheduler scheduler;
    /* Seen so far: */
    uint64_t timers;                        /* that fired there */
    uint64_t raised;                        /* softirqs raised for it by the code under test */
    uint64_t runs;                          /* of tasklets */
    s_time_t run_ns, longest_run, last_run; /* time of these; the end of the last one */
    s_time_t shortest_rest;                 /* between two of them */
};

struct host {
    struct host_cpu cpu[NR_CPUS];
    unsigned int current;
    bool in_tasklet;
    uint8_t distance[MAX_NUMNODES][MAX_NUMNODES];
    s_time_t timer_late; /* all timers fire so much too late */
    /* Seen so far: */
    uint64_t locks, locks_held, timer_ops, warnings;
    char message[128]; /* the last one printed */
    /* Guest memory: the copy that fails, counted from 1; 0 for none */
    unsigned int copies, fault_at;
    bool no_memory;
    /* Called at moments when other CPUs may look. */
    void (*look)(void);
};
extern struct host host;

/* Nothing set, all CPUs idle and online, cpus_per_node of them on each node, the clock at 1 s. */
void host_init(unsigned int nodes, unsigned int cpus_per_node);
/* Let CPUs run until then. */
void host_run_until(s_time_t when);
void host_run(s_time_t duration);
/* Do what follows on that CPU; it is not behind the others. */
void host_enter(unsigned int cpu);
/* End scrubbing that goes on there, as any softirq would. */
void host_interrupt(unsigned int cpu);
/* Softirqs of the current CPU: its timers that are due. */
void host_softirqs(void);
bool host_softirq_pending(void);
s_time_t host_time(void); /* that all CPUs have reached */
void host_busy(unsigned int cpu, bool busy);
void host_offline(unsigned int cpu);
void host_online(unsigned int cpu);
/* A CPU where a tasklet waits, or NR_CPUS. */
unsigned int host_tasklet_on(void);
unsigned int host_active_timers(void);
/* The CPU of the only active timer and when it expires. Fails if there is not just one. */
unsigned int host_the_timer(s_time_t *ret_expires);
/* The active timer that expires then. */
struct timer *host_timer_of(s_time_t expires);

/*
 * The variables of the code under test, as bytes. save() says what they are, restore() puts it
 * back, equal() says if they are what they were, other than in copies of what is in guest memory at
 * buf.
 */
struct host_state;
struct host_state *host_save(void);
bool host_equal(const struct host_state *state, const void *buf, size_t len);
void host_free_state(struct host_state *state);

/* Numbers between 0 and n - 1; the seed is fixed by host_init(). */
uint64_t host_random(uint64_t n);

#endif
