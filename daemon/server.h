/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_SERVER_H
#define SCRUBD_SERVER_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

#include "err.h"
#include "wire.h"

/*
 * The socket: connections, their peers' credentials, framing and limits. What the messages mean is
 * for the owner of the server_ops. A connection's requests are handed over one at a time: no next
 * one while it is busy with one, or while its client does not read the replies.
 */
struct server;
struct conn;

#define SERVER_MAX_CONNS 128         /* those busy with a destroy are not counted */
#define SERVER_OUT_PAUSE (64 * 1024) /* unread output at which no more requests are taken */
#define SERVER_OUT_MAX (1024 * 1024) /* at which the connection is closed */

enum server_load {
    SERVER_IDLE = 0,
    SERVER_BUSY,       /* a call goes on */
    SERVER_DESTROYING, /* likewise, and the connection stands outside the limits */
    SERVER_KEPT,       /* idle, but outside the limits: others depend on when it ends */
};

struct server_ops {
    /* A new connection: returns what the other functions get as peer, or NULL to close it. */
    void *(*opened)(void *arg, struct conn *conn, uid_t uid, pid_t pid);
    /* One message; text is NUL-terminated. */
    void (*request)(void *peer, const char *text, size_t len);
    /* A message that is longer than WIRE_MAX_REQUEST. */
    void (*too_long)(void *peer);
    enum server_load (*load)(void *peer);
    /* The connection is gone: free the peer. Never called inside one of the others. */
    void (*closed)(void *peer);
};

/* Serve on a listening socket, which stays the caller's. */
int server_new(struct event_base *base, int fd, const struct server_ops *ops, void *arg,
               struct server **ret, struct err *err);
/* From now on listen there, and no longer on what there was. */
int server_move(struct server *s, int fd, struct err *err);
void server_free(struct server *s); /* closes all connections; takes NULL */

/* Make a listening socket at path, mode 0600; one that is left over there is removed, unless
 * somebody serves on it: -EADDRINUSE. */
int server_listen(const char *path, int *ret_fd, struct err *err);

/* Send a message, which is taken over; or its text of len bytes with the NUL. */
void conn_send(struct conn *c, struct json_object *msg);
void conn_send_text(struct conn *c, const char *text, size_t len);
/* The call that kept it busy is over: go on with what the client sent meanwhile. */
void conn_resume(struct conn *c);
/* Close it: after what was sent has been read, or (now) at once. */
void conn_close(struct conn *c, bool now);
/* Bytes that the client has not read yet. */
size_t conn_unread(const struct conn *c);

#endif
