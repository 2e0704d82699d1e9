/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A step of a teardown: how long it takes, what it reports, and what it refuses without having
 * touched anything.
 */
#include "host.h"

#include "mock-domctl.h"
#include "xen/scrub_ctl.h"

#define CONTINUED 4711

_Static_assert(sizeof(struct xen_domctl_teardown_step) <= 128, "union of xen_domctl");

static struct domain victim, dom0;
static struct vcpu dom0_vcpu;
struct vcpu *current = &dom0_vcpu;

/* How domain_kill() behaves. */
static struct {
    s_time_t unit_ns; /* between two looks for softirqs */
    unsigned int pages_per_unit;
    s_time_t noise_ns; /* other softirqs come that often */
    int error;         /* it returns that at once */
    unsigned int when; /* at that call; 0: never */
} kill;
static unsigned int kills, kicks, continued;
/* Between two entries of a continued hypercall; op is in the caller's memory. */
static void (*meanwhile)(struct xen_domctl *op);

int domain_kill(struct domain *d)
{
    s_time_t start = host.cpu[host.current].clock;

    assert_ptr_equal(d, &victim);
    assert_true(d->is_dying != DOMDYING_dead);
    d->is_dying = DOMDYING_dying;
    if (++kills == kill.when) {
        host.cpu[host.current].clock += US;
        return kill.error;
    }
    while (d->tot_pages) {
        host.cpu[host.current].clock += kill.unit_ns;
        d->tot_pages -= min(d->tot_pages, kill.pages_per_unit);
        d->arch.rel_priv = d->tot_pages ? 3 : 4;
        if (kill.noise_ns && host.cpu[host.current].clock - start >= kill.noise_ns)
            cpu_raise_softirq(host.current, 5);
        if (d->tot_pages && hypercall_preempt_check())
            return -ERESTART;
    }
    d->is_dying = DOMDYING_dead;
    return 0;
}

bool hypercall_preempt_check(void)
{
    return host_softirq_pending();
}

long hypercall_create_continuation(unsigned int op, const char *format,
                                   XEN_GUEST_HANDLE_PARAM(xen_domctl_t) u_domctl)
{
    assert_int_equal(op, __HYPERVISOR_domctl);
    assert_non_null(u_domctl.p);
    continued++;
    return CONTINUED;
}

void scrub_ctl_kick(void)
{
    kicks++;
}

bool scrub_free_pages(void)
{
    return false;
}

static void domain(unsigned int pages)
{
    host_init(1, 2);
    memset(&kill, 0, sizeof(kill));
    kill.unit_ns = 3 * US;
    kill.pages_per_unit = 8;
    memset(&victim, 0, sizeof(victim));
    memcpy(victim.handle, "0123456789abcdef", 16);
    victim.tot_pages = pages;
    dom0_vcpu.domain = &dom0;
    kills = kicks = continued = 0;
    meanwhile = NULL;
}

static struct xen_domctl request(uint32_t max_us, uint32_t flags)
{
    struct xen_domctl op = {.cmd = XEN_DOMCTL_teardown_step};

    memcpy(op.u.teardown_step.handle, victim.handle, 16);
    op.u.teardown_step.max_us = max_us;
    op.u.teardown_step.flags = flags;
    return op;
}

/* As do_domctl() and the way there and back: the operation is read again at each entry. */
static long step(struct xen_domctl *op)
{
    struct xen_domctl *theirs = malloc(sizeof(*theirs));
    XEN_GUEST_HANDLE_PARAM(xen_domctl_t) u_domctl = {theirs};
    long rc;

    *theirs = *op;
    for (;;) {
        struct xen_domctl copy = *theirs;

        rc = domain_teardown_step(&victim, &copy, u_domctl);
        assert_int_equal(host.locks_held, 0);
        if (rc != CONTINUED)
            break;
        assert_in_range(continued, 1, 1000000);
        host.cpu[host.current].clock += US;
        host_softirqs();
        if (meanwhile)
            meanwhile(theirs);
    }
    *op = *theirs;
    free(theirs);
    return rc;
}

