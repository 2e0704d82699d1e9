/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cpulist.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void cpulist_clear(struct cpulist *l)
{
    memset(l, 0, sizeof(*l));
}

bool cpulist_empty(const struct cpulist *l)
{
    return cpulist_count(l) == 0;
}

bool cpulist_equal(const struct cpulist *a, const struct cpulist *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

bool cpulist_intersects(const struct cpulist *a, const struct cpulist *b)
{
    for (size_t i = 0; i < CPULIST_MAX / 64; i++) {
        if (a->bits[i] & b->bits[i])
            return true;
    }
    return false;
}

void cpulist_and(struct cpulist *l, const struct cpulist *with)
{
    for (size_t i = 0; i < CPULIST_MAX / 64; i++)
        l->bits[i] &= with->bits[i];
}

unsigned int cpulist_count(const struct cpulist *l)
{
    unsigned int n = 0;

    for (size_t i = 0; i < CPULIST_MAX / 64; i++)
        n += (unsigned int)__builtin_popcountll(l->bits[i]);
    return n;
}

static const char *skip_space(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

static int parse_number(const char **pos, unsigned int *ret, struct err *err)
{
    const char *p = skip_space(*pos);
    unsigned int n = 0;

    if (!isdigit((unsigned char)*p)) {
        if (!*p)
            return err_set(err, EINVAL, "a CPU number is missing at the end");
        if (!isprint((unsigned char)*p))
            return err_set(err, EINVAL, "unexpected character where a CPU number should be");
        return err_set(err, EINVAL, "unexpected '%c' where a CPU number should be", *p);
    }
    for (; isdigit((unsigned char)*p); p++) {
        n = n * 10 + (unsigned int)(*p - '0');
        if (n >= CPULIST_MAX)
            return err_set(err, EINVAL, "CPU number above %d", CPULIST_MAX - 1);
    }
    *pos = skip_space(p);
    *ret = n;
    return 0;
}

int cpulist_parse(const char *text, struct cpulist *ret, struct err *err)
{
    struct cpulist l = {0};
    const char *p = skip_space(text);
    unsigned int first, last;
    int r;

    if (!*p)
        return err_set(err, EINVAL, "the CPU list is empty");
    for (;;) {
        r = parse_number(&p, &first, err);
        if (r < 0)
            return r;
        last = first;
        if (*p == '-') {
            p++;
            r = parse_number(&p, &last, err);
            if (r < 0)
                return r;
            if (last < first)
                return err_set(err, EINVAL, "the range %u-%u runs backwards", first, last);
        }
        for (unsigned int cpu = first; cpu <= last; cpu++)
            cpulist_add(&l, cpu);
        if (!*p)
            break;
        if (*p != ',')
            return err_set(err, EINVAL, "unexpected '%c' after CPU %u",
                           isprint((unsigned char)*p) ? *p : '?', last);
        p++;
    }
    *ret = l;
    return 0;
}

char *cpulist_format(const struct cpulist *l, char *buf, size_t size)
{
    static const char more[] = ",...";
    char item[32];
    size_t used = 0;
    int n;

    buf[0] = '\0';
    for (unsigned int cpu = 0; cpu < CPULIST_MAX; cpu++) {
        unsigned int last = cpu;

        if (!cpulist_has(l, cpu))
            continue;
        while (cpulist_has(l, last + 1))
            last++;
        if (last == cpu)
            n = snprintf(item, sizeof(item), "%s%u", used ? "," : "", cpu);
        else
            n = snprintf(item, sizeof(item), "%s%u-%u", used ? "," : "", cpu, last);
        /* Room for ",..." is kept, so that a cut list never looks complete. */
        if (used + (size_t)n + sizeof(more) > size) {
            if (used + sizeof(more) <= size)
                memcpy(buf + used, more, sizeof(more));
            break;
        }
        memcpy(buf + used, item, (size_t)n + 1);
        used += (size_t)n;
        cpu = last;
    }
    return buf;
}
