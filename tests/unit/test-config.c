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

#define REBOOT (1u << 2)
#define SUSPEND (1u << 3)

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
    assert_int_equal(conf.min_size_mib, 32);
    assert_int_equal(conf.max_teardown_s, 120);
    assert_int_equal(conf.max_pause_s, 600);
    assert_int_equal(conf.max_dirty_age_s, 600);
    assert_int_equal(conf.create_wait_s, 5);
    assert_int_equal(conf.cpus_from, CONFIG_CPUS_AUTO);
    assert_int_equal(conf.n_protect, 0);
    assert_int_equal(conf.quick, REBOOT | SUSPEND);
    assert_int_equal(conf.metrics_port, 0);
    for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
        memset(&other, 0xa5, sizeof(other));
        assert_int_equal(load(same[i], &other, &err), 0);
        assert_int_equal(other.step_us, conf.step_us);
        assert_int_equal(other.lease_s, conf.lease_s);
        assert_int_equal(other.cpus_from, CONFIG_CPUS_AUTO);
        assert_int_equal(other.quick, REBOOT | SUSPEND);
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
    assert_int_equal(conf.cpus_from, CONFIG_CPUS_LIST);
    assert_string_equal(cpulist_format(&conf.scrub_cpus, text, sizeof(text)), "0-3,6");
    assert_int_equal(load("scrub_cpus = all\n", &conf, &err), 0);
    assert_int_equal(conf.cpus_from, CONFIG_CPUS_ALL);
    assert_int_equal(load("scrub_cpus = \"auto\"\nmin_size_mib = 0\nmax_teardown_s = 86400\n"
                          "max_pause_s = 1\nmax_dirty_age_s = 0\ncreate_wait_s = 60\n",
                          &conf, &err),
                     0);
    assert_int_equal(conf.cpus_from, CONFIG_CPUS_AUTO);
    assert_int_equal(conf.min_size_mib, 0);
    assert_int_equal(conf.max_teardown_s, 86400);
    assert_int_equal(conf.max_pause_s, 1);
    assert_int_equal(conf.max_dirty_age_s, 0);
    assert_int_equal(conf.create_wait_s, 60);
}

static void metrics(void **state)
{
    static const struct {
        const char *text, *address;
        int port;
    } good[] = {
        {"", "", 0},
        {"9719", "127.0.0.1", 9719},
        {"127.0.0.1:1", "127.0.0.1", 1},
        {"0.0.0.0:65535", "0.0.0.0", 65535},
        {"[::1]:9719", "::1", 9719},
        {"[2001:db8::7]:80", "2001:db8::7", 80},
    };
    static const char *const bad[] = {
        "0",
        "65536",
        "-1",
        " 9719",
        "9719 ",
        "+9719",
        ":9719",
        "localhost:9719",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0:9719",
        "::1",
        "::1:9719",
        "[::1]",
        "[::1]9719",
        "[127.0.0.1]:1",
        "[]:1",
        "[::1:80",
        "[::1%lo]:1",
        "1.2.3.4:0x1",
        "[1111:1111:1111:1111:1111:1111:1111:1111:1111:1111]:1",
    };
    struct config conf;
    struct err err;
    char text[128];

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        snprintf(text, sizeof(text), "metrics_listen = \"%s\"\n", good[i].text);
        if (load(text, &conf, &err) < 0)
            fail_msg("%s", err.text);
        assert_string_equal(conf.metrics_address, good[i].address);
        assert_int_equal(conf.metrics_port, good[i].port);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        snprintf(text, sizeof(text), "\nmetrics_listen = \"%s\"\n", bad[i]);
        if (load(text, &conf, &err) != -EINVAL)
            fail_msg("taken: %s", bad[i]);
        if (!strstr(err.text, ":2: metrics_listen: \"") || !strstr(err.text, "is none of PORT, "))
            fail_msg("%s -> %s", bad[i], err.text);
    }
}

