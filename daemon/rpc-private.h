/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_RPC_PRIVATE_H
#define SCRUBD_RPC_PRIVATE_H

#include <sys/types.h>

#include "log.h"
#include "rpc.h"

/*
 * Insides of the RPC: rpc.c takes requests apart and finds their methods, rpc-reply.c answers, and
 * each rpc-CONCEPT.c has the methods of one concept, with a table of them that rpc.c lists.
 */
struct call;

struct rpc {
    struct event_base *base;
    struct engine *engine;
    struct reload *reload;
    uid_t own_uid;
    struct log_limit garbage_limit;
    struct json_object *watch_msg; /* what watchers were last told, or NULL */
    const char *watch_text;        /* of watch_msg */
    size_t watch_len;
    uint64_t watch_us; /* when */
};

/* The other end of a connection. */
struct peer {
    struct rpc *rpc;
    struct conn *conn;
    uid_t uid;
    pid_t pid;
    bool more, oneway; /* of the present request */
    struct call *call; /* held, or NULL */
};

/*
 * A call that goes on after its method has returned: embedded in what the method allocates. While
 * it is SERVER_BUSY or SERVER_DESTROYING no other request of the connection is taken; a
 * SERVER_KEPT one does not stop other requests, and is closed when another call is held.
 */
struct call {
    struct peer *peer;
    enum server_load load;
    /* The connection is gone, or call_end(): let go of everything and free it. Sends nothing. */
    void (*closed)(struct call *c);
};
void call_hold(struct peer *p, struct call *c);
/* It is over, after its last reply: frees it by way of closed(), and lets the next request in. */
void call_end(struct call *c);

/* Answers to the present request: nothing is sent if it is oneway. params are taken over. */
void reply(struct peer *p, struct json_object *params, bool continues);
void reply_error(struct peer *p, const char *error, struct json_object *params);
void reply_error_str(struct peer *p, const char *error, const char *key, const char *value);
void invalid_parameter(struct peer *p, const char *name);
/* Refuses what a degraded scrubd cannot do: true if it did. */
bool refuse_degraded(struct peer *p);

/* A parameter of a method; lists of them end with PARAMS_END. */
struct param {
    const char *name;
    json_type type;
    bool required;
};
#define PARAMS_END                                                                                 \
    {                                                                                              \
        NULL, json_type_null, false                                                                \
    }
extern const struct param no_params[];

/* Unknown names, wrong types and missing ones: answers with an error, and returns false. */
bool check_params(struct peer *p, struct json_object *params, const struct param *specs);

/* A method; lists of them end with METHODS_END. run() gets parameters that are checked, never NULL.
 */
struct method {
    const char *name;
    void (*run)(struct peer *p, struct json_object *params);
    const struct param *params;
    bool for_all; /* also for others than root */
    bool needs_more;
};
#define METHODS_END                                                                                \
    {                                                                                              \
        NULL, NULL, NULL, false, false                                                             \
    }

extern const struct method rpc_config_methods[];
extern const struct method rpc_health_methods[];
extern const struct method rpc_hypervisor_methods[];
extern const struct method rpc_job_methods[];
extern const struct method rpc_limit_methods[];
extern const struct method rpc_memory_methods[];
extern const struct method rpc_placement_methods[];
extern const struct method rpc_service_methods[];
extern const struct method rpc_status_methods[];
extern const struct method rpc_wait_methods[];

/* The parameters domid and uuid (which may be absent). Answers with an error, and returns false, if
 * one is bad. */
struct rpc_target {
    struct engine_target target;
    uint8_t uuid[16];
};
bool rpc_get_target(struct peer *p, struct json_object *params, struct rpc_target *ret);

/* The limits that are wanted, as an object; by_hand: only those that were set by hand. */
struct json_object *rpc_limits(const struct engine *e, bool by_hand);

/* All jobs, as objects. */
struct json_object *rpc_jobs(struct peer *p);

#endif