static void bounded(void **state)
{
    static const struct {
        uint32_t max_us;
        s_time_t unit_ns;
    } table[] = {
        {100, 3 * US}, {500, 3 * US},     {1000, 3 * US},  {5000, 3 * US},
        {100, 1},      {1000, 300 * US},  {100, 450 * US}, {XEN_TEARDOWN_MAX_US, 100 * US},
        {100, 5 * MS}, {333, 1234567890},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        unsigned int pages = 40000, steps = 0, freed = 0;
        s_time_t start, sum = 0, work;
        uint32_t stage = 0;

        domain(pages);
        kill.unit_ns = table[i].unit_ns;
        do {
            struct xen_domctl op = request(table[i].max_us, 0);
            struct xen_domctl_teardown_step *s = &op.u.teardown_step;

            start = host_now();
            assert_int_equal(step(&op), 0);
            assert_true(host_now() - start <= MICROSECS(table[i].max_us) + kill.unit_ns + 3 * US);
            assert_int_equal(s->error, 0);
            assert_int_equal(s->state, victim.is_dying);
            assert_int_equal(s->pages_left, victim.tot_pages);
            assert_in_range(s->pages_freed, 1, pages);
            assert_int_equal(s->priv[0] | s->priv[1], 0);
            assert_true(s->stage >= stage);
            assert_true(s->cpu_ns <= (uint64_t)(host_now() - start));
            assert_in_range(s->entries, 2, 4);
            assert_int_equal(host_active_timers(), 0);
            stage = s->stage;
            freed += s->pages_freed;
            sum += s->cpu_ns;
            assert_int_equal(kicks, ++steps);
        } while (victim.is_dying != DOMDYING_dead);
        work = (pages + 7) / 8 * kill.unit_ns;
        assert_int_equal(freed, pages);
        assert_int_equal(sum, work);
        /* None is shorter than half of the budget, and the mean is the budget. */
        assert_true(steps <= work / (MICROSECS(table[i].max_us) / 2 - 8 * US) + 1);

        /* Again is fine. */
        for (int query = 0; query < 2; query++) {
            struct xen_domctl op = request(table[i].max_us, query);

            kills = 0;
            assert_int_equal(step(&op), 0);
            assert_int_equal(op.u.teardown_step.state, XEN_TEARDOWN_DEAD);
            assert_int_equal(op.u.teardown_step.pages_freed, 0);
            assert_int_equal(kills, 0);
        }
    }
}

/* Much may happen between two looks for softirqs: then steps leave earlier, to end in time. */
static void leaves_early(void **state)
{
    static const struct {
        uint32_t max_us;
        s_time_t unit_ns;
        s_time_t most; /* from the end of the budget to that of a step */
    } table[] = {
        {500, 400 * US, 300 * US}, {1000, 400 * US, 300 * US}, {5000, 700 * US, 500 * US},
        {1000, 3 * US, 5 * US},    {100, 400 * US, 350 * US},  {5000, 400 * US, 300 * US},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        s_time_t sum = 0;
        int n;

        domain(UINT_MAX);
        kill.unit_ns = table[i].unit_ns;
        for (n = -40; n < 200; n++) {
            struct xen_domctl op = request(table[i].max_us, 0);
            s_time_t start, over;

            host_run(host_random(table[i].unit_ns));
            kill.unit_ns = table[i].unit_ns * 3 / 4 + (s_time_t)host_random(table[i].unit_ns / 4);
            start = host_now();
            assert_int_equal(step(&op), 0);
            over = host_now() - start - MICROSECS(table[i].max_us);
            assert_true(op.u.teardown_step.pages_freed > 0);
            assert_true(over >= -MICROSECS(table[i].max_us) / 2 - US);
            if (n < 0) /* it is learning */
                continue;
            if (over > table[i].most)
                fail_msg("row %zu, step %d: %lld ns late", i, n, (long long)over);
            sum += over;
        }
        /* On average a step takes its budget, if there is any way to. */
        if (MICROSECS(table[i].max_us) > table[i].unit_ns)
            assert_in_range(sum / n + 100 * US, 50 * US, 150 * US);
    }
}

