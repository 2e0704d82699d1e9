/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which domain the user means. */
#ifndef CLI_DOMAIN_H
#define CLI_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

#include <libxl.h>

#include "cmd.h"

#define DOMAIN_NAME_SIZE 256

struct domain {
    uint32_t domid;
    char name[DOMAIN_NAME_SIZE]; /* "" if it has none (any more); cleaned */
};

/* The Xen that we run on. What goes wrong has been told. */
struct xen {
    libxl_ctx *ctx;
    xentoollog_logger_stdiostream *logger;
};
enum exit_code xen_open(const struct cmd_args *args, struct xen *xen);
void xen_close(struct xen *xen);

/*
 * text is a domid, a name or a uuid. A domain that has lost its name because it is being destroyed
 * is found under it among scrubd's jobs. What goes wrong has been told.
 */
enum exit_code domain_find(const struct cmd_args *args, libxl_ctx *ctx, const char *text,
                           struct domain *ret);

/* "web-3 (domain 7)" or "domain 7". Returns buf. */
char *domain_label(const struct domain *domain, char *buf, size_t size);

#endif
