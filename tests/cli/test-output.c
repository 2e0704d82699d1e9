/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What scrubctl writes: figures, bars, tables, and the screens of watch at any size of the
 * terminal. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "output.h"
#include "watch.h"
#include "wire.h"

static void test_duration(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {-1, "-"},
        {0, "0.0 s"},
        {849, "0.8 s"},
        {9949, "9.9 s"},
        {9950, "9 s"},
        {59999, "59 s"},
        {60000, "1 min 0 s"},
        {200000, "3 min 20 s"},
        {3600000, "1 h 0 min"},
        {7980000, "2 h 13 min"},
        {442800000, "5 d 3 h"},
    };
    char buf[OUTPUT_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(output_duration(cases[i].ms, buf), cases[i].text);
    output_duration(INT64_MAX, buf);
}

static void test_amounts(void **state)
{
    char buf[OUTPUT_TEXT];

    (void)state;
    assert_string_equal(output_pages(-1, buf), "-");
    assert_string_equal(output_pages(0, buf), "0K");
    assert_string_equal(output_pages(1048576, buf), "4.00G");
    assert_string_equal(output_pages(131072, buf), "512M");
    assert_string_equal(output_rate(-1, buf), "-");
    assert_string_equal(output_rate(204800, buf), "200M/s");
    assert_string_equal(output_rate_limit(0, buf), "none");
    assert_string_equal(output_rate_limit(1024, buf), "1.00M/s");
}

static void test_clean(void **state)
{
    static const struct {
        const char *text;
        size_t columns;
        const char *clean;
    } cases[] = {
        {"web-3", 10, "web-3"},
        {"web-3", 5, "web-3"},
        {"web-3", 4, "we.."},
        {"web-3", 2, ".."},
        {"web-3", 1, ""},
        {"", 4, ""},
        {"a\nb\033[2Jc", 20, "a?b?[2Jc"},
        {"\xff\xfe!", 10,
         "?"
         "?!"},
        {"gr\xc3\xbc\xc3\x9f", 4, "gr\xc3\xbc\xc3\x9f"},
        {"gr\xc3\xbc\xc3\x9f-gott", 5, "gr\xc3\xbc.."},
        {"\xe4\xb8\xad\xe6\x96\x87", 4, "\xe4\xb8\xad\xe6\x96\x87"},
        {"\xe4\xb8\xad\xe6\x96\x87", 3, ".."},
        {"\xe2\x80\xae"
         "x",
         4, "?x"},
        {"cut short \xe4\xb8", 20,
         "cut short ?"
         "?"},
    };
    char buf[64];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(output_clean(cases[i].text, cases[i].columns, buf, sizeof(buf)),
                            cases[i].clean);
    for (size_t size = 4; size < 12; size++) {
        memset(buf, 'x', sizeof(buf));
        assert_true(strlen(output_clean("gr\xc3\xbc\xc3\x9f-gott", 20, buf, size)) < size);
        assert_int_equal(buf[size], 'x');
    }
}

static void test_bar(void **state)
{
    char buf[256];

    (void)state;
    assert_string_equal(output_bar(0, 4, false, buf, sizeof(buf)), "----");
    assert_string_equal(output_bar(0.5, 4, false, buf, sizeof(buf)), "##--");
    assert_string_equal(output_bar(0.999, 4, false, buf, sizeof(buf)), "###-");
    assert_string_equal(output_bar(1, 4, false, buf, sizeof(buf)), "####");
    assert_string_equal(output_bar(7, 4, false, buf, sizeof(buf)), "####");
    assert_string_equal(output_bar(-7, 4, false, buf, sizeof(buf)), "----");
    assert_string_equal(output_bar(0.3125, 4, true, buf, sizeof(buf)), "█▎░░");
    for (double f = 0; f <= 1; f += 0.01)
        assert_int_equal(output_width(output_bar(f, 17, true, buf, sizeof(buf))), 17);
}

static void test_table(void **state)
{
    static const char *const titles[] = {">ID", "NAME", ">SIZE"};
    static const char *const cells[] = {"7", "web-3", "4.00G", "12345", "gr\xc3\xbc\xc3\x9f\n",
                                        "8K"};
    struct output_table table = {titles, 3, NULL, 0};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    for (size_t i = 0; i < 6; i++)
        output_table_add(&table, cells[i]);
    output_table_print(&table, out);
    output_table_done(&table);
    fclose(out);
    assert_string_equal(text, "   ID  NAME    SIZE\n"
                              "    7  web-3  4.00G\n"
                              "12345  gr\xc3\xbc\xc3\x9f?     8K\n");
    free(text);
}

