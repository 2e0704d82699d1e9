/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Destroys a domain of the fake host as a toolstack with the hook does: through scrubd, or by
 * itself.
 *     destroyer SOCKET DOMID      with $SCRUBD_FAKE_HOST
 * Ends with 0 if the domain is gone, and prints what became of asking scrubd.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake-host.h"
#include "scrubhook.h"

/* The plain hypercall: it goes on until the domain is dead. */
static int destroy(struct xc_interface_core *xch, uint32_t domid)
{
    const struct xen_ops *ops;
    struct xen_step did = {0};
    struct xen_domain dom;
    struct err err;
    struct xen *x;
    int r;

    if (fake_open_env(&x, &ops, &err) < 0)
        return -1;
    r = ops->domain_get(x, domid, &dom);
    while (r == 0 && did.life != XEN_LIFE_DEAD)
        r = ops->step(x, &dom.ident, 2000, 0, &did);
    ops->close(x);
    errno = -r;
    return r < 0 ? -1 : 0;
}

static void on_verdict(void *ctx, enum scrubhook_verdict verdict, const char *text)
{
    puts(text);
}

int main(int argc, char **argv)
{
    struct scrubhook_opts opts = {.on_verdict = on_verdict};

    if (argc != 3)
        return 2;
    opts.socket_path = argv[1];
    /* Somebody else may have brought it to its end meanwhile. */
    return scrubhook_destroy((uint32_t)atoi(argv[2]), &opts, destroy, NULL) == 0 || errno == ESRCH
               ? 0
               : 1;
}
