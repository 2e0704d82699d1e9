/* SPDX-License-Identifier: GPL-2.0-only */
#include "host.h"

#include <link.h>
#include <stdio.h>

#define MAX_TIMERS 160
#define STEP_NS 500 /* of a CPU that has nothing to do but look */

struct host host;

unsigned int nr_cpu_ids;
const cpumask_t cpumask_all = {UINT64_MAX};
cpumask_t cpu_online_map, node_to_cpumask[MAX_NUMNODES];
nodemask_t node_online_map;
nodeid_t cpu_to_node[NR_CPUS];
struct vcpu *idle_vcpu[NR_CPUS];
rcu_read_lock_t sched_res_rculock;

static struct timer *timers[MAX_TIMERS];
static unsigned int nr_timers;
/* Tasklets that wait, in order, whatever their CPU. */
static struct tasklet *queue[NR_CPUS];
static unsigned int queued;
static uint64_t random_state;

/* The code under test is a library, so that its variables lie in one place. */

struct host_state {
    uint8_t *at, *bytes;
    size_t len;
};

static int find_variables(struct dl_phdr_info *info, size_t size, void *data)
{
    struct host_state *s = data;
    uintptr_t from = 0, to = 0, skip = 0;

    if (!strstr(info->dlpi_name, "libhv-"))
        return 0;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

        if (ph->p_type == PT_LOAD && ph->p_flags & PF_W) {
            from = info->dlpi_addr + ph->p_vaddr;
            to = from + ph->p_memsz;
        }
        if (ph->p_type == PT_GNU_RELRO)
            skip = info->dlpi_addr + ph->p_vaddr + ph->p_memsz;
    }
    s->at = (uint8_t *)max(from, skip);
    s->len = to - (uintptr_t)s->at;
    return 1;
}

/* Reads what lies between variables, too, where sanitizers allow nobody else. */
__attribute__((no_sanitize("address"))) static void copy(volatile uint8_t *to,
                                                         const volatile uint8_t *from, size_t len)
{
    while (len--)
        *to++ = *from++;
}

struct host_state *host_save(void)
{
    struct host_state *s = calloc(1, sizeof(*s));

    if (!dl_iterate_phdr(find_variables, s))
        host_bug("code under test not found");
    s->bytes = malloc(s->len);
    copy(s->bytes, s->at, s->len);
    return s;
}

bool host_equal(const struct host_state *state, const void *buf, size_t len)
{
    struct host_state *now = host_save();
    bool equal;

    /* A copy of the caller's buffer may have been made anywhere, as scratch. */
    for (size_t i = 0; len && i + len <= now->len; i++)
        if (!memcmp(now->bytes + i, buf, len))
            memcpy(now->bytes + i, state->bytes + i, len);
    equal = !memcmp(now->bytes, state->bytes, now->len);
    host_free_state(now);
    return equal;
}

void host_free_state(struct host_state *state)
{
    free(state->bytes);
    free(state);
}

void host_init(unsigned int nodes, unsigned int cpus_per_node)
{
    static struct host_state *pristine;

    if (!pristine)
        pristine = host_save();
    copy(pristine->at, pristine->bytes, pristine->len);

    memset(&host, 0, sizeof(host));
    nr_timers = queued = 0;
    random_state = 88172645463325252ull;
    memset(node_to_cpumask, 0, sizeof(node_to_cpumask));
    cpu_online_map.bits = 0;
    nr_cpu_ids = nodes * cpus_per_node;
    node_online_map.bits = (1ull << nodes) - 1;
    for (unsigned int i = 0; i < nodes; i++)
        for (unsigned int j = 0; j < nodes; j++)
            host.distance[i][j] = i == j ? 10 : 20;
    for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++) {
        struct host_cpu *c = &host.cpu[cpu];

        c->clock = SECONDS(1);
        c->asleep = true;
        c->scheduler.sched_id = XEN_SCHEDULER_CREDIT2;
        c->sr = (struct sched_resource){&c->scheduler, (struct cpupool *)c, 1};
        c->idle.is_running = true;
        c->shortest_rest = INT64_MAX;
        idle_vcpu[cpu] = &c->idle;
        cpu_to_node[cpu] = cpu / cpus_per_node;
        node_to_cpumask[cpu_to_node[cpu]].bits |= 1ull << cpu;
        cpu_online_map.bits |= 1ull << cpu;
    }
}

