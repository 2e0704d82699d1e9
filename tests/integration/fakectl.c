/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Look at and change a fake host:
 *     fakectl FILE create
 *     fakectl FILE set KNOB VALUE...
 *     fakectl FILE add DOMID PAGES [NAME [HELD]]
 *     fakectl FILE life DOMID dying|dead    as if somebody else had begun, or done, its teardown
 *     fakectl FILE destroy DOMID            as plain XEN_DOMCTL_destroydomain does
 *     fakectl FILE release DOMID            whoever holds pages of a dead domain lets go
 *     fakectl FILE dom DOMID FIELD VALUE... hard, soft (bitmaps), cpupool, building, shutdown
 * (Xen's code plus one) fakectl FILE show                     everything as JSON
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake-host.h"
#include "wire.h"

static void show(struct fake_state *st)
{
    static const char *const lives[] = {"none", "alive", "dying", "dead"};
    struct json_object *o = wire_object(), *doms = wire_object(), *cpus = wire_array();

    for (const struct fake_knob *k = fake_knobs; k->name; k++)
        wire_add_int(o, k->name, (int64_t)*fake_knob(st, k->name));
    for (unsigned int i = 0; i < FAKE_DOMAINS; i++) {
        const struct fake_domain *d = &st->domains[i];
        struct json_object *dom;
        char key[16];

        if (!d->used)
            continue;
        dom = wire_object();
        wire_add_str(dom, "name", d->name);
        wire_add_str(dom, "life", lives[d->life]);
        wire_add_int(dom, "pages", (int64_t)d->pages);
        snprintf(key, sizeof(key), "%u", d->domid);
        wire_add_obj(doms, key, dom);
    }
    for (unsigned int i = 0; i < FAKE_CPUS; i++)
        json_object_array_add(cpus, json_object_new_int64((int64_t)st->cpu_scrubbed[i]));
    wire_add_obj(o, "domains", doms);
    wire_add_obj(o, "cpu_scrubbed", cpus);
    puts(json_object_to_json_string(o));
    json_object_put(o);
}

static int set(struct fake_state *st, int argc, char **argv)
{
    for (; argc >= 2; argc -= 2, argv += 2) {
        uint64_t *knob = fake_knob(st, argv[0]);

        if (!knob) {
            fprintf(stderr, "no knob %s\n", argv[0]);
            return 2;
        }
        *knob = strtoull(argv[1], NULL, 0);
    }
    return 0;
}

static int set_fields(struct fake_domain *d, int argc, char **argv)
{
    for (; argc >= 2; argc -= 2, argv += 2) {
        uint64_t value = strtoull(argv[1], NULL, 0);

        if (!strcmp(argv[0], "hard"))
            d->hard = value;
        else if (!strcmp(argv[0], "soft"))
            d->soft = value;
        else if (!strcmp(argv[0], "cpupool"))
            d->cpupool = (uint32_t)value;
        else if (!strcmp(argv[0], "building"))
            d->building = (uint32_t)value;
        else if (!strcmp(argv[0], "shutdown"))
            d->shutdown = (uint32_t)value;
        else
            return 2;
    }
    return 0;
}

static int domain_verb(struct fake_state *st, const char *verb, int argc, char **argv)
{
    uint32_t domid = argc ? (uint32_t)strtoul(argv[0], NULL, 10) : 0;
    struct fake_domain *d;

    if (!strcmp(verb, "add") && argc >= 2) {
        d = fake_add(st, domid, argc > 2 ? argv[2] : "", strtoull(argv[1], NULL, 10));
        if (d && argc > 3)
            d->held = strtoull(argv[3], NULL, 10);
        return d ? 0 : 1;
    }
    d = argc ? fake_find(st, domid) : NULL;
    if (!d)
        return 1;
    if (!strcmp(verb, "life") && argc == 2) {
        d->life = !strcmp(argv[1], "dying") ? XEN_LIFE_DYING : XEN_LIFE_DEAD;
        return 0;
    }
    if (!strcmp(verb, "dom"))
        return set_fields(d, argc - 1, argv + 1);
    if (!strcmp(verb, "destroy")) {
        fake_destroy(st, d);
        return 0;
    }
    if (!strcmp(verb, "release")) {
        d->held = 0;
        fake_destroy(st, d);
        return 0;
    }
    return 2;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct fake_state *st;
    struct xen *x;
    int r = 0;

    if (argc < 3)
        return 2;
    if (!strcmp(argv[2], "create"))
        return fake_create(argv[1]) < 0;
    if (fake_open(argv[1], &x, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    st = fake_lock(x);
    if (!strcmp(argv[2], "show"))
        show(st);
    else if (!strcmp(argv[2], "set"))
        r = set(st, argc - 3, argv + 3);
    else
        r = domain_verb(st, argv[2], argc - 3, argv + 3);
    fake_unlock(x);
    fake_close(x);
    return r;
}
