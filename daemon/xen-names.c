/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>
#include <xenstore.h>
#include <xenstore_lib.h>

#include "log.h"
#include "xen-real.h"

#define NAME_MAX_LEN 63
#define LIST_CHUNK 64
#define POOLS_MAX 64
#define IDLE_LOOK_MS                                                                               \
    10000 /* how often a xenstored that says nothing is asked whether it is there */
#define BUSY_LOOK_US 900000
#define SILENT_US 2000000 /* no answer for so long: it hangs */
#define FIRST_MS 1000     /* start waits so long at most for the first names */

/*
 * Toolstacks delete a domain's part of xenstore before they destroy it, so its name has to be known
 * by then. Only domains that come, domains that go, the name of each, and those of cpupools are
 * watched.
 *
 * A thread of its own speaks to xenstored, which may hang: nobody else does, and nobody waits for
 * the thread but at start and at the end, for a limited time. Which domains there are is asked of
 * the hypervisor, by the main thread: the other one tells it when that has to be done.
 */
struct entry {
    TAILQ_ENTRY(entry) link;
    struct ident ident;
    bool gone;    /* in Xen: its watch is to be removed, and it is to be freed */
    bool watched; /* of the present connection */
    char name[NAME_MAX_LEN + 1];
};

struct pool {
    uint32_t id;
    char name[NAME_MAX_LEN + 1];
};

struct xen_names {
    xen_list_fn list;
    void *arg;
    int main_fd, thread_fd; /* eventfds that wake the one and the other */
    pthread_t thread;
    char answer[NAME_MAX_LEN + 1];

    /* What both threads use. Never held over a call of xenstore's. */
    pthread_mutex_t lock;
    pthread_cond_t turned; /* broadcast after each turn of the thread */
    TAILQ_HEAD(entry_list, entry)
    entries; /* inserted into by the main thread, freed by the other */
    struct pool pools[POOLS_MAX];
    unsigned int n_pools;
    bool stop, connected, domains_changed;
    uint64_t asked_us; /* when the question began that xenstored has not answered yet, or 0 */
    uint64_t looked_us;
    unsigned long turns;

    /* The thread's own. */
    struct xs_handle *xs;
    bool by_socket; /* xenstored was there once: the kernel's device would wait for ever */
};

#define TOKEN_DOMAINS "domains"
#define TOKEN_POOLS "pools"

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void wake(int fd)
{
    uint64_t one = 1;

    if (write(fd, &one, sizeof(one)) < 0) {
        /* It is awake already. */
    }
}

static void drain(int fd)
{
    uint64_t n;

    if (read(fd, &n, sizeof(n)) < 0) {
        /* Nothing was there. */
    }
}

/* --- The thread --- */

static void asking(struct xen_names *n, bool now)
{
    pthread_mutex_lock(&n->lock);
    n->asked_us = now ? now_us() : 0;
    pthread_mutex_unlock(&n->lock);
}

/* NULL if there is none, and if the connection is broken: see check(). The caller frees it. */
static char *ask(struct xen_names *n, const char *path)
{
    unsigned int len;
    char *text;

    asking(n, true);
    text = xs_read(n->xs, XBT_NULL, path, &len);
    asking(n, false);
    return text;
}

static bool watch(struct xen_names *n, const char *path, const char *token)
{
    bool ok;

    asking(n, true);
    ok = xs_watch(n->xs, path, token);
    asking(n, false);
    return ok;
}

static void disconnect(struct xen_names *n)
{
    struct entry *e;

    if (n->xs)
        xs_close(n->xs);
    n->xs = NULL;
    pthread_mutex_lock(&n->lock);
    n->connected = false;
    TAILQ_FOREACH (e, &n->entries, link) {
        e->watched = false;
    }
    pthread_mutex_unlock(&n->lock);
    wake(n->main_fd);
}

static void connect_xs(struct xen_names *n)
{
    asking(n, true);
    n->xs = xs_open(n->by_socket ? XS_OPEN_SOCKETONLY : 0);
    asking(n, false);
    if (!n->xs)
        return;
    if (!watch(n, "@introduceDomain", TOKEN_DOMAINS) ||
        !watch(n, "@releaseDomain", TOKEN_DOMAINS) || !watch(n, "/local/pool", TOKEN_POOLS)) {
        disconnect(n);
        return;
    }
    n->by_socket = access(xs_daemon_socket(), F_OK) == 0;
    pthread_mutex_lock(&n->lock);
    n->connected = true;
    pthread_mutex_unlock(&n->lock);
    wake(n->main_fd);
}

static void name_path(uint32_t domid, char *buf, size_t size)
{
    snprintf(buf, size, "/local/domain/%u/name", domid);
}

