/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fake host keeps what daemon/xen.h promises. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "contract.h"
#include "fake-host.h"

static int make(void *arg, uint64_t pages)
{
    static uint32_t domid;
    struct fake_domain *d = fake_add(fake_lock(arg), ++domid, "contract", pages);

    fake_unlock(arg);
    return d ? (int)domid : -ENOSPC;
}

static void unmake(void *arg, uint32_t domid)
{
    struct fake_state *st = fake_lock(arg);
    struct fake_domain *d = fake_find(st, domid);

    if (d)
        fake_destroy(st, d);
    fake_unlock(arg);
}

int main(void)
{
    char path[] = "/tmp/contract-fake.XXXXXX";
    int fd = mkstemp(path);
    struct err err = {0};
    struct contract c = {.ops = &fake_ops, .make = make, .unmake = unmake};
    int failed;

    if (fd < 0 || fake_create(path) < 0 || fake_open(path, &c.xen, &err) < 0) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        return 1;
    }
    close(fd);
    c.arg = c.xen;
    failed = contract_run(&c);
    c.ops->close(c.xen);
    unlink(path);
    return failed != 0;
}