/* In 80 columns, as a memory stream has no terminal: text wraps in the last column, else names are
 * cut, and what is aligned right never. */
static void test_wide_table(void **state)
{
    static const char *const titles[] = {">ID", "NAME", "WHY"}, *const narrow[] = {"NAME", ">SIZE"};
    struct output_table table = OUTPUT_TABLE(titles), names = OUTPUT_TABLE(narrow);
    char name[201];
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    memset(name, 'x', 200);
    name[200] = '\0';
    output_table_add_int(&table, 7);
    output_table_add(&table, "web");
    output_table_add(&table, "one two three four five six seven eight nine ten eleven twelve "
                             "thirteen fourteen 1,2,3,4,5,6,7,8,9");
    output_table_add_int(&table, -1);
    output_table_add(&table, name);
    output_table_add(&table, name + 150);
    output_table_print(&table, out);
    output_table_done(&table);
    output_table_add(&names, name);
    output_table_add(&names, "4.00G");
    output_table_print(&names, out);
    output_table_done(&names);
    fclose(out);
    assert_string_equal(
        text, "ID  NAME                                                    WHY\n"
              " 7  web                                                     one two three four\n"
              "                                                            five six seven eight\n"
              "                                                            nine ten eleven\n"
              "                                                            twelve thirteen\n"
              "                                                            fourteen 1,2,3,4,5,\n"
              "                                                            6,7,8,9\n"
              " -  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..  xxxxxxxxxxxxxxxxxxxx\n"
              "                                                            xxxxxxxxxxxxxxxxxxxx\n"
              "                                                            xxxxxxxxxx\n"
              "NAME                                                                        SIZE\n"
              "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..  4.00G\n");
    free(text);
}

