/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CEILING_MAX_KIB (1ull << 30)

/* A mask without an online CPU would stop all scrubbing. */
static int check_online(struct settings *s, const struct cpulist *mask, struct err *err)
{
    struct cpulist online;
    int r = xen_cpus_online(s->xen, s->ops, &online);

    if (r < 0)
        return err_set(err, -r, "cannot find out which CPUs are online: %s", strerror(-r));
    if (!cpulist_intersects(mask, &online)) {
        char text[64];

        return err_set(err, EINVAL, "no CPU of it is online: those are %s",
                       cpulist_format(&online, text, sizeof(text)));
    }
    return 0;
}

static void use_auto(struct settings *s)
{
    s->limits.all_cpus = s->auto_none;
    s->limits.mask = s->auto_mask;
}

bool settings_place(struct settings *s, const struct cpulist *mask)
{
    struct limits before = s->limits;

    s->auto_none = !mask;
    cpulist_clear(&s->auto_mask);
    if (mask)
        s->auto_mask = *mask;
    if (s->limits.cpus_from != CONFIG_CPUS_AUTO)
        return false;
    use_auto(s);
    return s->limits.all_cpus != before.all_cpus || !cpulist_equal(&s->limits.mask, &before.mask);
}

const char *settings_cpus_text(const struct limits *l, char *buf)
{
    if (l->cpus_from == CONFIG_CPUS_LIST)
        return cpulist_format(&l->mask, buf, CPULIST_TEXT);
    return l->cpus_from == CONFIG_CPUS_AUTO ? "auto" : "all";
}

/* l's CPUs as another one has them. */
static void copy_cpus(struct limits *l, const struct limits *other)
{
    l->cpus_from = other->cpus_from;
    l->all_cpus = other->all_cpus;
    l->mask = other->mask;
    l->cpus_by_hand = other->cpus_by_hand;
}

static void copy_ceiling(struct limits *l, const struct limits *other)
{
    l->ceiling_kib = other->ceiling_kib;
    l->ceiling_by_hand = other->ceiling_by_hand;
}

static void configured_ceiling(struct limits *l, const struct config *conf)
{
    l->ceiling_kib = (uint64_t)conf->ceiling_mib_s * 1024;
    l->ceiling_by_hand = false;
}

static void last_ceiling(struct settings *s)
{
    copy_ceiling(&s->lasting, &s->limits);
    s->ceiling_until_us = 0;
}

static void last_cpus(struct settings *s)
{
    copy_cpus(&s->lasting, &s->limits);
    s->cpus_until_us = 0;
}

/* The configured mask, or all CPUs and a warning. */
static void take_mask(struct settings *s)
{
    struct err why = {0};
    char text[64];

    s->warning[0] = '\0';
    s->limits.cpus_from = s->conf->cpus_from;
    s->limits.all_cpus = s->conf->cpus_from != CONFIG_CPUS_LIST;
    s->limits.mask = s->conf->scrub_cpus;
    s->limits.cpus_by_hand = false;
    if (s->limits.cpus_from == CONFIG_CPUS_AUTO)
        use_auto(s);
    if (s->limits.cpus_from != CONFIG_CPUS_LIST || check_online(s, &s->limits.mask, &why) == 0)
        return;
    s->limits.cpus_from = CONFIG_CPUS_ALL;
    s->limits.all_cpus = true;
    cpulist_clear(&s->limits.mask);
    snprintf(s->warning, sizeof(s->warning), "scrub_cpus = \"%s\": %.80s; all CPUs scrub",
             cpulist_format(&s->conf->scrub_cpus, text, sizeof(text)), why.text);
}

static bool below_floor(const struct limits *l)
{
    return l->ceiling_kib && l->ceiling_kib < l->floor_kib;
}

void settings_reconfigure(struct settings *s, const struct config *before)
{
    const struct config *conf = s->conf;

    if (conf->cpus_from != before->cpus_from ||
        memcmp(&conf->scrub_cpus, &before->scrub_cpus, sizeof(conf->scrub_cpus))) {
        take_mask(s);
        last_cpus(s);
    }
    s->limits.floor_kib = s->lasting.floor_kib = (uint64_t)conf->floor_mib_s * 1024;
    /* A ceiling set meanwhile stays, unless it is no longer allowed. */
    if (below_floor(&s->lasting))
        configured_ceiling(&s->lasting, conf);
    if (conf->ceiling_mib_s != before->ceiling_mib_s || below_floor(&s->limits)) {
        configured_ceiling(&s->limits, conf);
        last_ceiling(s);
    }
}

void settings_init(struct settings *s, struct xen *xen, const struct xen_ops *ops,
                   const struct config *conf)
{
    memset(s, 0, sizeof(*s));
    s->xen = xen;
    s->ops = ops;
    s->conf = conf;
    configured_ceiling(&s->limits, conf);
    s->limits.floor_kib = (uint64_t)conf->floor_mib_s * 1024;
    s->auto_none = true;
    take_mask(s);
    s->lasting = s->limits;
}