/* One stage that cannot be bounded is not held against the steps after it for long. */
static void learns_from_many(void **state)
{
    for (uint32_t max_us = 100; max_us <= 10000; max_us *= 10) {
        domain(UINT_MAX);
        for (int n = -1; n < 40; n++) {
            struct xen_domctl op = request(max_us, 0);
            s_time_t start = host_now();

            kill.unit_ns = n < 0 ? 50 * MS : US;
            assert_int_equal(step(&op), 0);
            assert_true(n < 0 || host_now() - start >= MICROSECS(max_us) * 15 / 16 - 2 * US);
            assert_true(n < 39 || host_now() - start >= MICROSECS(max_us) * 99 / 100 - US);
        }
    }
}

/* What long steps have taught leaves short ones half of their time. */
static void short_after_long(void **state)
{
    domain(UINT_MAX);
    kill.unit_ns = 50 * MS;
    for (int n = 0; n < 60; n++) {
        struct xen_domctl op = request(XEN_TEARDOWN_MAX_US / 100, 0);

        assert_int_equal(step(&op), 0);
    }
    kill.unit_ns = 100;
    for (int n = 0; n < 5; n++) {
        struct xen_domctl op = request(XEN_TEARDOWN_MIN_US, 0);
        s_time_t start = host_now();

        assert_int_equal(step(&op), 0);
        assert_in_range(host_now() - start, 49 * US, 53 * US);
        assert_true(op.u.teardown_step.pages_freed > 3000);
    }
}

/* Softirqs that have nothing to do with the step do not end it. */
static void noise(void **state)
{
    domain(100000);
    kill.noise_ns = 20 * US;
    while (victim.tot_pages > 3000) {
        struct xen_domctl op = request(1000, 0);
        s_time_t start = host_now();

        assert_int_equal(step(&op), 0);
        assert_int_equal(op.u.teardown_step.error, 0);
        assert_in_range(host_now() - start, 990 * US, 1006 * US);
        assert_in_range(op.u.teardown_step.entries, 40, 60);
        assert_in_range(op.u.teardown_step.cpu_ns, 900 * US, 1006 * US);
        assert_int_equal(host_active_timers(), 0);
    }
}

static void query(void **state)
{
    static const uint32_t flags[] = {XEN_TEARDOWN_QUERY,
                                     XEN_TEARDOWN_QUERY | XEN_TEARDOWN_ONLY_IF_DYING};

    for (int dying = DOMDYING_alive; dying <= DOMDYING_dead; dying++)
        for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
            for (uint32_t max_us = 0; max_us < 3; max_us++) {
                struct xen_domctl op = request(max_us, flags[i]);
                struct domain before;

                domain(1234);
                op = request(max_us == 2 ? UINT32_MAX : max_us, flags[i]);
                victim.is_dying = dying;
                victim.arch.rel_priv = 2;
                before = victim;
                assert_int_equal(step(&op), 0);
                assert_memory_equal(&before, &victim, sizeof(victim));
                assert_int_equal(kills + kicks + continued + host.timer_ops, 0);
                assert_int_equal(op.u.teardown_step.state, dying);
                assert_int_equal(op.u.teardown_step.stage, 2);
                assert_int_equal(op.u.teardown_step.pages_left, 1234);
                assert_int_equal(op.u.teardown_step.pages_freed, 0);
                assert_int_equal(op.u.teardown_step.cpu_ns, 0);
                assert_int_equal(op.u.teardown_step.error, 0);
                assert_int_equal(op.u.teardown_step.entries, 1);
            }
}

