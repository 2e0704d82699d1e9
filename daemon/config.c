/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ident.h"

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
    NUMBER(min_size_mib, 32, 0, 1 << 20),
    NUMBER(max_teardown_s, 120, 1, 86400),
    NUMBER(max_pause_s, 600, 1, 86400),
    NUMBER(max_dirty_age_s, 600, 0, 86400),
    NUMBER(create_wait_s, 5, 0, 60),
};

/* At the place of their enum xen_shutdown. */
static const char *const shutdown_names[] = {NULL,    "poweroff", "reboot",    "suspend",
                                             "crash", "watchdog", "soft-reset"};
#define N_SHUTDOWNS (sizeof(shutdown_names) / sizeof(shutdown_names[0]))

static long *number_in(struct config *conf, const struct config_number *n)
{
    return (long *)((char *)conf + n->offset);
}

static long number_of(const struct config *conf, const struct config_number *n)
{
    return *(const long *)((const char *)conf + n->offset);
}

void config_init(struct config *conf)
{
    memset(conf, 0, sizeof(*conf));
    for (size_t i = 0; i < CONFIG_NUMBERS; i++)
        *number_in(conf, &config_numbers[i]) = config_numbers[i].dflt;
    conf->cpus_from = CONFIG_CPUS_AUTO;
    config_add_quick(conf, "reboot", NULL);
    config_add_quick(conf, "suspend", NULL);
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

    if (!strcmp(text, "auto") || !strcmp(text, "all")) {
        conf->cpus_from = text[1] == 'u' ? CONFIG_CPUS_AUTO : CONFIG_CPUS_ALL;
        cpulist_clear(&conf->scrub_cpus);
        return 0;
    }
    r = cpulist_parse(text, &conf->scrub_cpus, err);
    if (r < 0)
        return err_wrap(err, "scrub_cpus: \"%.60s\"", text);
    conf->cpus_from = CONFIG_CPUS_LIST;
    return 0;
}

int config_add_quick(struct config *conf, const char *text, struct err *err)
{
    for (unsigned int i = 1; i < N_SHUTDOWNS; i++) {
        if (!strcmp(shutdown_names[i], text)) {
            conf->quick |= 1u << i;
            return 0;
        }
    }
    return err_set(err, EINVAL,
                   "quick: \"%.60s\" is none of poweroff, reboot, suspend, crash, watchdog, "
                   "soft-reset",
                   text);
}

/* fnmatch(3) takes what is not closed for ordinary characters: nothing would match, or too much. */
static bool well_formed(const char *p)
{
    for (; *p; p++) {
        if (*p == '\\' && !*++p)
            return false;
        if (*p == '[') {
            p += p[1] == '!' || p[1] == '^';
            p = p[1] ? strchr(p + 2, ']') : NULL;
            if (!p)
                return false;
        }
    }
    return true;
}

int config_check_pattern(const char *text, struct err *err)
{
    uint8_t uuid[16];

    if (strlen(text) >= CONFIG_PATTERN)
        return err_set(err, EINVAL, "\"%.20s...\" is longer than %d bytes", text,
                       CONFIG_PATTERN - 1);
    if (!strncmp(text, "uuid:", 5) && !ident_parse_uuid(text + 5, uuid))
        return err_set(err, EINVAL, "\"%s\" is not a uuid", text);
    if (!*text || !strcmp(text, "pool:"))
        return err_set(err, EINVAL, "\"%s\" names nothing", text);
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_set(err, EINVAL, "a control character is in a pattern");
    }
    if (!well_formed(text))
        return err_set(err, EINVAL, "\"%s\" is not a pattern: a bracket or an escape has no end",
                       text);
    return 0;
}

int config_add_protect(struct config *conf, const char *text, struct err *err)
{
    if (config_check_pattern(text, err) < 0)
        return err_wrap(err, "protect");
    if (conf->n_protect == CONFIG_PROTECT_MAX)
        return err_set(err, EINVAL, "protect: more than %d patterns", CONFIG_PROTECT_MAX);
    snprintf(conf->protect[conf->n_protect++], CONFIG_PATTERN, "%s", text);
    return 0;
}

static bool parse_port(const char *text, uint16_t *ret)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || port < 1 || port > UINT16_MAX)
        return false;
    *ret = (uint16_t)port;
    return true;
}

