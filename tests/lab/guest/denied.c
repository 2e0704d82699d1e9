/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * denied DOMID HANDLE: makes the project's two hypercalls from an unprivileged guest.
 *
 * Xen has to refuse all of them with EPERM, or EACCES if that is Flask's answer, whatever they ask
 * for: a step on the domain with that handle, too, which would be taken if it came from dom0. The
 * last line on the console is "LAB-DENIED sysctl=N domctl=N eacces=N", the last being how many of
 * these were EACCES, or "LAB-NOT-DENIED" and why.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xen/domctl.h>
#include <xen/sysctl.h>
#include <xen/version.h>

#include "scrub_ctl.h"

struct hypercall { /* Linux: include/uapi/xen/privcmd.h */
    uint64_t op, arg[5];
};
#define DO_HYPERCALL _IOC(_IOC_NONE, 'P', 0, sizeof(struct hypercall))

static int privcmd;
static int refused_sysctl, refused_domctl, eacces;

static void wrong(const char *what, int rc)
{
    printf("LAB-NOT-DENIED %s: %d (%s)\n", what, rc, strerror(rc < 0 ? -rc : 0));
    exit(1);
}

static int hypercall(uint64_t op, uint64_t first, uint64_t second)
{
    struct hypercall call = {.op = op, .arg = {first, second}};
    int rc = ioctl(privcmd, DO_HYPERCALL, &call);

    return rc < 0 ? -errno : rc;
}

static int refused(int rc)
{
    eacces += rc == -EACCES;
    return rc == -EPERM || rc == -EACCES;
}

static void try_scrub_control(uint32_t what, uint32_t version)
{
    static xen_scrub_node_t nodes[64];
    static xen_scrub_cpu_t cpus[64];
    static uint8_t mask[8] = {0xff};
    static struct xen_sysctl op;
    struct xen_sysctl_scrub_control ctl = {.version = version, .op = what};
    int rc;

    ctl.nr_nodes = 1;
    ctl.nr_cpus = ctl.mask.nr_bits = 2;
    nodes[0].ceiling_kib = 1;
    set_xen_guest_handle_raw(ctl.nodes, nodes);
    set_xen_guest_handle_raw(ctl.cpus, cpus);
    set_xen_guest_handle_raw(ctl.mask.bitmap, mask);
    op.cmd = XEN_SYSCTL_scrub_control;
    op.interface_version = XEN_SYSCTL_INTERFACE_VERSION;
    memcpy(op.u.pad, &ctl, sizeof(ctl));
    rc = hypercall(__HYPERVISOR_sysctl, (uintptr_t)&op, 0);
    if (!refused(rc))
        wrong("scrub_control", rc);
    refused_sysctl++;
}

/* also: what is as good as being refused; a step taken never is. */
static void try_step(unsigned int domid, const uint8_t *handle, uint32_t flags, int also)
{
    static struct xen_domctl op;
    struct xen_domctl_teardown_step step = {.max_us = 1000, .flags = flags};
    int rc;

    memcpy(step.handle, handle, sizeof(step.handle));
    op.cmd = XEN_DOMCTL_teardown_step;
    op.interface_version = XEN_DOMCTL_INTERFACE_VERSION;
    op.domain = (domid_t)domid;
    memcpy(op.u.pad, &step, sizeof(step));
    rc = hypercall(__HYPERVISOR_domctl, (uintptr_t)&op, 0);
    if (refused(rc))
        refused_domctl++;
    else if (!also || rc != also)
        wrong("teardown_step", rc);
}

int main(int argc, char **argv)
{
    static uint8_t handle[16], nobody[16];
    unsigned int domid, byte;
    int module, rc;

    if (argc != 3 || sscanf(argv[1], "%u", &domid) != 1 || strlen(argv[2]) != 32)
        return 2;
    for (size_t i = 0; i < sizeof(handle); i++) {
        if (sscanf(argv[2] + 2 * i, "%2x", &byte) != 1)
            return 2;
        handle[i] = (uint8_t)byte;
    }
    mlockall(MCL_CURRENT | MCL_FUTURE);
    /* Newer kernels answer EPERM themselves, unless told to leave it to Xen. */
    module = open("/modules/xen-privcmd.ko", O_RDONLY | O_CLOEXEC);
    if (syscall(SYS_finit_module, module, "unrestricted=1", 0) != 0 && errno != EEXIST)
        wrong("xen-privcmd.ko", -errno);
    privcmd = open("/dev/xen/privcmd", O_RDWR | O_CLOEXEC);
    if (privcmd < 0)
        wrong("/dev/xen/privcmd", -errno);
    /* Xen does answer: its version is for everyone. */
    rc = hypercall(__HYPERVISOR_xen_version, XENVER_version, 0);
    if (rc <= 0)
        wrong("no hypercalls at all", rc);

    for (uint32_t what = XEN_SCRUB_GET; what <= XEN_SCRUB_RESET + 1; what++) {
        try_scrub_control(what, XEN_SCRUB_CTL_VERSION);
        try_scrub_control(what, XEN_SCRUB_CTL_VERSION + 1);
    }
    for (uint32_t flags = 0; flags < 4; flags++) {
        try_step(domid, handle, flags, 0);
        try_step(0, nobody, flags, 0);
    }
    /* This guest's own domid is among these; where there is no domain there is nothing to refuse.
     */
    for (domid = 1; domid < 1024; domid++)
        try_step(domid, nobody, XEN_TEARDOWN_QUERY, -ESRCH);
    printf("LAB-DENIED sysctl=%d domctl=%d eacces=%d version=%d.%d\n", refused_sysctl,
           refused_domctl, eacces, rc >> 16, rc & 0xffff);
    return 0;
}
