/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_CLIENT_H
#define SCRUBD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "wire.h"

/* A blocking Varlink client, for programs that talk to scrubd and do nothing else meanwhile. */
struct client {
    int fd; /* for poll(), when replies are awaited together with other things */
    char *buf;
    size_t len, used, size;
};

/* $SCRUBD_SOCKET, else the path that scrubd was built with. */
const char *client_socket_path(void);

/*
 * Connect within timeout_ms. -ENOENT and -ECONNREFUSED mean that scrubd does not run, -EACCES that
 * the caller may not. The connection is closed on exec. Free with client_close(), which takes NULL.
 */
int client_open(const char *path, int timeout_ms, struct client **ret, struct err *err);
void client_close(struct client *c);

/* Send a call; params may be NULL and is taken over. */
int client_send(struct client *c, const char *method, struct json_object *params, bool more,
                struct err *err);

/*
 * Wait up to timeout_ms (-1: for ever) for the next reply, which the caller puts. -ETIMEDOUT,
 * -ECONNRESET (the connection ended), -EINTR (a signal, nothing is lost), -EBADMSG.
 */
int client_receive(struct client *c, int timeout_ms, struct json_object **ret, struct err *err);

/* True if a whole reply is already here, so that client_receive() will not wait. */
bool client_pending(const struct client *c);

/* One call, one reply. An error reply is a reply: see wire_error_name(). */
int client_call(struct client *c, const char *method, struct json_object *params, int timeout_ms,
                struct json_object **ret, struct err *err);

#endif
