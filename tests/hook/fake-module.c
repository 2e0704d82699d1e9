/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stands for the Python bindings: linked with libxenctrl, and loaded by a program that is not. */
#include <stdint.h>

struct xc_interface_core;
int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid);
int xc_domain_create(struct xc_interface_core *xch, uint32_t *pdomid, void *config);
int module_destroy(uint32_t domid);
int module_create(uint32_t domid);

int module_destroy(uint32_t domid)
{
    return xc_domain_destroy((void *)0, domid);
}

int module_create(uint32_t domid)
{
    uint8_t config[256] = {[4] = 7}; /* see caller.c */
    int rc = xc_domain_create((void *)0, &domid, config);

    return rc == 0 ? (int)domid : rc;
}
