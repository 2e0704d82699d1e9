/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stands for libxenctrl: writes "real DOMID" to the file $FAKE_XC_LOG, and fails with ESRCH if
 * $FAKE_XC_FAIL. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct xc_interface_core;
int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid);

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
    if (getenv("FAKE_XC_FAIL") != NULL) {
        errno = ESRCH;
        return -1;
    }
    return 0;
}
