/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which ceiling is in force: as wanted, lifted, or raised so that nothing stays dirty for too long.
 */
#include "unit.h"

#include "settings.h"

static void least(void **state)
{
    static const struct {
        uint64_t pages, age_s, max_s;
        uint64_t min_kib, max_kib;
    } table[] = {
        {0, 10, 60, 0, 0},
        {262144, 0, 60, 0, 0}, /* not dirty yet */
        {262144, 10, 0, 0, 0}, /* no maximum */
        /* 1 GiB in 50 s, and a quarter more, rounded up by an eighth at most */
        {262144, 10, 60, 26214, 29500},
        {262144, 50, 60, 131000, 147500},
        {262144, 59, 60, 1300000, 1475000},
        {262144, 60, 60, UINT64_MAX, UINT64_MAX},
        {262144, 99, 60, UINT64_MAX, UINT64_MAX},
        {1, 1, 60, 0, 0}, /* any ceiling does */
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        uint64_t kib =
            settings_least(table[i].pages, table[i].age_s * 1000000, table[i].max_s * 1000000);

        if (kib < table[i].min_kib || kib > table[i].max_kib)
            fail_msg("row %d: %d KiB", (int)i, (int)kib);
    }
    /* A little more of it is no reason for another ceiling. */
    assert_int_equal(settings_least(262144, 10000000, 60000000),
                     settings_least(262600, 10000000, 60000000));
}

static void ceiling(void **state)
{
    static const struct {
        uint64_t wanted, least;
        bool lifted;
        uint64_t ceiling;
    } table[] = {
        {0, 0, false, 0},      {0, 500, false, 0},          {100, 0, false, 100},
        {100, 50, false, 100}, {100, 500, false, 500},      {100, 500, true, 0},
        {100, 0, true, 0},     {100, UINT64_MAX, false, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct settings s = {.limits.ceiling_kib = table[i].wanted,
                             .least_kib = table[i].least,
                             .lifted = table[i].lifted};

        assert_int_equal(settings_ceiling(&s), table[i].ceiling);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least),
        cmocka_unit_test(ceiling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
