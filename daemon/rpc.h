/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_RPC_H
#define SCRUBD_RPC_H

#include "engine.h"
#include "server.h"

/* The methods of org.scrubd and org.varlink.service, between the server and the engine. */
struct reload;
struct rpc;

extern const struct server_ops rpc_server_ops; /* their arg is the struct rpc */

int rpc_new(struct event_base *base, struct engine *engine, struct reload *reload, struct rpc **ret,
            struct err *err);
void rpc_free(struct rpc *rpc); /* after the server; takes NULL */

#endif
