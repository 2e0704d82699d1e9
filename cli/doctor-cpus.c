/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks of who runs where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libxl.h>
#include <libxl_utils.h>

#include "doctor.h"
#include "output.h"
#include "wire.h"

void doctor_domains_done(struct doctor_domains *domains)
{
    free(domains->list);
    *domains = (struct doctor_domains){0};
}

static void add_domain(struct doctor_domains *domains, uint32_t domid, const libxl_vcpuinfo *vcpus,
                       int n)
{
    struct doctor_domain d = {.domid = domid};

    for (int i = 0; i < n; i++) {
        if (!vcpus[i].online)
            continue;
        d.vcpus++;
        for (unsigned int cpu = 0; cpu < vcpus[i].cpumap.size * 8 && cpu < CPULIST_MAX; cpu++) {
            if (libxl_bitmap_test(&vcpus[i].cpumap, (int)cpu))
                cpulist_add(&d.hard, cpu);
        }
    }
    domains->list = realloc(domains->list, (domains->n + 1) * sizeof(*domains->list));
    if (domains->list == NULL)
        abort();
    domains->list[domains->n++] = d;
}

void doctor_domains_read(struct doctor_domains *ret)
{
    xentoollog_logger_stdiostream *logger = xtl_createlogger_stdiostream(stderr, XTL_CRITICAL, 0);
    libxl_ctx *ctx = NULL;
    libxl_dominfo *list;
    int n = 0;

    *ret = (struct doctor_domains){0};
    if (libxl_ctx_alloc(&ctx, LIBXL_VERSION, 0, (xentoollog_logger *)logger) != 0) {
        xtl_logger_destroy((xentoollog_logger *)logger);
        return;
    }
    list = libxl_list_domain(ctx, &n);
    for (int i = 0; list != NULL && i < n; i++) {
        int n_vcpus = 0, n_cpus = 0;
        libxl_vcpuinfo *vcpus = libxl_list_vcpu(ctx, list[i].domid, &n_vcpus, &n_cpus);

        if (vcpus == NULL)
            continue; /* it has gone meanwhile */
        add_domain(ret, list[i].domid, vcpus, n_vcpus);
        libxl_vcpuinfo_list_free(vcpus, n_vcpus);
    }
    if (list != NULL)
        libxl_dominfo_list_free(list, n);
    libxl_ctx_free(ctx);
    xtl_logger_destroy((xentoollog_logger *)logger);
}

static const struct doctor_domain *find(const struct doctor_domains *domains, int64_t domid)
{
    for (size_t i = 0; i < domains->n; i++) {
        if (domains->list[i].domid == domid)
            return &domains->list[i];
    }
    return NULL;
}

/* Without a scrubd that knows: all CPUs that a domain may run on. */
static struct cpulist online_cpus(const struct doctor_scrubd *s,
                                  const struct doctor_domains *domains)
{
    size_t n = s->cpus != NULL ? json_object_array_length(s->cpus) : 0;
    struct cpulist online = {0};

    for (size_t i = 0; i < n; i++) {
        struct json_object *cpu = json_object_array_get_idx(s->cpus, i);

        if (wire_get_bool(cpu, "online", false))
            cpulist_add(&online, (unsigned int)wire_get_int(cpu, "cpu", CPULIST_MAX));
    }
    for (size_t i = 0; n == 0 && i < domains->n; i++) {
        for (size_t k = 0; k < CPULIST_MAX / 64; k++)
            online.bits[k] |= domains->list[i].hard.bits[k];
    }
    return online;
}

static void and_not(struct cpulist *l, const struct cpulist *without)
{
    for (size_t i = 0; i < CPULIST_MAX / 64; i++)
        l->bits[i] &= ~without->bits[i];
}

/* The last count of list: where a domain does least harm. */
static struct cpulist last_of(const struct cpulist *list, unsigned int count)
{
    struct cpulist ret = {0};

    for (unsigned int cpu = CPULIST_MAX; cpu-- > 0 && count > 0;) {
        if (cpulist_has(list, cpu)) {
            cpulist_add(&ret, cpu);
            count--;
        }
    }
    return ret;
}