/* A name that xenstore no longer has is kept: that is what this is for. */
static void read_name(struct xen_names *n, const struct ident *id)
{
    char path[64], *name;
    struct entry *e;

    name_path(id->domid, path, sizeof(path));
    name = ask(n, path);
    if (!name || !*name) {
        free(name);
        return;
    }
    pthread_mutex_lock(&n->lock);
    TAILQ_FOREACH (e, &n->entries, link) {
        if (ident_equal(&e->ident, id) && !e->gone)
            snprintf(e->name, sizeof(e->name), "%s", name);
    }
    pthread_mutex_unlock(&n->lock);
    free(name);
}

static void read_pools(struct xen_names *n)
{
    unsigned int count = 0, found = 0;
    struct pool *pools = calloc(POOLS_MAX, sizeof(*pools));
    char **ids;

    asking(n, true);
    ids = xs_directory(n->xs, XBT_NULL, "/local/pool", &count);
    asking(n, false);
    for (unsigned int i = 0; pools && ids && i < count && found < POOLS_MAX; i++) {
        char path[64], *name;

        snprintf(path, sizeof(path), "/local/pool/%.20s/name", ids[i]);
        name = ask(n, path);
        if (name) {
            pools[found].id = (uint32_t)strtoul(ids[i], NULL, 10);
            snprintf(pools[found++].name, sizeof(pools[0].name), "%s", name);
        }
        free(name);
    }
    free(ids);
    if (pools) {
        pthread_mutex_lock(&n->lock);
        memcpy(n->pools, pools, sizeof(n->pools));
        n->n_pools = found;
        pthread_mutex_unlock(&n->lock);
    }
    free(pools);
}

static void on_event(struct xen_names *n, const char *token)
{
    struct ident ids[4]; /* with one domid: rarely more than one */
    unsigned int found = 0;
    struct entry *e;

    if (!strcmp(token, TOKEN_POOLS)) {
        read_pools(n);
        return;
    }
    pthread_mutex_lock(&n->lock);
    if (!strcmp(token, TOKEN_DOMAINS)) {
        n->domains_changed = true;
        wake(n->main_fd);
    } else {
        uint32_t domid = (uint32_t)strtoul(token, NULL, 10);

        TAILQ_FOREACH (e, &n->entries, link) {
            if (e->ident.domid == domid && !e->gone && found < 4)
                ids[found++] = e->ident;
        }
    }
    pthread_mutex_unlock(&n->lock);
    for (unsigned int i = 0; i < found; i++)
        read_name(n, &ids[i]);
}

/* One domain that came or went, if there is one left to deal with. */
static bool settle_one(struct xen_names *n)
{
    char path[64], token[16];
    struct entry *e;
    struct ident id;
    bool gone, watched;

    pthread_mutex_lock(&n->lock);
    TAILQ_FOREACH (e, &n->entries, link) {
        if (e->gone || !e->watched)
            break;
    }
    if (!e) {
        pthread_mutex_unlock(&n->lock);
        return false;
    }
    id = e->ident;
    gone = e->gone;
    watched = e->watched;
    e->watched = true;
    if (gone) {
        TAILQ_REMOVE(&n->entries, e, link);
        free(e);
    }
    pthread_mutex_unlock(&n->lock);

    name_path(id.domid, path, sizeof(path));
    snprintf(token, sizeof(token), "%u", id.domid);
    if (gone && watched) {
        asking(n, true);
        xs_unwatch(n->xs, path, token);
        asking(n, false);
    } else if (!gone) {
        watch(n, path, token);
        read_name(n, &id);
    }
    return true;
}

/* xenstored went away: libxenstore tells only those who ask it something. */
static bool check(struct xen_names *n)
{
    char *path;

    asking(n, true);
    path = xs_get_domain_path(n->xs, 0);
    asking(n, false);
    free(path);
    return path != NULL;
}

static void turn(struct xen_names *n)
{
    char **event;

    if (n->xs && !check(n))
        disconnect(n);
    if (!n->xs)
        connect_xs(n);
    while (n->xs && (event = xs_check_watch(n->xs))) {
        on_event(n, event[XS_WATCH_TOKEN]);
        free(event);
    }
    while (n->xs && settle_one(n))
        ;
}

static void *run(void *arg)
{
    struct xen_names *n = arg;
    bool stop = false;

    while (!stop) {
        struct pollfd fds[2] = {{.fd = n->thread_fd, .events = POLLIN}, {.fd = -1}};

        turn(n);
        pthread_mutex_lock(&n->lock);
        n->looked_us = now_us();
        n->turns++;
        stop = n->stop;
        pthread_cond_broadcast(&n->turned);
        pthread_mutex_unlock(&n->lock);
        if (stop)
            break;
        if (n->xs)
            fds[1] = (struct pollfd){.fd = xs_fileno(n->xs), .events = POLLIN};
        poll(fds, 2, IDLE_LOOK_MS);
        drain(n->thread_fd);
    }
    if (n->xs)
        xs_close(n->xs);
    return NULL;
}

/* --- The main thread --- */

