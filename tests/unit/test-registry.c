/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Dead domains: when one is a zombie, under which name, and when it is none any more. */
#include "unit.h"

#include <stdlib.h>

#include "messages.h"

#define S 1000000ull

static const struct registry_domain *saw(struct registry *r, uint32_t domid, uint8_t handle,
                                         const char *name, uint64_t pages, uint64_t now_us)
{
    struct ident id = {.domid = domid, .uuid = {handle}};

    return registry_saw(r, &id, name, pages, now_us);
}

/* How many are gone. */
static int end(struct registry *r)
{
    struct registry_domain *d;
    int n = 0;

    while ((d = registry_take_gone(r))) {
        free(d);
        n++;
    }
    return n;
}

static void zombie(void **state)
{
    const struct registry_domain *d;
    struct registry r;

    registry_init(&r);
    for (uint64_t s = 10; s <= 12; s++) {
        registry_begin(&r);
        assert_null(saw(&r, 5, 1, "web", 7, s * S));
        assert_int_equal(end(&r), 0);
    }
    registry_begin(&r);
    d = saw(&r, 5, 1, NULL, 3, 12 * S + 1); /* xenstore has forgotten it meanwhile */
    assert_non_null(d);
    assert_true(d->zombie);
    assert_string_equal(d->name, "web");
    assert_int_equal(d->pages, 3);
    assert_int_equal(d->dead_us, 10 * S);
    /* Said once. */
    registry_begin(&r);
    assert_null(saw(&r, 5, 1, "web", 2, 20 * S));
    assert_int_equal(end(&r), 0);
    assert_int_equal(TAILQ_FIRST(&r.list)->pages, 2);
    /* Gone. */
    registry_begin(&r);
    assert_int_equal(end(&r), 1);
    assert_int_equal(r.count, 0);
    registry_done(&r);
}

static void short_lived(void **state)
{
    struct registry r;

    registry_init(&r);
    registry_begin(&r);
    assert_null(saw(&r, 5, 1, "web", 1, 10 * S));
    registry_begin(&r);
    assert_int_equal(end(&r), 1);
    /* Its number is used again: another domain, which has its own time. */
    registry_begin(&r);
    assert_null(saw(&r, 5, 2, "db", 1, 13 * S));
    assert_int_equal(end(&r), 0);
    registry_begin(&r);
    assert_null(saw(&r, 5, 3, NULL, 1, 16 * S));
    assert_int_equal(end(&r), 1);
    assert_string_equal(TAILQ_FIRST(&r.list)->name, "");
    registry_done(&r);
}

static void many(void **state)
{
    struct registry r;

    registry_init(&r);
    for (uint64_t s = 1; s <= 4; s++) {
        registry_begin(&r);
        for (uint32_t domid = 1; domid <= 100; domid++)
            assert_int_equal(!saw(&r, domid, 1, "x", domid, s * S), s != 4);
        assert_int_equal(end(&r), 0);
    }
    registry_begin(&r);
    for (uint32_t domid = 1; domid <= 100; domid += 2)
        assert_null(saw(&r, domid, 1, "x", domid, 5 * S));
    assert_int_equal(end(&r), 50);
    assert_int_equal(r.count, 50);
    registry_done(&r);
    assert_int_equal(r.count, 0);
}

/* Only zombies are told of, not what has died just now. */
static void json(void **state)
{
    struct registry r;
    struct status s = {.xen = "4.17", .now_us = 20 * S, .registry = &r};
    struct json_object *o;

    registry_init(&r);
    for (uint64_t at = 10; at <= 14; at += 4) {
        registry_begin(&r);
        saw(&r, 5, 1, "web", 3, at * S);
        saw(&r, 6, 1, NULL, 0, at * S);
        if (at > 10)
            saw(&r, 7, 1, "db", 1, at * S);
        assert_int_equal(end(&r), 0);
    }
    o = messages_status(&s);
    assert_string_equal(
        json_object_to_json_string_ext(wire_get_obj(o, "zombies"), JSON_C_TO_STRING_PLAIN),
        "[{\"domid\":5,\"uuid\":\"01000000-0000-0000-0000-000000000000\",\"name\":\"web\","
        "\"pages\":3,\"dead_ms\":10000},"
        "{\"domid\":6,\"uuid\":\"01000000-0000-0000-0000-000000000000\",\"pages\":0,"
        "\"dead_ms\":10000}]");
    json_object_put(o);
    registry_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zombie),
        cmocka_unit_test(short_lived),
        cmocka_unit_test(many),
        cmocka_unit_test(json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
