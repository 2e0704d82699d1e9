/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_CONFIG_H
#define SCRUBD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpulist.h"
#include "err.h"

enum config_cpus {
    CONFIG_CPUS_AUTO = 0, /* those that do no harm to protected domains */
    CONFIG_CPUS_ALL,
    CONFIG_CPUS_LIST,
};

#define CONFIG_PROTECT_MAX 32
#define CONFIG_PATTERN 96 /* with its NUL */
#define CONFIG_ADDRESS 46 /* the same */

/* What /etc/scrubd/scrubd.conf says. The keys have the names of the members. */
struct config {
    long step_us;
    long duty_percent;
    long backlog_high_mib;
    long no_progress_ms;
    long ceiling_mib_s; /* per node, 0 = none */
    long floor_mib_s;   /* the same; at most ceiling_mib_s, if that is set */
    long lease_s;
    long min_size_mib;
    long max_teardown_s;
    long max_pause_s;
    long max_dirty_age_s; /* 0 = no maximum */
    long create_wait_s;
    enum config_cpus cpus_from; /* scrub_cpus = "auto", "all" or a list */
    struct cpulist scrub_cpus;  /* of CONFIG_CPUS_LIST, else empty */
    char protect[CONFIG_PROTECT_MAX][CONFIG_PATTERN];
    unsigned int n_protect;
    unsigned int quick;                   /* bit 1u << enum xen_shutdown each */
    char metrics_address[CONFIG_ADDRESS]; /* numeric, IPv4 or IPv6 */
    uint16_t metrics_port;                /* 0: metrics_listen = "", no metrics */
};

/* One numeric key: its default and its range. */
struct config_number {
    const char *key;
    size_t offset;
    long dflt, min, max;
};

#define CONFIG_NUMBERS 12
extern const struct config_number config_numbers[CONFIG_NUMBERS];

void config_init(struct config *conf);

/* Check and store one value. -EINVAL with text ("step_us: 7 is not between ..."); conf is then
 * unchanged. */
int config_set_number(struct config *conf, const char *key, long value, struct err *err);
int config_set_cpus(struct config *conf, const char *text, struct err *err);
int config_add_quick(struct config *conf, const char *text, struct err *err);
int config_add_protect(struct config *conf, const char *text, struct err *err);
/* "" (none), "PORT" (of 127.0.0.1), "ADDRESS:PORT" or "[ADDRESS]:PORT", without names. */
int config_set_metrics(struct config *conf, const char *text, struct err *err);

/* A key whose value is another now, as texts for people; long ones are cut short. */
#define CONFIG_KEYS (CONFIG_NUMBERS + 4)
struct config_change {
    const char *key;
    char from[128], to[128];
};
/* Returns how many. */
size_t config_changes(const struct config *from, const struct config *to,
                      struct config_change ret[CONFIG_KEYS]);

/* Is it a pattern of protected domains ("NAME" with wildcards, "uuid:UUID", "pool:NAME")? -EINVAL
 * with text if not. */
int config_check_pattern(const char *text, struct err *err);

/*
 * Read a file over the defaults. Not for two threads at a time. A file that does not exist is not
 * an error: the defaults apply. Errors have the text "file:line: what is wrong", and leave *ret
 * alone.
 */
int config_load(const char *path, struct config *ret, struct err *err);

#endif
