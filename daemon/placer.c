/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "placer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"

#define TURN_US 2000
#define GAP_US 1000
#define SOON_US 200000 /* who makes or destroys the domain goes first */
#define LIST_CHUNK 64
#define POOL_NAME 64

/* What a domain is protected by: the number of a rule in the configuration, or of a request. */
#define BY_NOTHING (-1)
#define BY_REQUEST CONFIG_PROTECT_MAX

struct placer {
    struct event_base *base;
    struct xen *xen;
    const struct xen_ops *ops;
    const struct config *conf;
    void (*changed)(void *arg);
    bool (*is_ending)(void *arg, const struct ident *id);
    void *arg;
    struct event *ev_turn, *ev_soon;
    bool stopped;
    struct placer_request requests[PLACER_REQUESTS];
    unsigned int n_requests;
    struct log_limit limit;
    /* the look that goes on */
    bool looking, again;
    uint32_t next_domid;
    struct placement_domain *doms;
    int *by;
    size_t n, size;
    char pool_name[POOL_NAME];
    uint32_t pool_id;
    bool has_pool_name;
    TAILQ_HEAD(, placer_look) looks, later; /* who waits for it, and for the one after it */
    /* the one that is finished */
    struct placer_view view;
};

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void arm(struct event *ev, suseconds_t us)
{
    struct timeval tv = {0, us};

    evtimer_add(ev, &tv);
}

static void complain(struct placer *p, const char *what, int error)
{
    unsigned int missed;

    if (log_limit_pass(&p->limit, now_us(), 60000000, &missed))
        log_error("cannot find out which CPUs to keep clear, so nothing changes: %s: %s", what,
                  strerror(error));
}

/* The pool's name, or NULL. Domains of one pool mostly follow each other. */
static const char *pool_name(struct placer *p, uint32_t id)
{
    if (!p->has_pool_name || p->pool_id != id) {
        p->has_pool_name = true;
        p->pool_id = id;
        if (p->ops->cpupool_name(p->xen, id, p->pool_name, sizeof(p->pool_name)) < 0)
            p->pool_name[0] = '\0';
    }
    return p->pool_name[0] ? p->pool_name : NULL;
}

/* The names are looked up only for rules that want them. */
static enum placement_rule match(struct placer *p, const char *rule, const struct xen_domain *dom)
{
    const char *name = NULL, *pool = NULL;

    if (!strncmp(rule, "pool:", 5))
        pool = pool_name(p, dom->cpupool);
    else if (strncmp(rule, "uuid:", 5))
        name = p->ops->name_of(p->xen, &dom->ident);
    return placement_match(rule, &dom->ident, name, pool);
}

static enum placement_rule find_rule(struct placer *p, const struct xen_domain *dom, int *ret_by)
{
    for (unsigned int i = 0; i < p->n_requests; i++) {
        const struct placer_request *r = &p->requests[i];

        *ret_by = (int)(BY_REQUEST + i);
        if (r->is_domain ? ident_equal(&r->ident, &dom->ident)
                         : match(p, r->pattern, dom) != PLACEMENT_UNPROTECTED)
            return PLACEMENT_BY_REQUEST;
    }
    for (unsigned int i = 0; i < p->conf->n_protect; i++) {
        enum placement_rule rule = match(p, p->conf->protect[i], dom);

        *ret_by = (int)i;
        if (rule != PLACEMENT_UNPROTECTED)
            return rule;
    }
    *ret_by = BY_NOTHING;
    return PLACEMENT_UNPROTECTED;
}

static int grow(struct placer *p)
{
    size_t size = p->size ? p->size * 2 : LIST_CHUNK;
    void *doms = realloc(p->doms, size * sizeof(*p->doms));
    void *by;

    if (!doms)
        return -ENOMEM;
    p->doms = doms;
    by = realloc(p->by, size * sizeof(*p->by));
    if (!by)
        return -ENOMEM;
    p->by = by;
    p->size = size;
    return 0;
}

/* Domains that go in the meantime are left out. */
static int see(struct placer *p, const struct xen_domain *dom)
{
    struct placement_domain *d;
    int r;

    if (p->n == p->size && (r = grow(p)) < 0)
        return r;
    d = &p->doms[p->n];
    r = p->ops->affinity(p->xen, &dom->ident, &d->hard, &d->soft);
    if (r < 0)
        return r == -ESRCH ? 0 : r;
    d->ident = dom->ident;
    d->cpupool = dom->cpupool;
    d->gone = dom->shutdown != XEN_SHUTDOWN_NONE || p->is_ending(p->arg, &dom->ident);
    d->rule = find_rule(p, dom, &p->by[p->n]);
    p->n++;
    return 0;
}

static void forget_seen(struct placer *p)
{
    free(p->doms);
    free(p->by);
    p->doms = NULL;
    p->by = NULL;
    p->n = p->size = 0;
}

static void free_view(struct placer_view *v)
{
    free(v->cpus);
    free(v->domains);
    memset(v, 0, sizeof(*v));
}

