/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sizes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Digits, and a fraction if there is one. Returns what follows them, NULL if there is no number. */
static const char *parse_number(const char *p, double *ret)
{
    double value = 0, scale = 1;

    if (!isdigit((unsigned char)*p))
        return NULL;
    for (; isdigit((unsigned char)*p); p++)
        value = value * 10 + (*p - '0');
    if (*p == '.') {
        for (p++; isdigit((unsigned char)*p); p++) {
            scale /= 10;
            value += scale * (*p - '0');
        }
    }
    *ret = value;
    return p;
}

int sizes_parse_kib(const char *text, uint64_t *ret_kib, struct err *err)
{
    static const char units[] = "KMGT";
    static const char *const tails[] = {"", "B", "iB", "/s", "B/s", "iB/s"};
    double value;
    const char *p = parse_number(text, &value), *unit;
    size_t i;

    if (!p)
        return err_set(err, EINVAL, "\"%.40s\" is not a size: expected one like 200M or 1.5G",
                       text);
    if (!*p) {
        if (value == 0) {
            *ret_kib = 0;
            return 0;
        }
        return err_set(err, EINVAL, "\"%.40s\" has no unit: add K, M, G or T", text);
    }
    unit = strchr(units, toupper((unsigned char)*p));
    if (!unit)
        return err_set(err, EINVAL, "\"%.40s\" has an unknown unit: use K, M, G or T", text);
    for (i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
        if (!strcasecmp(p + 1, tails[i]))
            break;
    }
    if (i == sizeof(tails) / sizeof(*tails))
        return err_set(err, EINVAL, "\"%.40s\" has an unknown unit: use K, M, G or T", text);
    for (; unit > units; unit--)
        value *= 1024;
    if (value >= 0x1p53)
        return err_set(err, EINVAL, "\"%.40s\" is too large", text);
    *ret_kib = (uint64_t)(value + 0.5);
    return 0;
}

/* A number and its unit, in ms. Returns what follows, NULL if it is no such thing. */
static const char *parse_span(const char *p, double *ret_ms)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000}};
    double value;
    size_t len;

    p = parse_number(p, &value);
    if (!p)
        return NULL;
    p += strspn(p, " ");
    len = strspn(p, "abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (strlen(units[i].name) == len && !strncmp(p, units[i].name, len)) {
            *ret_ms = value * units[i].ms;
            return p + len;
        }
    }
    return NULL;
}

int sizes_parse_ms(const char *text, uint64_t *ret_ms, struct err *err)
{
    double total = 0.5, ms;
    const char *p = text;

    do {
        p = parse_span(p, &ms);
        if (!p)
            return err_set(err, EINVAL, "\"%.40s\" is not a time: expected one like 30s, 2m or 1h",
                           text);
        total += ms;
        p += strspn(p, " ");
    } while (*p);
    if (total < 1 || total >= 86400001)
        return err_set(err, EINVAL, "\"%.40s\" is not between 1ms and 24h", text);
    *ret_ms = (uint64_t)total;
    return 0;
}

char *sizes_format_kib(uint64_t kib, char *buf)
{
    static const char units[] = "KMGT";
    double value = (double)kib;
    size_t u = 0;

    while (value >= 1024 && u < 3) {
        value /= 1024;
        u++;
    }
    if (u == 0 || value >= 99.95)
        snprintf(buf, SIZES_TEXT, "%.0f%c", value, units[u]);
    else
        snprintf(buf, SIZES_TEXT, "%.*f%c", value >= 9.995 ? 1 : 2, value, units[u]);
    return buf;
}
