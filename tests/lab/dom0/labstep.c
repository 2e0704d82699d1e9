/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * labstep DOMID MAX_US [PAUSE_US]: tears a domain down by teardown_step, as fast as it gets on or
 * with a pause after each step, and prints a line for each: time in the hypervisor in ns (its own
 * word), stage, pages freed, and when it began, in ns after the first one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xen/domctl.h>
#include <xencall.h>
#include <xenctrl.h>

#include "scrub_ctl.h"

#define STEPS_MAX 200000

static void die(const char *what)
{
    fprintf(stderr, "labstep: %s: %s\n", what, strerror(errno));
    exit(1);
}

int main(int argc, char **argv)
{
    static struct xen_domctl_teardown_step steps[STEPS_MAX];
    static struct timespec began[STEPS_MAX];
    xencall_handle *xcall = xencall_open(NULL, 0);
    xc_interface *xch = xc_interface_open(NULL, NULL, 0);
    struct timespec pause = {.tv_nsec = argc > 3 ? atol(argv[3]) * 1000 : 0};
    struct xen_domctl *op;
    xc_domaininfo_t info;
    uint32_t domid;
    int n = 0;

    if (argc < 3)
        return 2;
    domid = (uint32_t)atoi(argv[1]);
    if (!xcall || !xch || !(op = xencall_alloc_buffer(xcall, sizeof(*op))))
        die("open");
    if (xc_domain_getinfolist(xch, domid, 1, &info) != 1 || info.domain != domid) {
        errno = ESRCH;
        die(argv[1]);
    }
    do {
        struct xen_domctl_teardown_step *s = &steps[n];

        memset(s, 0, sizeof(*s));
        memcpy(s->handle, info.handle, sizeof(s->handle));
        s->max_us = (uint32_t)atoi(argv[2]);
        memset(op, 0, sizeof(*op));
        op->cmd = XEN_DOMCTL_teardown_step;
        op->interface_version = XEN_DOMCTL_INTERFACE_VERSION;
        op->domain = (domid_t)domid;
        memcpy(op->u.pad, s, sizeof(*s));
        clock_gettime(CLOCK_MONOTONIC, &began[n]);
        if (xencall1(xcall, __HYPERVISOR_domctl, (uint64_t)(uintptr_t)op) < 0)
            die("teardown_step");
        memcpy(s, op->u.pad, sizeof(*s));
        if (pause.tv_nsec)
            nanosleep(&pause, NULL);
    } while (steps[n++].state != XEN_TEARDOWN_DEAD && n < STEPS_MAX);
    for (int i = 0; i < n; i++)
        printf("%" PRIu64 " %u %" PRIu64 " %lld\n", (uint64_t)steps[i].cpu_ns, steps[i].stage,
               (uint64_t)steps[i].pages_freed,
               (began[i].tv_sec - began[0].tv_sec) * 1000000000ll + began[i].tv_nsec -
                   began[0].tv_nsec);
    return n < STEPS_MAX ? 0 : 1;
}
