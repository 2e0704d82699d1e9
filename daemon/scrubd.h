/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_SCRUBD_H
#define SCRUBD_SCRUBD_H

#include "xen.h"

/*
 * The whole daemon, on whatever host open_host() opens: the real one, or that of the tests. Returns
 * the exit status: 0, 1 for what went wrong at start, 2 for bad arguments.
 */
int scrubd_main(int argc, char **argv,
                int (*open_host)(struct xen **ret, const struct xen_ops **ret_ops,
                                 struct err *err));

#endif
