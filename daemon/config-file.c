/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <confuse.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#define FILE_MAX (64 * 1024)

/*
 * libconfuse hands its callbacks no argument of ours. Set during config_load() only, which runs
 * once, in one thread.
 */
static struct {
    const char *path;
    struct config conf;
    struct err err;
    bool failed;
} load;

__attribute__((format(printf, 2, 0))) static void on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
    char text[200];

    if (load.failed)
        return; /* the first error is the one to mend */
    load.failed = true;
    vsnprintf(text, sizeof(text), fmt, ap);
    err_set(&load.err, EINVAL, "%s:%d: %s", load.path, cfg ? cfg->line : 0, text);
}

static int fail(cfg_t *cfg, const struct err *why)
{
    cfg_error(cfg, "%s", why->text);
    return -1;
}

/* Not libconfuse's: that takes nothing at all for 0, and a leading 0 for octal. */
static int on_number(cfg_t *cfg, cfg_opt_t *opt)
{
    const char *text = cfg_opt_getnstr(opt, 0);
    struct err why;
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || *end || isspace((unsigned char)*text)) {
        err_set(&why, EINVAL, "%s: \"%.40s\" is not a whole number", opt->name, text);
        return fail(cfg, &why);
    }
    if (errno == ERANGE) {
        err_set(&why, EINVAL, "%s: %.40s is out of range", opt->name, text);
        return fail(cfg, &why);
    }
    if (config_set_number(&load.conf, opt->name, value, &why) < 0)
        return fail(cfg, &why);
    if (load.conf.ceiling_mib_s && load.conf.floor_mib_s > load.conf.ceiling_mib_s) {
        err_set(&why, EINVAL, "floor_mib_s (%ld) is above ceiling_mib_s (%ld)",
                load.conf.floor_mib_s, load.conf.ceiling_mib_s);
        return fail(cfg, &why);
    }
    return 0;
}

/* The texts, and the lists of texts: of those the check is called after each one, and at the end.
 */
static const struct {
    const char *key;
    int (*set)(struct config *conf, const char *text, struct err *err);
    cfg_flag_t flags;
} texts[] = {
    {"scrub_cpus", config_set_cpus, CFGF_NONE},
    {"protect", config_add_protect, CFGF_LIST},
    {"quick", config_add_quick, CFGF_LIST},
    {"metrics_listen", config_set_metrics, CFGF_NONE},
};
#define N_TEXTS (sizeof(texts) / sizeof(texts[0]))

static void clear_list(const char *key)
{
    if (!strcmp(key, "quick"))
        load.conf.quick = 0;
    else
        load.conf.n_protect = 0;
}

static int on_text(cfg_t *cfg, cfg_opt_t *opt)
{
    struct err why;
    size_t i;

    for (i = 0; strcmp(texts[i].key, opt->name); i++)
        ;
    if (texts[i].flags & CFGF_LIST)
        clear_list(opt->name);
    for (unsigned int value = 0; value < cfg_opt_size(opt); value++) {
        if (texts[i].set(&load.conf, cfg_opt_getnstr(opt, value), &why) < 0)
            return fail(cfg, &why);
    }
    return 0;
}

/* One bit a key that we have, else 0. */
static unsigned int key_bit(const char *key, size_t len)
{
    for (unsigned int i = 0; i < CONFIG_NUMBERS + N_TEXTS; i++) {
        const char *name =
            i < CONFIG_NUMBERS ? config_numbers[i].key : texts[i - CONFIG_NUMBERS].key;

        if (strlen(name) == len && !memcmp(name, key, len))
            return 1u << i;
    }
    return 0;
}

/*
 * libconfuse takes the last of a key that is set twice, lets += add to it, and tells nobody of an
 * empty list. To be called without comments in text.
 */
static int check_keys(const char *path, const char *text, struct err *err)
{
    const char *key = text, *end = text;
    unsigned int seen = 0, bit;
    int line = 1;
    char quote = '\0';

    for (const char *p = text; *p; p++) {
        line += *p == '\n';
        if (quote) {
            if (*p == '\\' && p[1])
                line += *++p == '\n';
            else if (*p == quote)
                quote = '\0';
        } else if (*p == '"' || *p == '\'') {
            quote = *p;
        } else if (isalnum((unsigned char)*p) || *p == '_') {
            if (end != p)
                key = p;
            end = p + 1;
        } else if (*p == '+' && p[1] == '=') {
            return err_set(err, EINVAL, "%s:%d: += is not for this file: use one = for a key", path,
                           line);
        } else if (*p == '=') {
            bit = key_bit(key, (size_t)(end - key));
            if (seen & bit)
                return err_set(err, EINVAL, "%s:%d: %.*s: set a second time", path, line,
                               (int)(end - key), key);
            seen |= bit;
        }
    }
    if (seen & key_bit("quick", 5))
        clear_list("quick");
    return 0;
}