/* Bring the entries in line with the domains that there are. */
static void update_domains(struct xen_names *n)
{
    struct xen_domain *doms = NULL;
    uint32_t first = 0;
    size_t total = 0;
    struct entry *e;
    int count;

    do {
        struct xen_domain *more = realloc(doms, (total + LIST_CHUNK) * sizeof(*doms));

        count = more ? n->list(n->arg, first, more + total, LIST_CHUNK) : -ENOMEM;
        if (more)
            doms = more;
        if (count < 0) {
            free(doms);
            return;
        }
        total += (size_t)count;
        if (count > 0)
            first = doms[total - 1].ident.domid + 1;
    } while (count == LIST_CHUNK);

    pthread_mutex_lock(&n->lock);
    TAILQ_FOREACH (e, &n->entries, link) {
        e->gone = true;
    }
    for (size_t i = 0; i < total; i++) {
        TAILQ_FOREACH (e, &n->entries, link) {
            if (ident_equal(&e->ident, &doms[i].ident))
                break;
        }
        if (!e && (e = calloc(1, sizeof(*e)))) {
            e->ident = doms[i].ident;
            TAILQ_INSERT_TAIL(&n->entries, e, link);
        }
        if (e)
            e->gone = false;
    }
    pthread_mutex_unlock(&n->lock);
    free(doms);
    wake(n->thread_fd);
}

static void wait_turns(struct xen_names *n, unsigned long turns, unsigned int ms)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&n->lock);
    while (n->turns < turns && pthread_cond_timedwait(&n->turned, &n->lock, &end) == 0)
        ;
    pthread_mutex_unlock(&n->lock);
}

struct xen_names *xen_names_open(xen_list_fn list, void *arg)
{
    struct xen_names *n = calloc(1, sizeof(*n));
    pthread_condattr_t attr;
    sigset_t all, before;
    int r;

    if (!n)
        return NULL;
    TAILQ_INIT(&n->entries);
    n->list = list;
    n->arg = arg;
    pthread_mutex_init(&n->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&n->turned, &attr);
    n->main_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    n->thread_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    update_domains(n);
    /* Signals are the main thread's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = n->main_fd < 0 || n->thread_fd < 0 ? errno : pthread_create(&n->thread, NULL, run, n);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r) {
        log_error("cannot read names from xenstore: %s", strerror(r));
        n->stop = true;
        return n;
    }
    /* Names are wanted for what is found half torn down. */
    wait_turns(n, 1, FIRST_MS);
    return n;
}

void xen_names_close(struct xen_names *n)
{
    struct timespec end;
    struct entry *e;
    bool running;

    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    running = !n->stop;
    n->stop = true;
    pthread_mutex_unlock(&n->lock);
    wake(n->thread_fd);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec++;
    /* One that hangs in xenstore keeps what it uses: the process ends soon. */
    if (running && pthread_clockjoin_np(n->thread, NULL, CLOCK_MONOTONIC, &end))
        return;
    while ((e = TAILQ_FIRST(&n->entries))) {
        TAILQ_REMOVE(&n->entries, e, link);
        free(e);
    }
    close(n->main_fd);
    close(n->thread_fd);
    pthread_cond_destroy(&n->turned);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

int xen_names_fd(struct xen_names *n)
{
    return n ? n->main_fd : -1;
}

void xen_names_update(struct xen_names *n)
{
    bool changed, look;

    if (!n)
        return;
    drain(n->main_fd);
    pthread_mutex_lock(&n->lock);
    changed = n->domains_changed;
    n->domains_changed = false;
    look = now_us() - n->looked_us > BUSY_LOOK_US;
    pthread_mutex_unlock(&n->lock);
    if (changed)
        update_domains(n);
    else if (look)
        wake(n->thread_fd);
}

const char *xen_names_trouble(struct xen_names *n)
{
    bool connected, silent;

    if (!n)
        return "out of memory for names";
    pthread_mutex_lock(&n->lock);
    connected = n->connected;
    silent = n->asked_us && now_us() - n->asked_us > SILENT_US;
    pthread_mutex_unlock(&n->lock);
    return silent       ? "xenstored does not answer: names stay as they were"
           : !connected ? "xenstored cannot be reached: names stay as they were"
                        : NULL;
}

const char *xen_names_get(struct xen_names *n, const struct ident *id)
{
    struct entry *e;

    if (!n)
        return NULL;
    n->answer[0] = '\0';
    pthread_mutex_lock(&n->lock);
    TAILQ_FOREACH (e, &n->entries, link) {
        if (ident_equal(&e->ident, id))
            memcpy(n->answer, e->name, sizeof(n->answer));
    }
    pthread_mutex_unlock(&n->lock);
    return n->answer[0] ? n->answer : NULL;
}

int xen_names_pool(struct xen_names *n, uint32_t id, char *ret, size_t size)
{
    int r = -ENOENT;

    if (!n)
        return r;
    pthread_mutex_lock(&n->lock);
    for (unsigned int i = 0; i < n->n_pools; i++) {
        if (n->pools[i].id == id) {
            snprintf(ret, size, "%s", n->pools[i].name);
            r = 0;
        }
    }
    pthread_mutex_unlock(&n->lock);
    return r;
}
