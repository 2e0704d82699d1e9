/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * labfuzz COUNT [seed=N] [domain=DOMID]: random calls of scrub_control and teardown_step, from
 * dom0.
 *
 * Each call is judged: one with a fault must fail, with a documented error, one without must
 * succeed. After each, settings and the domain are asked for and have to be what they were; after a
 * SET, what was set. Steps go to dom0 (refused), to domids that nobody has, and to a domain that is
 * sacrificed: DOMID first, then small ones that are made here. No other domain is ever named.
 *
 * The last line is JSON on stdout; exit status 1 and a description on stderr if a call went wrong.
 * Nothing else may use the two operations meanwhile: scrubd has to be stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <xen/sysctl.h>
#include <xencall.h>
#include <xenctrl.h>

#include "scrub_ctl.h"

#define NODES_MAX 64
#define CPUS_MAX 512
#define PAGE 4096u
#define AREA_PAGES 3 /* more than any array that is passed */
#define MADE_PAGES 1024
#define PV_KIB 16384
#define LONG_LEASE_MS 1800000
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

struct settings {
    uint64_t ceiling[NODES_MAX], floor[NODES_MAX];
    uint8_t mask[CPUS_MAX / 8];
    bool masked, lease;
};

/* What is known of the domain that is sacrificed. */
struct victim {
    bool there, made;
    domid_t domid;
    uint8_t handle[16];
    uint32_t state, stage;
    uint64_t pages;
};

enum kind {
    GET,
    SET,
    RESET,
    NO_OP,
    STEP,
    QUERY,
    KINDS
};
static const char *const kind_name[KINDS] = {"get", "set", "reset", "no_op", "step", "query"};

/* Counts of what came back: 0, then errors in this order. */
static const int results[] = {0, EINVAL, EFAULT, ESRCH, EBUSY, EACCES};
static const char *const result_name[] = {"ok", "EINVAL", "EFAULT", "ESRCH", "EBUSY", "EACCES"};

struct fuzz {
    xencall_handle *xcall;
    xc_interface *xch;
    uint64_t seed, rng, serial, count;
    uint32_t nodes, cpus;
    uint64_t now_ns;
    struct settings expected;
    uint8_t online[CPUS_MAX / 8];
    struct victim victim;
    unsigned int made, begun, ended, leases_ended, inner_errors;
    uint64_t mix[KINDS][COUNT_OF(results)];
    /* Areas of AREA_PAGES with nothing mapped before and behind. */
    uint8_t *data, *data_ro; /* arrays that handles point to */
    uint8_t *op, *op_ro;     /* where struct xen_sysctl and xen_domctl are */
    /* Arrays of the calls that check, and their structure */
    xen_scrub_node_t *got_nodes;
    uint8_t *got_mask;
    void *check_op;
    const void *last; /* structure of the call that is judged, for the description */
    size_t last_size;
};

static struct fuzz *the_fuzz; /* for the end of the program */

/* --- Randomness: splitmix64 --- */

