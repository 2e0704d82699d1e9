/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_CONTRACT_H
#define SCRUBD_CONTRACT_H

#include "xen.h"

/*
 * What daemon/xen.h promises, checked on any implementation: the fake host and a real one. A real
 * host must be idle but for the test: it frees and scrubs memory.
 */
struct contract {
    struct xen *xen;
    const struct xen_ops *ops;
    /* Make a domain of so many pages, ready to be destroyed: its number, or a negative errno. */
    int (*make)(void *arg, uint64_t pages);
    /* Get rid of a domain by other means, if it is still there. */
    void (*unmake)(void *arg, uint32_t domid);
    void *arg;
};

/* Prints TAP. Returns the number of checks that failed. */
int contract_run(const struct contract *c);

#endif
