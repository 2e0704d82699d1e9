/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc-private.h"

#define GARBAGE_LOG_US 10000000

static const struct method *const method_tables[] = {
    rpc_service_methods, rpc_config_methods,     rpc_status_methods, rpc_job_methods,
    rpc_limit_methods,   rpc_memory_methods,     rpc_wait_methods,   rpc_placement_methods,
    rpc_health_methods,  rpc_hypervisor_methods,
};

void call_hold(struct peer *p, struct call *c)
{
    struct call *kept = p->call;

    c->peer = p;
    p->call = c;
    if (kept)
        kept->closed(kept);
}

void call_end(struct call *c)
{
    struct peer *p = c->peer;

    p->call = NULL;
    c->closed(c);
    conn_resume(p->conn);
}

static const struct method *find_method(const char *name)
{
    for (size_t i = 0; i < sizeof(method_tables) / sizeof(*method_tables); i++) {
        for (const struct method *m = method_tables[i]; m->name; m++) {
            if (!strcmp(m->name, name))
                return m;
        }
    }
    return NULL;
}

static void method_not_found(struct peer *p, const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t len = dot ? (size_t)(dot - name) : 0;
    char interface[128];

    if ((len == strlen(WIRE_INTERFACE) && !strncmp(name, WIRE_INTERFACE, len)) ||
        (len == strlen(WIRE_SERVICE) && !strncmp(name, WIRE_SERVICE, len))) {
        reply_error_str(p, WIRE_SERVICE ".MethodNotFound", "method", name);
        return;
    }
    snprintf(interface, sizeof(interface), "%.*s", len < 100 ? (int)len : 100, name);
    reply_error_str(p, WIRE_SERVICE ".InterfaceNotFound", "interface", interface);
}

static bool may_act(const struct peer *p)
{
    return p->uid == 0 || p->uid == p->rpc->own_uid;
}

static void dispatch(struct peer *p, struct json_object *msg)
{
    const char *name = wire_method(msg);
    struct json_object *params = wire_params(msg), *none = NULL;
    const struct method *m;

    p->more = wire_flag(msg, "more");
    p->oneway = wire_flag(msg, "oneway");
    if (!name) {
        invalid_parameter(p, "method");
        return;
    }
    if (!params && json_object_object_get(msg, "parameters")) {
        invalid_parameter(p, "parameters");
        return;
    }
    m = find_method(name);
    if (!m) {
        method_not_found(p, name);
        return;
    }
    if (!m->for_all && !may_act(p)) {
        reply_error(p, WIRE_INTERFACE ".PermissionDenied", NULL);
        return;
    }
    if (m->needs_more && !p->more) {
        reply_error(p, WIRE_SERVICE ".ExpectedMore", NULL);
        return;
    }
    if (!params)
        params = none = wire_object();
    if (check_params(p, params, m->params))
        m->run(p, params);
    json_object_put(none);
}

/* Whoever sends such things gets an answer, and is not listened to any further. */
static void garbage(struct peer *p, const char *what)
{
    unsigned int missed;

    p->oneway = false;
    if (log_limit_pass(&p->rpc->garbage_limit, engine_now_us(), GARBAGE_LOG_US, &missed))
        log_warning("bad message from pid %d, uid %u: %s (%u more since last said)", p->pid, p->uid,
                    what, missed);
    invalid_parameter(p, what);
    conn_close(p->conn, false);
}

static void on_request(void *peer, const char *text, size_t len)
{
    struct json_object *msg;
    struct err err = {0};

    if (wire_parse(text, len, &msg, &err) < 0) {
        garbage(peer, err.text);
        return;
    }
    dispatch(peer, msg);
    json_object_put(msg);
}

static void on_too_long(void *peer)
{
    garbage(peer, "a message is longer than 65536 bytes");
}

static void *on_opened(void *arg, struct conn *conn, uid_t uid, pid_t pid)
{
    struct peer *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->rpc = arg;
    p->conn = conn;
    p->uid = uid;
    p->pid = pid;
    return p;
}

static enum server_load on_load(void *peer)
{
    struct peer *p = peer;

    return p->call ? p->call->load : SERVER_IDLE;
}

static void on_closed(void *peer)
{
    struct peer *p = peer;

    if (p->call)
        p->call->closed(p->call);
    free(p);
}

const struct server_ops rpc_server_ops = {
    .opened = on_opened,
    .request = on_request,
    .too_long = on_too_long,
    .load = on_load,
    .closed = on_closed,
};

int rpc_new(struct event_base *base, struct engine *engine, struct reload *reload, struct rpc **ret,
            struct err *err)
{
    struct rpc *rpc = calloc(1, sizeof(*rpc));

    if (!rpc)
        return err_set(err, ENOMEM, "out of memory");
    rpc->base = base;
    rpc->engine = engine;
    rpc->reload = reload;
    rpc->own_uid = geteuid();
    *ret = rpc;
    return 0;
}

void rpc_free(struct rpc *rpc)
{
    if (rpc)
        json_object_put(rpc->watch_msg);
    free(rpc);
}