void doctor_dom0(struct doctor *d, const struct doctor_scrubd *s,
                 const struct doctor_domains *domains)
{
    const struct doctor_domain *dom0 = find(domains, 0);
    struct cpulist online = online_cpus(s, domains);
    unsigned int n = cpulist_count(&online);
    char text[CPULIST_TEXT], command[128];
    struct cpulist hard;

    if (dom0 == NULL)
        return;
    hard = dom0->hard;
    cpulist_and(&hard, &online);
    if (dom0->vcpus == 1 && n > 1)
        doctor_say(d, DOCTOR_WARNING, "dom0", "boot Xen with dom0_max_vcpus=2 or more",
                   "it has one vCPU: each step holds up all backends");
    if (n > 1 && cpulist_equal(&hard, &online)) {
        snprintf(command, sizeof(command), "xl vcpu-pin 0 all 0-%u",
                 dom0->vcpus < n ? dom0->vcpus - 1 : n / 2 - 1);
        doctor_say(d, DOCTOR_NOTE, "dom0", command,
                   "%u vCPU%s, not pinned: steps may run on every CPU", dom0->vcpus,
                   dom0->vcpus == 1 ? "" : "s");
    } else {
        doctor_say(d, DOCTOR_OK, "dom0", NULL, "%u vCPU%s on CPUs %s", dom0->vcpus,
                   dom0->vcpus == 1 ? "" : "s", cpulist_format(&hard, text, sizeof(text)));
    }
}

/* A domain that is protected, of those at work. */
struct ward {
    long long domid;
    char label[64];
    struct cpulist cpus; /* that it may run on */
};

static bool get_ward(struct json_object *item, struct ward *ret)
{
    const char *cpus = wire_get_str(item, "cpus", NULL);

    *ret = (struct ward){.domid = wire_get_int(item, "domid", -1)};
    output_job_label(item, 24, ret->label, sizeof(ret->label));
    return ret->domid >= 0 && cpus != NULL && cpulist_parse(cpus, &ret->cpus, NULL) == 0;
}

static struct cpulist scrubbing_cpus(const struct doctor_scrubd *s)
{
    const char *mask = wire_get_str(s->status, "mask", "");
    struct cpulist cpus = {0};

    if (cpulist_parse(mask, &cpus, NULL) < 0)
        cpulist_clear(&cpus);
    return cpus;
}

static bool is_auto(const struct doctor_scrubd *s)
{
    return strcmp(wire_get_str(s->health, "cpus", "auto"), "auto") == 0;
}

/* Who else may run on its CPUs. The list is in the order of numbers: domain 0 comes first. */
static unsigned int find_sharers(const struct ward *w, const struct doctor_domains *domains,
                                 const struct doctor_domain **ret_first)
{
    unsigned int n = 0;

    for (size_t i = 0; i < domains->n; i++) {
        const struct doctor_domain *other = &domains->list[i];

        if (other->domid == w->domid || !cpulist_intersects(&other->hard, &w->cpus))
            continue;
        if (n == 0)
            *ret_first = other;
        n++;
    }
    return n;
}

/* True if there is nothing to say. */
static bool check_own_cpus(struct doctor *d, const struct ward *w, const struct cpulist *online,
                           const struct doctor_domains *domains)
{
    const struct doctor_domain *self = find(domains, w->domid), *first = NULL;
    char text[CPULIST_TEXT], command[CPULIST_TEXT + 32] = "", more[32] = "";
    struct cpulist rest = *online;
    unsigned int n;

    and_not(&rest, &w->cpus);
    if (cpulist_empty(&rest)) {
        unsigned int vcpus = self != NULL ? self->vcpus : 1, cpus = cpulist_count(online);

        rest = last_of(online, vcpus < cpus ? vcpus : cpus - 1);
        snprintf(command, sizeof(command), "xl vcpu-pin %lld all %s", w->domid,
                 cpulist_format(&rest, text, sizeof(text)));
        doctor_say(d, DOCTOR_WARNING, "protected", cpus > 1 ? command : NULL,
                   "%s may run on every CPU: none is clear for it", w->label);
        return false;
    }
    n = find_sharers(w, domains, &first);
    if (n == 0)
        return true;
    snprintf(command, sizeof(command), "xl vcpu-pin %u all %s", first->domid,
             cpulist_format(&rest, text, sizeof(text)));
    if (n > 1)
        snprintf(more, sizeof(more), " and %u more", n - 1);
    doctor_say(d, DOCTOR_WARNING, "protected", command, "%s shares CPUs %s with domain %u%s",
               w->label, cpulist_format(&w->cpus, text, sizeof(text)), first->domid, more);
    return false;
}

