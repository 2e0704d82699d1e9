/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <confuse.h>
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
    unsigned int seen; /* one bit a key: the same key twice is a mistake, not a choice */
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

static int check_once(cfg_t *cfg, const char *key, unsigned int bit)
{
    struct err why;

    if (load.seen & 1u << bit) {
        err_set(&why, EINVAL, "%s: set a second time", key);
        return fail(cfg, &why);
    }
    load.seen |= 1u << bit;
    return 0;
}

static int on_number(cfg_t *cfg, cfg_opt_t *opt)
{
    struct err why;
    unsigned int i;

    for (i = 0; i < CONFIG_NUMBERS && strcmp(config_numbers[i].key, opt->name); i++)
        ;
    if (check_once(cfg, opt->name, i) < 0)
        return -1;
    if (config_set_number(&load.conf, opt->name, cfg_opt_getnint(opt, 0), &why) < 0)
        return fail(cfg, &why);
    if (load.conf.ceiling_mib_s && load.conf.floor_mib_s > load.conf.ceiling_mib_s) {
        err_set(&why, EINVAL, "floor_mib_s (%ld) is above ceiling_mib_s (%ld)",
                load.conf.floor_mib_s, load.conf.ceiling_mib_s);
        return fail(cfg, &why);
    }
    return 0;
}

static int on_cpus(cfg_t *cfg, cfg_opt_t *opt)
{
    struct err why;

    if (check_once(cfg, opt->name, CONFIG_NUMBERS) < 0)
        return -1;
    if (config_set_cpus(&load.conf, cfg_opt_getnstr(opt, 0), &why) < 0)
        return fail(cfg, &why);
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
    cfg_opt_t opts[CONFIG_NUMBERS + 2];
    cfg_opt_t end = CFG_END();
    cfg_t *cfg;
    int r;

    for (size_t i = 0; i < CONFIG_NUMBERS; i++) {
        cfg_opt_t opt = CFG_INT(config_numbers[i].key, config_numbers[i].dflt, CFGF_NONE);

        opts[i] = opt;
    }
    opts[CONFIG_NUMBERS] = (cfg_opt_t)CFG_STR("scrub_cpus", "all", CFGF_NONE);
    opts[CONFIG_NUMBERS + 1] = end;
    cfg = cfg_init(opts, CFGF_NONE);
    if (!cfg)
        return err_set(err, ENOMEM, "%s: out of memory", path);
    cfg_set_error_function(cfg, on_error);
    for (size_t i = 0; i < CONFIG_NUMBERS; i++)
        cfg_set_validate_func(cfg, config_numbers[i].key, on_number);
    cfg_set_validate_func(cfg, "scrub_cpus", on_cpus);
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
        r = parse(path, text, err);
        free(text);
    } else if (r == -ENOENT) {
        r = 0;
    }
    if (r == 0)
        *ret = load.conf;
    return r;
}