uint64_t settings_least(uint64_t pages, uint64_t age_us, uint64_t max_age_us)
{
    uint64_t kib, step = 1;

    if (!max_age_us || !pages || !age_us)
        return 0;
    if (age_us >= max_age_us)
        return UINT64_MAX;
    kib = pages * 5 * 1000 / ((max_age_us - age_us) / 1000 + 1);
    while (step * 16 <= kib)
        step *= 2;
    return (kib + step - 1) / step * step;
}

uint64_t settings_ceiling(const struct settings *s)
{
    uint64_t kib = s->limits.ceiling_kib;

    if (s->lifted || !kib)
        return 0;
    if (s->least_kib > CEILING_MAX_KIB)
        return 0;
    return s->least_kib > kib ? s->least_kib : kib;
}

int settings_withdraw(struct settings *s)
{
    int r;

    if (!s->in_force)
        return 0;
    r = s->ops->scrub_reset(s->xen);
    if (r == 0)
        s->in_force = false;
    return r;
}

int settings_apply(struct settings *s, bool busy, struct err *err)
{
    struct xen_scrub_settings want = {
        .ceiling_kib = busy ? settings_ceiling(s) : 0,
        .floor_kib = busy ? s->limits.floor_kib : 0,
        .all_cpus = s->limits.all_cpus,
        .mask = s->limits.mask,
        .lease_ms = (uint32_t)s->conf->lease_s * 1000,
    };
    int r;

    if (!want.ceiling_kib && !want.floor_kib && want.all_cpus) {
        r = settings_withdraw(s);
        return r < 0 ? err_set(err, -r, "cannot reset the scrubber: %s", strerror(-r)) : 0;
    }
    r = s->ops->scrub_set(s->xen, &want);
    if (r < 0)
        return err_set(err, -r, "the hypervisor refuses the settings of the scrubber: %s",
                       strerror(-r));
    s->in_force = true;
    return 0;
}

int settings_change(struct settings *s, const uint64_t *ceiling_kib, const char *mask,
                    uint64_t until_us, struct err *err)
{
    struct limits l = s->limits;
    int r;

    if (ceiling_kib) {
        if (*ceiling_kib > CEILING_MAX_KIB)
            return err_set(err, EINVAL, "ceiling_kib: must be between 0 (none) and %llu",
                           CEILING_MAX_KIB);
        if (*ceiling_kib && *ceiling_kib < l.floor_kib)
            return err_set(err, EINVAL, "ceiling_kib: is below floor_mib_s, which is %llu",
                           (unsigned long long)l.floor_kib / 1024);
        l.ceiling_kib = *ceiling_kib;
        l.ceiling_by_hand = true;
    }
    if (mask && !strcmp(mask, "auto")) {
        l.cpus_from = CONFIG_CPUS_AUTO;
    } else if (mask && (!*mask || !strcmp(mask, "all"))) {
        l.cpus_from = CONFIG_CPUS_ALL;
        l.all_cpus = true;
        cpulist_clear(&l.mask);
    } else if (mask) {
        l.cpus_from = CONFIG_CPUS_LIST;
        l.all_cpus = false;
        r = cpulist_parse(mask, &l.mask, err);
        if (r == 0)
            r = check_online(s, &l.mask, err);
        if (r < 0)
            return err_wrap(err, "mask");
    }
    if (mask)
        l.cpus_by_hand = true;
    s->limits = l;
    if (l.cpus_from == CONFIG_CPUS_AUTO)
        use_auto(s);
    if (mask)
        s->warning[0] = '\0';
    if (ceiling_kib && !until_us)
        last_ceiling(s);
    else if (ceiling_kib)
        s->ceiling_until_us = until_us;
    if (mask && !until_us)
        last_cpus(s);
    else if (mask)
        s->cpus_until_us = until_us;
    return 0;
}

bool settings_expire(struct settings *s, uint64_t now_us)
{
    bool ceiling = s->ceiling_until_us && s->ceiling_until_us <= now_us;
    bool cpus = s->cpus_until_us && s->cpus_until_us <= now_us;

    if (ceiling) {
        copy_ceiling(&s->limits, &s->lasting);
        s->ceiling_until_us = 0;
    }
    if (cpus) {
        copy_cpus(&s->limits, &s->lasting);
        if (s->limits.cpus_from == CONFIG_CPUS_AUTO)
            use_auto(s);
        s->cpus_until_us = 0;
    }
    return ceiling || cpus;
}

uint64_t settings_next_us(const struct settings *s)
{
    if (!s->ceiling_until_us || !s->cpus_until_us)
        return s->ceiling_until_us + s->cpus_until_us;
    return s->ceiling_until_us < s->cpus_until_us ? s->ceiling_until_us : s->cpus_until_us;
}

void settings_restore(struct settings *s, const struct settings *before)
{
    s->limits = before->limits;
    s->lasting = before->lasting;
    s->ceiling_until_us = before->ceiling_until_us;
    s->cpus_until_us = before->cpus_until_us;
}