static void test_wrapped(void **state)
{
    static const struct {
        const char *text;
        size_t first, indent, columns;
        const char *want;
    } cases[] = {
        {"", 0, 2, 10, ""},
        {"one two", 0, 2, 10, "one two"},
        {"one two three", 0, 2, 7, "one two\n  three"},
        {"one two three", 4, 0, 7, "one\ntwo\nthree"},
        {"one two three", 0, 0, 1, "o\nn\ne\nt\nw\no\nt\nh\nr\ne\ne"},
        {"1,2,3,4", 0, 1, 4, "1,2,\n 3,4"},
        {"10,20,30", 0, 1, 5, "10,\n 20,\n 30"},
        {"gr\xc3\xbc\xc3\x9f gott\n", 0, 0, 5, "gr\xc3\xbc\xc3\x9f\ngott?"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text, *last;
        size_t size, taken;
        FILE *out = open_memstream(&text, &size);

        taken =
            output_wrapped(cases[i].text, cases[i].first, cases[i].indent, cases[i].columns, out);
        fclose(out);
        assert_string_equal(text, cases[i].want);
        last = strrchr(text, '\n');
        assert_int_equal(taken,
                         last ? output_width(last + 1) : cases[i].first + output_width(text));
        free(text);
    }
}

/* Parameters of a reply to Watch with that many jobs. */
static struct json_object *params_with(int n_jobs, int64_t backlog_pages)
{
    struct json_object *params = wire_object(), *status = wire_object(), *jobs = wire_array(),
                       *nodes = wire_array();

    wire_add_str(status, "version", "0.1.0");
    wire_add_str(status, "xen", "4.17.5");
    wire_add_str(status, "state", backlog_pages < 0 ? "degraded" : "ready");
    wire_add_str_opt(status, "reason", backlog_pages < 0 ? "unpatched hypervisor" : NULL);
    wire_add_int(status, "jobs_done", 14);
    wire_add_int_opt(status, "backlog_pages", backlog_pages);
    wire_add_str_opt(status, "mask", backlog_pages < 0 ? NULL : "0-3,6");
    for (int i = 0; i < 2 && backlog_pages >= 0; i++) {
        struct json_object *node = wire_object();

        wire_add_int(node, "node", i);
        wire_add_int(node, "ceiling_kib", i * 204800);
        wire_add_int(node, "backlog_pages", i == 0 ? backlog_pages : 1);
        wire_add_int(node, "idle", 2560000 - backlog_pages);
        json_object_array_add(nodes, node);
    }
    wire_add_obj(status, "nodes", nodes);
    for (int i = 0; i < n_jobs; i++) {
        struct json_object *job = wire_object();

        wire_add_int(job, "id", 1 + i);
        wire_add_int(job, "domid", 7 + i);
        wire_add_str_opt(job, "name",
                         i == 0   ? "web-3"
                         : i == 1 ? "a\033[2Jvery-long-name-of-a-domain"
                                  : NULL);
        wire_add_str(job, "state", i == 0 ? "freeing" : "waiting");
        wire_add_int(job, "pages_total", 1048576);
        wire_add_int(job, "pages_left", 1048576 - (i + 1) * 262144 % 1048577);
        wire_add_int(job, "rate_kib_s", 1677722);
        wire_add_int_opt(job, "eta_ms", i == 0 ? 1300 : -1);
        json_object_array_add(jobs, job);
    }
    wire_add_obj(params, "status", status);
    wire_add_obj(params, "jobs", jobs);
    return params;
}

static char *draw(struct json_object *params, size_t columns, size_t lines, bool unicode)
{
    struct watch_view view = {.columns = columns, .lines = lines, .unicode = unicode};
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    watch_take(&view, params, 1000);
    watch_draw(&view, params, "", "", out);
    fclose(out);
    return text;
}

static void test_screen(void **state)
{
    struct json_object *params = params_with(2, 12288);
    char *text = draw(params, 80, 24, false);

    (void)state;
    assert_string_equal(
        text, "scrubd 0.1.0 on Xen 4.17.5 is ready; 2 being destroyed, 14 done\n"
              "\n"
              "DOMAIN                               DONE STATE       LEFT      RATE   TIME LEFT\n"
              "web-3 (7)         ####--------------  25% freeing    3.00G   1.60G/s       1.3 s\n"
              "a?[2Jvery-l.. (8) #########---------  50% waiting    2.00G   1.60G/s           -\n"
              "\n"
              "TO BE SCRUBBED                                        LEFT      RATE     CEILING\n"
              "node 0                             +                 48.0M         -        none\n"
              "node 1                             .                    4K         -      200M/s\n"
              "scrubbing on CPUs 0-3,6\n"
              "\n"
              "Ctrl-C ends");
    free(text);
    json_object_put(params);
}

static void test_screen_when_degraded(void **state)
{
    struct json_object *params = params_with(0, -1);
    char *text = draw(params, 80, 24, false);

    (void)state;
    assert_string_equal(text, "scrubd 0.1.0 on Xen 4.17.5 is degraded; 0 being destroyed, 14 done\n"
                              "unpatched hypervisor\n"
                              "\n"
                              "No domain is being destroyed.\n"
                              "\n"
                              "\n"
                              "Ctrl-C ends");
    free(text);
    json_object_put(params);
}

/* Whatever the size: no line too long, not one too many. */
static void test_any_size(void **state)
{
    (void)state;
    for (int n_jobs = 0; n_jobs < 30; n_jobs += 7) {
        struct json_object *params = params_with(n_jobs, 123456);

        for (size_t columns = 1; columns < 200; columns += 13) {
            for (size_t lines = 1; lines < 40; lines += 3) {
                char *text = draw(params, columns, lines, columns % 2), *rest = text, *line;
                size_t n = 0;

                while ((line = strsep(&rest, "\n")) != NULL) {
                    assert_true(output_width(line) <= columns);
                    n++;
                }
                assert_true(n <= lines);
                free(text);
            }
        }
        json_object_put(params);
    }
}

static void test_more_jobs_than_lines(void **state)
{
    struct json_object *params = params_with(30, 123456);
    char *text = draw(params, 80, 20, false);

    (void)state;
    assert_non_null(strstr(text, "... and 21 more\n"));
    assert_non_null(strstr(text, "TO BE SCRUBBED"));
    free(text);
    json_object_put(params);
}

static void test_lines(void **state)
{
    struct json_object *params = params_with(3, 12288);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    watch_print(NULL, params, "12:00:01", out);
    fclose(out);
    assert_string_equal(text, "12:00:01 48.0M to be scrubbed\n"
                              "12:00:01 web-3 (7): freeing, 3.00G left, 1.60G/s, 1.3 s to go\n"
                              "12:00:01 a?[2Jvery-long.. (8): waiting, 2.00G left, 1.60G/s\n"
                              "12:00:01 domain 9: waiting, 1.00G left, 1.60G/s\n");
    free(text);
    json_object_put(params);
}

static void test_lines_of_jobs_that_end(void **state)
{
    struct json_object *before = params_with(3, 12288), *params = params_with(1, 0);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    watch_print(before, params, "12:00:02", out);
    fclose(out);
    assert_string_equal(text, "12:00:02 a?[2Jvery-long.. (8): destroyed\n"
                              "12:00:02 domain 9: destroyed\n"
                              "12:00:02 0K to be scrubbed\n"
                              "12:00:02 web-3 (7): freeing, 3.00G left, 1.60G/s, 1.3 s to go\n");
    free(text);
    json_object_put(before);
    json_object_put(params);
}

/* Dead, and being scrubbed: destroyed is said once, and it is no longer counted. */
static void test_scrubbing(void **state)
{
    struct json_object *before = params_with(1, 12288), *params = params_with(1, 12288),
                       *job = json_object_array_get_idx(wire_get_obj(params, "jobs"), 0);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    wire_add_str(job, "state", "scrubbing");
    wire_add_int(job, "pages_left", 0);
    watch_print(before, params, "12:00:02", out);
    watch_print(params, params, "12:00:03", out);
    watch_print(params, before, "12:00:04", out); /* another one of that name, say */
    fclose(out);
    assert_non_null(strstr(text, "12:00:02 web-3 (7): destroyed\n"));
    assert_non_null(strstr(text, "12:00:02 web-3 (7): scrubbing, 0K left"));
    assert_null(strstr(text, "12:00:03 web-3 (7): destroyed"));
    free(text);
    text = draw(params, 80, 24, false);
    assert_non_null(strstr(text, "is ready; 0 being destroyed"));
    assert_non_null(strstr(text, "100% scrubbing     0K"));
    free(text);
    json_object_put(before);
    json_object_put(params);
}

/* A column a second, the highest of each, and no more of them than there is room for; the rate is
 * what was scrubbed between two looks. */
static void test_sparkline(void **state)
{
    struct watch_view view = {.columns = 80, .lines = 24, .unicode = true};
    struct json_object *params = NULL;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    for (int i = 0; i < 5; i++) {
        json_object_put(params);
        params = params_with(0, i == 1 ? 65536 : 32768 - 8192 * i); /* 256 MiB for a moment */
        watch_take(&view, params, 1000 + i * 500);
    }
    assert_int_equal(view.nodes[0].n_past, 3);
    assert_int_equal(view.nodes[0].past[0], 65536);
    assert_int_equal(view.nodes[0].past[1], 16384);
    assert_int_equal(view.nodes[0].scrub_kib_s, 8192 * 4 * 2);
    watch_draw(&view, params, "", "", out);
    fclose(out);
    assert_non_null(strstr(text, "node 0                           █▂ "));
    assert_non_null(strstr(text, "node 1                           ▁▁▁"));
    free(text);
    for (int i = 0; i < 500; i++)
        watch_take(&view, params, 10000 + i * 1000);
    assert_int_equal(view.nodes[0].n_past, WATCH_PAST);
    assert_int_equal(view.nodes[0].scrub_kib_s, 0);
    json_object_put(params);
}

/* Colour stays out of the counting of columns, and ends where it began. */
static void test_colour(void **state)
{
    struct watch_view view = {.columns = 40, .lines = 14, .colour = true};
    struct json_object *params = params_with(3, -1);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    watch_draw(&view, params, "<", ">", out);
    fclose(out);
    assert_non_null(strstr(text, "<\033[31mscrubd 0.1.0 on Xen 4.17.5 is degraded..\033[0m>\n"));
    assert_non_null(strstr(text, "<\033[33ma?[2Jvery-l.. (8) #"));
    free(text);
    json_object_put(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_duration),
        cmocka_unit_test(test_amounts),
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_bar),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_wide_table),
        cmocka_unit_test(test_wrapped),
        cmocka_unit_test(test_screen),
        cmocka_unit_test(test_screen_when_degraded),
        cmocka_unit_test(test_any_size),
        cmocka_unit_test(test_more_jobs_than_lines),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_of_jobs_that_end),
        cmocka_unit_test(test_scrubbing),
        cmocka_unit_test(test_sparkline),
        cmocka_unit_test(test_colour),
    };

    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