uint64_t host_random(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

void host_bug(const char *what)
{
    fail_msg("on CPU %u: %s", host.current, what);
    abort();
}

void host_printk(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(host.message, sizeof(host.message), fmt, ap);
    va_end(ap);
    if (!strncmp(host.message, XENLOG_WARNING, 3))
        host.warnings++;
}

/* Time. */

s_time_t host_now(void)
{
    return host.cpu[host.current].clock + host.cpu[host.current].skew;
}

unsigned int host_cpu(void)
{
    return host.current;
}

s_time_t host_time(void)
{
    s_time_t t = INT64_MAX;
    unsigned int cpu;

    for_each_online_cpu(cpu) t = min(t, host.cpu[cpu].clock);
    return t;
}

static void raise_softirq(unsigned int cpu)
{
    struct host_cpu *c = &host.cpu[cpu];

    c->pending = true;
    if (c->asleep) {
        c->asleep = false;
        c->clock = max(c->clock, host.cpu[host.current].clock);
    }
}

void cpu_raise_softirq(unsigned int cpu, unsigned int nr)
{
    ASSERT(cpu_online(cpu));
    host.cpu[cpu].raised++;
    raise_softirq(cpu);
}

void init_timer(struct timer *timer, void (*function)(void *), void *data, unsigned int cpu)
{
    ASSERT(nr_timers < MAX_TIMERS);
    *timer = (struct timer){.function = function, .data = data, .cpu = cpu};
    timers[nr_timers++] = timer;
}

static void timer_op(const struct timer *timer)
{
    ASSERT(timer->function);
    host.timer_ops++;
    if (host.look)
        host.look();
}

/* To be the earliest makes the softirq pending, and a sleeping CPU set its hardware. */
void set_timer(struct timer *timer, s_time_t expires)
{
    timer_op(timer);
    timer->expires = expires;
    timer->active = true;
    raise_softirq(timer->cpu);
}

void stop_timer(struct timer *timer)
{
    timer_op(timer);
    timer->active = false;
}

void migrate_timer(struct timer *timer, unsigned int new_cpu)
{
    timer_op(timer);
    ASSERT(new_cpu < nr_cpu_ids && cpu_online(new_cpu));
    timer->cpu = new_cpu;
    if (timer->active)
        raise_softirq(new_cpu);
}

unsigned int host_active_timers(void)
{
    unsigned int n = 0;

    for (unsigned int i = 0; i < nr_timers; i++)
        n += timers[i]->active;
    return n;
}

unsigned int host_the_timer(s_time_t *ret_expires)
{
    assert_int_equal(host_active_timers(), 1);
    for (unsigned int i = 0; i < nr_timers; i++)
        if (timers[i]->active) {
            *ret_expires = timers[i]->expires;
            return timers[i]->cpu;
        }
    return NR_CPUS;
}

struct timer *host_timer_of(s_time_t expires)
{
    for (unsigned int i = 0; i < nr_timers; i++)
        if (timers[i]->active && timers[i]->expires == expires)
            return timers[i];
    fail_msg("no timer");
    return NULL;
}

/* When it fires, by the clock that counts steps of the simulation. */
static s_time_t fires(const struct timer *t)
{
    return t->expires - host.cpu[t->cpu].skew + host.timer_late;
}

/* Locks. */

void spin_lock(spinlock_t *lock)
{
    ASSERT(!lock->held);
    lock->held = true;
    host.locks++;
    host.locks_held++;
}

void spin_unlock(spinlock_t *lock)
{
    ASSERT(lock->held);
    lock->held = false;
    host.locks_held--;
}

uint8_t __node_distance(nodeid_t a, nodeid_t b)
{
    ASSERT(node_online(a) && node_online(b));
    return host.distance[a][b];
}

void host_set_mask(cpumask_t *mask, uint64_t bits)
{
    if (host.look)
        host.look();
    mask->bits = bits;
    if (host.look)
        host.look();
}

bool zalloc_cpumask_var(cpumask_var_t *mask)
{
    *mask = host.no_memory ? NULL : calloc(1, sizeof(**mask));
    return *mask;
}

bool alloc_cpumask_var(cpumask_var_t *mask)
{
    return zalloc_cpumask_var(mask);
}

void free_cpumask_var(cpumask_var_t mask)
{
    free(mask);
}

/* Scheduling. */

struct sched_resource *get_sched_res(unsigned int cpu)
{
    ASSERT(sched_res_rculock.readers > 0);
    return &host.cpu[cpu].sr;
}

void tasklet_init(struct tasklet *t, void (*func)(void *), void *data)
{
    *t = (struct tasklet){.func = func, .data = data, .scheduled_on = -1};
}

static void dequeue(struct tasklet *t)
{
    unsigned int keep = 0;

    for (unsigned int i = 0; i < queued; i++)
        if (queue[i] != t)
            queue[keep++] = queue[i];
    queued = keep;
}

static struct tasklet *queued_on(unsigned int cpu)
{
    for (unsigned int i = 0; i < queued; i++)
        if (queue[i]->scheduled_on == (int)cpu)
            return queue[i];
    return NULL;
}

void tasklet_schedule_on_cpu(struct tasklet *t, unsigned int cpu)
{
    struct host_cpu *c = &host.cpu[cpu];

    ASSERT(t->func && cpu_online(cpu) && queued < NR_CPUS);
    t->scheduled_on = cpu;
    if (!t->is_running) {
        dequeue(t);
        queue[queued++] = t;
    }
    if (c->asleep || c->busy)
        c->clock = max(c->clock, host.cpu[host.current].clock);
    c->asleep = false;
}

unsigned int host_tasklet_on(void)
{
    return queued ? (unsigned int)queue[0]->scheduled_on : NR_CPUS;
}

static void run_tasklet(struct host_cpu *c, struct tasklet *t)
{
    s_time_t start = c->clock;

    dequeue(t);
    t->scheduled_on = -1;
    t->is_running = true;
    c->idle.is_running = true;
    if (c->runs++)
        c->shortest_rest = min(c->shortest_rest, start - c->last_run);
    host.in_tasklet = true;
    t->func(t->data);
    host.in_tasklet = false;
    t->is_running = false;
    c->idle.is_running = !c->busy;
    if (t->scheduled_on >= 0)
        queue[queued++] = t;
    c->run_ns += c->clock - start;
    c->longest_run = max(c->longest_run, c->clock - start);
    c->last_run = c->clock;
}

/* CPUs. */

static struct timer *due(unsigned int cpu, s_time_t when)
{
    for (unsigned int i = 0; i < nr_timers; i++)
        if (timers[i]->active && timers[i]->cpu == cpu && fires(timers[i]) <= when)
            return timers[i];
    return NULL;
}

bool host_softirq_pending(void)
{
    struct host_cpu *c = &host.cpu[host.current];

    return c->pending || due(host.current, c->clock);
}

void host_softirqs(void)
{
    struct host_cpu *c = &host.cpu[host.current];
    struct timer *t;

    c->pending = false;
    while ((t = due(host.current, c->clock))) {
        t->active = false;
        c->timers++;
        t->function(t->data);
    }
    c->pending = false;
}

void host_enter(unsigned int cpu)
{
    s_time_t now = 0;

    for (unsigned int i = 0; i < nr_cpu_ids; i++)
        now = max(now, host.cpu[i].clock);
    ASSERT(cpu_online(cpu));
    host.cpu[cpu].clock = now;
    host.current = cpu;
}

void host_interrupt(unsigned int cpu)
{
    unsigned int current = host.current;

    host.current = cpu;
    host.cpu[cpu].pending = true;
    while (host.cpu[cpu].in_run)
        scrub_free_pages();
    host.current = current;
}

/* Once round the idle loop, or what a busy CPU does instead. */
static void turn(unsigned int cpu)
{
    struct host_cpu *c = &host.cpu[cpu];
    struct tasklet *t = queued_on(cpu);

    host.current = cpu;
    c->clock += STEP_NS;
    if (c->in_run && (t || host_softirq_pending())) {
        host_interrupt(cpu);
    } else if (t) {
        run_tasklet(c, t);
    } else if (!c->busy && !host_softirq_pending() && !scrub_free_pages() &&
               !host_softirq_pending()) {
        c->asleep = true;
        return;
    }
    host_softirqs();
    if (c->busy)
        c->asleep = !queued_on(cpu);
}

/* When this CPU next has something to do. */
static s_time_t next_turn(unsigned int cpu)
{
    struct host_cpu *c = &host.cpu[cpu];
    s_time_t next = INT64_MAX;

    if (!c->asleep)
        return c->clock;
    for (unsigned int i = 0; i < nr_timers; i++)
        if (timers[i]->active && timers[i]->cpu == cpu)
            next = min(next, max(fires(timers[i]), c->clock));
    return next;
}

void host_run_until(s_time_t when)
{
    for (;;) {
        s_time_t best = when;
        unsigned int cpu, who = NR_CPUS;

        for_each_online_cpu(cpu)
        {
            s_time_t next = next_turn(cpu);

            if (next < best) {
                best = next;
                who = cpu;
            }
        }
        if (who == NR_CPUS)
            break;
        host.cpu[who].clock = best;
        host.cpu[who].asleep = false;
        turn(who);
    }
    for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++)
        host.cpu[cpu].clock = max(host.cpu[cpu].clock, when);
    host.current = cpumask_first(&cpu_online_map);
}