static uint64_t rnd(struct fuzz *f)
{
    uint64_t z = (f->rng += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static uint64_t below(struct fuzz *f, uint64_t n)
{
    return rnd(f) % n;
}

static bool one_in(struct fuzz *f, unsigned int n)
{
    return below(f, n) == 0;
}

/* One of a few values, or a random one of a random size. */
static uint64_t pick(struct fuzz *f, const uint64_t *values, size_t n)
{
    size_t i = below(f, n + 1);

    return i < n ? values[i] : rnd(f) >> below(f, 64);
}

/* --- Calls --- */

static void reset_at_exit(void);

__attribute__((format(printf, 2, 3), noreturn)) static void wrong(struct fuzz *f, const char *form,
                                                                  ...)
{
    va_list args;

    fprintf(stderr, "labfuzz: seed=%" PRIu64 " call %" PRIu64 ": ", f->seed, f->serial);
    va_start(args, form);
    vfprintf(stderr, form, args);
    va_end(args);
    if (f->last) {
        fprintf(stderr, "\nlabfuzz: the structure, as given:");
        for (size_t i = 0; i < f->last_size; i += 8) {
            uint64_t word;

            memcpy(&word, (const uint8_t *)f->last + i, 8);
            fprintf(stderr, " %" PRIx64, word);
        }
    }
    fprintf(stderr, "\n");
    exit(1);
}

static int call(struct fuzz *f, unsigned int which, uint64_t address)
{
    return xencall1(f->xcall, which, address) < 0 ? errno : 0;
}

static void fill_sysctl(struct xen_sysctl *op, const struct xen_sysctl_scrub_control *ctl)
{
    memset(op, 0, sizeof(*op));
    op->cmd = XEN_SYSCTL_scrub_control;
    op->interface_version = XEN_SYSCTL_INTERFACE_VERSION;
    memcpy(op->u.pad, ctl, sizeof(*ctl));
}

static int check_sysctl(struct fuzz *f, struct xen_sysctl_scrub_control *ctl)
{
    struct xen_sysctl *op = f->check_op;
    int rc;

    ctl->version = XEN_SCRUB_CTL_VERSION;
    fill_sysctl(op, ctl);
    rc = call(f, __HYPERVISOR_sysctl, (uintptr_t)op);
    memcpy(ctl, op->u.pad, sizeof(*ctl));
    return rc;
}

/* What is set, by GET. lease_ms: what is left of it. */
static void get_settings(struct fuzz *f, struct settings *ret, uint32_t *ret_lease_ms)
{
    struct xen_sysctl_scrub_control ctl = {
        .op = XEN_SCRUB_GET, .nr_nodes = NODES_MAX, .mask.nr_bits = CPUS_MAX};
    int rc;

    set_xen_guest_handle_raw(ctl.nodes, f->got_nodes);
    set_xen_guest_handle_raw(ctl.mask.bitmap, f->got_mask);
    rc = check_sysctl(f, &ctl);
    if (rc || ctl.nr_nodes > NODES_MAX || ctl.nr_cpus > CPUS_MAX)
        wrong(f, "GET of the settings: %s, %u nodes, %u CPUs", strerror(rc), ctl.nr_nodes,
              ctl.nr_cpus);
    f->nodes = ctl.nr_nodes;
    f->cpus = ctl.nr_cpus;
    if ((uint64_t)ctl.now_ns < f->now_ns)
        wrong(f, "the hypervisor's clock went back");
    f->now_ns = ctl.now_ns;
    memset(ret, 0, sizeof(*ret));
    for (uint32_t i = 0; i < f->nodes; i++) {
        const xen_scrub_node_t *n = &f->got_nodes[i];

        ret->ceiling[i] = n->ceiling_kib;
        ret->floor[i] = n->floor_kib;
        if (n->dirty != n->dirtied - n->idle - n->floor - n->alloc - n->dropped)
            wrong(f, "node %u: the counters do not add up", i);
    }
    memcpy(ret->mask, f->got_mask, sizeof(ret->mask));
    ret->masked = ctl.flags & XEN_SCRUB_MASKED;
    ret->lease = ctl.lease_ms != 0;
    *ret_lease_ms = ctl.lease_ms;
}

static int reset_settings(struct fuzz *f)
{
    struct xen_sysctl_scrub_control ctl = {.op = XEN_SCRUB_RESET};

    return check_sysctl(f, &ctl);
}

static void no_settings(struct fuzz *f, struct settings *s)
{
    memset(s, 0, sizeof(*s));
    memcpy(s->mask, f->online, sizeof(s->mask));
}

static void settings_as_expected(struct fuzz *f, const char *after)
{
    const struct settings *e = &f->expected;
    struct settings now;
    uint32_t lease_ms;

    get_settings(f, &now, &lease_ms);
    for (uint32_t i = 0; i < f->nodes; i++)
        if (now.ceiling[i] != e->ceiling[i] || now.floor[i] != e->floor[i])
            wrong(f,
                  "%s: node %u has ceiling %" PRIu64 " floor %" PRIu64 ", not %" PRIu64 " %" PRIu64,
                  after, i, now.ceiling[i], now.floor[i], e->ceiling[i], e->floor[i]);
    if (memcmp(now.mask, e->mask, sizeof(now.mask)) != 0 || now.masked != e->masked)
        wrong(f, "%s: mask %02x.. masked %d, not %02x.. %d", after, now.mask[0], now.masked,
              e->mask[0], e->masked);
    if (now.lease != e->lease)
        wrong(f, "%s: the lease is %u ms, expected %s", after, lease_ms, e->lease ? "one" : "none");
}

/* --- The domain that is sacrificed --- */

static int query(struct fuzz *f, struct xen_domctl_teardown_step *ret)
{
    struct xen_domctl *op = f->check_op;
    struct xen_domctl_teardown_step step = {.flags = XEN_TEARDOWN_QUERY};
    int rc;

    memcpy(step.handle, f->victim.handle, sizeof(step.handle));
    memset(op, 0, sizeof(*op));
    op->cmd = XEN_DOMCTL_teardown_step;
    op->interface_version = XEN_DOMCTL_INTERFACE_VERSION;
    op->domain = f->victim.domid;
    memcpy(op->u.pad, &step, sizeof(step));
    rc = call(f, __HYPERVISOR_domctl, (uintptr_t)op);
    memcpy(ret, op->u.pad, sizeof(*ret));
    return rc;
}

/* May be called once it is known to be dead; then it is gone as soon as Xen is done with it. */
static void learn_victim(struct fuzz *f)
{
    struct xen_domctl_teardown_step step;
    int rc = query(f, &step);

    if (rc)
        wrong(f, "QUERY of domain %u: %s", f->victim.domid, strerror(rc));
    f->victim.there = true;
    f->victim.state = step.state;
    f->victim.stage = step.stage;
    f->victim.pages = step.pages_left;
}

static void adopt_victim(struct fuzz *f, uint32_t domid)
{
    xc_domaininfo_t info;

    if (domid == 0 || xc_domain_getinfolist(f->xch, domid, 1, &info) != 1 || info.domain != domid)
        wrong(f, "no domain %u", domid);
    f->victim.domid = domid;
    memcpy(f->victim.handle, info.handle, sizeof(f->victim.handle));
    learn_victim(f);
}

/* A domain with memory and a vCPU that never runs. */
static void make_victim(struct fuzz *f)
{
    bool pvh = one_in(f, 2);
    uint32_t domid = 0;
    static xen_pfn_t pfns[MADE_PAGES];
    struct xen_domctl_createdomain config = {
        .flags = pvh ? XEN_DOMCTL_CDF_hvm | XEN_DOMCTL_CDF_hap : 0,
        .max_vcpus = 1,
        .max_evtchn_port = 1023,
        .max_grant_frames = 4,
        .max_maptrack_frames = 8,
        .grant_opts = XEN_DOMCTL_GRANT_version(1),
        .arch.emulation_flags = pvh ? XEN_X86_EMU_LAPIC : 0,
    };

    for (size_t i = 0; i < sizeof(config.handle); i++)
        config.handle[i] = (uint8_t)rnd(f);
    for (size_t i = 0; i < MADE_PAGES; i++)
        pfns[i] = i;
    if (xc_domain_create(f->xch, &domid, &config) != 0)
        wrong(f, "cannot make a domain: %s", strerror(errno));
    f->victim = (struct victim){.made = true, .domid = (domid_t)domid};
    memcpy(f->victim.handle, config.handle, sizeof(config.handle));
    f->made++;
    if (xc_domain_max_vcpus(f->xch, domid, 1) != 0 ||
        xc_domain_setmaxmem(f->xch, domid, PV_KIB) != 0 ||
        (pvh && xc_set_paging_mempool_size(f->xch, domid, 1 << 20) != 0) ||
        xc_domain_populate_physmap_exact(f->xch, domid, MADE_PAGES, 0, 0, pfns) != 0)
        wrong(f, "cannot build domain %u: %s", domid, strerror(errno));
    learn_victim(f);
}

/* Waits for the end of a domain that is dead, unless someone holds it; forgets it. */
static void bury_victim(struct fuzz *f)
{
    struct xen_domctl_teardown_step step;
    int rc = 0;

    for (int tries = 0; tries < 2000 && !rc; tries++) {
        rc = query(f, &step);
        if (!rc && f->victim.made)
            usleep(500);
        else if (!rc)
            break; /* a real guest: its console may hold a page for a while */
    }
    if (rc != ESRCH && f->victim.made)
        wrong(f, "domain %u does not go away: %s", f->victim.domid, strerror(rc));
    f->victim.there = false;
    f->ended++;
}

static void victim_as_expected(struct fuzz *f, const char *after)
{
    struct xen_domctl_teardown_step step;
    int rc;

    if (!f->victim.there)
        return;
    rc = query(f, &step);
    if (rc || step.state != f->victim.state || step.stage != f->victim.stage ||
        step.pages_left != f->victim.pages || step.error || step.priv[0] || step.priv[1])
        wrong(f, "%s: domain %u: %s, state %u stage %u pages %" PRIu64 ", was %u %u %" PRIu64,
              after, f->victim.domid, rc ? strerror(rc) : "there", step.state, step.stage,
              (uint64_t)step.pages_left, f->victim.state, f->victim.stage, f->victim.pages);
}

/* --- Memory that handles point to --- */

/* Memory that Xen can always reach: dom0's kernel neither moves nor drops it. */
static uint8_t *area(struct fuzz *f, int prot)
{
    int fd = open("/dev/xen/hypercall", O_RDWR | O_CLOEXEC);
    size_t size = AREA_PAGES * PAGE;
    uint8_t *p = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || fd < 0 ||
        mmap(p + PAGE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        wrong(f, "memory: %s", strerror(errno));
    memset(p + PAGE, 0, size);
    if (prot != (PROT_READ | PROT_WRITE) && mprotect(p + PAGE, size, prot) != 0)
        wrong(f, "mprotect: %s", strerror(errno));
    close(fd);
    return p + PAGE;
}

static bool inside(const uint8_t *a, uint64_t address, uint64_t size)
{
    uint64_t offset = address - (uintptr_t)a;

    return offset <= AREA_PAGES * PAGE && size <= AREA_PAGES * PAGE - offset;
}

static bool can_read(const struct fuzz *f, uint64_t address, uint64_t size)
{
    return size == 0 || inside(f->data, address, size) || inside(f->data_ro, address, size);
}

static bool can_write(const struct fuzz *f, uint64_t address, uint64_t size)
{
    return size == 0 || inside(f->data, address, size);
}

/*
 * Never an address in dom0's kernel: Xen would write there, as it should. The ends of what a
 * program can have, what no address is, Xen's own memory, and the very last page.
 */
static uint64_t bad_address(struct fuzz *f)
{
    static const uint64_t base[] = {0x00007ffffffff000, 0x0000800000000000, 0x5a5a5a5a5a5a5000,
                                    0xffff7ffffffff000, 0xffff800000000000, 0xffff82d040200000,
                                    0xffff82e000000000, 0xfffffffffffff000};

    return base[below(f, COUNT_OF(base))] + below(f, PAGE);
}

/* size: what an honest caller needs there. Most often the answer is such an address. */
static uint64_t address(struct fuzz *f, uint8_t *rw, uint8_t *ro, uint64_t size)
{
    uint64_t end = AREA_PAGES * PAGE;

    switch (below(f, 24)) {
    case 0:
        return 0;
    case 1:
        return (uintptr_t)rw + end - below(f, size + 1); /* partly valid, or just so */
    case 2:
        return (uintptr_t)rw - 1 - below(f, PAGE); /* into it from what is not mapped */
    case 3:
        return (uintptr_t)rw + end + below(f, PAGE);
    case 4:
        return (uintptr_t)ro + below(f, PAGE);
    case 5:
        return bad_address(f);
    case 6:
    case 7:
        return (uintptr_t)rw + below(f, end - size); /* any alignment */
    default:
        return (uintptr_t)rw + 8 * below(f, (end - size) / 8);
    }
}

/* --- scrub_control --- */

static uint64_t random_rate(struct fuzz *f, uint64_t most)
{
    const uint64_t values[] = {0, 0, 1, 4, 1024, 65536, 524288, most - 1, most};
    const uint64_t rare[] = {most + 1, most * 2, UINT32_MAX, 1ULL << 32, UINT64_MAX, 1ULL << 63};

    if (one_in(f, 60))
        return pick(f, rare, COUNT_OF(rare));
    return values[below(f, COUNT_OF(values))];
}

/* For arrays in writable memory; what cannot be reached stays as it is. */
static void put_rates(struct fuzz *f, uint64_t address)
{
    xen_scrub_node_t n;

    for (uint32_t i = 0; i < f->nodes; i++, address += sizeof(n)) {
        if (!can_write(f, address, sizeof(n)))
            return;
        memset(&n, one_in(f, 4) ? 0xff : 0, sizeof(n)); /* counters are not for SET to read */
        n.ceiling_kib = random_rate(f, XEN_SCRUB_MAX_KIB);
        n.floor_kib = random_rate(f, XEN_SCRUB_MAX_FLOOR_KIB);
        if (n.ceiling_kib && n.floor_kib > n.ceiling_kib && !one_in(f, 8))
            n.floor_kib = n.ceiling_kib - one_in(f, 2);
        memcpy((void *)(uintptr_t)address, &n, sizeof(n));
    }
}

static void put_mask(struct fuzz *f, uint64_t address)
{
    for (uint32_t i = 0; i < (f->cpus + 7) / 8; i++)
        if (can_write(f, address + i, 1))
            *(uint8_t *)(uintptr_t)(address + i) = (uint8_t)(one_in(f, 3)   ? 0xff
                                                             : one_in(f, 4) ? 0
                                                                            : rnd(f));
}

static bool nothing_set(const struct fuzz *f, const struct settings *s)
{
    for (uint32_t i = 0; i < f->nodes; i++)
        if (s->ceiling[i] || s->floor[i])
            return false;
    return !s->masked;
}

/* What a SET with these arguments does, or false if it has to fail. */
static bool would_set(const struct fuzz *f, const struct xen_sysctl_scrub_control *ctl,
                      struct settings *ret)
{
    uint64_t nodes = (uintptr_t)ctl->nodes.p, mask = (uintptr_t)ctl->mask.bitmap.p;
    uint32_t bytes = (f->cpus + 7) / 8;
    bool online = false;

    if (ctl->version != XEN_SCRUB_CTL_VERSION || ctl->flags ||
        ctl->lease_ms > XEN_SCRUB_MAX_LEASE_MS || ctl->nr_nodes != f->nodes ||
        ctl->mask.nr_bits != f->cpus || !can_read(f, nodes, f->nodes * sizeof(xen_scrub_node_t)) ||
        !can_read(f, mask, bytes))
        return false;
    memset(ret, 0, sizeof(*ret));
    for (uint32_t i = 0; i < f->nodes; i++) {
        xen_scrub_node_t n;

        memcpy(&n, (void *)(uintptr_t)(nodes + i * sizeof(n)), sizeof(n));
        if (n.ceiling_kib > XEN_SCRUB_MAX_KIB || n.floor_kib > XEN_SCRUB_MAX_FLOOR_KIB ||
            (n.ceiling_kib && n.floor_kib > n.ceiling_kib))
            return false;
        ret->ceiling[i] = n.ceiling_kib;
        ret->floor[i] = n.floor_kib;
    }
    for (uint32_t cpu = 0; cpu < f->cpus; cpu++) {
        uint8_t bit = (uint8_t)(1 << (cpu % 8));

        if (!(((const uint8_t *)(uintptr_t)mask)[cpu / 8] & bit)) {
            ret->masked = true;
        } else if (f->online[cpu / 8] & bit) {
            ret->mask[cpu / 8] |= bit;
            online = true;
        }
    }
    ret->lease = ctl->lease_ms != 0;
    return online;
}

static bool would_get(const struct fuzz *f, const struct xen_sysctl_scrub_control *ctl)
{
    uint64_t nodes = (uintptr_t)ctl->nodes.p, cpus = (uintptr_t)ctl->cpus.p;
    uint64_t mask = (uintptr_t)ctl->mask.bitmap.p;
    uint32_t nr_nodes = ctl->nr_nodes < f->nodes ? ctl->nr_nodes : f->nodes;
    uint32_t nr_cpus = ctl->nr_cpus < f->cpus ? ctl->nr_cpus : f->cpus;

    /* The number of bytes wraps in Xen, for every bitmap. */
    return ctl->version == XEN_SCRUB_CTL_VERSION &&
           (!nodes || can_write(f, nodes, nr_nodes * sizeof(xen_scrub_node_t))) &&
           (!cpus || can_write(f, cpus, nr_cpus * sizeof(xen_scrub_cpu_t))) &&
           (!mask || can_write(f, mask, (ctl->mask.nr_bits + 7u) / 8));
}

static uint32_t random_lease(struct fuzz *f)
{
    static const uint64_t values[] = {XEN_SCRUB_MAX_LEASE_MS, XEN_SCRUB_MAX_LEASE_MS - 1,
                                      LONG_LEASE_MS};
    static const uint64_t rare[] = {XEN_SCRUB_MAX_LEASE_MS + 1, UINT32_MAX, 1u << 31};

    if (one_in(f, 12))
        return (uint32_t)rare[below(f, COUNT_OF(rare))];
    if (one_in(f, 800))
        return 1 + (uint32_t)below(f, 20); /* and this one is waited for */
    return one_in(f, 2) ? 0 : (uint32_t)values[below(f, COUNT_OF(values))];
}

static enum kind random_ctl(struct fuzz *f, struct xen_sysctl_scrub_control *ctl)
{
    const uint64_t odd[] = {0, 1, 2, 7, 8, 63, 64, 65, 0x7fffffff, 0xfffffff8, 0xffffffff};
    static const uint64_t versions[] = {0, 2, UINT32_MAX};
    static const uint64_t ops[] = {3, 255, UINT32_MAX};
    uint64_t nodes, cpus, mask;

    memset(ctl, 0, sizeof(*ctl));
    ctl->version =
        one_in(f, 30) ? (uint32_t)pick(f, versions, COUNT_OF(versions)) : XEN_SCRUB_CTL_VERSION;
    ctl->op = one_in(f, 30)  ? (uint32_t)pick(f, ops, COUNT_OF(ops))
              : one_in(f, 8) ? XEN_SCRUB_RESET
              : one_in(f, 3) ? XEN_SCRUB_GET
                             : XEN_SCRUB_SET;
    ctl->flags = one_in(f, 16) ? 1u << below(f, 32) : one_in(f, 60) ? (uint32_t)rnd(f) : 0;
    ctl->lease_ms = random_lease(f);
    ctl->nr_nodes = one_in(f, 12) ? (uint32_t)pick(f, odd, COUNT_OF(odd)) : f->nodes;
    ctl->nr_cpus = one_in(f, 12) ? (uint32_t)pick(f, odd, COUNT_OF(odd)) : f->cpus;
    ctl->mask.nr_bits = one_in(f, 12) ? (uint32_t)pick(f, odd, COUNT_OF(odd)) : f->cpus;
    nodes = address(f, f->data, f->data_ro, f->nodes * sizeof(xen_scrub_node_t));
    cpus = address(f, f->data, f->data_ro, f->cpus * sizeof(xen_scrub_cpu_t));
    mask = address(f, f->data, f->data_ro, (f->cpus + 7) / 8);
    set_xen_guest_handle_raw(ctl->nodes, (void *)(uintptr_t)nodes);
    set_xen_guest_handle_raw(ctl->cpus, (void *)(uintptr_t)cpus);
    set_xen_guest_handle_raw(ctl->mask.bitmap, (void *)(uintptr_t)mask);
    if (ctl->op == XEN_SCRUB_SET) {
        put_rates(f, nodes);
        put_mask(f, mask);
    }
    return ctl->op == XEN_SCRUB_GET     ? GET
           : ctl->op == XEN_SCRUB_SET   ? SET
           : ctl->op == XEN_SCRUB_RESET ? RESET
                                        : NO_OP;
}

/* --- Judging --- */

static void note(struct fuzz *f, enum kind kind, int rc)
{
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        if (results[i] == rc) {
            f->mix[kind][i]++;
            return;
        }
    }
    wrong(f, "%s: an error that is not documented: %s", kind_name[kind], strerror(rc));
}

/*
 * Copies the structure to where the call will find it: mostly memory that is all right, always if
 * not odd. Xen can read it there, and write its answer.
 */
static uint64_t place(struct fuzz *f, const void *op, size_t size, bool odd, bool *ret_readable,
                      bool *ret_writable)
{
    uint64_t a = (uintptr_t)f->op;

    *ret_readable = *ret_writable = true;
    if (odd && one_in(f, 40)) {
        a = address(f, f->op, f->op_ro, size);
        *ret_writable = inside(f->op, a, size);
        *ret_readable = *ret_writable || inside(f->op_ro, a, size);
    }
    if (inside(f->op_ro, a, size))
        mprotect(f->op_ro, AREA_PAGES * PAGE, PROT_READ | PROT_WRITE);
    if (*ret_readable)
        memcpy((void *)(uintptr_t)a, op, size);
    if (inside(f->op_ro, a, size))
        mprotect(f->op_ro, AREA_PAGES * PAGE, PROT_READ);
    f->last = op;
    f->last_size = size;
    return a;
}

/* Expected is that nothing is set. */
static void lease_has_to_end(struct fuzz *f)
{
    struct settings now;
    uint32_t lease_ms;
    time_t end = time(NULL) + 20;

    do {
        get_settings(f, &now, &lease_ms);
        if (time(NULL) > end)
            wrong(f, "the lease does not end: %u ms left", lease_ms);
        /* Not just the time left, which is 0 for a moment before they go. */
    } while (memcmp(&now, &f->expected, sizeof(now)) != 0);
    f->leases_ended++;
}

static void fuzz_scrub_control(struct fuzz *f)
{
    struct xen_sysctl_scrub_control ctl;
    struct xen_sysctl op;
    struct settings set;
    bool readable, writable, good;
    enum kind kind = random_ctl(f, &ctl);
    uint64_t where;
    int rc;

    good = kind == GET   ? would_get(f, &ctl)
           : kind == SET ? would_set(f, &ctl, &set)
                         : kind == RESET && ctl.version == XEN_SCRUB_CTL_VERSION;
    /* The end of a lease could not be seen if there is nothing to end. */
    if (good && kind == SET && ctl.lease_ms && ctl.lease_ms < LONG_LEASE_MS &&
        nothing_set(f, &set)) {
        ctl.lease_ms = 0;
        set.lease = false;
    }
    fill_sysctl(&op, &ctl);
    if (one_in(f, 100)) {
        op.interface_version += one_in(f, 2) ? 1 : (uint32_t)rnd(f) | 1;
        good = false;
    }
    where = place(f, &op, sizeof(op), true, &readable, &writable);
    rc = call(f, __HYPERVISOR_sysctl, where);
    note(f, kind, rc);
    if (good && readable && !writable && kind != GET)
        good = !rc; /* nothing to write there: that may be an error, which has changed nothing */
    good = good && (writable || (readable && kind != GET));
    if (!rc != good)
        wrong(f, "%s: %s, but it should %s", kind_name[kind], rc ? strerror(rc) : "success",
              good ? "succeed" : "fail");
    if (good && kind == GET) {
        struct xen_sysctl_scrub_control out;

        memcpy(&out, ((struct xen_sysctl *)(uintptr_t)where)->u.pad, sizeof(out));
        if (out.nr_nodes != f->nodes || out.nr_cpus != f->cpus)
            wrong(f, "GET says %u nodes and %u CPUs", out.nr_nodes, out.nr_cpus);
    } else if (good && kind == RESET) {
        no_settings(f, &f->expected);
    } else if (good && kind == SET) {
        if (ctl.lease_ms && ctl.lease_ms < LONG_LEASE_MS) {
            no_settings(f, &f->expected);
            lease_has_to_end(f);
        } else {
            f->expected = set;
        }
    }
    settings_as_expected(f, rc ? "after an error" : "after success");
    if (rc || one_in(f, 16))
        victim_as_expected(f, rc ? "after an error of scrub_control" : "after scrub_control");
}

/* --- teardown_step --- */

static domid_t other_domid(struct fuzz *f)
{
    static const domid_t special[] = {DOMID_SELF,    DOMID_IO, DOMID_XEN, DOMID_COW, DOMID_IDLE,
                                      DOMID_INVALID, 0x7fef,   0x8000,    0xffff,    0};

    if (one_in(f, 2))
        return special[below(f, COUNT_OF(special))];
    return (domid_t)(20000 + below(f, 12000)); /* domids are given out from 1 up */
}

static void random_private(struct fuzz *f, struct xen_domctl_teardown_step *step)
{
    uint64_t values[] = {1,         f->now_ns / 2 + 1, f->now_ns,  f->now_ns + 10000000000ULL,
                         INT64_MAX, 1ULL << 63,        UINT64_MAX, 1};

    /* Surely before the latest end that is allowed. */
    values[7] = f->now_ns + step->max_us * 100ULL;
    step->priv[0] = one_in(f, 4) ? 0 : values[below(f, COUNT_OF(values))];
    step->priv[1] = one_in(f, 2) ? rnd(f) : below(f, 5000);
    step->entries = (uint32_t)(one_in(f, 2) ? rnd(f) : below(f, 3) - 1);
    step->cpu_ns = rnd(f);
    step->error = (int32_t)rnd(f);
    step->state = (uint32_t)rnd(f);
    step->stage = (uint32_t)rnd(f);
    step->pages_left = rnd(f);
}

static void random_step(struct fuzz *f, struct xen_domctl_teardown_step *step)
{
    static const uint64_t limits[] = {0,
                                      1,
                                      XEN_TEARDOWN_MIN_US - 1,
                                      XEN_TEARDOWN_MIN_US,
                                      XEN_TEARDOWN_MIN_US + 1,
                                      XEN_TEARDOWN_MAX_US - 1,
                                      XEN_TEARDOWN_MAX_US,
                                      XEN_TEARDOWN_MAX_US + 1,
                                      UINT32_MAX};

    memset(step, 0, sizeof(*step));
    memcpy(step->handle, f->victim.handle, sizeof(step->handle));
    if (one_in(f, 12))
        step->handle[below(f, 16)] ^= (uint8_t)(1 << below(f, 8));
    else if (one_in(f, 16))
        memset(step->handle, one_in(f, 2) ? 0 : 0xff, sizeof(step->handle));
    step->max_us = one_in(f, 3) ? (uint32_t)pick(f, limits, COUNT_OF(limits)) : XEN_TEARDOWN_MIN_US;
    step->flags = (uint32_t)below(f, 4);
    if (one_in(f, 8))
        step->flags |= one_in(f, 4) ? (uint32_t)rnd(f) : 1u << below(f, 32);
    if (one_in(f, 6))
        random_private(f, step);
}

/* Has a step on the victim to succeed, where it is by now? */
static bool would_step(const struct fuzz *f, const struct xen_domctl_teardown_step *step)
{
    bool asks = step->flags & XEN_TEARDOWN_QUERY;
    int64_t deadline = (int64_t)step->priv[0];

    return (step->flags & ~(XEN_TEARDOWN_QUERY | XEN_TEARDOWN_ONLY_IF_DYING)) == 0 &&
           (asks || (step->max_us >= XEN_TEARDOWN_MIN_US && step->max_us <= XEN_TEARDOWN_MAX_US)) &&
           deadline >= 0 && deadline <= (int64_t)(f->now_ns + step->max_us * 1000ULL) &&
           !(asks && deadline) && memcmp(step->handle, f->victim.handle, 16) == 0 &&
           (asks || !(step->flags & XEN_TEARDOWN_ONLY_IF_DYING) ||
            f->victim.state != XEN_TEARDOWN_ALIVE);
}

static void after_step(struct fuzz *f, const struct xen_domctl_teardown_step *given,
                       const struct xen_domctl_teardown_step *out)
{
    struct victim *v = &f->victim;

    if (out->priv[0] || out->priv[1])
        wrong(f, "a step left its private fields behind");
    if (given->flags & XEN_TEARDOWN_QUERY) {
        if (out->state != v->state || out->stage != v->stage || out->pages_left != v->pages ||
            out->pages_freed || out->error || out->cpu_ns)
            wrong(f, "QUERY says state %u stage %u pages %" PRIu64, out->state, out->stage,
                  (uint64_t)out->pages_left);
        victim_as_expected(f, "after QUERY");
        return;
    }
    if (out->state < XEN_TEARDOWN_DYING || out->state > XEN_TEARDOWN_DEAD ||
        out->state < v->state || out->stage < v->stage || out->pages_left > v->pages)
        wrong(f, "a step went back: state %u stage %u pages %" PRIu64 ", was %u %u %" PRIu64,
              out->state, out->stage, (uint64_t)out->pages_left, v->state, v->stage, v->pages);
    if (!given->priv[0] && out->pages_freed != v->pages - out->pages_left)
        wrong(f, "a step freed %" PRIu64 " pages and says %" PRIu64,
              v->pages - (uint64_t)out->pages_left, (uint64_t)out->pages_freed);
    if (v->state == XEN_TEARDOWN_ALIVE)
        f->begun++;
    if (!given->priv[0] && out->error)
        f->inner_errors++;
    v->state = out->state;
    v->stage = out->stage;
    v->pages = out->pages_left;
    if (v->state == XEN_TEARDOWN_DEAD)
        bury_victim(f);
    else
        victim_as_expected(f, "after a step");
}

static void fuzz_step(struct fuzz *f)
{
    struct xen_domctl_teardown_step step, out;
    struct xen_domctl op;
    bool readable, writable, good, on_victim;
    enum kind kind;
    uint64_t where;
    int rc;

    f->last = NULL;
    if (!f->victim.there)
        make_victim(f);
    random_step(f, &step);
    memset(&op, 0, sizeof(op));
    op.cmd = XEN_DOMCTL_teardown_step;
    op.interface_version = XEN_DOMCTL_INTERFACE_VERSION;
    on_victim = !one_in(f, 5);
    op.domain = on_victim ? f->victim.domid : other_domid(f);
    good = on_victim && would_step(f, &step);
    /* Each domain is to be there for a while, alive and dying: most of what ends it is turned down.
     */
    if (good && !(step.flags & XEN_TEARDOWN_QUERY) &&
        !one_in(f, f->victim.state == XEN_TEARDOWN_ALIVE ? 400 : 30)) {
        if (f->victim.state == XEN_TEARDOWN_ALIVE)
            step.flags |= XEN_TEARDOWN_ONLY_IF_DYING;
        else
            step.max_us = one_in(f, 2) ? 0 : XEN_TEARDOWN_MAX_US + 1;
        good = false;
    }
    if (one_in(f, 100)) {
        op.interface_version += one_in(f, 2) ? 1 : (uint32_t)rnd(f) | 1;
        good = false;
    }
    memcpy(op.u.pad, &step, sizeof(step));
    kind = step.flags & XEN_TEARDOWN_QUERY ? QUERY : STEP;
    /* Private fields that pass for a step under way make it go on before it can see that. */
    where = place(f, &op, sizeof(op), !good || !step.priv[0], &readable, &writable);
    good = good && writable;
    rc = call(f, __HYPERVISOR_domctl, where);
    note(f, kind, rc);
    if (!rc != good)
        wrong(f, "%s of domain %u: %s, but it should %s", kind_name[kind], op.domain,
              rc ? strerror(rc) : "success", good ? "succeed" : "fail");
    if (good) {
        memcpy(&out, ((struct xen_domctl *)(uintptr_t)where)->u.pad, sizeof(out));
        after_step(f, &step, &out);
    } else {
        victim_as_expected(f, "after an error");
    }
    if (rc || one_in(f, 16))
        settings_as_expected(f, rc ? "after an error of teardown_step" : "after teardown_step");
}

/* --- The program --- */

static void reset_at_exit(void)
{
    struct fuzz *f = the_fuzz;

    if (reset_settings(f) != 0)
        fprintf(stderr, "labfuzz: the settings could not be reset\n");
    if (f->victim.made && f->victim.there)
        xc_domain_destroy(f->xch, f->victim.domid);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_result(const struct fuzz *f, double took)
{
    printf("{\"seed\": %" PRIu64 ", \"calls\": %" PRIu64 ", \"seconds\": %.1f, \"rate\": %.0f, "
           "\"domains\": %u, \"begun\": %u, \"ended\": %u, \"leases_ended\": %u, "
           "\"inner_errors\": %u",
           f->seed, f->count, took, (double)f->count / took, f->made, f->begun, f->ended,
           f->leases_ended, f->inner_errors);
    for (int k = 0; k < KINDS; k++) {
        printf(", \"%s\": {", kind_name[k]);
        for (size_t i = 0; i < COUNT_OF(results); i++)
            printf("%s\"%s\": %" PRIu64, i ? ", " : "", result_name[i], f->mix[k][i]);
        printf("}");
    }
    printf("}\n");
}

static int usage(void)
{
    fprintf(stderr, "usage: labfuzz COUNT [seed=N] [domain=DOMID]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static struct fuzz f;
    uint32_t domain = 0, lease_ms;
    double began, said;

    f.seed = (uint64_t)time(NULL);
    if (argc < 2 || sscanf(argv[1], "%" SCNu64, &f.count) != 1)
        return usage();
    for (int i = 2; i < argc; i++)
        if (sscanf(argv[i], "seed=%" SCNu64, &f.seed) != 1 &&
            sscanf(argv[i], "domain=%" SCNu32, &domain) != 1)
            return usage();
    f.rng = f.seed;
    fprintf(stderr, "labfuzz: seed=%" PRIu64 "\n", f.seed);
    f.xcall = xencall_open(NULL, 0);
    f.xch = xc_interface_open(NULL, NULL, 0);
    if (!f.xcall || !f.xch)
        wrong(&f, "no access to the hypervisor: %s", strerror(errno));
    f.data = area(&f, PROT_READ | PROT_WRITE);
    f.op = area(&f, PROT_READ | PROT_WRITE);
    f.data_ro = area(&f, PROT_READ);
    f.op_ro = area(&f, PROT_READ);
    f.check_op = area(&f, PROT_READ | PROT_WRITE);
    f.got_nodes = (void *)area(&f, PROT_READ | PROT_WRITE);
    f.got_mask = area(&f, PROT_READ | PROT_WRITE);
    if (reset_settings(&f) != 0)
        wrong(&f, "this hypervisor has no scrub_control");
    the_fuzz = &f;
    atexit(reset_at_exit);
    get_settings(&f, &f.expected, &lease_ms);
    memcpy(f.online, f.expected.mask, sizeof(f.online));
    no_settings(&f, &f.expected);
    settings_as_expected(&f, "after the first RESET");
    if (domain)
        adopt_victim(&f, domain);

    began = said = seconds();
    for (f.serial = 1; f.serial <= f.count; f.serial++) {
        if (one_in(&f, 2))
            fuzz_scrub_control(&f);
        else
            fuzz_step(&f);
        if (f.serial % 256 == 0 && seconds() - said >= 5) {
            said = seconds();
            fprintf(stderr, "labfuzz: %" PRIu64 " of %" PRIu64 " calls, %.0f a second\n", f.serial,
                    f.count, (double)f.serial / (said - began));
        }
    }
    f.last = NULL;
    if (reset_settings(&f) != 0)
        wrong(&f, "the last RESET failed");
    no_settings(&f, &f.expected);
    settings_as_expected(&f, "after the last RESET");
    print_result(&f, seconds() - began);
    return 0;
}
