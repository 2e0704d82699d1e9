/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hypervisor that runs, and the live patch in it. */
#ifndef CLI_HYPERVISOR_H
#define CLI_HYPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "payload.h"

#define HYPERVISOR_PAYLOAD "scrubd" /* what Xen knows ours as */

enum hypervisor_payload {
    HYPERVISOR_NO_PAYLOAD = 0,
    HYPERVISOR_UPLOADED, /* but not applied */
    HYPERVISOR_APPLIED,
    HYPERVISOR_NO_LIVEPATCH, /* this Xen knows none */
};

struct hypervisor {
    void *xch;
    char id[PAYLOAD_ID_TEXT]; /* "" if it has none */
    bool patched;             /* it has scrubd's operations, wherever from */
    enum hypervisor_payload payload;
};

/* -errno with text: no dom0, not root, ... Free with hypervisor_close(). */
int hypervisor_open(struct hypervisor *ret, struct err *err);
void hypervisor_close(struct hypervisor *h);

/* Each -errno with text, after which nothing has changed. Apply and revert wait for the end. */
int hypervisor_upload(struct hypervisor *h, const struct payload *p, struct err *err);
int hypervisor_apply(struct hypervisor *h, struct err *err);
int hypervisor_revert(struct hypervisor *h, struct err *err);
int hypervisor_unload(struct hypervisor *h, struct err *err);

#endif
