/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HV_MOCK_H
#define HV_MOCK_H

/*
 * As much of Xen as scrub_ctl.c and teardown.c use, in user space. Names and meaning are Xen's;
 * what is more than a macro is in host.c. All other headers here include this one.
 */

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Compiler and library. */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define cf_check
#define __read_mostly
#define __init
#define BUILD_BUG_ON(cond) _Static_assert(!(cond), #cond)
#define ASSERT(p) ((p) ? (void)0 : host_bug(#p))
#define BUG_ON(p) ((p) ? host_bug(#p) : (void)0)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ACCESS_ONCE(x) (*(volatile __typeof__(x) *)&(x))
#define read_atomic(p) ACCESS_ONCE(*(p))
#define write_atomic(p, x) (ACCESS_ONCE(*(p)) = (x))
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#define smp_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Both sides of one type, as in Xen. */
#define min(x, y)                                                                                  \
    ({                                                                                             \
        const __typeof__(x) x_ = (x);                                                              \
        const __typeof__(y) y_ = (y);                                                              \
        (void)(&x_ == &y_);                                                                        \
        x_ < y_ ? x_ : y_;                                                                         \
    })
#define max(x, y)                                                                                  \
    ({                                                                                             \
        const __typeof__(x) x_ = (x);                                                              \
        const __typeof__(y) y_ = (y);                                                              \
        (void)(&x_ == &y_);                                                                        \
        x_ > y_ ? x_ : y_;                                                                         \
    })
#define min_t(type, x, y)                                                                          \
    ({                                                                                             \
        type x_ = (x);                                                                             \
        type y_ = (y);                                                                             \
        x_ < y_ ? x_ : y_;                                                                         \
    })
#define max_t(type, x, y)                                                                          \
    ({                                                                                             \
        type x_ = (x);                                                                             \
        type y_ = (y);                                                                             \
        x_ > y_ ? x_ : y_;                                                                         \
    })

