/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rpc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

#define WATCH_DEFAULT_MS 250
#define WATCH_MIN_MS 50
#define WATCH_MAX_MS 60000
#define WATCH_UNREAD_MAX (32 * 1024) /* a client this far behind misses turns */
#define GARBAGE_LOG_US 10000000

struct rpc {
    struct event_base *base;
    struct engine *engine;
    uid_t own_uid;
    struct log_limit garbage_limit;
};

/* The other end of a connection, and the call that it is busy with. */
struct peer {
    struct rpc *rpc;
    struct conn *conn;
    uid_t uid;
    pid_t pid;
    bool more, oneway; /* of the present request */
    bool destroying, watching;
    struct engine_listener listener;
    struct event *ev_watch;
    struct timeval watch_interval;
};

static struct peer *peer_of(struct engine_listener *l)
{
    return (struct peer *)((char *)l - offsetof(struct peer, listener));
}

static void reply(struct peer *p, struct json_object *params, bool continues)
{
    struct json_object *msg = wire_reply(params, continues);

    if (p->oneway)
        json_object_put(msg);
    else
        conn_send(p->conn, msg);
}

static void reply_error(struct peer *p, const char *error, struct json_object *params)
{
    struct json_object *msg = wire_error(error, params);

    if (p->oneway)
        json_object_put(msg);
    else
        conn_send(p->conn, msg);
}

static void reply_error_str(struct peer *p, const char *error, const char *key, const char *value)
{
    struct json_object *params = wire_object();

    wire_add_str(params, key, value);
    reply_error(p, error, params);
}

static void invalid_parameter(struct peer *p, const char *name)
{
    reply_error_str(p, WIRE_SERVICE ".InvalidParameter", "parameter", name);
}

/* Parameters */

struct param {
    const char *name;
    json_type type;
    bool required;
};

#define PARAMS_END                                                                                 \
    {                                                                                              \
        NULL, json_type_null, false                                                                \
    }

static const struct param *find_param(const struct param *specs, const char *name)
{
    for (; specs->name; specs++) {
        if (!strcmp(specs->name, name))
            return specs;
    }
    return NULL;
}

/* A NUL inside, which would hide the rest of the string from us. */
static bool has_nul(struct json_object *value)
{
    return json_object_is_type(value, json_type_string) &&
           strlen(json_object_get_string(value)) != (size_t)json_object_get_string_len(value);
}

/* Unknown names, wrong types and missing ones: answers with an error, and returns false. */
static bool check_params(struct peer *p, struct json_object *params, const struct param *specs)
{
    json_object_object_foreach(params, key, value)
    {
        const struct param *spec = find_param(specs, key);

        if (!spec || (value && (!json_object_is_type(value, spec->type) || has_nul(value)))) {
            invalid_parameter(p, key);
            return false;
        }
    }
    for (; specs->name; specs++) {
        if (specs->required && !json_object_object_get(params, specs->name)) {
            invalid_parameter(p, specs->name);
            return false;
        }
    }
    return true;
}

/* org.varlink.service */

static void get_info(struct peer *p, struct json_object *params)
{
    struct json_object *o = wire_object(), *list = wire_array();

    wire_add_str(o, "vendor", "scrubd");
    wire_add_str(o, "product", "scrubd");
    wire_add_str(o, "version", SCRUBD_VERSION);
    wire_add_str(o, "url", "");
    json_object_array_add(list, json_object_new_string(WIRE_SERVICE));
    json_object_array_add(list, json_object_new_string(WIRE_INTERFACE));
    wire_add_obj(o, "interfaces", list);
    reply(p, o, false);
}

static const struct param describe_params[] = {{"interface", json_type_string, true}, PARAMS_END};

static void describe(struct peer *p, struct json_object *params)
{
    const char *name = wire_get_str(params, "interface", "");
    const char *text = !strcmp(name, WIRE_INTERFACE) ? messages_interface
                       : !strcmp(name, WIRE_SERVICE) ? messages_service
                                                     : NULL;
    struct json_object *o;

    if (!text) {
        reply_error_str(p, WIRE_SERVICE ".InterfaceNotFound", "interface", name);
        return;
    }
    o = wire_object();
    wire_add_str(o, "description", text);
    reply(p, o, false);
}

/* org.scrubd */

static void get_status(struct peer *p, struct json_object *params)
{
    struct status status;

    engine_status(p->rpc->engine, &status);
    reply(p, messages_status(&status), false);
}

