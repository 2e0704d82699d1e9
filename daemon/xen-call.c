/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xen/domctl.h>
#include <xen/sysctl.h>
#include <xen/xen.h>
#include <xencall.h>

#include "scrub_ctl.h"
#include "xen-real.h"

/* What the hypervisor sees of our two hypercalls: memory that it may access at any time. */
struct xen_call {
    xencall_handle *xcall;
    struct xen_domctl *domctl;
    struct xen_sysctl *sysctl;
    struct xen_scrub_node *nodes;
    struct xen_scrub_cpu *cpus;
    uint8_t *mask;
    unsigned int n_nodes, n_cpus; /* as GET reports; 0 until probed */
    struct xen_node *ret_nodes;
    uint64_t *ret_cpus;
};

_Static_assert(sizeof(struct xen_domctl_teardown_step) <= sizeof(((struct xen_domctl *)0)->u),
               "teardown_step is larger than the union it is copied into");
_Static_assert(sizeof(struct xen_sysctl_scrub_control) <= sizeof(((struct xen_sysctl *)0)->u),
               "scrub_control is larger than the union it is copied into");

static struct xen_domctl_teardown_step *domctl_step(struct xen_domctl *d)
{
    return (struct xen_domctl_teardown_step *)d->u.pad;
}

static struct xen_sysctl_scrub_control *sysctl_scrub(struct xen_sysctl *s)
{
    return (struct xen_sysctl_scrub_control *)s->u.pad;
}

/* With what c->sysctl holds; sets its head. */
static int do_scrub(struct xen_call *c, uint32_t op)
{
    c->sysctl->cmd = XEN_SYSCTL_scrub_control;
    c->sysctl->interface_version = XEN_SYSCTL_INTERFACE_VERSION;
    sysctl_scrub(c->sysctl)->version = XEN_SCRUB_CTL_VERSION;
    sysctl_scrub(c->sysctl)->op = op;
    return xencall1(c->xcall, __HYPERVISOR_sysctl, (uintptr_t)c->sysctl) < 0 ? -errno : 0;
}

int xen_call_open(struct xen_call **ret, struct err *err)
{
    struct xen_call *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return err_set(err, ENOMEM, "out of memory");
    c->xcall = xencall_open(NULL, XENCALL_OPENFLAG_NON_REENTRANT);
    if (!c->xcall) {
        r = errno;
        xen_call_close(c);
        return err_set(err, r, "cannot make hypercalls: %s (is this a Xen dom0, and scrubd root?)",
                       strerror(r));
    }
    c->domctl = xencall_alloc_buffer(c->xcall, sizeof(*c->domctl));
    c->sysctl = xencall_alloc_buffer(c->xcall, sizeof(*c->sysctl));
    if (!c->domctl || !c->sysctl) {
        xen_call_close(c);
        return err_set(err, ENOMEM, "out of memory for hypercalls");
    }
    *ret = c;
    return 0;
}

static void free_arrays(struct xen_call *c)
{
    xencall_free_buffer(c->xcall, c->nodes);
    xencall_free_buffer(c->xcall, c->cpus);
    xencall_free_buffer(c->xcall, c->mask);
    free(c->ret_nodes);
    free(c->ret_cpus);
    c->nodes = NULL;
    c->cpus = NULL;
    c->mask = NULL;
    c->ret_nodes = NULL;
    c->ret_cpus = NULL;
}

void xen_call_close(struct xen_call *c)
{
    if (!c)
        return;
    if (c->xcall) {
        xencall_free_buffer(c->xcall, c->domctl);
        xencall_free_buffer(c->xcall, c->sysctl);
        free_arrays(c);
        xencall_close(c->xcall);
    }
    free(c);
}

