/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc-private.h"

/* A call that is answered when a look at the host has ended. */
struct looking {
    struct call call;
    struct placer_look look;
    void (*answer)(struct peer *p, const struct placer_request *req);
    struct placer_request req; /* of Protect */
};

static void looking_closed(struct call *c)
{
    struct looking *l = (struct looking *)c;

    engine_forget_look(c->peer->rpc->engine, &l->look);
    free(l);
}

static void on_looked(struct placer_look *look)
{
    struct looking *l = (struct looking *)((char *)look - offsetof(struct looking, look));

    l->answer(l->call.peer, &l->req);
    call_end(&l->call);
}

/* Answer by what the host is now; req may be NULL. */
static void answer_fresh(struct peer *p,
                         void (*answer)(struct peer *p, const struct placer_request *req),
                         const struct placer_request *req)
{
    struct looking *l = calloc(1, sizeof(*l));

    if (!l) {
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", "out of memory");
        return;
    }
    l->answer = answer;
    if (req)
        l->req = *req;
    l->look.done = on_looked;
    if (engine_look(p->rpc->engine, &l->look)) {
        answer(p, req);
        free(l);
        return;
    }
    l->call.load = SERVER_BUSY;
    l->call.closed = looking_closed;
    call_hold(p, &l->call);
}

static void add_domain(const struct engine *e, struct json_object *o, const struct ident *id)
{
    char uuid[IDENT_UUID_TEXT];

    wire_add_int(o, "domid", id->domid);
    wire_add_str(o, "uuid", ident_uuid_text(id, uuid));
    wire_add_str_opt(o, "name", engine_name_of(e, id));
}

static const char *why_of(const struct limits *l, unsigned int cpu, const struct placer_cpu *c)
{
    if (l->cpus_from == CONFIG_CPUS_AUTO || !c->cpu.online)
        return placement_why_name(c->why);
    if (l->cpus_from == CONFIG_CPUS_ALL)
        return "all";
    return cpulist_has(&l->mask, cpu) ? "listed" : "not_listed";
}

static struct json_object *cpu_item(const struct engine *e, unsigned int cpu,
                                    const struct placer_cpu *c)
{
    const struct limits *l = engine_limits(e);
    struct json_object *o = wire_object();

    wire_add_int(o, "cpu", cpu);
    wire_add_bool(o, "online", c->cpu.online);
    if (c->cpu.online) {
        wire_add_int(o, "node", c->cpu.node);
        wire_add_int(o, "socket", c->cpu.socket);
        wire_add_int(o, "core", c->cpu.core);
        if (c->cpu.cpupool != XEN_CPUPOOL_NONE)
            wire_add_int(o, "cpupool", c->cpu.cpupool);
    }
    wire_add_bool(o, "allowed", c->cpu.online && (l->all_cpus || cpulist_has(&l->mask, cpu)));
    wire_add_str(o, "why", why_of(l, cpu, c));
    if (l->cpus_from == CONFIG_CPUS_AUTO && c->has_domain) {
        add_domain(e, o, &c->ident);
        wire_add_int_opt(o, "sibling", c->sibling);
    }
    return o;
}

static void answer_cpus(struct peer *p, const struct placer_request *req)
{
    const struct engine *e = p->rpc->engine;
    const struct placer_view *v = engine_placement(e);

    for (unsigned int cpu = 0; cpu < v->n_cpus; cpu++) {
        struct json_object *o = wire_object();

        wire_add_obj(o, "cpu", cpu_item(e, cpu, &v->cpus[cpu]));
        reply(p, o, cpu + 1 < v->n_cpus);
    }
    if (!v->n_cpus)
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason",
                        "the CPUs cannot be found out; see the log");
}

static void list_cpus(struct peer *p, struct json_object *params)
{
    if (!refuse_degraded(p))
        answer_fresh(p, answer_cpus, NULL);
}

static const struct param protect_params[] = {{"domid", json_type_int, false},
                                              {"pattern", json_type_string, false},
                                              {"on", json_type_boolean, true},
                                              PARAMS_END};

static void answer_protect(struct peer *p, const struct placer_request *req)
{
    const struct placer_view *v = engine_placement(p->rpc->engine);
    struct json_object *o = wire_object();
    unsigned int n = 0;

    for (unsigned int i = 0; i < v->n_domains; i++) {
        const struct placer_domain *d = &v->domains[i];

        if (d->rule == PLACEMENT_BY_REQUEST)
            n += req->is_domain ? ident_equal(&d->ident, &req->ident)
                                : !strcmp(d->text, req->pattern);
    }
    wire_add_int(o, "domains", n);
    reply(p, o, false);
}

/* Which one is meant: answers with an error, and returns false, if that cannot be said. */
static bool find_request(struct peer *p, int64_t domid, const char *pattern,
                         struct placer_request *ret)
{
    struct xen_domain dom;
    struct json_object *o;
    int r;

