/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine-private.h"

#define SAID_DOMAINS 4 /* as many are named in a line of the log */

struct text {
    char buf[600];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(t->buf + t->len, sizeof(t->buf) - t->len, fmt, ap);
    va_end(ap);
    if (n > 0)
        t->len += (size_t)n < sizeof(t->buf) - t->len ? (size_t)n : sizeof(t->buf) - t->len - 1;
}

static void add_domain(const struct engine *e, struct text *t, const struct ident *id)
{
    const char *name = e->ops->name_of(e->xen, id);

    add(t, "dom=%u%s%s", id->domid, name ? " name=" : "", name ? name : "");
}

static void add_list(struct text *t, const struct cpulist *list)
{
    char text[64];

    add(t, "%s", cpulist_empty(list) ? "none" : cpulist_format(list, text, sizeof(text)));
}

/* The CPUs that this domain has to do with, out of the mask or in it. */
static struct cpulist cpus_of(const struct placer_view *v, const struct ident *id, bool in)
{
    struct cpulist list = {0};

    for (unsigned int cpu = 0; cpu < v->n_cpus; cpu++) {
        const struct placer_cpu *c = &v->cpus[cpu];

        if (c->has_domain && ident_equal(&c->ident, id) && placement_is_in(c->why) == in &&
            c->why != PLACEMENT_EVERYWHERE)
            cpulist_add(&list, cpu);
    }
    return list;
}

/* For whom what is kept clear, and what could not be. */
static void add_reasons(const struct engine *e, struct text *t, const struct placer_view *v,
                        bool in, const char *word)
{
    unsigned int n = 0;

    for (unsigned int i = 0; i < v->n_domains; i++) {
        struct cpulist list = cpus_of(v, &v->domains[i].ident, in);

        if (cpulist_empty(&list) || ++n > SAID_DOMAINS)
            continue;
        add(t, n == 1 ? "; %s " : ", ", word);
        add_list(t, &list);
        add(t, " for ");
        add_domain(e, t, &v->domains[i].ident);
        add(t, " (by %s)", placement_rule_name(v->domains[i].rule));
    }
    if (n > SAID_DOMAINS)
        add(t, ", and for %u more domains", n - SAID_DOMAINS);
}

static void say_mask(const struct engine *e, const struct placer_view *v)
{
    struct text t = {0};

    if (v->all) {
        add(&t, "all, ");
        add_list(&t, &v->online);
    } else {
        add_list(&t, &v->mask);
    }
    add_reasons(e, &t, v, false, "clear:");
    if (!v->all)
        add_reasons(e, &t, v, true, "not clear, for want of other CPUs:");
    log_notice("CPUs that may scrub: %s", t.buf);
}

/* Of the CPUs that are in, one says for whom none can be kept clear. */
static const struct ident *find_everywhere(const struct placer_view *v)
{
    for (unsigned int cpu = 0; cpu < v->n_cpus; cpu++) {
        if (v->cpus[cpu].why == PLACEMENT_EVERYWHERE)
            return &v->cpus[cpu].ident;
    }
    return NULL;
}

static void say_everywhere(struct engine *e, const struct placer_view *v)
{
    const struct ident *id = find_everywhere(v);
    struct text t = {0};

    if (id && !ident_equal(id, &e->everywhere)) {
        add_domain(e, &t, id);
        log_warning("%s: is protected, but may run on every CPU: none can be kept clear for it",
                    t.buf);
    }
    e->everywhere = id ? *id : (struct ident){0};
}

/* As settings_place() wants it. */
static const struct cpulist *found_mask(const struct placer_view *v)
{
    return v->all || cpulist_empty(&v->mask) ? NULL : &v->mask;
}

static void on_look(void *arg)
{
    struct engine *e = arg;
    const struct placer_view *v = placer_view(e->placer);

    if (e->stopping || e->degraded)
        return;
    say_everywhere(e, v);
    if (!settings_place(&e->settings, found_mask(v)))
        return;
    say_mask(e, v);
    engine_apply_settings(e);
}

static bool is_ending(void *arg, const struct ident *id)
{
    struct engine *e = arg;

    return job_find(&e->jobs, id) != NULL;
}

int engine_placement_new(struct engine *e, struct err *err)
{
    return placer_new(e->base, e->xen, e->ops, e->conf, on_look, is_ending, e, &e->placer, err);
}

void engine_placement_reset(struct engine *e)
{
    placer_request_none(e->placer);
    settings_place(&e->settings, found_mask(placer_view(e->placer)));
    placer_look_soon(e->placer);
}

bool engine_look(struct engine *e, struct placer_look *l)
{
    return placer_look(e->placer, l);
}

void engine_forget_look(struct engine *e, struct placer_look *l)
{
    placer_forget(e->placer, l);
}

const struct placer_view *engine_placement(const struct engine *e)
{
    return placer_view(e->placer);
}

int engine_protect(struct engine *e, const struct placer_request *req, bool on, bool *ret_changed,
                   struct err *err)
{
    int r = placer_request(e->placer, req, on, ret_changed, err);
    struct text t = {0};

    if (r < 0 || !*ret_changed)
        return r;
    if (req->is_domain)
        add_domain(e, &t, &req->ident);
    else
        add(&t, "\"%s\"", req->pattern);
    log_notice("%s: %s", t.buf, on ? "protected from now on" : "no longer protected by request");
    return 0;
}

const struct placer_request *engine_protected(const struct engine *e, unsigned int *ret_n)
{
    return placer_requests(e->placer, ret_n);
}

const struct config *engine_config(const struct engine *e)
{
    return e->conf;
}

const char *engine_name_of(const struct engine *e, const struct ident *id)
{
    return e->ops->name_of(e->xen, id);
}

int engine_domain(const struct engine *e, uint32_t domid, struct xen_domain *ret)
{
    return domid > IDENT_DOMID_MAX ? -ESRCH : e->ops->domain_get(e->xen, domid, ret);
}
