/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * labscrub: the patched hypervisor's own word on scrubbing, not scrubd's.
 *   labscrub get      what is set and counted, as JSON
 *   labscrub set [ceiling=KIB] [floor=KIB] [mask=HEX] [lease=MS]
 *                     these settings on each node, and nothing else
 *   labscrub reset    no settings
 *   labscrub series COUNT INTERVAL_MS
 *                     "clock in ns, pages scrubbed, dirty pages" of all nodes, so often
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xen/sysctl.h>
#include <xencall.h>
#include <xenctrl.h>

#include "scrub_ctl.h"

#define NODES_MAX 64
#define CPUS_MAX 1024

struct call {
    xencall_handle *xcall;
    struct xen_sysctl *op;
    xen_scrub_node_t *nodes;
    xen_scrub_cpu_t *cpus;
    uint8_t *mask;
    struct xen_sysctl_scrub_control ctl;
};

static void die(const char *what)
{
    fprintf(stderr, "labscrub: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void do_call(struct call *c, uint32_t what)
{
    c->ctl.version = XEN_SCRUB_CTL_VERSION;
    c->ctl.op = what;
    set_xen_guest_handle_raw(c->ctl.mask.bitmap, c->mask);
    set_xen_guest_handle_raw(c->ctl.nodes, c->nodes);
    set_xen_guest_handle_raw(c->ctl.cpus, c->cpus);
    memset(c->op, 0, sizeof(*c->op));
    c->op->cmd = XEN_SYSCTL_scrub_control;
    c->op->interface_version = XEN_SYSCTL_INTERFACE_VERSION;
    memcpy(c->op->u.pad, &c->ctl, sizeof(c->ctl));
    if (xencall1(c->xcall, __HYPERVISOR_sysctl, (uint64_t)(uintptr_t)c->op) < 0)
        die("scrub_control");
    memcpy(&c->ctl, c->op->u.pad, sizeof(c->ctl));
}

static void get(struct call *c)
{
    c->ctl.nr_nodes = NODES_MAX;
    c->ctl.nr_cpus = c->ctl.mask.nr_bits = CPUS_MAX;
    do_call(c, XEN_SCRUB_GET);
}

static void print(const struct call *c)
{
    bool ceiling = false, floor = false;

    for (uint32_t i = 0; i < c->ctl.nr_nodes; i++) {
        ceiling |= c->nodes[i].ceiling_kib != 0;
        floor |= c->nodes[i].floor_kib != 0;
    }
    printf("{\"ceiling_set\": %s, \"floor_set\": %s, \"mask_set\": %s, \"lease_set\": %s, ",
           ceiling ? "true" : "false", floor ? "true" : "false",
           c->ctl.flags & XEN_SCRUB_MASKED ? "true" : "false", c->ctl.lease_ms ? "true" : "false");
    printf("\"lease_ms\": %u, \"now_ns\": %" PRIu64 ", \"cpus\": [", c->ctl.lease_ms,
           (uint64_t)c->ctl.now_ns);
    for (uint32_t i = 0; i < c->ctl.nr_cpus; i++)
        printf("%s{\"allowed\": %s, \"idle\": %" PRIu64 ", \"floor\": %" PRIu64 "}", i ? ", " : "",
               c->mask[i / 8] & (1 << (i % 8)) ? "true" : "false", (uint64_t)c->cpus[i].idle,
               (uint64_t)c->cpus[i].floor);
    printf("], \"nodes\": [");
    for (uint32_t i = 0; i < c->ctl.nr_nodes; i++) {
        const xen_scrub_node_t *n = &c->nodes[i];

        printf("%s{\"ceiling_kib\": %" PRIu64 ", \"floor_kib\": %" PRIu64 ", \"dirty\": %" PRIu64
               ", \"boot\": %" PRIu64 ", \"dirtied\": %" PRIu64 ", \"idle\": %" PRIu64
               ", \"floor\": %" PRIu64 ", \"alloc\": %" PRIu64 ", \"dropped\": %" PRIu64
               ", \"throttled_ns\": %" PRIu64 "}",
               i ? ", " : "", (uint64_t)n->ceiling_kib, (uint64_t)n->floor_kib, (uint64_t)n->dirty,
               (uint64_t)n->boot, (uint64_t)n->dirtied, (uint64_t)n->idle, (uint64_t)n->floor,
               (uint64_t)n->alloc, (uint64_t)n->dropped, (uint64_t)n->throttled_ns);
    }
    printf("]}\n");
}

static void set(struct call *c, char **argv)
{
    uint64_t ceiling = 0, floor = 0, mask = UINT64_MAX;
    uint32_t lease = 0, nodes, cpus;

    for (; *argv; argv++)
        if (sscanf(*argv, "ceiling=%" SCNu64, &ceiling) != 1 &&
            sscanf(*argv, "floor=%" SCNu64, &floor) != 1 &&
            sscanf(*argv, "mask=%" SCNx64, &mask) != 1 &&
            sscanf(*argv, "lease=%" SCNu32, &lease) != 1) {
            errno = EINVAL;
            die(*argv);
        }
    get(c);
    nodes = c->ctl.nr_nodes;
    cpus = c->ctl.nr_cpus;
    memset(&c->ctl, 0, sizeof(c->ctl));
    memset(c->nodes, 0, nodes * sizeof(*c->nodes));
    memset(c->mask, mask == UINT64_MAX ? 0xff : 0, CPUS_MAX / 8);
    memcpy(c->mask, &mask, sizeof(mask));
    for (uint32_t i = 0; i < nodes; i++) {
        c->nodes[i].ceiling_kib = ceiling;
        c->nodes[i].floor_kib = floor;
    }
    c->ctl.nr_nodes = nodes;
    c->ctl.mask.nr_bits = cpus;
    c->ctl.lease_ms = lease;
    do_call(c, XEN_SCRUB_SET);
}

static void series(struct call *c, int count, long interval_ms)
{
    struct timespec ts = {interval_ms / 1000, interval_ms % 1000 * 1000000};
    uint64_t(*rows)[3] = calloc((size_t)count, sizeof(*rows));

    if (!rows)
        die("memory");
    for (int k = 0; k < count; k++) {
        get(c);
        rows[k][0] = c->ctl.now_ns;
        for (uint32_t i = 0; i < c->ctl.nr_nodes; i++) {
            rows[k][1] += c->nodes[i].idle + c->nodes[i].floor;
            rows[k][2] += c->nodes[i].dirty;
        }
        nanosleep(&ts, NULL);
    }
    for (int k = 0; k < count; k++)
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", rows[k][0], rows[k][1], rows[k][2]);
}

int main(int argc, char **argv)
{
    struct call c = {.xcall = xencall_open(NULL, 0)};

    if (argc < 2)
        return 2;
    if (!c.xcall)
        die("xencall");
    c.op = xencall_alloc_buffer(c.xcall, sizeof(*c.op));
    c.nodes = xencall_alloc_buffer(c.xcall, NODES_MAX * sizeof(*c.nodes));
    c.cpus = xencall_alloc_buffer(c.xcall, CPUS_MAX * sizeof(*c.cpus));
    c.mask = xencall_alloc_buffer(c.xcall, CPUS_MAX / 8);
    if (!c.op || !c.nodes || !c.cpus || !c.mask)
        die("memory");
    memset(c.mask, 0, CPUS_MAX / 8);
    if (strcmp(argv[1], "get") == 0 && argc == 2) {
        get(&c);
        print(&c);
    } else if (strcmp(argv[1], "set") == 0) {
        set(&c, argv + 2);
    } else if (strcmp(argv[1], "series") == 0 && argc == 4) {
        series(&c, atoi(argv[2]), atol(argv[3]));
    } else if (strcmp(argv[1], "reset") == 0 && argc == 2) {
        do_call(&c, XEN_SCRUB_RESET);
    } else {
        return 2;
    }
    return 0;
}