static int read_cpus(struct placer *p, struct placement_cpu **ret)
{
    int n = p->ops->cpus(p->xen, NULL, 0), now;
    struct placement_cpu *cpus;
    struct xen_cpu *all;

    if (n <= 0)
        return n < 0 ? n : -EIO;
    all = calloc((size_t)n, sizeof(*all));
    cpus = calloc((size_t)n, sizeof(*cpus));
    now = all && cpus ? p->ops->cpus(p->xen, all, (size_t)n) : -ENOMEM;
    if (now < 0) {
        free(all);
        free(cpus);
        return now;
    }
    n = now < n ? now : n;
    for (int i = 0; i < n; i++) {
        cpus[i] = (struct placement_cpu){
            .online = all[i].online,
            .node = all[i].node,
            .core = all[i].core,
            .socket = all[i].socket,
            .cpupool = all[i].cpupool,
        };
    }
    free(all);
    *ret = cpus;
    return n;
}

static const char *text_of(const struct placer *p, int by)
{
    if (by == BY_NOTHING)
        return "";
    return by < BY_REQUEST ? p->conf->protect[by] : p->requests[by - BY_REQUEST].pattern;
}

/* Keep of what was computed what others may ask for. */
static int keep(struct placer *p, const struct placement_cpu *cpus, size_t n_cpus,
                const struct cpulist *mask, const struct placement_verdict *verdicts,
                const enum placement_rule *rules)
{
    struct placer_view v = {.mask = *mask};
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        n += rules[i] != PLACEMENT_UNPROTECTED;
    v.cpus = calloc(n_cpus, sizeof(*v.cpus));
    v.domains = calloc(n + 1, sizeof(*v.domains));
    if (!v.cpus || !v.domains) {
        free_view(&v);
        return -ENOMEM;
    }
    for (size_t i = 0; i < p->n; i++) {
        struct placer_domain *d = &v.domains[v.n_domains];

        if (rules[i] == PLACEMENT_UNPROTECTED)
            continue;
        d->ident = p->doms[i].ident;
        d->rule = rules[i];
        d->hard = p->doms[i].hard;
        snprintf(d->text, sizeof(d->text), "%s",
                 rules[i] == PLACEMENT_BY_PIN ? "" : text_of(p, p->by[i]));
        v.n_domains++;
    }
    for (size_t i = 0; i < n_cpus; i++) {
        int of = verdicts[i].domain;

        v.cpus[i].cpu = cpus[i];
        v.cpus[i].why = verdicts[i].why;
        v.cpus[i].sibling = verdicts[i].sibling;
        v.cpus[i].has_domain = of >= 0;
        if (of >= 0)
            v.cpus[i].ident = p->doms[of].ident;
        if (cpus[i].online)
            cpulist_add(&v.online, (unsigned int)i);
    }
    v.n_cpus = (unsigned int)n_cpus;
    v.all = cpulist_equal(&v.online, &v.mask);
    free_view(&p->view);
    p->view = v;
    return 0;
}

static int compute(struct placer *p)
{
    struct placement_cpu *cpus = NULL;
    struct placement_verdict *verdicts;
    enum placement_rule *rules;
    struct cpulist mask;
    int n = read_cpus(p, &cpus), r = -ENOMEM;

    if (n < 0)
        return n;
    verdicts = calloc((size_t)n, sizeof(*verdicts));
    rules = calloc(p->n + 1, sizeof(*rules));
    if (verdicts && rules) {
        placement_compute(cpus, (size_t)n, p->doms, p->n, &mask, verdicts, rules);
        r = keep(p, cpus, (size_t)n, &mask, verdicts, rules);
    }
    free(cpus);
    free(verdicts);
    free(rules);
    return r;
}

static bool is_seen(const struct placer *p, const struct ident *id)
{
    for (size_t i = 0; i < p->n; i++) {
        if (ident_equal(&p->doms[i].ident, id))
            return true;
    }
    return false;
}

/* A domain that is gone does not come back: its number does, as another one. */
static void drop_gone_requests(struct placer *p)
{
    for (unsigned int i = p->n_requests; i-- > 0;) {
        if (p->requests[i].is_domain && !is_seen(p, &p->requests[i].ident))
            p->requests[i] = p->requests[--p->n_requests];
    }
}

static void begin(struct placer *p)
{
    forget_seen(p);
    p->looking = true;
    p->again = false;
    p->next_domid = 0;
    p->has_pool_name = false;
    TAILQ_CONCAT(&p->looks, &p->later, link);
}

/* A failed look ends too: whoever waits gets what the last one found. */
static void end(struct placer *p, const char *what, int r)
{
    struct placer_look *l;

    p->looking = false;
    if (r >= 0 && !p->again) /* else what was asked for since may be missing here */
        drop_gone_requests(p);
    forget_seen(p);
    if (r < 0)
        complain(p, what, -r);
    else
        p->changed(p->arg);
    while ((l = TAILQ_FIRST(&p->looks))) {
        TAILQ_REMOVE(&p->looks, l, link);
        l->waiting = false;
        l->done(l);
    }
    if (p->again) {
        begin(p);
        arm(p->ev_turn, GAP_US);
    }
}