static void list_jobs(struct peer *p, struct json_object *params)
{
    const struct job_table *jobs = engine_jobs(p->rpc->engine);
    uint64_t now_us = engine_now_us();
    struct job *job;

    TAILQ_FOREACH (job, &jobs->list, link) {
        struct json_object *o = wire_object();

        wire_add_obj(o, "job", messages_job(job, now_us));
        reply(p, o, TAILQ_NEXT(job, link) != NULL);
    }
    if (TAILQ_EMPTY(&jobs->list))
        reply(p, NULL, false);
}

static const struct param destroy_params[] = {{"domid", json_type_int, true},
                                              {"uuid", json_type_string, false},
                                              {"name", json_type_string, false},
                                              PARAMS_END};

static struct json_object *destroy_event(const char *event, const struct job *job,
                                         const char *reason)
{
    struct json_object *o = wire_object();

    wire_add_str(o, "event", event);
    if (job)
        wire_add_obj(o, "job", messages_job(job, engine_now_us()));
    wire_add_str_opt(o, "reason", reason);
    return o;
}

static void on_job_event(struct engine_listener *l, enum engine_event event, const struct job *job,
                         const char *reason)
{
    struct peer *p = peer_of(l);

    if (event == ENGINE_HEARTBEAT) {
        reply(p, destroy_event("heartbeat", job, NULL), true);
        return;
    }
    reply(p, destroy_event(event == ENGINE_DEAD ? "dead" : "decline", job, reason), false);
    p->destroying = false;
    conn_resume(p->conn);
}

static void destroy_failed(struct peer *p, int64_t domid, const struct err *err)
{
    struct json_object *o = wire_object();

    if (err->code == ESRCH || err->code == EPERM)
        wire_add_int(o, "domid", domid);
    if (err->code != ESRCH)
        wire_add_str(o, "reason", err->text);
    reply_error(p,
                err->code == ESRCH   ? WIRE_INTERFACE ".NoSuchDomain"
                : err->code == EPERM ? WIRE_INTERFACE ".NotAllowed"
                                     : WIRE_INTERFACE ".Refused",
                o);
}

static void destroy(struct peer *p, struct json_object *params)
{
    int64_t domid = wire_get_int(params, "domid", -1);
    const char *uuid_text = wire_get_str(params, "uuid", NULL);
    const char *name = wire_get_str(params, "name", NULL);
    struct engine *e = p->rpc->engine;
    const struct job *job = NULL;
    struct err err = {0};
    uint8_t uuid[16];
    bool dead;
    int r;

    if (domid < 0 || domid > UINT32_MAX) {
        invalid_parameter(p, "domid");
        return;
    }
    if (uuid_text && !ident_parse_uuid(uuid_text, uuid)) {
        invalid_parameter(p, "uuid");
        return;
    }
    engine_forget(e, &p->listener); /* a turn of degraded mode that this connection had */
    p->listener.notify = on_job_event;
    r = engine_destroy(e, (uint32_t)domid, uuid_text ? uuid : NULL, name, &p->listener, &job, &dead,
                       &err);
    if (r < 0) {
        destroy_failed(p, domid, &err);
        return;
    }
    reply(p, destroy_event("hello", job, NULL), true);
    if (dead)
        reply(p, destroy_event("dead", NULL, NULL), false);
    else
        p->destroying = true;
}

static const struct param watch_params[] = {{"interval_ms", json_type_int, false}, PARAMS_END};

static void send_watch(struct peer *p)
{
    const struct job_table *jobs = engine_jobs(p->rpc->engine);
    struct json_object *o, *list;
    uint64_t now_us = engine_now_us();
    struct status status;
    struct job *job;

    if (conn_unread(p->conn) > WATCH_UNREAD_MAX)
        return;
    o = wire_object();
    list = wire_array();
    engine_status(p->rpc->engine, &status);
    wire_add_obj(o, "status", messages_status(&status));
    TAILQ_FOREACH (job, &jobs->list, link) {
        json_object_array_add(list, messages_job(job, now_us));
    }
    wire_add_obj(o, "jobs", list);
    reply(p, o, true);
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
    struct peer *p = arg;

    send_watch(p);
    evtimer_add(p->ev_watch, &p->watch_interval);
}

static void watch(struct peer *p, struct json_object *params)
{
    int64_t ms = wire_get_int(params, "interval_ms", WATCH_DEFAULT_MS);

    if (ms < WATCH_MIN_MS || ms > WATCH_MAX_MS) {
        invalid_parameter(p, "interval_ms");
        return;
    }
    if (!p->ev_watch)
        p->ev_watch = evtimer_new(p->rpc->base, on_watch, p);
    if (!p->ev_watch || p->oneway)
        return;
    p->watching = true;
    p->watch_interval.tv_sec = (time_t)(ms / 1000);
    p->watch_interval.tv_usec = (suseconds_t)(ms % 1000 * 1000);
    send_watch(p);
    evtimer_add(p->ev_watch, &p->watch_interval);
}

