/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fake-host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x5c2bfa4fu
#define ALL_CPUS ((1ull << FAKE_CPUS) - 1)

struct xen {
    int fd;
    struct fake_state *st;
    struct xen_node nodes[FAKE_NODES];
    uint64_t cpu_scrubbed[FAKE_CPUS];
};

#define KNOB(name)                                                                                 \
    {                                                                                              \
#name, offsetof(struct fake_state, name)                                                   \
    }

const struct fake_knob fake_knobs[] = {
    KNOB(patched),
    KNOB(probe_error),
    KNOB(online),
    KNOB(idle),
    KNOB(free_pages_ms),
    KNOB(scrub_pages_ms),
    KNOB(step_error),
    KNOB(inner_error),
    KNOB(stuck),
    KNOB(stuck_ms),
    KNOB(get_error),
    KNOB(names_stuck),
    KNOB(set_error),
    KNOB(affinity_error),
    KNOB(affinity_us),
    KNOB(smt),
    KNOB(cpu_nodes),
    KNOB(pool1_cpus),
    KNOB(no_pool_cpus),
    KNOB(free_pages),
    KNOB(calls),
    KNOB(steps),
    KNOB(gets),
    KNOB(sets),
    KNOB(resets),
    KNOB(affinities),
    KNOB(max_backlog),
    KNOB(longest_step_us),
    KNOB(most_running_steps),
    KNOB(min_pause_us),
    KNOB(has_mask),
    KNOB(mask),
    KNOB(has_ceiling),
    KNOB(ceiling_kib),
    KNOB(floor_kib),
    KNOB(lease_ms),
    KNOB(dirty),
    KNOB(dirtied),
    KNOB(scrubbed),
    KNOB(boot),
    KNOB(generation),
    {NULL, 0},
};

uint64_t *fake_knob(struct fake_state *st, const char *name)
{
    for (const struct fake_knob *k = fake_knobs; k->name; k++) {
        if (!strcmp(k->name, name))
            return (uint64_t *)((char *)st + k->offset);
    }
    return NULL;
}

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

int fake_create(const char *path)
{
    struct fake_state st;
    struct fake_domain *dom0;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    memset(&st, 0, sizeof(st));
    st.magic = MAGIC;
    st.patched = 1;
    st.online = 0xf;
    st.idle = 1;
    st.free_pages_ms = 1100;
    st.scrub_pages_ms = 500;
    st.cpu_nodes = 1;
    st.free_pages = 16u << 20;
    st.min_pause_us = UINT64_MAX;
    st.last_us = now_us();
    dom0 = fake_add(&st, 0, "Domain-0", 262144);
    memset(dom0->uuid, 0, sizeof(dom0->uuid));
    if (pwrite(fd, &st, sizeof(st), 0) != (ssize_t)sizeof(st)) {
        close(fd);
        return -EIO;
    }
    close(fd);
    return 0;
}

int fake_open(const char *path, struct xen **ret, struct err *err)
{
    struct xen *x = calloc(1, sizeof(*x));

    if (!x)
        return err_set(err, ENOMEM, "out of memory");
    x->fd = open(path, O_RDWR | O_CLOEXEC);
    if (x->fd < 0) {
        free(x);
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    }
    x->st = mmap(NULL, sizeof(*x->st), PROT_READ | PROT_WRITE, MAP_SHARED, x->fd, 0);
    if (x->st == MAP_FAILED || x->st->magic != MAGIC) {
        close(x->fd);
        free(x);
        return err_set(err, EINVAL, "%s: not a fake host", path);
    }
    *ret = x;
    return 0;
}

void fake_close(struct xen *x)
{
    if (!x)
        return;
    munmap(x->st, sizeof(*x->st));
    close(x->fd);
    free(x);
}

struct fake_state *fake_lock(struct xen *x)
{
    while (flock(x->fd, LOCK_EX) < 0)
        ;
    fake_advance(x->st);
    return x->st;
}

void fake_unlock(struct xen *x)
{
    flock(x->fd, LOCK_UN);
}