/*
 * Blank comments out. libconfuse 3.3 counts the line of each comment three times, and a line number
 * that is wrong is worse than none.
 */
static void strip_comments(char *p)
{
    char quote = '\0';

    while (*p) {
        if (quote) {
            if (*p == '\\' && p[1])
                p++;
            else if (*p == quote)
                quote = '\0';
            p++;
        } else if (*p == '"' || *p == '\'') {
            quote = *p++;
        } else if (*p == '#' || (*p == '/' && p[1] == '/')) {
            while (*p && *p != '\n')
                *p++ = ' ';
        } else if (*p == '/' && p[1] == '*') {
            char *end = strstr(p + 2, "*/");

            /* One that does not end is left for libconfuse to complain of. */
            if (!end)
                return;
            for (; p < end + 2; p++)
                *p = *p == '\n' ? '\n' : ' ';
        } else {
            p++;
        }
    }
}

/* A file as a string, which the caller frees. -ENOENT without text. */
static int read_file(const char *path, char **ret, struct err *err)
{
    FILE *f = fopen(path, "re");
    char *text;
    size_t n;
    int r;

    if (!f && errno == ENOENT)
        return -ENOENT;
    if (!f)
        return err_set(err, errno, "%s: %s", path, strerror(errno));
    text = malloc(FILE_MAX + 1);
    if (!text) {
        fclose(f);
        return err_set(err, ENOMEM, "%s: out of memory", path);
    }
    errno = 0;
    n = fread(text, 1, FILE_MAX + 1, f);
    r = ferror(f) ? errno : n > FILE_MAX ? EFBIG : memchr(text, '\0', n) ? EINVAL : 0;
    fclose(f);
    if (r) {
        free(text);
        return err_set(err, r, "%s: %s", path, r == EINVAL ? "not a text file" : strerror(r));
    }
    text[n] = '\0';
    *ret = text;
    return 0;
}

static int parse(const char *path, char *text, struct err *err)
{
    cfg_opt_t opts[CONFIG_NUMBERS + N_TEXTS + 1];
    cfg_opt_t end = CFG_END();
    cfg_t *cfg;
    int r;

    for (size_t i = 0; i < CONFIG_NUMBERS; i++) {
        cfg_opt_t opt = CFG_STR(config_numbers[i].key, NULL, CFGF_NONE);

        opts[i] = opt;
    }
    for (size_t i = 0; i < N_TEXTS; i++) {
        cfg_opt_t opt = CFG_STR(texts[i].key, NULL, texts[i].flags);

        opts[CONFIG_NUMBERS + i] = opt;
    }
    opts[CONFIG_NUMBERS + N_TEXTS] = end;
    cfg = cfg_init(opts, CFGF_NONE);
    if (!cfg)
        return err_set(err, ENOMEM, "%s: out of memory", path);
    cfg_set_error_function(cfg, on_error);
    for (size_t i = 0; i < CONFIG_NUMBERS; i++)
        cfg_set_validate_func(cfg, config_numbers[i].key, on_number);
    for (size_t i = 0; i < N_TEXTS; i++)
        cfg_set_validate_func(cfg, texts[i].key, on_text);
    load.path = path;
    r = cfg_parse_buf(cfg, text);
    if (r != CFG_SUCCESS && !load.failed)
        err_set(&load.err, EINVAL, "%s:%d: cannot be parsed", path, cfg->line);
    cfg_free(cfg);
    if (r != CFG_SUCCESS)
        return err_set(err, load.err.code, "%s", load.err.text);
    return 0;
}

int config_load(const char *path, struct config *ret, struct err *err)
{
    char *text = NULL;
    int r;

    memset(&load, 0, sizeof(load));
    config_init(&load.conf);
    r = read_file(path, &text, err);
    if (r == 0) {
        strip_comments(text);
        r = check_keys(path, text, err);
        if (r == 0)
            r = parse(path, text, err);
        free(text);
    } else if (r == -ENOENT) {
        r = 0;
    }
    if (r == 0)
        *ret = load.conf;
    return r;
}