static bool refuse_degraded(struct peer *p)
{
    if (!engine_degraded(p->rpc->engine))
        return false;
    reply_error_str(p, WIRE_INTERFACE ".Degraded", "reason", engine_reason(p->rpc->engine));
    return true;
}

/* The text of a bad value is "field: reason". */
static void invalid_limit(struct peer *p, const struct err *err)
{
    struct json_object *o = wire_object();
    const char *colon = strstr(err->text, ": ");
    char field[32];

    snprintf(field, sizeof(field), "%.*s", colon ? (int)(colon - err->text) : 0, err->text);
    wire_add_str(o, "field", field);
    wire_add_str(o, "reason", colon ? colon + 2 : err->text);
    reply_error(p, WIRE_INTERFACE ".InvalidLimit", o);
}

static const struct param limit_params[] = {
    {"ceiling_kib", json_type_int, false}, {"mask", json_type_string, false}, PARAMS_END};

static void set_limit(struct peer *p, struct json_object *params)
{
    int64_t value = wire_get_int(params, "ceiling_kib", -1);
    const char *mask = wire_get_str(params, "mask", NULL);
    bool has_ceiling = json_object_object_get(params, "ceiling_kib") != NULL;
    uint64_t ceiling_kib =
        value < 0 ? UINT64_MAX : (uint64_t)value; /* refused with the too large */
    const struct limits *now;
    struct json_object *o;
    struct err err = {0};
    char text[CPULIST_TEXT];
    int r;

    if (refuse_degraded(p))
        return;
    r = engine_set_limit(p->rpc->engine, has_ceiling ? &ceiling_kib : NULL, mask, &err);
    if (r == -EINVAL) {
        invalid_limit(p, &err);
        return;
    }
    if (r < 0) {
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
        return;
    }
    now = engine_limits(p->rpc->engine);
    o = wire_object();
    wire_add_int(o, "ceiling_kib", (int64_t)now->ceiling_kib);
    wire_add_str(o, "mask", now->all_cpus ? "all" : cpulist_format(&now->mask, text, sizeof(text)));
    reply(p, o, false);
}

static void reset(struct peer *p, struct json_object *params)
{
    struct err err = {0};

    if (refuse_degraded(p))
        return;
    if (engine_reset_limits(p->rpc->engine, &err) < 0)
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
    else
        reply(p, NULL, false);
}

static const struct param no_params[] = {PARAMS_END};

static const struct method {
    const char *name;
    void (*run)(struct peer *p, struct json_object *params);
    const struct param *params;
    bool for_all; /* also for others than root */
    bool needs_more;
} methods[] = {
    {WIRE_SERVICE ".GetInfo", get_info, no_params, true, false},
    {WIRE_SERVICE ".GetInterfaceDescription", describe, describe_params, true, false},
    {WIRE_INTERFACE ".GetStatus", get_status, no_params, false, false},
    {WIRE_INTERFACE ".ListJobs", list_jobs, no_params, false, true},
    {WIRE_INTERFACE ".Destroy", destroy, destroy_params, false, true},
    {WIRE_INTERFACE ".Watch", watch, watch_params, false, true},
    {WIRE_INTERFACE ".SetLimit", set_limit, limit_params, false, false},
    {WIRE_INTERFACE ".Reset", reset, no_params, false, false},
};

static const struct method *find_method(const char *name)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++) {
        if (!strcmp(methods[i].name, name))
            return &methods[i];
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

    if (p->destroying)
        return SERVER_DESTROYING;
    if (p->watching)
        return SERVER_BUSY;
    return p->listener.turn_of ? SERVER_KEPT : SERVER_IDLE;
}

static void on_closed(void *peer)
{
    struct peer *p = peer;

    engine_forget(p->rpc->engine, &p->listener);
    if (p->ev_watch)
        event_free(p->ev_watch);
    free(p);
}

const struct server_ops rpc_server_ops = {
    .opened = on_opened,
    .request = on_request,
    .too_long = on_too_long,
    .load = on_load,
    .closed = on_closed,
};

int rpc_new(struct event_base *base, struct engine *engine, struct rpc **ret, struct err *err)
{
    struct rpc *rpc = calloc(1, sizeof(*rpc));

    if (!rpc)
        return err_set(err, ENOMEM, "out of memory");
    rpc->base = base;
    rpc->engine = engine;
    rpc->own_uid = geteuid();
    *ret = rpc;
    return 0;
}

void rpc_free(struct rpc *rpc)
{
    free(rpc);
}
