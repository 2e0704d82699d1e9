/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_CONFIG_H
#define SCRUBD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpulist.h"
#include "err.h"

/* What /etc/scrubd/scrubd.conf says. The keys have the names of the members. */
struct config {
    long step_us;
    long duty_percent;
    long backlog_high_mib;
    long no_progress_ms;
    long ceiling_mib_s; /* per node, 0 = none */
    long floor_mib_s;   /* the same; at most ceiling_mib_s, if that is set */
    long lease_s;
    bool scrub_all;            /* scrub_cpus = "all" */
    struct cpulist scrub_cpus; /* unless scrub_all */
};

/* One numeric key: its default and its range. */
struct config_number {
    const char *key;
    size_t offset;
    long dflt, min, max;
};

#define CONFIG_NUMBERS 7
extern const struct config_number config_numbers[CONFIG_NUMBERS];

void config_init(struct config *conf);

/* Check and store one value. -EINVAL with text ("step_us: 7 is not between ..."); conf is then
 * unchanged. */
int config_set_number(struct config *conf, const char *key, long value, struct err *err);
int config_set_cpus(struct config *conf, const char *text, struct err *err);

/*
 * Read a file over the defaults. A file that does not exist is not an error: the defaults apply.
 * Errors have the text "file:line: what is wrong", and leave *ret alone.
 */
int config_load(const char *path, struct config *ret, struct err *err);

#endif