/* Splits ADDRESS:PORT; without a colon all of it is the port. */
static bool split_listen(const char *text, char address[CONFIG_ADDRESS], const char **ret_port)
{
    const char *colon = strrchr(text, ':');
    bool bracket = colon && colon > text + 1 && *text == '[' && colon[-1] == ']';
    size_t len = colon ? (size_t)(colon - text) - (bracket ? 2 : 0) : 0;
    struct in6_addr a;

    *ret_port = colon ? colon + 1 : text;
    if (len >= CONFIG_ADDRESS)
        return false;
    snprintf(address, CONFIG_ADDRESS, "%.*s", colon ? (int)len : 9,
             colon ? text + bracket : "127.0.0.1");
    return inet_pton(bracket ? AF_INET6 : AF_INET, address, &a) == 1;
}

int config_set_metrics(struct config *conf, const char *text, struct err *err)
{
    char address[CONFIG_ADDRESS] = "";
    const char *port_text;
    uint16_t port = 0;

    if (*text && (!split_listen(text, address, &port_text) || !parse_port(port_text, &port)))
        return err_set(err, EINVAL,
                       "metrics_listen: \"%.60s\" is none of PORT, ADDRESS:PORT and "
                       "[ADDRESS]:PORT, with numbers",
                       text);
    memcpy(conf->metrics_address, address, sizeof(address));
    conf->metrics_port = port;
    return 0;
}

static void format_metrics(const struct config *conf, char *buf, size_t size)
{
    bool v6 = strchr(conf->metrics_address, ':');

    if (conf->metrics_port)
        snprintf(buf, size, "%s%s%s:%u", v6 ? "[" : "", conf->metrics_address, v6 ? "]" : "",
                 conf->metrics_port);
    else
        snprintf(buf, size, "\"\"");
}

static void format_cpus(const struct config *conf, char *buf, size_t size)
{
    if (conf->cpus_from == CONFIG_CPUS_LIST)
        cpulist_format(&conf->scrub_cpus, buf, size);
    else
        snprintf(buf, size, "%s", conf->cpus_from == CONFIG_CPUS_ALL ? "all" : "auto");
}

/* Append to a list in braces, as far as there is room. */
static void add_item(char *buf, size_t size, const char *item)
{
    size_t len = strlen(buf);

    if (len + strlen(item) + 8 < size)
        snprintf(buf + len, size - len, "%s%s", len > 1 ? ", " : "", item);
    else if (strcmp(buf + len - 3, "..."))
        snprintf(buf + len, size - len, ", ...");
}

static void format_protect(const struct config *conf, char *buf, size_t size)
{
    snprintf(buf, size, "{");
    for (unsigned int i = 0; i < conf->n_protect; i++)
        add_item(buf, size, conf->protect[i]);
    strcat(buf, "}");
}

static void format_quick(const struct config *conf, char *buf, size_t size)
{
    snprintf(buf, size, "{");
    for (unsigned int i = 1; i < N_SHUTDOWNS; i++) {
        if (conf->quick & 1u << i)
            add_item(buf, size, shutdown_names[i]);
    }
    strcat(buf, "}");
}

static bool same_protect(const struct config *a, const struct config *b)
{
    bool same = a->n_protect == b->n_protect;

    for (unsigned int i = 0; same && i < a->n_protect; i++)
        same = !strcmp(a->protect[i], b->protect[i]);
    return same;
}

size_t config_changes(const struct config *from, const struct config *to,
                      struct config_change ret[CONFIG_KEYS])
{
    static const struct {
        const char *key;
        void (*format)(const struct config *conf, char *buf, size_t size);
    } texts[] = {{"scrub_cpus", format_cpus},
                 {"protect", format_protect},
                 {"quick", format_quick},
                 {"metrics_listen", format_metrics}};
    const bool differs[] = {
        from->cpus_from != to->cpus_from ||
            memcmp(&from->scrub_cpus, &to->scrub_cpus, sizeof(to->scrub_cpus)) != 0,
        !same_protect(from, to), from->quick != to->quick,
        from->metrics_port != to->metrics_port ||
            strcmp(from->metrics_address, to->metrics_address) != 0};
    size_t n = 0;

    for (size_t i = 0; i < CONFIG_NUMBERS; i++) {
        const struct config_number *number = &config_numbers[i];
        long a = number_of(from, number), b = number_of(to, number);

        if (a == b)
            continue;
        ret[n].key = number->key;
        snprintf(ret[n].from, sizeof(ret[n].from), "%ld", a);
        snprintf(ret[n].to, sizeof(ret[n].to), "%ld", b);
        n++;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!differs[i])
            continue;
        ret[n].key = texts[i].key;
        texts[i].format(from, ret[n].from, sizeof(ret[n].from));
        texts[i].format(to, ret[n].to, sizeof(ret[n].to));
        n++;
    }
    return n;
}
