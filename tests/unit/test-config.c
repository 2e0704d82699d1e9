/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The configuration file: defaults, every key, and what a person is told about each kind of
 * mistake. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static char path[] = "/tmp/test-config.XXXXXX";

static int load(const char *text, struct config *conf, struct err *err)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return config_load(path, conf, err);
}

static void defaults(void **state)
{
    static const char *const same[] = {"", "\n# nothing\n", "step_us = 2000\n"};
    struct config conf, other;
    struct err err = {0};

    config_init(&conf);
    assert_int_equal(conf.step_us, 2000);
    assert_int_equal(conf.duty_percent, 75);
    assert_int_equal(conf.backlog_high_mib, 1024);
    assert_int_equal(conf.no_progress_ms, 1000);
    assert_int_equal(conf.ceiling_mib_s, 0);
    assert_int_equal(conf.floor_mib_s, 0);
    assert_int_equal(conf.lease_s, 10);
    assert_true(conf.scrub_all);
    for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
        memset(&other, 0xa5, sizeof(other));
        assert_int_equal(load(same[i], &other, &err), 0);
        assert_int_equal(other.step_us, conf.step_us);
        assert_int_equal(other.lease_s, conf.lease_s);
        assert_true(other.scrub_all);
    }
    memset(&other, 0xa5, sizeof(other));
    assert_int_equal(config_load("/nonexistent/scrubd.conf", &other, &err), 0);
    assert_int_equal(other.step_us, 2000);
}

static void keys(void **state)
{
    struct config conf;
    struct err err = {0};
    char text[32];

    assert_int_equal(load("step_us = 500 # gentle\nduty_percent=20\nbacklog_high_mib = 128\n"
                          "no_progress_ms = 100\nceiling_mib_s = 200\nlease_s = 3600\n"
                          "scrub_cpus = \"0-3,6\"\n",
                          &conf, &err),
                     0);
    assert_int_equal(conf.step_us, 500);
    assert_int_equal(conf.duty_percent, 20);
    assert_int_equal(conf.backlog_high_mib, 128);
    assert_int_equal(conf.no_progress_ms, 100);
    assert_int_equal(conf.ceiling_mib_s, 200);
    assert_int_equal(conf.lease_s, 3600);
    assert_false(conf.scrub_all);
    assert_string_equal(cpulist_format(&conf.scrub_cpus, text, sizeof(text)), "0-3,6");
    assert_int_equal(load("scrub_cpus = all\n", &conf, &err), 0);
    assert_true(conf.scrub_all);
}

static void mistakes(void **state)
{
    static const struct {
        const char *text;
        int line;
        const char *says;
    } table[] = {
        {"\n\nstep_uss = 5\n", 3, "step_uss"},
        {"step_us = 99\n", 1, "step_us: 99 is not between 100 and 100000"},
        {"# x\nstep_us = 100001\n", 2, "not between"},
        {"duty_percent = 0\n", 1, "duty_percent: 0 is not between 1 and 100"},
        {"duty_percent = 101\n", 1, "not between"},
        {"duty_percent = fifty\n", 1, "duty_percent"},
        {"duty_percent = 50%\n", 1, ""},
        {"lease_s = 1\n", 1, "lease_s"},
        {"lease_s = 99999999999999999999\n", 1, "lease_s"},
        {"ceiling_mib_s = -1\n", 1, "ceiling_mib_s"},
        {"floor_mib_s = 4097\n", 1, "floor_mib_s"},
        {"ceiling_mib_s = 10\nfloor_mib_s = 11\n", 2,
         "floor_mib_s (11) is above ceiling_mib_s (10)"},
        {"floor_mib_s = 11\n\nceiling_mib_s = 10\n", 3, "floor_mib_s (11) is above"},
        {"no_progress_ms = 10.5\n", 1, "no_progress_ms"},
        {"\nscrub_cpus = \"0-\"\n", 2, "scrub_cpus: \"0-\": a CPU number is missing"},
        {"scrub_cpus = \"\"\n", 1, "the CPU list is empty"},
        {"scrub_cpus = \"3-1\"\n", 1, "runs backwards"},
        {"scrub_cpus = \"abc\"\n", 1, "unexpected 'a'"},
        {"scrub_cpus = \"4096\"\n", 1, "above 4095"},
        {"step_us = 500\nstep_us = 600\n", 2, "step_us: set a second time"},
        {"scrub_cpus = \"1\"\nscrub_cpus = all\n", 2, "scrub_cpus: set a second time"},
        {"step_us 500\n", 1, ""},
        {"step_us = {1, 2}\n", 1, ""},
        {"scrub_cpus = \"0\n", 2, ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct config conf = {.step_us = 42};
        struct err err = {0};
        char where[64];

        if (load(table[i].text, &conf, &err) != -EINVAL)
            fail_msg("%s: taken", table[i].text);
        assert_int_equal(conf.step_us, 42);
        snprintf(where, sizeof(where), "%s:%d: ", path, table[i].line);
        if (strncmp(err.text, where, strlen(where)) || !strstr(err.text, table[i].says))
            fail_msg("%s-> %s", table[i].text, err.text);
    }
}

static void unreadable(void **state)
{
    struct config conf;
    struct err err = {0};

    assert_int_equal(config_load("/", &conf, &err), -EISDIR);
    assert_non_null(strstr(err.text, "/:"));
}

/* The file that is installed says what the defaults are, and is right about them. */
static void shipped(void **state)
{
    FILE *in = fopen(SHIPPED_CONF, "r");
    struct config conf, dflt;
    struct err err = {0};
    char text[8192], line[512];
    int keys_seen = 0;

    assert_non_null(in);
    text[0] = '\0';
    while (fgets(line, sizeof(line), in)) {
        bool key = line[0] == '#' && line[1] != ' ';

        keys_seen += key;
        strcat(text, line + key);
    }
    fclose(in);
    assert_int_equal(keys_seen, CONFIG_NUMBERS + 1);
    memset(&conf, 0, sizeof(conf));
    if (load(text, &conf, &err) < 0)
        fail_msg("%s", err.text);
    config_init(&dflt);
    assert_memory_equal(&conf, &dflt, sizeof(conf));
    assert_int_equal(config_load(SHIPPED_CONF, &conf, &err), 0);
}

static int setup(void **state)
{
    int fd = mkstemp(path);

    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),   cmocka_unit_test(keys),    cmocka_unit_test(mistakes),
        cmocka_unit_test(unreadable), cmocka_unit_test(shipped),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
