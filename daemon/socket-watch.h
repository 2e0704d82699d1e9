/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_SOCKET_WATCH_H
#define SCRUBD_SOCKET_WATCH_H

#include <event2/event.h>

#include "err.h"

/*
 * Notices when a socket is removed from its directory, or the directory itself: whoever listens on
 * it hears nothing of that, and nobody can reach it any more. Costs no wake-ups.
 */
struct socket_watch;

/* gone() may be called for a socket that is there again; never inside the other functions. */
int socket_watch_new(struct event_base *base, const char *path, void (*gone)(void *arg), void *arg,
                     struct socket_watch **ret, struct err *err);
void socket_watch_free(struct socket_watch *w); /* takes NULL */

#endif
