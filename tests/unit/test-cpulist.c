/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CPU lists: what is taken, what is refused and how, and that text survives the way there and back.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "cpulist.h"

static void parse(void **state)
{
    static const struct {
        const char *in, *out, *error; /* one of the two */
    } table[] = {
        {"0", "0", NULL},
        {"0-3,6", "0-3,6", NULL},
        {"6,0-3", "0-3,6", NULL},
        {" 1 - 2 ,\t5 ", "1-2,5", NULL},
        {"3,3,3", "3", NULL},
        {"0,1,2,3", "0-3", NULL},
        {"0-2,2-4", "0-4", NULL},
        {"63-65", "63-65", NULL},
        {"4095", "4095", NULL},
        {"5-5", "5", NULL},
        {"", NULL, "empty"},
        {"  ", NULL, "empty"},
        {"all", NULL, "unexpected 'a'"},
        {"4096", NULL, "above 4095"},
        {"0-99999999999999999999", NULL, "above 4095"},
        {"5-3", NULL, "5-3 runs backwards"},
        {"1,", NULL, "missing at the end"},
        {",1", NULL, "unexpected ','"},
        {"1,,2", NULL, "unexpected ','"},
        {"1-", NULL, "missing at the end"},
        {"-1", NULL, "unexpected '-'"},
        {"1 2", NULL, "unexpected '2' after CPU 1"},
        {"0x1", NULL, "unexpected 'x' after CPU 0"},
        {"1\n", NULL, "unexpected '?' after CPU 1"},
        {"1;2", NULL, "unexpected ';'"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct cpulist l;
        struct err err = {0};
        char text[64];
        int r;

        memset(&l, 0xa5, sizeof(l));
        r = cpulist_parse(table[i].in, &l, &err);
        if (table[i].out) {
            assert_int_equal(r, 0);
            assert_string_equal(cpulist_format(&l, text, sizeof(text)), table[i].out);
            continue;
        }
        assert_int_equal(r, -EINVAL);
        if (!strstr(err.text, table[i].error))
            fail_msg("\"%s\": %s", table[i].in, err.text);
        assert_int_equal(l.bits[0], 0xa5a5a5a5a5a5a5a5); /* untouched */
    }
}

static void format_cut(void **state)
{
    struct cpulist l = {0};
    char text[20];

    for (unsigned int cpu = 0; cpu < 40; cpu += 2)
        cpulist_add(&l, cpu);
    for (size_t size = 6; size < sizeof(text); size++) {
        memset(text, 'x', sizeof(text));
        cpulist_format(&l, text, size);
        assert_true(strlen(text) < size);
        assert_string_equal(text + strlen(text) - 3, "...");
    }
    cpulist_clear(&l);
    assert_string_equal(cpulist_format(&l, text, sizeof(text)), "");
}

static void sets(void **state)
{
    struct cpulist a = {0}, b = {0};

    assert_true(cpulist_empty(&a));
    cpulist_add(&a, 70);
    cpulist_add(&a, CPULIST_MAX); /* out of range: ignored */
    assert_int_equal(cpulist_count(&a), 1);
    assert_false(cpulist_intersects(&a, &b));
    assert_false(cpulist_equal(&a, &b));
    cpulist_add(&b, 70);
    assert_true(cpulist_intersects(&a, &b));
    assert_true(cpulist_equal(&a, &b));
    assert_true(cpulist_has(&a, 70));
    assert_false(cpulist_has(&a, 6));
    assert_false(cpulist_has(&a, CPULIST_MAX + 70));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse),
        cmocka_unit_test(format_cut),
        cmocka_unit_test(sets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