static uint64_t allowed(const struct fake_state *st)
{
    uint64_t cpus = st->has_mask ? st->online & st->mask : st->online;

    return cpus ? cpus : st->online;
}

static void end_settings(struct fake_state *st)
{
    st->has_mask = st->mask = st->has_ceiling = st->ceiling_kib = st->floor_kib = 0;
    st->lease_end_us = st->lease_ms = 0;
}

/* Let the CPUs scrub for dt. */
static void scrub(struct fake_state *st, uint64_t dt_us)
{
    uint64_t cpus = allowed(st), n = (uint64_t)__builtin_popcountll(cpus);
    uint64_t pages_s = st->idle ? n * st->scrub_pages_ms * 1000 : 0, pages;

    if (st->has_ceiling && st->ceiling_kib && st->ceiling_kib / 4 < pages_s) {
        pages_s = st->ceiling_kib / 4;
        if (st->dirty)
            st->throttled_us += dt_us;
    }
    if (pages_s < st->floor_kib / 4)
        pages_s = st->floor_kib / 4;
    if (!st->dirty || !n) {
        st->carry = 0;
        return;
    }
    st->carry += pages_s * dt_us;
    pages = st->carry / 1000000;
    st->carry %= 1000000;
    if (pages > st->dirty)
        pages = st->dirty;
    st->dirty -= pages;
    st->scrubbed += pages;
    if (st->dirty < st->boot)
        st->boot = st->dirty;
    for (unsigned int cpu = 0; cpu < FAKE_CPUS; cpu++) {
        uint64_t share;

        if (!(cpus >> cpu & 1))
            continue;
        share = pages / n;
        st->cpu_scrubbed[cpu] += share;
        pages -= share;
        n--;
    }
}

void fake_advance(struct fake_state *st)
{
    uint64_t now = now_us();

    if (!st->patched)
        end_settings(st); /* they go with the patch */
    if (st->lease_end_us && now >= st->lease_end_us) {
        scrub(st, st->lease_end_us > st->last_us ? st->lease_end_us - st->last_us : 0);
        st->last_us = st->lease_end_us > st->last_us ? st->lease_end_us : st->last_us;
        end_settings(st);
    }
    scrub(st, now - st->last_us);
    st->last_us = now;
}

struct fake_domain *fake_find(struct fake_state *st, uint32_t domid)
{
    for (unsigned int i = 0; i < FAKE_DOMAINS; i++) {
        if (st->domains[i].used && st->domains[i].domid == domid)
            return &st->domains[i];
    }
    return NULL;
}

struct fake_domain *fake_add(struct fake_state *st, uint32_t domid, const char *name,
                             uint64_t pages)
{
    struct fake_domain *d = NULL;

    for (unsigned int i = 0; i < FAKE_DOMAINS && !d; i++) {
        if (!st->domains[i].used)
            d = &st->domains[i];
    }
    if (!d || fake_find(st, domid))
        return NULL;
    memset(d, 0, sizeof(*d));
    d->used = 1;
    d->domid = domid;
    for (int i = 0; i < 16; i++)
        d->uuid[i] = (uint8_t)(i < 4 ? domid >> (8 * (3 - i)) : 0xa0u + (unsigned int)i);
    d->uuid[15] = (uint8_t)(d->uuid[15] + st->generation);
    snprintf(d->name, sizeof(d->name), "%s", name);
    d->life = XEN_LIFE_ALIVE;
    d->pages = pages;
    d->hard = d->soft = ALL_CPUS;
    st->free_pages -= pages < st->free_pages ? pages : st->free_pages;
    return d;
}

static void release(struct fake_state *st, struct fake_domain *d, uint64_t pages)
{
    d->pages -= pages;
    st->free_pages += pages;
    st->dirty += pages;
    st->dirtied += pages;
    if (st->dirty > st->max_backlog)
        st->max_backlog = st->dirty;
}

static void update_life(struct fake_domain *d)
{
    if (d->pages > d->held) {
        d->life = XEN_LIFE_DYING;
        return;
    }
    d->life = XEN_LIFE_DEAD;
    d->stage = 9;
}