    memset(ret, 0, sizeof(*ret));
    ret->is_domain = !pattern;
    if (pattern) {
        snprintf(ret->pattern, sizeof(ret->pattern), "%s", pattern);
        return true;
    }
    if (domid < 0 || domid > UINT32_MAX) {
        invalid_parameter(p, "domid");
        return false;
    }
    r = engine_domain(p->rpc->engine, (uint32_t)domid, &dom);
    if (domid && r == 0) {
        ret->ident = dom.ident;
        return true;
    }
    o = wire_object();
    wire_add_int(o, "domid", domid);
    if (!domid)
        wire_add_str(o, "reason", "domain 0 cannot be protected");
    reply_error(p, domid ? WIRE_INTERFACE ".NoSuchDomain" : WIRE_INTERFACE ".NotAllowed", o);
    return false;
}

static void protect(struct peer *p, struct json_object *params)
{
    const char *pattern = wire_get_str(params, "pattern", NULL);
    bool has_domid = json_object_object_get(params, "domid") != NULL;
    bool on = wire_get_bool(params, "on", false), changed;
    struct placer_request req;
    struct err err = {0};
    int r;

    if (has_domid == (pattern != NULL)) {
        invalid_parameter(p, has_domid ? "pattern" : "domid");
        return;
    }
    if (refuse_degraded(p))
        return;
    r = pattern ? config_check_pattern(pattern, &err) : 0;
    if (r < 0) {
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
        return;
    }
    if (!find_request(p, wire_get_int(params, "domid", -1), pattern, &req))
        return;
    r = engine_protect(p->rpc->engine, &req, on, &changed, &err);
    if (r == 0 && !on && !changed)
        r = err_set(&err, ENOENT, "that was not protected by request");
    if (r < 0)
        reply_error_str(p, WIRE_INTERFACE ".Refused", "reason", err.text);
    else
        answer_fresh(p, answer_protect, &req);
}

/* Items of ListProtected, of which the last one does not continue. */
struct items {
    struct peer *p;
    struct json_object *last;
};

static void send_item(struct items *items, struct json_object *item)
{
    if (items->last)
        reply(items->p, items->last, true);
    items->last = wire_object();
    wire_add_obj(items->last, "protected", item);
}

static bool is_used(const struct placer_view *v, const char *rule)
{
    for (unsigned int i = 0; i < v->n_domains; i++) {
        if (!strcmp(v->domains[i].text, rule))
            return true;
    }
    return false;
}

/* A rule that protects nothing at present. */
static void send_idle_rule(struct items *items, enum placement_rule by, const char *rule)
{
    struct json_object *o = wire_object();

    wire_add_str(o, "by", placement_rule_name(by));
    wire_add_str(o, "rule", rule);
    send_item(items, o);
}

static void send_domains(struct items *items, const struct engine *e, const struct placer_view *v)
{
    char text[CPULIST_TEXT];

    for (unsigned int i = 0; i < v->n_domains; i++) {
        const struct placer_domain *d = &v->domains[i];
        struct json_object *o = wire_object();
        struct cpulist cpus = d->hard;

        cpulist_and(&cpus, &v->online);
        wire_add_str(o, "by", placement_rule_name(d->rule));
        wire_add_str_opt(o, "rule", d->text[0] ? d->text : NULL);
        add_domain(e, o, &d->ident);
        wire_add_str(o, "cpus", cpulist_format(&cpus, text, sizeof(text)));
        send_item(items, o);
    }
}

static enum placement_rule kind_of(const char *rule)
{
    return !strncmp(rule, "uuid:", 5)   ? PLACEMENT_BY_UUID
           : !strncmp(rule, "pool:", 5) ? PLACEMENT_BY_POOL
                                        : PLACEMENT_BY_NAME;
}

static void answer_protected(struct peer *p, const struct placer_request *req)
{
    const struct engine *e = p->rpc->engine;
    const struct placer_view *v = engine_placement(e);
    const struct config *conf = engine_config(e);
    const struct placer_request *requests;
    struct items items = {.p = p};
    unsigned int n;

    send_domains(&items, e, v);
    for (unsigned int i = 0; i < conf->n_protect; i++) {
        if (!is_used(v, conf->protect[i]))
            send_idle_rule(&items, kind_of(conf->protect[i]), conf->protect[i]);
    }
    requests = engine_protected(e, &n);
    for (unsigned int i = 0; i < n; i++) {
        if (!requests[i].is_domain && !is_used(v, requests[i].pattern))
            send_idle_rule(&items, PLACEMENT_BY_REQUEST, requests[i].pattern);
    }
    reply(p, items.last, false);
}

static void list_protected(struct peer *p, struct json_object *params)
{
    if (!refuse_degraded(p))
        answer_fresh(p, answer_protected, NULL);
}

const struct method rpc_placement_methods[] = {
    {WIRE_INTERFACE ".ListCpus", list_cpus, no_params, false, true},
    {WIRE_INTERFACE ".Protect", protect, protect_params, false, false},
    {WIRE_INTERFACE ".ListProtected", list_protected, no_params, false, true},
    METHODS_END,
};
