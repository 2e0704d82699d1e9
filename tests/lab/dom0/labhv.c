/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * labhv: what the lab asks the hypervisor directly, without the second that starting xl takes.
 *   labhv free            free memory of the host in KiB
 *   labhv dirty           pages waiting to be scrubbed, all nodes (debug key H)
 *   labhv domain DOMID    "alive|dying|none PAGES HANDLE"
 *   labhv domains         "DOMID alive|dying PAGES" a line, also those xl no longer shows
 *   labhv populate DOMID MIB  gives memory to a domain that no toolstack has built
 *   labhv poke DOMID      destroy with plain destroydomain, past any hook
 *   labhv poketime DOMID  the same, and prints the ns that it took
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xenctrl.h>

static int print_dirty(xc_interface *xch)
{
    static char buf[16384];
    uint32_t index = 0;
    unsigned int count;
    unsigned long pages = 0, n;
    unsigned int node;
    int answered = 0;

    /* Skip what the ring holds by now; then the answer is what comes after. */
    do {
        count = sizeof(buf);
        if (xc_readconsolering(xch, buf, &count, 0, 1, &index) != 0)
            return 1;
    } while (count > 0);
    if (xc_send_debug_keys(xch, "H") != 0)
        return 1;
    /* The nodes come last, and only those that have any. */
    for (int tries = 0; tries < 50; tries++) {
        count = sizeof(buf) - 1;
        if (xc_readconsolering(xch, buf, &count, 0, 1, &index) != 0)
            return 1;
        if (count == 0 && answered)
            break;
        buf[count] = '\0';
        for (char *p = buf; (p = strstr(p, "Node ")); p++) {
            if (sscanf(p, "Node %u has %lu unscrubbed pages", &node, &n) == 2)
                pages += n;
        }
        if (strstr(buf, "heap[node="))
            answered = 1;
        if (!answered)
            usleep(20000);
    }
    printf("%lu\n", pages);
    return !answered;
}

static int print_domains(xc_interface *xch)
{
    static xc_domaininfo_t info[256];
    int n = xc_domain_getinfolist(xch, 0, 256, info);

    for (int i = 0; i < n; i++)
        printf("%u %s %llu\n", info[i].domain, info[i].flags & XEN_DOMINF_dying ? "dying" : "alive",
               (unsigned long long)info[i].tot_pages);
    return n < 0;
}

static int print_domain(xc_interface *xch, uint32_t domid)
{
    xc_domaininfo_t info;

    if (xc_domain_getinfolist(xch, domid, 1, &info) != 1 || info.domain != domid) {
        printf("none 0 -\n");
        return 0;
    }
    printf("%s %llu ", info.flags & XEN_DOMINF_dying ? "dying" : "alive",
           (unsigned long long)info.tot_pages);
    for (size_t i = 0; i < sizeof(info.handle); i++)
        printf("%02x", info.handle[i]);
    printf("\n");
    return 0;
}

static int populate(xc_interface *xch, uint32_t domid, unsigned long mib)
{
    if (xc_domain_setmaxmem(xch, domid, (mib + 1) * 1024) != 0)
        return 1;
    for (xen_pfn_t pfn = 0; pfn < mib * 256; pfn++) {
        xen_pfn_t extent = pfn;

        if (xc_domain_populate_physmap_exact(xch, domid, 1, 0, 0, &extent) != 0)
            return 1;
    }
    return 0;
}

static int timed_destroy(xc_interface *xch, uint32_t domid)
{
    struct timespec a, b;
    int r;

    clock_gettime(CLOCK_MONOTONIC, &a);
    r = xc_domain_destroy(xch, domid);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%lld\n", (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec);
    return r != 0;
}

int main(int argc, char **argv)
{
    xc_interface *xch = xc_interface_open(NULL, NULL, 0);
    xc_physinfo_t phys;
    const char *verb = argc > 1 ? argv[1] : "";

    if (!xch)
        return 1;
    if (strcmp(verb, "free") == 0) {
        memset(&phys, 0, sizeof(phys));
        if (xc_physinfo(xch, &phys) != 0)
            return 1;
        printf("%llu\n", (unsigned long long)phys.free_pages * 4);
        return 0;
    }
    if (strcmp(verb, "dirty") == 0)
        return print_dirty(xch);
    if (strcmp(verb, "domains") == 0)
        return print_domains(xch);
    if (strcmp(verb, "domain") == 0 && argc == 3)
        return print_domain(xch, (uint32_t)atoi(argv[2]));
    if (strcmp(verb, "populate") == 0 && argc == 4)
        return populate(xch, (uint32_t)atoi(argv[2]), strtoul(argv[3], NULL, 10));
    if (strcmp(verb, "poke") == 0 && argc == 3)
        return xc_domain_destroy(xch, (uint32_t)atoi(argv[2])) != 0;
    if (strcmp(verb, "poketime") == 0 && argc == 3)
        return timed_destroy(xch, (uint32_t)atoi(argv[2]));
    fprintf(stderr, "usage: labhv free | dirty | domains | domain DOMID | populate DOMID MIB | "
                    "poke|poketime DOMID\n");
    return 2;
}