void host_run(s_time_t duration)
{
    s_time_t now = 0;

    for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++)
        now = max(now, host.cpu[cpu].clock);
    host_run_until(now + duration);
}

void host_busy(unsigned int cpu, bool busy)
{
    struct host_cpu *c = &host.cpu[cpu];

    host_interrupt(cpu);
    c->busy = busy;
    c->idle.is_running = !busy;
    c->asleep = busy;
}

void host_offline(unsigned int cpu)
{
    unsigned int to;

    host_interrupt(cpu);
    cpu_online_map.bits &= ~(1ull << cpu);
    to = cpumask_first(&cpu_online_map);
    host.cpu[cpu].asleep = true;
    for (unsigned int i = 0; i < nr_timers; i++)
        if (timers[i]->cpu == cpu)
            timers[i]->cpu = to;
    for (unsigned int i = 0; i < queued; i++)
        if (queue[i]->scheduled_on == (int)cpu) {
            queue[i]->scheduled_on = to;
            host.cpu[to].asleep = false;
        }
}

void host_online(unsigned int cpu)
{
    host_enter(cpumask_first(&cpu_online_map));
    cpu_online_map.bits |= 1ull << cpu;
    host.cpu[cpu].clock = host.cpu[host.current].clock;
    host.cpu[cpu].asleep = host.cpu[cpu].busy;
}