static int alloc_arrays(struct xen_call *c, struct err *err)
{
    c->nodes = xencall_alloc_buffer(c->xcall, c->n_nodes * sizeof(*c->nodes));
    c->cpus = xencall_alloc_buffer(c->xcall, c->n_cpus * sizeof(*c->cpus));
    c->mask = xencall_alloc_buffer(c->xcall, (c->n_cpus + 7) / 8);
    c->ret_nodes = calloc(c->n_nodes, sizeof(*c->ret_nodes));
    c->ret_cpus = calloc(c->n_cpus, sizeof(*c->ret_cpus));
    if (!c->nodes || !c->cpus || !c->mask || !c->ret_nodes || !c->ret_cpus)
        return err_set(err, ENOMEM, "out of memory for hypercalls");
    return 0;
}

int xen_call_probe(struct xen_call *c, struct err *err)
{
    uint32_t n_nodes, n_cpus;
    int r;

    memset(c->sysctl, 0, sizeof(*c->sysctl));
    r = do_scrub(c, XEN_SCRUB_GET);
    if (r == -ENOSYS)
        return err_set(err, ENOSYS, "unpatched hypervisor");
    if (r == -EACCES)
        return err_set(err, EACCES,
                       "the hypervisor refuses scrub_control: it speaks another interface version "
                       "than the %#x that scrubd was built for, or its Flask policy forbids it",
                       XEN_SYSCTL_INTERFACE_VERSION);
    if (r < 0)
        return err_set(err, -r, "scrub_control: %s", strerror(-r));
    n_nodes = sysctl_scrub(c->sysctl)->nr_nodes;
    n_cpus = sysctl_scrub(c->sysctl)->nr_cpus;
    if (!n_nodes || n_nodes > 65536 || !n_cpus || n_cpus > 65536)
        return err_set(err, EPROTO, "scrub_control reports %u nodes and %u CPUs", n_nodes, n_cpus);
    if (n_nodes == c->n_nodes && n_cpus == c->n_cpus)
        return 0;
    free_arrays(c);
    c->n_nodes = n_nodes;
    c->n_cpus = n_cpus;
    r = alloc_arrays(c, err);
    if (r < 0)
        c->n_nodes = 0; /* as if not probed */
    return r;
}

static enum xen_life life_of(uint32_t state)
{
    return state == XEN_TEARDOWN_ALIVE  ? XEN_LIFE_ALIVE
           : state == XEN_TEARDOWN_DEAD ? XEN_LIFE_DEAD
                                        : XEN_LIFE_DYING;
}

int xen_call_step(struct xen_call *c, const struct ident *id, uint32_t max_us, unsigned int flags,
                  struct xen_step *ret)
{
    struct xen_domctl_teardown_step *s = domctl_step(c->domctl);

    if (id->domid == 0)
        return -EPERM;
    if (!c->n_nodes)
        return -ENOSYS;
    memset(c->domctl, 0, sizeof(*c->domctl));
    c->domctl->cmd = XEN_DOMCTL_teardown_step;
    c->domctl->interface_version = XEN_DOMCTL_INTERFACE_VERSION;
    c->domctl->domain = (domid_t)id->domid;
    memcpy(s->handle, id->uuid, sizeof(s->handle));
    s->max_us = max_us;
    s->flags = (flags & XEN_STEP_QUERY ? XEN_TEARDOWN_QUERY : 0) |
               (flags & XEN_STEP_ONLY_IF_DYING ? XEN_TEARDOWN_ONLY_IF_DYING : 0);
    if (xencall1(c->xcall, __HYPERVISOR_domctl, (uintptr_t)c->domctl) < 0)
        return -errno;
    *ret = (struct xen_step){
        .life = life_of(s->state),
        .stage = s->stage,
        .error = s->error,
        .entries = s->entries,
        .pages_left = s->pages_left,
        .pages_freed = s->pages_freed,
        .cpu_ns = s->cpu_ns,
    };
    return 0;
}

static void set_mask_buffer(struct xen_call *c, struct xen_sysctl_scrub_control *s)
{
    s->nr_cpus = c->n_cpus;
    s->mask.nr_bits = c->n_cpus;
    set_xen_guest_handle(s->mask.bitmap, c->mask);
}

