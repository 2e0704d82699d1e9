/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * labscrub: the patched hypervisor's own word on scrubbing, not scrubd's.
 *   labscrub get      what is set and counted, as JSON
 *   labscrub reset    no settings
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xen/sysctl.h>
#include <xencall.h>
#include <xenctrl.h>

#include "scrub_ctl.h"

#define NODES_MAX 64
#define CPUS_MAX 1024

int main(int argc, char **argv)
{
    xencall_handle *xcall = xencall_open(NULL, 0);
    struct xen_sysctl *op;
    struct xen_sysctl_scrub_control ctl = {.version = XEN_SCRUB_CTL_VERSION, .op = XEN_SCRUB_GET};
    xen_scrub_node_t *nodes;
    xen_scrub_cpu_t *cpus;
    uint8_t *mask;
    int r;

    if (argc != 2 || (strcmp(argv[1], "get") != 0 && strcmp(argv[1], "reset") != 0))
        return 2;
    if (!xcall)
        return 1;
    op = xencall_alloc_buffer(xcall, sizeof(*op));
    nodes = xencall_alloc_buffer(xcall, NODES_MAX * sizeof(*nodes));
    cpus = xencall_alloc_buffer(xcall, CPUS_MAX * sizeof(*cpus));
    mask = xencall_alloc_buffer(xcall, CPUS_MAX / 8);
    if (!op || !nodes || !cpus || !mask)
        return 1;
    memset(op, 0, sizeof(*op));
    memset(mask, 0, CPUS_MAX / 8);
    if (strcmp(argv[1], "reset") == 0) {
        ctl.op = XEN_SCRUB_RESET;
    } else {
        ctl.nr_nodes = NODES_MAX;
        ctl.nr_cpus = CPUS_MAX;
        ctl.mask.nr_bits = CPUS_MAX;
        set_xen_guest_handle_raw(ctl.mask.bitmap, mask);
        set_xen_guest_handle_raw(ctl.nodes, nodes);
        set_xen_guest_handle_raw(ctl.cpus, cpus);
    }
    op->cmd = XEN_SYSCTL_scrub_control;
    op->interface_version = XEN_SYSCTL_INTERFACE_VERSION;
    memcpy(op->u.pad, &ctl, sizeof(ctl));
    r = xencall1(xcall, __HYPERVISOR_sysctl, (uint64_t)(uintptr_t)op);
    if (r < 0) {
        fprintf(stderr, "labscrub: %s\n", strerror(errno));
        return 1;
    }
    if (ctl.op == XEN_SCRUB_RESET)
        return 0;
    memcpy(&ctl, op->u.pad, sizeof(ctl));
    printf("{\"ceiling_set\": %s, \"mask_set\": %s, \"lease_set\": %s, \"lease_ms\": %u, ",
           ctl.flags & XEN_SCRUB_CEILING ? "true" : "false",
           ctl.flags & XEN_SCRUB_MASK ? "true" : "false",
           ctl.flags & XEN_SCRUB_LEASE ? "true" : "false", ctl.lease_ms);
    printf("\"cpus\": [");
    for (uint32_t i = 0; i < ctl.nr_cpus; i++)
        printf("%s{\"allowed\": %s, \"idle\": %" PRIu64 "}", i ? ", " : "",
               mask[i / 8] & (1 << (i % 8)) ? "true" : "false", (uint64_t)cpus[i].idle);
    printf("], \"nodes\": [");
    for (uint32_t i = 0; i < ctl.nr_nodes; i++)
        printf("%s{\"ceiling_kib\": %" PRIu64 ", \"dirty\": %" PRIu64 ", \"dirtied\": %" PRIu64
               ", \"idle\": %" PRIu64 ", \"alloc\": %" PRIu64 ", \"dropped\": %" PRIu64 "}",
               i ? ", " : "", (uint64_t)nodes[i].ceiling_kib, (uint64_t)nodes[i].dirty,
               (uint64_t)nodes[i].dirtied, (uint64_t)nodes[i].idle, (uint64_t)nodes[i].alloc,
               (uint64_t)nodes[i].dropped);
    printf("]}\n");
    return 0;
}