static void lists(void **state)
{
    struct config conf;
    struct err err = {0};
    char text[1024] = "protect = {";

    assert_int_equal(
        load("protect = {\"web*\", # a comment, = and {\n"
             " \"uuid:01234567-89ab-cdef-0123-456789abcdef\",\n \"pool:rt\", \"[!a]=x\"}\n"
             "quick = {crash, \"soft-reset\", crash}\n",
             &conf, &err),
        0);
    assert_int_equal(conf.n_protect, 4);
    assert_string_equal(conf.protect[0], "web*");
    assert_string_equal(conf.protect[1], "uuid:01234567-89ab-cdef-0123-456789abcdef");
    assert_string_equal(conf.protect[2], "pool:rt");
    assert_string_equal(conf.protect[3], "[!a]=x");
    assert_int_equal(conf.quick, 1u << 4 | 1u << 6);
    assert_int_equal(load("quick = {}\nprotect = {}\n", &conf, &err), 0);
    assert_int_equal(conf.n_protect, 0);
    assert_int_equal(conf.quick, 0);
    assert_int_equal(load("quick = \"watchdog\"\nprotect = \"db\"\n", &conf, &err), 0);
    assert_int_equal(conf.quick, 1u << 5);
    assert_string_equal(conf.protect[0], "db");

    for (int i = 0; i < CONFIG_PROTECT_MAX; i++)
        sprintf(text + strlen(text), "\"n%d\"%s", i, i < CONFIG_PROTECT_MAX - 1 ? "," : "");
    assert_int_equal(load(strcat(text, "}"), &conf, &err), 0);
    assert_string_equal(conf.protect[CONFIG_PROTECT_MAX - 1], "n31");
    strcpy(text + strlen(text) - 1, ",\nx}");
    assert_int_equal(load(text, &conf, &err), -EINVAL);
    assert_non_null(strstr(err.text, ":2: protect: more than 32 patterns"));
    sprintf(text, "protect = {\"%095d\"}", 1);
    assert_int_equal(load(text, &conf, &err), 0);
    assert_int_equal(strlen(conf.protect[0]), CONFIG_PATTERN - 1);
    sprintf(text, "protect = {\"%096d\"}", 1);
    assert_int_equal(load(text, &conf, &err), -EINVAL);
    assert_non_null(
        strstr(err.text, ":1: protect: \"00000000000000000000...\" is longer than 95 b"));
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
        {"scrub_cpus = \"automatic\"\n", 1, "unexpected 'a'"},
        {"min_size_mib = 1048577\n", 1, "min_size_mib: 1048577 is not between 0 and 1048576"},
        {"max_teardown_s = 0\n", 1, "max_teardown_s: 0 is not between 1 and 86400"},
        {"max_pause_s = 86401\n", 1, "max_pause_s: 86401 is not between 1 and 86400"},
        {"max_dirty_age_s = -1\n", 1, "max_dirty_age_s: -1 is not between 0 and 86400"},
        {"create_wait_s = 61\n", 1, "create_wait_s: 61 is not between 0 and 60"},
        {"quick = {\"reboot\",\n\"sleep\"}\n", 2, "quick: \"sleep\" is none of poweroff, reboot"},
        {"quick = \"\"\n", 1, "quick: \"\" is none of"},
        {"quick = {}\nquick = {}\n", 2, "quick: set a second time"},
        {"quick = {crash}\n quick\n= {crash}\n", 3, "quick: set a second time"},
        {"quick = {crash}\nquick += {reboot}\n", 2, "+= is not for this file"},
        {"protect = {a}\nprotect={b}\n", 2, "protect: set a second time"},
        {"protect = {\"\"}\n", 1, "protect: \"\" names nothing"},
        {"protect = {\"pool:\"}\n", 1, "protect: \"pool:\" names nothing"},
        {"protect = {a,\n \"uuid:0123\"}\n", 2, "protect: \"uuid:0123\" is not a uuid"},
        {"protect = {\"a[b\"}\n", 1, "protect: \"a[b\" is not a pattern"},
        {"protect = {\"a[]\"}\n", 1, "is not a pattern"},
        {"protect = {\"a\\\\\"}\n", 1, "is not a pattern"},
        {"protect = {\"a\tb\"}\n", 1, "protect: a control character"},
        {"protect = {\"a\"\n", 2, ""},
        {"protect\n", 2, ""},
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

/* Each key with each kind of bad value: the error has the line and the key, and nothing is changed.
 */
static void every_key(void **state)
{
    static const char *const bad_numbers[] = {
        "fast", "1.5", "1e3", "0x", "5 6", "{1, 2}", "\"\"", "99999999999999999999999", "-1", "",
    };
    static const char *const texts[] = {"scrub_cpus", "protect", "quick", "metrics_listen"};
    static const char *const bad_texts[] = {"\"\"", "\"\x01\"", "=", "", "{\"\"}"};
    struct config before, conf;
    struct err err = {0};
    char text[4096], huge[3000];

    memset(huge, 'x', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    memset(&before, 0x5a, sizeof(before));
    for (size_t i = 0; i < CONFIG_NUMBERS + ARRAY_SIZE(texts); i++) {
        const struct config_number *n = i < CONFIG_NUMBERS ? &config_numbers[i] : NULL;
        const char *key = n ? n->key : texts[i - CONFIG_NUMBERS];
        size_t count = n ? ARRAY_SIZE(bad_numbers) + 2 : ARRAY_SIZE(bad_texts);

        for (size_t j = 0; j < count + 2; j++) {
            if (!strcmp(key, "metrics_listen") && j == 0)
                continue; /* its "" is a good one */
            conf = before;
            if (j == count)
                snprintf(text, sizeof(text), "\n%s = %s\n%s = %s\n", key, n ? "1000" : "all", key,
                         n ? "1000" : "all");
            else if (j == count + 1)
                snprintf(text, sizeof(text), "\n%s = \"%s\"\n", key, huge);
            else if (n && j >= ARRAY_SIZE(bad_numbers))
                snprintf(text, sizeof(text), "\n%s = %ld\n", key,
                         j == ARRAY_SIZE(bad_numbers) ? n->min - 1 : n->max + 1);
            else
                snprintf(text, sizeof(text), "\n%s = %s\n", key, n ? bad_numbers[j] : bad_texts[j]);
            if (load(text, &conf, &err) != -EINVAL)
                fail_msg("taken: %.60s", text);
            assert_memory_equal(&conf, &before, sizeof(conf));
            if (!strstr(err.text, ":2: ") && !strstr(err.text, ":3: "))
                fail_msg("%.60s-> %s", text, err.text);
        }
    }
}

static void changes(void **state)
{
    struct config_change c[CONFIG_KEYS];
    struct config a, b;
    struct err err = {0};

    config_init(&a);
    config_init(&b);
    assert_int_equal(config_changes(&a, &b, c), 0);
    assert_int_equal(load("step_us = 500\nscrub_cpus = \"0-3\"\nprotect = {a, \"b*\"}\nquick = "
                          "{}\nmetrics_listen = 9719\n",
                          &b, &err),
                     0);
    assert_int_equal(config_changes(&a, &b, c), 5);
    assert_string_equal(c[0].key, "step_us");
    assert_string_equal(c[0].from, "2000");
    assert_string_equal(c[0].to, "500");
    assert_string_equal(c[1].key, "scrub_cpus");
    assert_string_equal(c[1].from, "auto");
    assert_string_equal(c[1].to, "0-3");
    assert_string_equal(c[2].key, "protect");
    assert_string_equal(c[2].from, "{}");
    assert_string_equal(c[2].to, "{a, b*}");
    assert_string_equal(c[3].key, "quick");
    assert_string_equal(c[3].from, "{reboot, suspend}");
    assert_string_equal(c[3].to, "{}");
    assert_string_equal(c[4].key, "metrics_listen");
    assert_string_equal(c[4].from, "\"\"");
    assert_string_equal(c[4].to, "127.0.0.1:9719");
    for (int i = 0; i < CONFIG_PROTECT_MAX - 2; i++)
        config_add_protect(&b, i % 2 ? "some-long-name-of-a-domain-or-of-many" : "x", &err);
    assert_int_equal(config_changes(&a, &b, c), 5);
    assert_string_equal(c[2].to + strlen(c[2].to) - 6, ", ...}");
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
    assert_int_equal(keys_seen, CONFIG_NUMBERS + 4);
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
        cmocka_unit_test(defaults), cmocka_unit_test(lists),      cmocka_unit_test(keys),
        cmocka_unit_test(mistakes), cmocka_unit_test(unreadable), cmocka_unit_test(shipped),
        cmocka_unit_test(changes),  cmocka_unit_test(every_key),  cmocka_unit_test(metrics),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