int xen_call_scrub_get(struct xen_call *c, bool with_cpus, struct xen_scrub *ret)
{
    struct xen_sysctl_scrub_control *s = sysctl_scrub(c->sysctl);
    int r;

    if (!c->n_nodes)
        return -ENOSYS;
    memset(c->sysctl, 0, sizeof(*c->sysctl));
    memset(c->mask, 0, (c->n_cpus + 7) / 8);
    s->nr_nodes = c->n_nodes;
    set_mask_buffer(c, s);
    set_xen_guest_handle(s->nodes, c->nodes);
    if (with_cpus)
        set_xen_guest_handle(s->cpus, c->cpus);
    r = do_scrub(c, XEN_SCRUB_GET);
    if (r < 0)
        return r;
    memset(ret, 0, sizeof(*ret));
    ret->now_ns = s->now_ns;
    ret->has_mask = s->flags & XEN_SCRUB_MASKED;
    ret->lease_ms = s->lease_ms;
    ret->n_nodes = c->n_nodes;
    ret->n_cpus = c->n_cpus;
    for (unsigned int i = 0; i < c->n_nodes; i++) {
        ret->has_ceiling |= c->nodes[i].ceiling_kib != 0;
        ret->has_floor |= c->nodes[i].floor_kib != 0;
        c->ret_nodes[i] = (struct xen_node){
            .ceiling_kib = c->nodes[i].ceiling_kib,
            .floor_kib = c->nodes[i].floor_kib,
            .dirty = c->nodes[i].dirty,
            .dirtied = c->nodes[i].dirtied,
            .idle = c->nodes[i].idle,
            .floor = c->nodes[i].floor,
            .alloc = c->nodes[i].alloc,
            .dropped = c->nodes[i].dropped,
            .boot = c->nodes[i].boot,
            .throttled_ms = c->nodes[i].throttled_ns / 1000000,
        };
    }
    ret->nodes = c->ret_nodes;
    for (unsigned int cpu = 0; cpu < c->n_cpus; cpu++) {
        if (c->mask[cpu / 8] >> (cpu % 8) & 1)
            cpulist_add(&ret->mask, cpu);
        if (with_cpus)
            c->ret_cpus[cpu] = c->cpus[cpu].idle + c->cpus[cpu].floor;
    }
    ret->cpu_scrubbed = with_cpus ? c->ret_cpus : NULL;
    return 0;
}

int xen_call_scrub_set(struct xen_call *c, const struct xen_scrub_settings *set)
{
    struct xen_sysctl_scrub_control *s = sysctl_scrub(c->sysctl);

    if (!c->n_nodes)
        return -ENOSYS;
    memset(c->sysctl, 0, sizeof(*c->sysctl));
    s->lease_ms = set->lease_ms;
    s->nr_nodes = c->n_nodes;
    memset(c->nodes, 0, c->n_nodes * sizeof(*c->nodes));
    for (unsigned int i = 0; i < c->n_nodes; i++) {
        c->nodes[i].ceiling_kib = set->ceiling_kib;
        c->nodes[i].floor_kib = set->floor_kib;
    }
    set_xen_guest_handle(s->nodes, c->nodes);
    memset(c->mask, 0, (c->n_cpus + 7) / 8);
    for (unsigned int cpu = 0; cpu < c->n_cpus; cpu++) {
        if (set->all_cpus || cpulist_has(&set->mask, cpu))
            c->mask[cpu / 8] |= (uint8_t)(1u << (cpu % 8));
    }
    set_mask_buffer(c, s);
    return do_scrub(c, XEN_SCRUB_SET);
}

int xen_call_scrub_reset(struct xen_call *c)
{
    if (!c->n_nodes)
        return -ENOSYS;
    memset(c->sysctl, 0, sizeof(*c->sysctl));
    return do_scrub(c, XEN_SCRUB_RESET);
}
