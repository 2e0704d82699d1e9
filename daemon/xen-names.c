/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <xenstore.h>

#include "log.h"
#include "xen-real.h"

#define NAME_MAX_LEN 63
#define LIST_CHUNK 64

/*
 * Toolstacks delete a domain's part of xenstore before they destroy it, so its name has to be known
 * by then. Only three things are watched: domains that come, domains that go, and the name of each.
 */
struct entry {
    TAILQ_ENTRY(entry) link;
    struct ident ident;
    bool seen;
    char name[NAME_MAX_LEN + 1];
};

struct xen_names {
    struct xs_handle *xs;
    xen_list_fn list;
    void *arg;
    TAILQ_HEAD(, entry) entries;
};

#define TOKEN_DOMAINS "domains"

static void name_path(uint32_t domid, char *buf, size_t size)
{
    snprintf(buf, size, "/local/domain/%u/name", domid);
}

struct xen_names *xen_names_open(xen_list_fn list, void *arg)
{
    struct xen_names *n = calloc(1, sizeof(*n));

    if (!n)
        return NULL;
    TAILQ_INIT(&n->entries);
    n->list = list;
    n->arg = arg;
    n->xs = xs_open(0);
    if (!n->xs || !xs_watch(n->xs, "@introduceDomain", TOKEN_DOMAINS) ||
        !xs_watch(n->xs, "@releaseDomain", TOKEN_DOMAINS)) {
        log_warning("cannot use xenstore (%s): domains have no names", strerror(errno));
        xen_names_close(n);
        return NULL;
    }
    return n;
}

static void drop(struct xen_names *n, struct entry *e)
{
    char path[64], token[16];

    name_path(e->ident.domid, path, sizeof(path));
    snprintf(token, sizeof(token), "%u", e->ident.domid);
    xs_unwatch(n->xs, path, token);
    TAILQ_REMOVE(&n->entries, e, link);
    free(e);
}

void xen_names_close(struct xen_names *n)
{
    struct entry *e;

    if (!n)
        return;
    while ((e = TAILQ_FIRST(&n->entries))) {
        TAILQ_REMOVE(&n->entries, e, link);
        free(e);
    }
    if (n->xs)
        xs_close(n->xs);
    free(n);
}

int xen_names_fd(struct xen_names *n)
{
    return n ? xs_fileno(n->xs) : -1;
}

static struct entry *find(struct xen_names *n, const struct ident *id)
{
    struct entry *e;

    TAILQ_FOREACH (e, &n->entries, link) {
        if (ident_equal(&e->ident, id))
            return e;
    }
    return NULL;
}

/* A name that xenstore no longer has is kept: that is what this is for. */
static void read_name(struct xen_names *n, struct entry *e)
{
    char path[64];
    unsigned int len;
    char *name;

    name_path(e->ident.domid, path, sizeof(path));
    name = xs_read(n->xs, XBT_NULL, path, &len);
    if (name && *name)
        snprintf(e->name, sizeof(e->name), "%s", name);
    free(name);
}

static void add(struct xen_names *n, const struct ident *id)
{
    struct entry *e = calloc(1, sizeof(*e));
    char path[64], token[16];

    if (!e)
        return;
    e->ident = *id;
    e->seen = true;
    TAILQ_INSERT_TAIL(&n->entries, e, link);
    name_path(id->domid, path, sizeof(path));
    snprintf(token, sizeof(token), "%u", id->domid);
    xs_watch(n->xs, path, token);
    read_name(n, e);
}

/* Bring the entries in line with the domains that there are. */
static void update_domains(struct xen_names *n)
{
    struct xen_domain doms[LIST_CHUNK];
    struct entry *e, *next;
    uint32_t first = 0;
    int count;

    TAILQ_FOREACH (e, &n->entries, link) {
        e->seen = false;
    }
    do {
        count = n->list(n->arg, first, doms, LIST_CHUNK);
        if (count < 0)
            return;
        for (int i = 0; i < count; i++) {
            e = find(n, &doms[i].ident);
            if (e)
                e->seen = true;
            else
                add(n, &doms[i].ident);
        }
        if (count > 0)
            first = doms[count - 1].ident.domid + 1;
    } while (count == LIST_CHUNK);
    for (e = TAILQ_FIRST(&n->entries); e; e = next) {
        next = TAILQ_NEXT(e, link);
        if (!e->seen)
            drop(n, e);
    }
}

void xen_names_update(struct xen_names *n)
{
    bool domains = false;
    struct entry *e;
    char **event;

    if (!n)
        return;
    while ((event = xs_check_watch(n->xs))) {
        const char *token = event[XS_WATCH_TOKEN];

        if (!strcmp(token, TOKEN_DOMAINS)) {
            domains = true;
        } else {
            uint32_t domid = (uint32_t)strtoul(token, NULL, 10);

            TAILQ_FOREACH (e, &n->entries, link) {
                if (e->ident.domid == domid)
                    read_name(n, e);
            }
        }
        free(event);
    }
    if (domains)
        update_domains(n);
}

const char *xen_names_get(struct xen_names *n, const struct ident *id)
{
    struct entry *e = n ? find(n, id) : NULL;

    return e && e->name[0] ? e->name : NULL;
}
