/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names that scrubd reads from xenstore, asked for by a test:
 *     names FILE      FILE has the domains that there are, "DOMID GENERATION" a line
 * Commands on standard input, one a line, are answered with one line each:
 *     name DOMID GENERATION | pool ID | trouble
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "xen-real.h"

static struct ident ident_of(unsigned int domid, unsigned int generation)
{
    struct ident id = {.domid = domid};

    memset(id.uuid, (int)generation, sizeof(id.uuid));
    return id;
}

static int list(void *arg, uint32_t first, struct xen_domain *ret, size_t max)
{
    FILE *f = fopen(arg, "re");
    unsigned int domid, generation;
    size_t n = 0;

    while (f && n < max && fscanf(f, "%u %u", &domid, &generation) == 2) {
        if (domid >= first)
            ret[n++].ident = ident_of(domid, generation);
    }
    if (f)
        fclose(f);
    return (int)n;
}

static const char *answer(struct xen_names *names, const char *line)
{
    static char pool[64];
    unsigned int a = 0, b = 0;
    const char *text = NULL;

    if (sscanf(line, "name %u %u", &a, &b) == 2) {
        struct ident id = ident_of(a, b);

        text = xen_names_get(names, &id);
    } else if (sscanf(line, "pool %u", &a) == 1) {
        text = xen_names_pool(names, a, pool, sizeof(pool)) == 0 ? pool : NULL;
    } else {
        text = xen_names_trouble(names);
    }
    return text ? text : "-";
}

int main(int argc, char **argv)
{
    struct xen_names *names = xen_names_open(list, argc > 1 ? argv[1] : NULL);
    char line[64];

    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        struct pollfd fds[] = {{.fd = 0, .events = POLLIN},
                               {.fd = xen_names_fd(names), .events = POLLIN}};

        poll(fds, 2, -1);
        /* As scrubd does: when told to, and often while there is something to do. */
        xen_names_update(names);
        if (!fds[0].revents)
            continue;
        if (!fgets(line, sizeof(line), stdin))
            break;
        puts(answer(names, line));
    }
    xen_names_close(names);
    return 0;
}
