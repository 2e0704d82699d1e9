/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stands for libxenctrl: writes "real DOMID" or "create" to the file $FAKE_XC_LOG, and fails with
 * ESRCH if $FAKE_XC_FAIL. A domain that it creates has the number before the one wanted. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct xc_interface_core;
int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid);
int xc_domain_create(struct xc_interface_core *xch, uint32_t *pdomid, void *config);

static int end(void)
{
    if (getenv("FAKE_XC_FAIL") == NULL)
        return 0;
    errno = ESRCH;
    return -1;
}

int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid)
{
    int fd = open(getenv("FAKE_XC_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    (void)xch;
    if (getenv("FAKE_XC_SLOW") != NULL) {
        dprintf(fd, "begin %u\n", domid);
        usleep(100000);
        dprintf(fd, "end %u\n", domid);
    } else {
        dprintf(fd, "real %u\n", domid);
    }
    close(fd);
    return end();
}

int xc_domain_create(struct xc_interface_core *xch, uint32_t *pdomid, void *config)
{
    int fd = open(getenv("FAKE_XC_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    (void)xch;
    if (config == NULL)
        abort();
    --*pdomid;
    dprintf(fd, "create\n");
    close(fd);
    return end();
}