static bool check_not_scrubbing(struct doctor *d, const struct ward *w,
                                const struct doctor_scrubd *s)
{
    struct cpulist cpus = scrubbing_cpus(s);
    char text[CPULIST_TEXT];

    cpulist_and(&cpus, &w->cpus);
    if (cpulist_empty(&cpus))
        return true;
    cpulist_format(&cpus, text, sizeof(text));
    if (is_auto(s))
        doctor_say(d, DOCTOR_WARNING, "protected", NULL, "CPUs %s of %s scrub, for want of others",
                   text, w->label);
    else
        doctor_say(d, DOCTOR_WARNING, "protected", "scrubctl limit --cpus auto",
                   "CPUs %s of %s scrub: scrub_cpus is not auto", text, w->label);
    return false;
}

void doctor_protected(struct doctor *d, const struct doctor_scrubd *s,
                      const struct doctor_domains *domains)
{
    size_t n = s->protected != NULL ? json_object_array_length(s->protected) : 0, wards = 0;
    struct cpulist online = online_cpus(s, domains);
    bool good = true;

    if (s->protected == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        struct ward w;

        if (!get_ward(json_object_array_get_idx(s->protected, i), &w))
            continue;
        wards++;
        /* Of one that runs everywhere, the rest follows. */
        if (check_own_cpus(d, &w, &online, domains))
            good &= check_not_scrubbing(d, &w, s);
        else
            good = false;
    }
    if (wards == 0)
        doctor_say(d, DOCTOR_NOTE, "protected", NULL,
                   "no domain: pin those with deadlines, or see scrubctl protect");
    else if (good)
        doctor_say(d, DOCTOR_OK, "protected", NULL, "%zu domain%s, on CPUs of their own", wards,
                   wards == 1 ? "" : "s");
}

/* CPUs a and b are threads of one core. */
static bool are_siblings(struct json_object *a, struct json_object *b)
{
    int64_t core = wire_get_int(a, "core", -1), socket = wire_get_int(a, "socket", -1);

    return a != b && core >= 0 && core == wire_get_int(b, "core", -2) &&
           socket == wire_get_int(b, "socket", -2);
}

/* The CPU of a protected domain next to which this one scrubs, or NULL. */
static struct json_object *neighbour(const struct doctor_scrubd *s, struct json_object *cpu,
                                     const struct cpulist *kept)
{
    for (size_t i = 0; i < json_object_array_length(s->cpus); i++) {
        struct json_object *other = json_object_array_get_idx(s->cpus, i);

        if (are_siblings(cpu, other) &&
            cpulist_has(kept, (unsigned int)wire_get_int(other, "cpu", CPULIST_MAX)))
            return other;
    }
    return NULL;
}

static bool has_siblings(const struct doctor_scrubd *s)
{
    size_t n = json_object_array_length(s->cpus);

    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++) {
            if (are_siblings(json_object_array_get_idx(s->cpus, i),
                             json_object_array_get_idx(s->cpus, k)))
                return true;
        }
    }
    return false;
}

void doctor_siblings(struct doctor *d, const struct doctor_scrubd *s)
{
    struct cpulist kept = {0}, scrubs = scrubbing_cpus(s), beside = {0};
    char text[CPULIST_TEXT], list[CPULIST_TEXT], command[CPULIST_TEXT + 32];

    if (s->cpus == NULL || s->protected == NULL)
        return;
    if (!has_siblings(s)) {
        doctor_say(d, DOCTOR_OK, "siblings", NULL, "each CPU has a core of its own");
        return;
    }
    for (size_t i = 0; i < json_object_array_length(s->protected); i++) {
        struct ward w;

        if (get_ward(json_object_array_get_idx(s->protected, i), &w)) {
            for (size_t k = 0; k < CPULIST_MAX / 64; k++)
                kept.bits[k] |= w.cpus.bits[k];
        }
    }
    for (size_t i = 0; i < json_object_array_length(s->cpus); i++) {
        struct json_object *cpu = json_object_array_get_idx(s->cpus, i);
        unsigned int number = (unsigned int)wire_get_int(cpu, "cpu", CPULIST_MAX);

        if (cpulist_has(&scrubs, number) && !cpulist_has(&kept, number) &&
            neighbour(s, cpu, &kept) != NULL)
            cpulist_add(&beside, number);
    }
    if (cpulist_empty(&beside)) {
        doctor_say(d, DOCTOR_OK, "siblings", NULL, "none scrubs beside a protected domain");
        return;
    }
    and_not(&scrubs, &beside);
    snprintf(command, sizeof(command), "scrubctl limit --cpus %s",
             is_auto(s) ? cpulist_format(&scrubs, list, sizeof(list)) : "auto");
    doctor_say(d, DOCTOR_WARNING, "siblings", is_auto(s) && cpulist_empty(&scrubs) ? NULL : command,
               "CPUs %s scrub on cores of protected domains",
               cpulist_format(&beside, text, sizeof(text)));
}