/* True if the look is over. */
static bool turn(struct placer *p)
{
    uint64_t until_us = now_us() + TURN_US;
    struct xen_domain doms[LIST_CHUNK];
    int n, r;

    do {
        n = p->ops->domain_list(p->xen, p->next_domid, doms, LIST_CHUNK);
        if (n < 0) {
            end(p, "listing the domains", n);
            return true;
        }
        for (int i = 0; i < n; i++) {
            if (now_us() >= until_us) {
                arm(p->ev_turn, GAP_US);
                return false;
            }
            r = see(p, &doms[i]);
            if (r < 0) {
                end(p, "reading an affinity", r);
                return true;
            }
            p->next_domid = doms[i].ident.domid + 1;
        }
    } while (n == LIST_CHUNK);
    r = compute(p);
    end(p, "reading the CPUs", r);
    return true;
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct placer *p = arg;

    if (p->looking && !p->stopped)
        turn(p);
}

bool placer_look(struct placer *p, struct placer_look *l)
{
    if (p->stopped)
        return true;
    evtimer_del(p->ev_soon);
    if (p->looking) {
        /* What it has read already may be old. */
        p->again = true;
        if (l) {
            l->waiting = true;
            TAILQ_INSERT_TAIL(&p->later, l, link);
        }
        return false;
    }
    begin(p);
    if (turn(p))
        return true;
    if (l) {
        l->waiting = true;
        TAILQ_INSERT_TAIL(&p->looks, l, link);
    }
    return false;
}

void placer_forget(struct placer *p, struct placer_look *l)
{
    struct placer_look *in;

    if (!l->waiting)
        return;
    l->waiting = false;
    TAILQ_FOREACH (in, &p->looks, link) {
        if (in == l) {
            TAILQ_REMOVE(&p->looks, l, link);
            return;
        }
    }
    TAILQ_REMOVE(&p->later, l, link);
}

static void on_soon(evutil_socket_t fd, short what, void *arg)
{
    placer_look(arg, NULL);
}

void placer_look_soon(struct placer *p)
{
    if (!p->stopped && !evtimer_pending(p->ev_soon, NULL))
        arm(p->ev_soon, SOON_US);
}

void placer_stop(struct placer *p)
{
    p->stopped = true;
    evtimer_del(p->ev_turn);
    evtimer_del(p->ev_soon);
}

const struct placer_view *placer_view(const struct placer *p)
{
    return &p->view;
}

static bool same_request(const struct placer_request *a, const struct placer_request *b)
{
    return a->is_domain == b->is_domain &&
           (a->is_domain ? ident_equal(&a->ident, &b->ident) : !strcmp(a->pattern, b->pattern));
}

int placer_request(struct placer *p, const struct placer_request *req, bool on, bool *ret_changed,
                   struct err *err)
{
    unsigned int i;
    int r = req->is_domain ? 0 : config_check_pattern(req->pattern, err);

    if (r < 0)
        return r;
    for (i = 0; i < p->n_requests && !same_request(&p->requests[i], req); i++)
        ;
    *ret_changed = on != (i < p->n_requests);
    if (!*ret_changed)
        return 0;
    if (!on) {
        p->requests[i] = p->requests[--p->n_requests];
        return 0;
    }
    if (p->n_requests == PLACER_REQUESTS)
        return err_set(err, ENOSPC, "there are %d of these already", PLACER_REQUESTS);
    p->requests[p->n_requests++] = *req;
    return 0;
}

void placer_request_none(struct placer *p)
{
    p->n_requests = 0;
}

const struct placer_request *placer_requests(const struct placer *p, unsigned int *ret_n)
{
    *ret_n = p->n_requests;
    return p->requests;
}

int placer_new(struct event_base *base, struct xen *xen, const struct xen_ops *ops,
               const struct config *conf, void (*changed)(void *arg),
               bool (*is_ending)(void *arg, const struct ident *id), void *arg, struct placer **ret,
               struct err *err)
{
    struct placer *p = calloc(1, sizeof(*p));

    if (!p)
        return err_set(err, ENOMEM, "out of memory");
    p->base = base;
    p->xen = xen;
    p->ops = ops;
    p->conf = conf;
    p->changed = changed;
    p->is_ending = is_ending;
    p->arg = arg;
    TAILQ_INIT(&p->looks);
    TAILQ_INIT(&p->later);
    p->ev_turn = evtimer_new(base, on_turn, p);
    p->ev_soon = evtimer_new(base, on_soon, p);
    if (!p->ev_turn || !p->ev_soon) {
        placer_free(p);
        return err_set(err, ENOMEM, "out of memory");
    }
    *ret = p;
    return 0;
}

void placer_free(struct placer *p)
{
    if (!p)
        return;
    if (p->ev_turn)
        event_free(p->ev_turn);
    if (p->ev_soon)
        event_free(p->ev_soon);
    forget_seen(p);
    free_view(&p->view);
    free(p);
}
