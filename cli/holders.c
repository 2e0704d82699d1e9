/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "holders.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "root.h"
#include "wire.h"

/* Of lower rank first. */
enum rank {
    RANK_BACKEND = 0,
    RANK_NUMBER, /* its arguments say the domain's number */
    RANK_NAME,   /* ... or its name */
    RANK_ANY,
    RANK_OTHER, /* they say another domain's number */
    RANK_SYSTEM,
};

struct candidate {
    enum rank rank;
    int pid; /* 0: a backend */
    char what[256];
    bool privcmd, gntdev;
};

struct candidates {
    struct candidate *list;
    size_t n;
};

static struct candidate *add(struct candidates *all, enum rank rank, const char *what)
{
    struct candidate *c;

    all->list = realloc(all->list, (all->n + 1) * sizeof(*all->list));
    if (all->list == NULL)
        abort();
    c = &all->list[all->n++];
    *c = (struct candidate){.rank = rank};
    snprintf(c->what, sizeof(c->what), "%s", what);
    return c;
}

/* Devices are called after the frontend's domain and number: vif-7-0, vbd-7-51712. */
static void find_backends(struct candidates *all, uint32_t domid)
{
    char path[PATH_MAX];
    DIR *dir = opendir(root_path("/sys/bus/xen-backend/devices", path, sizeof(path)));
    struct dirent *entry;
    unsigned int of, number;
    char kind[32];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (sscanf(entry->d_name, "%31[a-z0-9_]-%u-%u", kind, &of, &number) == 3 && of == domid)
            add(all, RANK_BACKEND, entry->d_name);
    }
    if (dir != NULL)
        closedir(dir);
}

static void read_maps(int pid, bool *ret_privcmd, bool *ret_gntdev)
{
    char path[PATH_MAX], proc[64], *line = NULL;
    size_t size = 0;
    FILE *file;

    *ret_privcmd = *ret_gntdev = false;
    snprintf(proc, sizeof(proc), "/proc/%d/maps", pid);
    file = fopen(root_path(proc, path, sizeof(path)), "re");
    if (file == NULL)
        return; /* it has ended, or is not ours to look at */
    while (getline(&line, &size, file) > 0) {
        const char *mapped = strchr(line, '/');

        if (mapped == NULL)
            continue;
        *ret_privcmd |= strstr(mapped, "/xen/privcmd") != NULL;
        *ret_gntdev |= strstr(mapped, "/xen/gntdev") != NULL;
    }
    free(line);
    fclose(file);
}

static bool is_daemon(const char *command)
{
    static const char *const daemons[] = {"systemd",     "init",     "xenstored", "oxenstored",
                                          "xenconsoled", "libvirtd", "virtxend",  "xenopsd-xc",
                                          "xenopsd",     "scrubd"};

    for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++) {
        if (strcmp(command, daemons[i]) == 0)
            return true;
    }
    return false;
}

/* name in text, not as a part of a longer word. */
static bool has_word(const char *text, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = text; len > 0 && (at = strstr(at, name)) != NULL; at++) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '-');

        if (begins && !isalnum((unsigned char)at[len]) && at[len] != '-')
            return true;
    }
    return false;
}

static bool is_number_option(const char *arg)
{
    return strcmp(arg, "-xen-domid") == 0 || strcmp(arg, "--domid") == 0 ||
           strcmp(arg, "-domid") == 0;
}

/* What its arguments say; they are as long as size, each with its NUL. */
static enum rank rank_of(const char *args, size_t size, uint32_t domid, const char *name)
{
    bool named = false;

    for (size_t at = 0; at < size && args[at] != '\0'; at += strlen(args + at) + 1) {
        size_t next = at + strlen(args + at) + 1;

        if (is_number_option(args + at) && next < size) {
            char *end;
            unsigned long number = strtoul(args + next, &end, 10);

            if (end != args + next && *end == '\0')
                return number == domid ? RANK_NUMBER
                       : number == 0   ? RANK_SYSTEM /* the emulator of everybody's disks */
                                       : RANK_OTHER;
        }
        named |= at > 0 && name != NULL && has_word(args + at, name);
    }
    return named ? RANK_NAME : RANK_ANY;
}

static void look_at_process(struct candidates *all, int pid, uint32_t domid, const char *name)
{
    char proc[64], command[256], args[8192];
    bool privcmd, gntdev;
    struct candidate *c;
    enum rank rank;

    read_maps(pid, &privcmd, &gntdev);
    if (!privcmd && !gntdev)
        return;
    snprintf(proc, sizeof(proc), "/proc/%d/comm", pid);
    root_read(proc, command, sizeof(command));
    snprintf(proc, sizeof(proc), "/proc/%d/cmdline", pid);
    root_read(proc, args, sizeof(args));
    rank = is_daemon(command) ? RANK_SYSTEM : rank_of(args, sizeof(args), domid, name);
    c = add(all, rank, command);
    c->pid = pid;
    c->privcmd = privcmd;
    c->gntdev = gntdev;
}

static void find_processes(struct candidates *all, uint32_t domid, const char *name)
{
    char path[PATH_MAX];
    DIR *dir = opendir(root_path("/proc", path, sizeof(path)));
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0]))
            look_at_process(all, atoi(entry->d_name), domid, name);
    }
    if (dir != NULL)
        closedir(dir);
}

static int compare(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->rank != y->rank ? (int)x->rank - (int)y->rank
           : x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid)
                              : strcmp(x->what, y->what);
}

static struct json_object *to_json(const struct candidate *c)
{
    struct json_object *o = wire_object(), *maps;

    wire_add_str(o, "certainty",
                 c->rank == RANK_BACKEND || c->rank == RANK_NUMBER ? "proven" : "likely");
    wire_add_bool(o, "names_domain", c->rank <= RANK_NAME);
    wire_add_bool(o, "system", c->rank == RANK_SYSTEM);
    if (c->pid == 0) {
        wire_add_str(o, "device", c->what);
        return o;
    }
    wire_add_int(o, "pid", c->pid);
    wire_add_str(o, "command", c->what);
    maps = wire_array();
    if (c->privcmd)
        json_object_array_add(maps, json_object_new_string("privcmd"));
    if (c->gntdev)
        json_object_array_add(maps, json_object_new_string("gntdev"));
    wire_add_obj(o, "maps", maps);
    return o;
}

struct json_object *holders_find(uint32_t domid, const char *name)
{
    struct json_object *list = wire_array();
    struct candidates all = {0};

    find_backends(&all, domid);
    find_processes(&all, domid, name);
    if (all.n > 0)
        qsort(all.list, all.n, sizeof(*all.list), compare);
    for (size_t i = 0; i < all.n; i++)
        json_object_array_add(list, to_json(&all.list[i]));
    free(all.list);
    return list;
}

const char *holders_label(struct json_object *holder, char *buf, size_t size)
{
    const char *device = wire_get_str(holder, "device", NULL);
    char command[64];

    if (device != NULL)
        snprintf(buf, size, "%s", device);
    else
        snprintf(buf, size, "%s (pid %lld)",
                 output_clean(wire_get_str(holder, "command", "?"), 20, command, sizeof(command)),
                 (long long)wire_get_int(holder, "pid", 0));
    return buf;
}