void fake_destroy(struct fake_state *st, struct fake_domain *d)
{
    release(st, d, d->pages - d->held);
    update_life(d);
    d->used = d->held != 0;
}

/* The lock is not held over it: other processes look at the host while a step goes on. */
static void spend(uint64_t us)
{
    struct timespec ts = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

    nanosleep(&ts, NULL);
}

static struct fake_state *enter(struct xen *x)
{
    struct fake_state *st = fake_lock(x);

    st->calls++;
    return st;
}

static int leave(struct xen *x, int r)
{
    fake_unlock(x);
    return r;
}

static const char *fake_version(struct xen *x)
{
    return "4.17-fake";
}

static int fake_probe(struct xen *x, struct err *err)
{
    struct fake_state *st = enter(x);
    int e = st->probe_error ? (int)st->probe_error : st->patched ? 0 : ENOSYS;

    leave(x, 0);
    return e ? err_set(err, e, "fake host: %s", strerror(e)) : 0;
}

static void to_domain(const struct fake_domain *d, struct xen_domain *ret)
{
    ret->ident.domid = d->domid;
    memcpy(ret->ident.uuid, d->uuid, sizeof(d->uuid));
    ret->pages = d->pages;
    ret->shutdown = d->shutdown;
    ret->cpupool = d->cpupool;
    ret->building = d->building;
    ret->dead = d->life == XEN_LIFE_DEAD;
}

static int fake_domain_get(struct xen *x, uint32_t domid, struct xen_domain *ret)
{
    struct fake_domain *d = fake_find(enter(x), domid);

    if (!d)
        return leave(x, -ESRCH);
    to_domain(d, ret);
    return leave(x, 0);
}

static int fake_domain_list(struct xen *x, uint32_t first, struct xen_domain *ret, size_t max)
{
    struct fake_state *st = enter(x);
    size_t n = 0;

    while (n < max) {
        struct fake_domain *best = NULL;

        for (unsigned int i = 0; i < FAKE_DOMAINS; i++) {
            struct fake_domain *d = &st->domains[i];

            if (d->used && d->domid >= first && (!best || d->domid < best->domid))
                best = d;
        }
        if (!best)
            break;
        to_domain(best, &ret[n++]);
        first = best->domid + 1;
    }
    return leave(x, (int)n);
}

static struct fake_domain *find_ident(struct fake_state *st, const struct ident *id)
{
    struct fake_domain *d = fake_find(st, id->domid);

    return d && !memcmp(d->uuid, id->uuid, sizeof(d->uuid)) ? d : NULL;
}

/* How much a step of at most max_us does: pages, and the time in *ret_us. */
static uint64_t work_of(const struct fake_state *st, const struct fake_domain *d, uint32_t max_us,
                        uint64_t *ret_us)
{
    uint64_t todo = d->pages - d->held, us;

    if (st->stuck || st->inner_error) {
        *ret_us = st->stuck ? st->stuck_ms * 1000 : 10;
        return 0;
    }
    us = todo * 1000 / st->free_pages_ms;
    if (us <= max_us) {
        *ret_us = us;
        return todo;
    }
    *ret_us = max_us;
    return max_us * st->free_pages_ms / 1000;
}

static void note_step(struct fake_state *st, uint64_t us)
{
    uint64_t now = now_us();

    st->steps++;
    if (++st->running_steps > st->most_running_steps)
        st->most_running_steps = st->running_steps;
    if (us > st->longest_step_us)
        st->longest_step_us = us;
    if (st->last_step_us && now - st->last_step_us < st->min_pause_us)
        st->min_pause_us = now - st->last_step_us;
}

static int fake_step(struct xen *x, const struct ident *id, uint32_t max_us, unsigned int flags,
                     struct xen_step *ret)
{
    struct fake_state *st = enter(x);
    struct fake_domain *d = find_ident(st, id);
    uint64_t pages, us;

