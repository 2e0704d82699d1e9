/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The real host keeps what daemon/xen.h promises. To be run as root in the dom0 of a host that is
 * otherwise idle, with scrubd stopped. It makes its own domains: without vCPU or device, they only
 * have memory.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xenctrl.h>

#include "contract.h"

#define ORDER 9 /* memory is given in pieces of 2 MiB */

static int populate(xc_interface *xch, uint32_t domid, uint64_t pages)
{
    uint64_t n = pages >> ORDER;
    xen_pfn_t pfns[64];
    int r = xc_domain_setmaxmem(xch, domid, pages * 4 + 1024);

    for (uint64_t done = 0; r == 0 && done < n; done += 64) {
        unsigned long chunk = n - done < 64 ? n - done : 64;

        for (unsigned long i = 0; i < chunk; i++)
            pfns[i] = (done + i) << ORDER;
        r = xc_domain_populate_physmap_exact(xch, domid, chunk, ORDER, 0, pfns);
    }
    return r;
}

static int make(void *arg, uint64_t pages)
{
    struct xen_domctl_createdomain config = {
        .max_vcpus = 1,
        .max_evtchn_port = 127,
        .max_grant_frames = 4,
        .max_maptrack_frames = 0,
        .grant_opts = XEN_DOMCTL_GRANT_version(1),
    };
    uint32_t domid = 0;
    FILE *random = fopen("/dev/urandom", "re");

    if (!random || fread(config.handle, sizeof(config.handle), 1, random) != 1) {
        if (random)
            fclose(random);
        return -EIO;
    }
    fclose(random);
    if (xc_domain_create(arg, &domid, &config) < 0)
        return -errno;
    if (populate(arg, domid, pages) < 0) {
        int e = errno;

        xc_domain_destroy(arg, domid);
        return -e;
    }
    return (int)domid;
}

static void unmake(void *arg, uint32_t domid)
{
    xc_domaininfo_t info;

    if (xc_domain_getinfolist(arg, domid, 1, &info) == 1 && info.domain == domid)
        xc_domain_destroy(arg, domid);
}

int main(void)
{
    struct contract c = {.make = make, .unmake = unmake};
    xc_interface *xch = xc_interface_open(NULL, NULL, 0);
    struct err err = {0};
    int failed;

    if (!xch || xen_real_open(&c.xen, &c.ops, &err) < 0) {
        fprintf(stderr, "contract-xen: %s\n", xch ? err.text : strerror(errno));
        return 1;
    }
    c.arg = xch;
    failed = contract_run(&c);
    c.ops->close(c.xen);
    xc_interface_close(xch);
    return failed != 0;
}
