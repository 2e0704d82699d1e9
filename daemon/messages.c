/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "messages.h"

static int64_t ms_until(uint64_t then_us, uint64_t now_us)
{
    return then_us > now_us ? (int64_t)((then_us - now_us) / 1000) : 0;
}

struct json_object *messages_job(const struct job *job, uint64_t now_us, int64_t eta_us)
{
    struct json_object *o = wire_object();
    char uuid[IDENT_UUID_TEXT];

    wire_add_int(o, "id", (int64_t)job->id);
    wire_add_int(o, "domid", job->ident.domid);
    wire_add_str(o, "uuid", ident_uuid_text(&job->ident, uuid));
    wire_add_str_opt(o, "name", job->name[0] ? job->name : NULL);
    wire_add_str(o, "state", job_state_name(job->state));
    wire_add_bool(o, "adopted", job->adopted);
    wire_add_int(o, "pages_total", (int64_t)job->pages_total);
    wire_add_int(o, "pages_left", (int64_t)job->pages_left);
    wire_add_int(o, "steps", (int64_t)job->steps);
    wire_add_int(o, "hypervisor_us", (int64_t)job->cpu_us);
    wire_add_int(o, "elapsed_ms", (int64_t)((now_us - job->started_us) / 1000));
    wire_add_int(o, "rate_kib_s", (int64_t)job_rate_kib_s(job, now_us));
    wire_add_int_opt(o, "eta_ms", eta_us < 0 ? -1 : eta_us / 1000);
    wire_add_int(o, "priority", job->priority);
    wire_add_bool(o, "hurry", job->hurry || job->quick);
    wire_add_str_opt(o, "purpose", job->purpose);
    wire_add_int_opt(o, "deadline_ms", job->deadline_us ? ms_until(job->deadline_us, now_us) : -1);
    wire_add_int_opt(o, "paused_ms",
                     job->paused_until_us ? ms_until(job->paused_until_us, now_us) : -1);
    wire_add_int_opt(o, "toolstack_ms", job->toolstack_us < 0 ? -1 : job->toolstack_us / 1000);
    wire_add_int(o, "waiting_ms", (int64_t)(job_waiting_us(job, now_us) / 1000));
    wire_add_int(o, "freeing_ms", (int64_t)(job_freeing_us(job) / 1000));
    wire_add_int_opt(o, "scrubbing_ms",
                     job->dead_us ? (int64_t)(job_scrubbing_us(job, now_us) / 1000) : -1);
    return o;
}

static struct json_object *node(unsigned int number, const struct xen_node *n)
{
    struct json_object *o = wire_object();

    wire_add_int(o, "node", number);
    wire_add_int(o, "ceiling_kib", (int64_t)n->ceiling_kib);
    wire_add_int(o, "floor_kib", (int64_t)n->floor_kib);
    wire_add_int(o, "dirty_pages", (int64_t)n->dirty);
    wire_add_int(o, "backlog_pages", (int64_t)(n->dirty - n->boot));
    wire_add_int(o, "dirtied", (int64_t)n->dirtied);
    wire_add_int(o, "idle", (int64_t)n->idle);
    wire_add_int(o, "alloc", (int64_t)n->alloc);
    wire_add_int(o, "dropped", (int64_t)n->dropped);
    wire_add_int(o, "floor", (int64_t)n->floor);
    wire_add_int(o, "throttled_ms", (int64_t)n->throttled_ms);
    return o;
}

bool messages_node_is_used(const struct xen_scrub *scrub, unsigned int number)
{
    const struct xen_node *n = &scrub->nodes[number];

    return number == 0 || n->dirtied || n->dirty;
}

static void add_cpus(const struct status *s, struct json_object *cpus)
{
    for (unsigned int cpu = 0; s->scrub.cpu_scrubbed && cpu < s->scrub.n_cpus; cpu++) {
        uint64_t pages = s->scrub.cpu_scrubbed[cpu];
        struct json_object *o;

        if (!cpulist_has(&s->online, cpu) && !pages)
            continue;
        o = wire_object();
        wire_add_int(o, "cpu", cpu);
        wire_add_bool(o, "allowed", cpulist_has(&s->scrub.mask, cpu));
        wire_add_int(o, "scrubbed_pages", (int64_t)pages);
        json_object_array_add(cpus, o);
    }
}

static void add_zombies(const struct status *s, struct json_object *zombies)
{
    const struct registry_domain *d;
    char uuid[IDENT_UUID_TEXT];

    if (!s->registry)
        return;
    TAILQ_FOREACH (d, &s->registry->list, link) {
        struct json_object *o;

        if (!d->zombie)
            continue;
        o = wire_object();
        wire_add_int(o, "domid", d->ident.domid);
        wire_add_str(o, "uuid", ident_uuid_text(&d->ident, uuid));
        wire_add_str_opt(o, "name", d->name[0] ? d->name : NULL);
        wire_add_int(o, "pages", (int64_t)d->pages);
        wire_add_int(o, "dead_ms", (int64_t)((s->now_us - d->dead_us) / 1000));
        json_object_array_add(zombies, o);
    }
}

struct json_object *messages_status(const struct status *s)
{
    struct json_object *o = wire_object(), *nodes = wire_array(), *cpus = wire_array();
    struct json_object *zombies = wire_array();
    char mask[CPULIST_TEXT];

    wire_add_str(o, "version", SCRUBD_VERSION);
    wire_add_str(o, "state", s->degraded ? "degraded" : "ready");
    wire_add_str_opt(o, "reason", s->reason);
    wire_add_str(o, "xen", s->xen);
    wire_add_int(o, "uptime_s", (int64_t)(s->uptime_us / 1000000));
    wire_add_int(o, "jobs", s->jobs);
    wire_add_int(o, "jobs_done", (int64_t)s->jobs_done);
    if (s->has_scrub) {
        wire_add_int(o, "backlog_pages", (int64_t)s->backlog_pages);
        wire_add_int(o, "baseline_pages", (int64_t)s->baseline_pages);
        wire_add_str(o, "mask", cpulist_format(&s->scrub.mask, mask, sizeof(mask)));
        for (unsigned int i = 0; i < s->scrub.n_nodes; i++) {
            if (messages_node_is_used(&s->scrub, i))
                json_object_array_add(nodes, node(i, &s->scrub.nodes[i]));
        }
        add_cpus(s, cpus);
    }
    wire_add_obj(o, "nodes", nodes);
    wire_add_obj(o, "cpus", cpus);
    add_zombies(s, zombies);
    wire_add_obj(o, "zombies", zombies);
    return o;
}