    if (id->domid == 0)
        return leave(x, -EPERM);
    if (!st->patched)
        return leave(x, -ENOSYS);
    if (!d)
        return leave(x, -ESRCH);
    memset(ret, 0, sizeof(*ret));
    if (flags & XEN_STEP_QUERY) {
        ret->life = d->life;
        ret->stage = d->stage;
        ret->pages_left = d->pages;
        return leave(x, 0);
    }
    if (max_us < 100 || max_us > 1000000)
        return leave(x, -EINVAL);
    if ((flags & XEN_STEP_ONLY_IF_DYING) && d->life == XEN_LIFE_ALIVE)
        return leave(x, -EBUSY);
    if (st->step_error)
        return leave(x, -(int)st->step_error);

    d->life = d->life == XEN_LIFE_DEAD ? XEN_LIFE_DEAD : XEN_LIFE_DYING;
    d->stage = d->stage ? d->stage : 1;
    pages = work_of(st, d, max_us, &us);
    note_step(st, us);
    if (!st->stuck) {
        fake_unlock(x);
        spend(us);
        st = fake_lock(x);
    }
    st->running_steps--;
    st->last_step_us = now_us();
    d = find_ident(st, id);
    if (!d)
        return leave(x, -ESRCH);
    if (pages > d->pages - d->held)
        pages = d->pages - d->held;
    release(st, d, pages);
    ret->error = -(int)st->inner_error;
    if (!st->stuck && !st->inner_error)
        update_life(d);
    ret->life = d->life;
    ret->stage = d->stage;
    ret->entries = 1;
    ret->pages_left = d->pages;
    ret->pages_freed = pages;
    ret->cpu_ns = us * 1000;
    d->used = d->life != XEN_LIFE_DEAD || d->held;
    return leave(x, 0);
}

static int fake_scrub_get(struct xen *x, bool with_cpus, struct xen_scrub *ret)
{
    struct fake_state *st = enter(x);
    uint64_t cpus = allowed(st);

    if (!st->patched || st->get_error)
        return leave(x, st->patched ? -(int)st->get_error : -ENOSYS);
    st->gets++;
    memset(ret, 0, sizeof(*ret));
    ret->now_ns = st->last_us * 1000;
    ret->has_ceiling = st->has_ceiling;
    ret->has_floor = st->floor_kib != 0;
    ret->has_mask = st->has_mask;
    if (st->lease_end_us)
        ret->lease_ms = (uint32_t)((st->lease_end_us - st->last_us) / 1000);
    ret->n_nodes = FAKE_NODES;
    ret->n_cpus = FAKE_CPUS;
    memset(x->nodes, 0, sizeof(x->nodes));
    x->nodes[0].dirty = st->dirty;
    x->nodes[0].dirtied = st->dirtied;
    x->nodes[0].idle = st->scrubbed;
    x->nodes[0].boot = st->boot;
    x->nodes[0].throttled_ms = st->throttled_us / 1000;
    for (unsigned int i = 0; i < FAKE_NODES; i++) {
        x->nodes[i].ceiling_kib = st->ceiling_kib;
        x->nodes[i].floor_kib = st->floor_kib;
    }
    ret->nodes = x->nodes;
    for (unsigned int cpu = 0; cpu < FAKE_CPUS; cpu++) {
        if (cpus >> cpu & 1)
            cpulist_add(&ret->mask, cpu);
        x->cpu_scrubbed[cpu] = st->cpu_scrubbed[cpu];
    }
    ret->cpu_scrubbed = with_cpus ? x->cpu_scrubbed : NULL;
    return leave(x, 0);
}

static int fake_scrub_set(struct xen *x, const struct xen_scrub_settings *s)
{
    struct fake_state *st = enter(x);
    uint64_t mask = s->all_cpus ? (1u << FAKE_CPUS) - 1 : s->mask.bits[0];

    if (!st->patched || st->set_error)
        return leave(x, st->patched ? -(int)st->set_error : -ENOSYS);
    if (!(mask & st->online) || s->ceiling_kib > 1u << 30 || s->floor_kib > 1u << 22 ||
        (s->ceiling_kib && s->floor_kib > s->ceiling_kib) || s->lease_ms > 3600000)
        return leave(x, -EINVAL);
    st->sets++;
    st->has_mask = !s->all_cpus;
    st->mask = s->all_cpus ? 0 : mask;
    st->has_ceiling = 1;
    st->ceiling_kib = s->ceiling_kib;
    st->floor_kib = s->floor_kib;
    st->lease_ms = s->lease_ms;
    st->lease_end_us = s->lease_ms ? st->last_us + s->lease_ms * 1000ull : 0;
    return leave(x, 0);
}