static void refused(void **state)
{
    const s_time_t now = SECONDS(1);
    const struct {
        const char *what;
        long error;
        uint32_t max_us, flags;
        uint64_t priv0;
        bool own, handle;
    } table[] = {
        {"no time", -EINVAL, .max_us = 0},
        {"little time", -EINVAL, .max_us = XEN_TEARDOWN_MIN_US - 1},
        {"much time", -EINVAL, .max_us = XEN_TEARDOWN_MAX_US + 1},
        {"all time", -EINVAL, .max_us = UINT32_MAX},
        {"flag 2", -EINVAL, .max_us = 1000, .flags = 4},
        {"flag 31", -EINVAL, .max_us = 1000, .flags = 1u << 31},
        {"query, flag 31", -EINVAL, .flags = 1u << 31 | XEN_TEARDOWN_QUERY},
        {"own domain", -EINVAL, .max_us = 1000, .own = true},
        {"query of own domain", -EINVAL, .flags = XEN_TEARDOWN_QUERY, .own = true},
        {"deadline too late", -EINVAL, .max_us = 1000, .priv0 = now + MS + 1},
        {"deadline at the end", -EINVAL, .max_us = 1000, .priv0 = INT64_MAX},
        {"deadline below 0", -EINVAL, .max_us = 1000, .priv0 = (uint64_t)INT64_MAX + 1},
        {"deadline -1", -EINVAL, .max_us = 1000, .priv0 = UINT64_MAX},
        {"query, deadline", -EINVAL, .flags = XEN_TEARDOWN_QUERY, .priv0 = now},
        {"query, max_us, deadline", -EINVAL, .max_us = 1000, .flags = XEN_TEARDOWN_QUERY,
         .priv0 = now + 1},
        {"another handle", -ESRCH, .max_us = 1000, .handle = true},
        {"query, another handle", -ESRCH, .flags = XEN_TEARDOWN_QUERY, .handle = true},
        {"another handle, dying only", -ESRCH, .max_us = 1000, .flags = XEN_TEARDOWN_ONLY_IF_DYING,
         .handle = true},
        {"alive", -EBUSY, .max_us = 1000, .flags = XEN_TEARDOWN_ONLY_IF_DYING},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        for (unsigned int byte = 0; byte < (table[i].handle ? 16 : 1); byte++) {
            struct xen_domctl op, before;
            struct domain untouched;
            struct host_state *vars;
            long rc;

            domain(1234);
            op = request(table[i].max_us, table[i].flags);
            op.u.teardown_step.priv[0] = table[i].priv0;
            if (table[i].handle)
                op.u.teardown_step.handle[byte] ^= 1;
            if (table[i].own)
                dom0_vcpu.domain = &victim;
            before = op;
            untouched = victim;
            vars = host_save();
            rc = step(&op);
            if (rc != table[i].error)
                fail_msg("%s: %ld instead of %ld", table[i].what, rc, table[i].error);
            assert_true(host_equal(vars, NULL, 0));
            host_free_state(vars);
            assert_memory_equal(&op, &before, sizeof(op));
            assert_memory_equal(&victim, &untouched, sizeof(victim));
            assert_int_equal(kills + kicks + continued + host.timer_ops, 0);
        }
}

static void only_if_dying(void **state)
{
    struct xen_domctl op;

    domain(100000);
    op = request(1000, 0);
    assert_int_equal(step(&op), 0);
    while (victim.is_dying == DOMDYING_dying) {
        op = request(1000, XEN_TEARDOWN_ONLY_IF_DYING);
        assert_int_equal(step(&op), 0);
    }
    op = request(1000, XEN_TEARDOWN_ONLY_IF_DYING);
    assert_int_equal(step(&op), 0);
    assert_int_equal(op.u.teardown_step.state, XEN_TEARDOWN_DEAD);
}

/* What stops a teardown is reported and left to the caller: no loop in the hypervisor. */
static void inner_error(void **state)
{
    static const int errors[] = {-ERESTART, -EINVAL, -ENOMEM, -EBUSY};

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        for (unsigned int when = 1; when < 4; when++) {
            struct xen_domctl op;

            domain(100000);
            kill.error = errors[i];
            kill.when = when;
            do {
                assert_true(kills < when);
                op = request(1000, 0);
                assert_int_equal(step(&op), 0);
            } while (!op.u.teardown_step.error);
            assert_int_equal(op.u.teardown_step.error, errors[i]);
            assert_int_equal(kills, when);
            assert_int_equal(op.u.teardown_step.state, XEN_TEARDOWN_DYING);
            assert_int_equal(host_active_timers(), 0);

            /* It is not sticky. */
            op = request(1000, 0);
            assert_int_equal(step(&op), 0);
            assert_int_equal(op.u.teardown_step.error, 0);
        }
}

/* The caller's memory goes away. */
static void faults(void **state)
{
    for (unsigned int fault_at = 1; fault_at < 4; fault_at++) {
        struct xen_domctl op;
        long rc;

        domain(3000);
        host.fault_at = fault_at;
        op = request(1000, 0);
        rc = step(&op);
        assert_int_equal(rc, fault_at <= host.copies ? -EFAULT : 0);
        host.fault_at = 0;
        host_run(SECONDS(1)); /* whatever timer is left, fires */
        assert_int_equal(host_active_timers(), 0);
        do {
            op = request(1000, 0);
            assert_int_equal(step(&op), 0);
            assert_int_equal(op.u.teardown_step.error, 0);
        } while (op.u.teardown_step.state != XEN_TEARDOWN_DEAD);
        assert_int_equal(victim.tot_pages, 0);
    }
}

static void forge_deadline_away(struct xen_domctl *op)
{
    op->u.teardown_step.priv[0] = 0;
    if (continued > 20)
        meanwhile = NULL;
}

static void forge_deadline_past(struct xen_domctl *op)
{
    op->u.teardown_step.priv[0] = 1;
}

static void forge_deadline_later(struct xen_domctl *op)
{
    op->u.teardown_step.priv[0] += MICROSECS(op->u.teardown_step.max_us);
}

static void forge_pages(struct xen_domctl *op)
{
    op->u.teardown_step.priv[1] = 5;
}

static void forge_max(struct xen_domctl *op)
{
    op->u.teardown_step.max_us = UINT32_MAX;
}

static void forge_handle(struct xen_domctl *op)
{
    op->u.teardown_step.handle[15]++;
}

static void forge_query(struct xen_domctl *op)
{
    op->u.teardown_step.flags = XEN_TEARDOWN_QUERY;
}

/* Another vCPU of the caller writes into the structure while the step continues. */
static void forged(void **state)
{
    static const struct {
        void (*forge)(struct xen_domctl *op);
        long rc;
    } table[] = {
        {forge_deadline_away, 0}, {forge_deadline_past, 0}, {forge_deadline_later, -EINVAL},
        {forge_pages, 0},         {forge_max, -EINVAL},     {forge_handle, -ESRCH},
        {forge_query, -EINVAL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct xen_domctl op;
        s_time_t start;

        domain(100000);
        meanwhile = table[i].forge;
        op = request(1000, 0);
        start = host_now();
        assert_int_equal(step(&op), table[i].rc);
        assert_true(host_now() - start < 30 * MS);
        if (!table[i].rc)
            assert_true(op.u.teardown_step.pages_freed <= 100000);

        /* The next one is as good as any. */
        meanwhile = NULL;
        host_run(10 * MS);
        op = request(1000, 0);
        start = host_now();
        assert_int_equal(step(&op), 0);
        assert_true(host_now() - start <= MS + 6 * US);
        assert_in_range(op.u.teardown_step.pages_freed, 2000, 3000);
        assert_int_equal(host_active_timers(), 0);
    }
}

static void other_step(struct xen_domctl *op)
{
    struct xen_domctl other = request(200, 0);

    meanwhile = NULL;
    assert_int_equal(step(&other), 0);
    assert_true(other.u.teardown_step.pages_freed > 0);
}

/* Two callers at once: their steps take turns, and share the timer. */
static void interleaved(void **state)
{
    domain(100000);
    while (victim.is_dying != DOMDYING_dead) {
        struct xen_domctl op = request(1000, 0);
        s_time_t start = host_now();

        meanwhile = other_step;
        assert_int_equal(step(&op), 0);
        assert_true(host_now() - start <= MS + 12 * US);
        assert_int_equal(op.u.teardown_step.error, 0);
        assert_int_equal(host_active_timers(), 0);
    }
}

static void to_other_cpu(struct xen_domctl *op)
{
    host.cpu[host.current].clock += 5 * US;
    host_enter(1 - host.current);
}

/* The caller's vCPU moves while the step continues, to a CPU with another opinion of time. */
static void moves(void **state)
{
    static const s_time_t skews[] = {0, -US, US, -4 * US, 4 * US};

    for (size_t i = 0; i < ARRAY_SIZE(skews); i++) {
        domain(100000);
        host.cpu[1].skew = skews[i];
        meanwhile = to_other_cpu;
        while (victim.is_dying != DOMDYING_dead) {
            struct xen_domctl op = request(1000, 0);
            s_time_t start = host.cpu[host.current].clock;

            assert_int_equal(step(&op), 0);
            assert_int_equal(op.u.teardown_step.error, 0);
            assert_true(op.u.teardown_step.pages_freed > 0);
            assert_true(host.cpu[host.current].clock - start <= MS + 20 * US);
            assert_int_equal(host_active_timers(), 0);
        }
    }
}

static void killed_by_another(struct xen_domctl *op)
{
    victim.tot_pages = 0;
    victim.is_dying = DOMDYING_dead;
}

/* Someone calls destroydomain in between. */
static void finished_by_another(void **state)
{
    struct xen_domctl op;

    domain(1000);
    meanwhile = killed_by_another;
    op = request(1000, 0);
    assert_int_equal(step(&op), 0);
    assert_int_equal(op.u.teardown_step.state, XEN_TEARDOWN_DEAD);
    assert_int_equal(op.u.teardown_step.pages_left, 0);
    assert_int_equal(op.u.teardown_step.pages_freed, 1000);
    assert_int_equal(kills, 0);
    host_run(SECONDS(1));
    assert_int_equal(host_active_timers(), 0);
}

/* A domain that gets pages while it is torn down (in the middle of its being built, say). */
static void grows(struct xen_domctl *op)
{
    victim.tot_pages += 1000;
    meanwhile = NULL;
}

static void more_pages_than_before(void **state)
{
    struct xen_domctl op;

    domain(10);
    meanwhile = grows;
    op = request(100, 0);
    assert_int_equal(step(&op), 0);
    assert_int_equal(op.u.teardown_step.pages_left, victim.tot_pages);
    assert_int_equal(op.u.teardown_step.pages_freed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounded),
        cmocka_unit_test(leaves_early),
        cmocka_unit_test(learns_from_many),
        cmocka_unit_test(short_after_long),
        cmocka_unit_test(noise),
        cmocka_unit_test(query),
        cmocka_unit_test(refused),
        cmocka_unit_test(only_if_dying),
        cmocka_unit_test(inner_error),
        cmocka_unit_test(faults),
        cmocka_unit_test(forged),
        cmocka_unit_test(interleaved),
        cmocka_unit_test(moves),
        cmocka_unit_test(finished_by_another),
        cmocka_unit_test(more_pages_than_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