#define ERESTART 85
#define XENLOG_WARNING "<W>"
#define XENLOG_INFO "<I>"
#define printk host_printk
void host_printk(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void host_bug(const char *what) __attribute__((noreturn));

/* Time. */
typedef int64_t s_time_t;
#define SECONDS(s) ((s_time_t)((s)*1000000000ULL))
#define MILLISECS(ms) ((s_time_t)((ms)*1000000ULL))
#define MICROSECS(us) ((s_time_t)((us)*1000ULL))
#define NOW() host_now()
s_time_t host_now(void);

struct timer {
    s_time_t expires;
    void (*function)(void *);
    void *data;
    uint16_t cpu;
    bool active; /* the mock's own */
};

void init_timer(struct timer *timer, void (*function)(void *), void *data, unsigned int cpu);
void set_timer(struct timer *timer, s_time_t expires);
void stop_timer(struct timer *timer);
void migrate_timer(struct timer *timer, unsigned int new_cpu);
#define timer_is_active(t) ((t)->active)

/* Locks. */
typedef struct {
    bool held;
} spinlock_t;
typedef struct {
    int readers;
} rcu_read_lock_t;
#define DEFINE_SPINLOCK(l) spinlock_t l
void spin_lock(spinlock_t *lock);
void spin_unlock(spinlock_t *lock);
extern rcu_read_lock_t sched_res_rculock;
#define rcu_read_lock(l) ((void)(l)->readers++)
#define rcu_read_unlock(l) ((void)(l)->readers--)

/* CPUs and nodes: all masks are one word. */
#define NR_CPUS 64
#define MAX_NUMNODES 64
#define NUMA_NO_NODE 0xff
#define PAGE_SHIFT 12
#define PAGE_SIZE (1L << PAGE_SHIFT)

typedef uint8_t nodeid_t;
typedef struct {
    uint64_t bits;
} cpumask_t, nodemask_t;
typedef cpumask_t *cpumask_var_t;

extern unsigned int nr_cpu_ids;
extern const cpumask_t cpumask_all;
extern cpumask_t cpu_online_map, node_to_cpumask[MAX_NUMNODES];
extern nodemask_t node_online_map;
extern nodeid_t cpu_to_node[NR_CPUS];

#define node_to_cpumask(node) (node_to_cpumask[node])
#define cpu_to_node(cpu) (cpu_to_node[cpu])
#define smp_processor_id() host_cpu()
unsigned int host_cpu(void);
uint8_t __node_distance(nodeid_t a, nodeid_t b);

static inline unsigned int mask_next(int n, uint64_t bits, unsigned int end)
{
    for (n++; n < (int)end; n++)
        if (bits >> n & 1)
            return n;
    return end;
}

#define cpumask_first(m) mask_next(-1, (m)->bits, nr_cpu_ids)
#define cpumask_next(n, m) mask_next(n, (m)->bits, nr_cpu_ids)
static inline unsigned int cpumask_cycle(int n, const cpumask_t *m)
{
    unsigned int next = cpumask_next(n, m);

    return next < nr_cpu_ids ? next : cpumask_first(m);
}

#define for_each_cpu(cpu, m)                                                                       \
    for ((cpu) = cpumask_first(m); (cpu) < nr_cpu_ids; (cpu) = cpumask_next(cpu, m))
#define for_each_online_cpu(cpu) for_each_cpu(cpu, &cpu_online_map)
#define cpumask_test_cpu(cpu, m) ((bool)((m)->bits >> (cpu)&1))
#define cpumask_intersects(a, b) (((a)->bits & (b)->bits) != 0)
#define cpumask_empty(m) (!(m)->bits)
#define cpumask_weight(m) ((unsigned int)__builtin_popcountll((m)->bits))
#define cpumask_equal(a, b) ((a)->bits == (b)->bits)
#define cpumask_subset(a, b) (!((a)->bits & ~(b)->bits))
#define cpumask_and(d, a, b) host_set_mask(d, (a)->bits &(b)->bits)
#define cpumask_or(d, a, b) host_set_mask(d, (a)->bits | (b)->bits)
#define cpumask_andnot(d, a, b) host_set_mask(d, (a)->bits & ~(b)->bits)
#define cpumask_copy(d, s) host_set_mask(d, (s)->bits)
#define cpumask_clear(m) ((void)((m)->bits = 0))
#define cpumask_setall(m) ((void)((m)->bits = cpumask_all.bits))
#define cpumask_any(m) cpumask_first(m)
#define __cpumask_clear_cpu cpumask_clear_cpu
#define cpumask_clear_cpu(cpu, m) ((void)((m)->bits &= ~(1ull << (cpu))))
#define cpumask_set_cpu(cpu, m) ((void)((m)->bits |= 1ull << (cpu)))
#define __cpumask_set_cpu cpumask_set_cpu
void host_set_mask(cpumask_t *mask, uint64_t bits);
#define cpu_online(cpu) cpumask_test_cpu(cpu, &cpu_online_map)
#define num_online_cpus() cpumask_weight(&cpu_online_map)
bool zalloc_cpumask_var(cpumask_var_t *mask);
bool alloc_cpumask_var(cpumask_var_t *mask);
void free_cpumask_var(cpumask_var_t mask);

#define node_online(node) ((bool)(node_online_map.bits >> (node)&1))
#define for_each_online_node(node)                                                                 \
    for ((node) = mask_next(-1, node_online_map.bits, MAX_NUMNODES); (node) < MAX_NUMNODES;        \
         (node) = mask_next(node, node_online_map.bits, MAX_NUMNODES))
#define last_node(m) (63 - __builtin_clzll((m).bits))

/* Softirqs, tasklets, scheduling. */
#define TIMER_SOFTIRQ 0
void cpu_raise_softirq(unsigned int cpu, unsigned int nr);

struct tasklet {
    void (*func)(void *);
    void *data;
    int scheduled_on;
    bool is_running;
};
void tasklet_init(struct tasklet *t, void (*func)(void *), void *data);
void tasklet_schedule_on_cpu(struct tasklet *t, unsigned int cpu);

struct vcpu {
    bool is_running;
    struct domain *domain;
};
extern struct vcpu *idle_vcpu[NR_CPUS];

struct scheduler {
    unsigned int sched_id;
};
struct cpupool;
struct sched_resource {
    struct scheduler *scheduler;
    struct cpupool *cpupool;
    unsigned int granularity;
};
#define XEN_SCHEDULER_CREDIT 5
#define XEN_SCHEDULER_CREDIT2 6
#define XEN_SCHEDULER_ARINC653 7
#define XEN_SCHEDULER_RTDS 8
#define XEN_SCHEDULER_NULL 9
struct sched_resource *get_sched_res(unsigned int cpu);

bool scrub_free_pages(void);

/* Interfaces to callers. */
typedef uint64_t __attribute__((aligned(8))) uint64_aligned_t;
#define __DEFINE_GUEST_HANDLE(name, type)                                                          \
    typedef struct {                                                                               \
        type *p;                                                                                   \
        uint64_aligned_t align[0];                                                                 \
    } __guest_handle_##name
#define DEFINE_XEN_GUEST_HANDLE(name) __DEFINE_GUEST_HANDLE(name, name)
#define XEN_GUEST_HANDLE(name) __guest_handle_##name
#define XEN_GUEST_HANDLE_64(name) __guest_handle_##name
#define XEN_GUEST_HANDLE_PARAM(name) __guest_handle_##name
__DEFINE_GUEST_HANDLE(uint8, uint8_t);

struct xenctl_bitmap {
    XEN_GUEST_HANDLE_64(uint8) bitmap;
    uint32_t nr_bits;
};
int xenctl_bitmap_to_cpumask(cpumask_var_t *mask, const struct xenctl_bitmap *bitmap);
int cpumask_to_xenctl_bitmap(struct xenctl_bitmap *bitmap, const cpumask_t *mask);

/* The number of bytes that could not be copied. */
size_t host_copy(void *dst, const void *src, size_t len, const void *guest);
#define guest_handle_is_null(hnd) (!(hnd).p)
#define copy_from_guest(ptr, hnd, nr) host_copy(ptr, (hnd).p, (nr) * sizeof(*(hnd).p), (hnd).p)
#define copy_to_guest_offset(hnd, off, ptr, nr)                                                    \
    host_copy((hnd).p + (off), ptr, (nr) * sizeof(*(hnd).p), (hnd).p)
#define copy_to_guest(hnd, ptr, nr) copy_to_guest_offset(hnd, 0, ptr, nr)
#define __copy_to_guest copy_to_guest
#define __copy_from_guest copy_from_guest

#endif
