/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HV_MOCK_DOMCTL_H
#define HV_MOCK_DOMCTL_H

/* What teardown.c needs of domains and hypercalls. */

#include "mock.h"
#include "scrub_ctl.h"

enum {
    DOMDYING_alive,
    DOMDYING_dying,
    DOMDYING_dead
};

struct domain {
    uint8_t handle[16];
    int is_dying;
    struct {
        int rel_priv;
    } arch;
    unsigned int tot_pages;
};
#define domain_tot_pages(d) ((d)->tot_pages)
int domain_kill(struct domain *d);
extern struct vcpu *current;

struct xen_domctl {
    uint32_t cmd;
    union {
        struct xen_domctl_teardown_step teardown_step;
        uint8_t pad[128];
    } u;
};
typedef struct xen_domctl xen_domctl_t;
DEFINE_XEN_GUEST_HANDLE(xen_domctl_t);

#define __HYPERVISOR_domctl 36
long hypercall_create_continuation(unsigned int op, const char *format,
                                   XEN_GUEST_HANDLE_PARAM(xen_domctl_t) u_domctl);
bool hypercall_preempt_check(void);

long domain_teardown_step(struct domain *d, struct xen_domctl *op,
                          XEN_GUEST_HANDLE_PARAM(xen_domctl_t) u_domctl);

#endif
