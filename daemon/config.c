/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"

#include <errno.h>
#include <string.h>

#define NUMBER(name, dflt, min, max)                                                               \
    {                                                                                              \
#name, offsetof(struct config, name), dflt, min, max                                       \
    }

const struct config_number config_numbers[CONFIG_NUMBERS] = {
    NUMBER(step_us, 2000, 100, 100000),
    NUMBER(duty_percent, 75, 1, 100),
    NUMBER(backlog_high_mib, 1024, 1, 1 << 30),
    NUMBER(no_progress_ms, 1000, 100, 60000),
    NUMBER(ceiling_mib_s, 0, 0, 1 << 20),
    NUMBER(lease_s, 10, 2, 3600),
    NUMBER(floor_mib_s, 0, 0, 4096),
};

static long *number_in(struct config *conf, const struct config_number *n)
{
    return (long *)((char *)conf + n->offset);
}

void config_init(struct config *conf)
{
    memset(conf, 0, sizeof(*conf));
    for (size_t i = 0; i < CONFIG_NUMBERS; i++)
        *number_in(conf, &config_numbers[i]) = config_numbers[i].dflt;
    conf->scrub_all = true;
}

int config_set_number(struct config *conf, const char *key, long value, struct err *err)
{
    for (size_t i = 0; i < CONFIG_NUMBERS; i++) {
        const struct config_number *n = &config_numbers[i];

        if (strcmp(n->key, key))
            continue;
        if (value < n->min || value > n->max)
            return err_set(err, EINVAL, "%s: %ld is not between %ld and %ld", key, value, n->min,
                           n->max);
        *number_in(conf, n) = value;
        return 0;
    }
    return err_set(err, EINVAL, "%s: no such number", key);
}

int config_set_cpus(struct config *conf, const char *text, struct err *err)
{
    int r;

    if (!strcmp(text, "all")) {
        conf->scrub_all = true;
        cpulist_clear(&conf->scrub_cpus);
        return 0;
    }
    r = cpulist_parse(text, &conf->scrub_cpus, err);
    if (r < 0)
        return err_wrap(err, "scrub_cpus: \"%.60s\"", text);
    conf->scrub_all = false;
    return 0;
}
