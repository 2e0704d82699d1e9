/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_METRICS_HTTP_H
#define SCRUBD_METRICS_HTTP_H

#include <event2/event.h>

#include "err.h"

/*
 * GET /metrics over HTTP, where metrics_listen says. To anybody who can connect: what is told is
 * read-only, and of little use to a stranger. 8 clients at a time, the others wait for them to
 * leave; one request each, of at most 8 KiB, within 10 s.
 */
struct reload;
struct metrics_http;

int metrics_http_new(struct event_base *base, const struct reload *reload,
                     struct metrics_http **ret, struct err *err);
/*
 * Listen where reload->conf says now, and nowhere else. That it cannot be done is logged, and tried
 * again from time to time: no metrics are no reason for no scrubd.
 */
void metrics_http_listen(struct metrics_http *m);
void metrics_http_free(struct metrics_http *m); /* before the base; takes NULL */

#endif