/* Guest memory. */

size_t host_copy(void *dst, const void *src, size_t len, const void *guest)
{
    if (len && (!guest || ++host.copies == host.fault_at))
        return len;
    ASSERT(!host.locks_held); /* such a copy may take long */
    memcpy(dst, src, len);
    return 0;
}

int xenctl_bitmap_to_cpumask(cpumask_var_t *mask, const struct xenctl_bitmap *bitmap)
{
    uint64_t bits = 0;
    unsigned int nr = min(bitmap->nr_bits, nr_cpu_ids);

    if (host_copy(&bits, bitmap->bitmap.p, (nr + 7) / 8, bitmap->bitmap.p))
        return -EFAULT;
    if (!alloc_cpumask_var(mask))
        return -ENOMEM;
    (*mask)->bits = nr < 64 ? bits & ((1ull << nr) - 1) : bits;
    return 0;
}

int cpumask_to_xenctl_bitmap(struct xenctl_bitmap *bitmap, const cpumask_t *mask)
{
    unsigned int theirs = (bitmap->nr_bits + 7) / 8, ours = (nr_cpu_ids + 7) / 8;

    if (host_copy(bitmap->bitmap.p, &mask->bits, min(theirs, ours), bitmap->bitmap.p))
        return -EFAULT;
    if (theirs > ours)
        memset(bitmap->bitmap.p + ours, 0, theirs - ours);
    return 0;
}