static int fake_scrub_reset(struct xen *x)
{
    struct fake_state *st = enter(x);

    if (!st->patched)
        return leave(x, -ENOSYS);
    st->resets++;
    end_settings(st);
    return leave(x, 0);
}

static int fake_cpus(struct xen *x, struct xen_cpu *ret, size_t max)
{
    struct fake_state *st = enter(x);

    for (uint32_t cpu = 0; cpu < FAKE_CPUS && cpu < max; cpu++) {
        ret[cpu] = (struct xen_cpu){
            .online = st->online >> cpu & 1,
            .node = cpu * (uint32_t)st->cpu_nodes / FAKE_CPUS,
            .socket = cpu * (uint32_t)st->cpu_nodes / FAKE_CPUS,
            .core = st->smt ? cpu / 2 : cpu,
            .cpupool = st->no_pool_cpus >> cpu & 1 ? XEN_CPUPOOL_NONE : st->pool1_cpus >> cpu & 1,
        };
    }
    return leave(x, FAKE_CPUS);
}

static int fake_affinity(struct xen *x, const struct ident *id, struct cpulist *ret_hard,
                         struct cpulist *ret_soft)
{
    struct fake_state *st = enter(x);
    struct fake_domain *d = find_ident(st, id);

    st->affinities++;
    if (st->affinity_us)
        spend(st->affinity_us);
    if (!d || st->affinity_error)
        return leave(x, d ? -(int)st->affinity_error : -ESRCH);
    cpulist_clear(ret_hard);
    cpulist_clear(ret_soft);
    ret_hard->bits[0] = d->hard;
    ret_soft->bits[0] = d->soft;
    return leave(x, 0);
}

static int fake_cpupool_name(struct xen *x, uint32_t cpupool, char *ret, size_t size)
{
    if (cpupool > 1)
        return -ENOENT;
    snprintf(ret, size, "%s", cpupool ? "rt" : "Pool-0");
    return 0;
}

static int fake_memory_free(struct xen *x, uint64_t *ret_pages)
{
    *ret_pages = enter(x)->free_pages;
    return leave(x, 0);
}

static int fake_names_fd(struct xen *x)
{
    return -1;
}

static void fake_names_update(struct xen *x)
{
}

static const char *fake_names_trouble(struct xen *x)
{
    bool stuck = enter(x)->names_stuck;

    leave(x, 0);
    return stuck ? "xenstored does not answer: names stay as they were" : NULL;
}

static const char *fake_name_of(struct xen *x, const struct ident *id)
{
    static char name[64]; /* the file may change under a pointer into it */
    struct fake_domain *d = find_ident(enter(x), id);

    snprintf(name, sizeof(name), "%s", d ? d->name : "");
    leave(x, 0);
    return name[0] ? name : NULL;
}

const struct xen_ops fake_ops = {
    .close = fake_close,
    .version = fake_version,
    .probe = fake_probe,
    .domain_get = fake_domain_get,
    .domain_list = fake_domain_list,
    .step = fake_step,
    .scrub_get = fake_scrub_get,
    .scrub_set = fake_scrub_set,
    .scrub_reset = fake_scrub_reset,
    .cpus = fake_cpus,
    .affinity = fake_affinity,
    .cpupool_name = fake_cpupool_name,
    .memory_free = fake_memory_free,
    .names_fd = fake_names_fd,
    .names_update = fake_names_update,
    .names_trouble = fake_names_trouble,
    .name_of = fake_name_of,
};

int fake_open_env(struct xen **ret, const struct xen_ops **ret_ops, struct err *err)
{
    const char *path = getenv("SCRUBD_FAKE_HOST");

    if (!path)
        return err_set(err, EINVAL, "SCRUBD_FAKE_HOST is not set");
    *ret_ops = &fake_ops;
    return fake_open(path, ret, err);
}
