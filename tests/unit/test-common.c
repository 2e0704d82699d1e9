/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages on the wire, sizes, errors, UUIDs, and the limit on repeated log lines. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "err.h"
#include "ident.h"
#include "log.h"
#include "sizes.h"
#include "wire.h"

/* n levels of {"a": around 1. */
static char *nested(int n, char *buf)
{
    char *p = buf;

    for (int i = 0; i < n; i++)
        p += sprintf(p, "{\"a\":");
    *p++ = '1';
    for (int i = 0; i < n; i++)
        *p++ = '}';
    *p = '\0';
    return buf;
}

static void wire_strict(void **state)
{
    static const struct {
        const char *text;
        bool good;
    } table[] = {
        {"{}", true},
        {" { } ", true},
        {"{\"method\":\"a.b\"}", true},
        {"{\"a\":[1,-2.5e3,true,false,null,\"x\"]}", true},
        {"{\"a\":\"it's / NaN // Infinity \\\" '\"}", true},
        {"{\"a\":\"\xc3\xa4\"}", true},
        {"", false},
        {" ", false},
        {"1", false},
        {"[]", false},
        {"null", false},
        {"\"x\"", false},
        {"{", false},
        {"{\"a\"", false},
        {"{\"a\":}", false},
        {"{\"a\":1", false},
        {"{\"a\":1,}", false},
        {"{\"a\":1}}", false},
        {"{\"a\":1}{}", false},
        {"{\"a\":1} x", false},
        {"{'a':1}", false},
        {"{\"a\":'1'}", false},
        {"{\"a\":NaN}", false},
        {"{\"a\":nan}", false},
        {"{\"a\":Infinity}", false},
        {"{\"a\":-Infinity}", false},
        {"{/* */\"a\":1}", false},
        {"{//\n\"a\":1}", false},
        {"{\"a\":\"\xff\"}", false},
        {"{\"a\":\"\xc3\"}", false},
        {"{\"a\":\"x", false},
        {"{\"a\":\"x\\", false},
        {"{\"a\":tru}", false},
        {"{\"a\":TRUE}", false},
        {"{a:1}", false},
        {"{\"a\":1,\"b\":{\"a\":1},\"c\":[{\"a\":\":\"}]}", true},
        {"{\"a\":1,\"a\":1}", false},
        {"{\"x\":[1,{\"a\":1,\"b\":2,\"a\":3}]}", false},
        {"garbage", false},
    };
    struct json_object *o;
    struct err err;
    char buf[256];

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        int r = wire_parse(table[i].text, strlen(table[i].text), &o, &err);

        if (r != (table[i].good ? 0 : -EBADMSG))
            fail_msg("%s: %d", table[i].text, r);
        if (r == 0)
            json_object_put(o);
        else
            assert_true(err.text[0] != '\0');
    }
    nested(WIRE_MAX_DEPTH, buf);
    assert_int_equal(wire_parse(buf, strlen(buf), &o, &err), 0);
    json_object_put(o);
    nested(WIRE_MAX_DEPTH + 1, buf);
    assert_int_equal(wire_parse(buf, strlen(buf), &o, &err), -EBADMSG);
    /* A NUL inside is no end. */
    assert_int_equal(wire_parse("{}\0{}", 5, &o, &err), -EBADMSG);
}

/* The hook looks for these very bytes. */
static void wire_bytes(void **state)
{
    struct json_object *params = wire_object(), *msg;
    const char *text;
    size_t len;

    wire_add_str(params, "event", "dead");
    wire_add_str(params, "name", "a/b");
    wire_add_str_opt(params, "reason", NULL);
    wire_add_int_opt(params, "eta_ms", -1);
    msg = wire_reply(params, true);
    text = wire_text(msg, &len);
    assert_string_equal(
        text, "{\"parameters\":{\"event\":\"dead\",\"name\":\"a/b\"},\"continues\":true}");
    assert_int_equal(len, strlen(text) + 1);
    json_object_put(msg);

    msg = wire_error("a.b.C", NULL);
    assert_string_equal(wire_text(msg, &len), "{\"error\":\"a.b.C\",\"parameters\":{}}");
    assert_string_equal(wire_error_name(msg), "a.b.C");
    assert_null(wire_method(msg));
    json_object_put(msg);

    msg = wire_call("x.Y", NULL, true);
    assert_string_equal(wire_text(msg, &len),
                        "{\"method\":\"x.Y\",\"parameters\":{},\"more\":true}");
    assert_true(wire_flag(msg, "more"));
    assert_false(wire_flag(msg, "oneway"));
    json_object_put(msg);
}

static void wire_types(void **state)
{
    static const char text[] =
        "{\"i\":7,\"s\":\"x\",\"b\":true,\"o\":{},\"a\":[],\"n\":null,\"d\":1.5}";
    struct json_object *o;

    assert_int_equal(wire_parse(text, strlen(text), &o, NULL), 0);
    assert_int_equal(wire_get_int(o, "i", -1), 7);
    assert_int_equal(wire_get_int(o, "s", -1), -1);
    assert_int_equal(wire_get_int(o, "d", -1), -1);
    assert_int_equal(wire_get_int(o, "absent", -1), -1);
    assert_string_equal(wire_get_str(o, "s", ""), "x");
    assert_null(wire_get_str(o, "i", NULL));
    assert_true(wire_get_bool(o, "b", false));
    assert_true(wire_get_bool(o, "i", true));
    assert_non_null(wire_get_obj(o, "o"));
    assert_non_null(wire_get_obj(o, "a"));
    assert_null(wire_get_obj(o, "n"));
    assert_null(wire_get_obj(o, "i"));
    json_object_put(o);
}

static void sizes(void **state)
{
    static const struct {
        const char *in;
        int64_t kib; /* -1: refused */
        const char *out;
    } table[] = {
        {"0", 0, "0K"},
        {"512K", 512, "512K"},
        {"200M", 204800, "200M"},
        {"200m", 204800, "200M"},
        {"200MiB", 204800, "200M"},
        {"200MB/s", 204800, "200M"},
        {"1.5G", 1572864, "1.50G"},
        {"12.25M", 12544, "12.2M"},
        {"3T", 3221225472, "3.00T"},
        {"1023K", 1023, "1023K"},
        {"1024K", 1024, "1.00M"},
        {"", -1, NULL},
        {"M", -1, NULL},
        {"5", -1, NULL},
        {"-5M", -1, NULL},
        {"5X", -1, NULL},
        {"5Mx", -1, NULL},
        {"5 M", -1, NULL},
        {"1e3M", -1, NULL},
        {"99999999999999999T", -1, NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        uint64_t kib = 77;
        struct err err = {0};
        char text[SIZES_TEXT];
        int r = sizes_parse_kib(table[i].in, &kib, &err);

        if ((r == 0) != (table[i].kib >= 0))
            fail_msg("\"%s\": %d %s", table[i].in, r, err.text);
        assert_int_equal(kib, table[i].kib < 0 ? 77 : table[i].kib);
        if (r == 0)
            assert_string_equal(sizes_format_kib(kib, text), table[i].out);
    }
}

static void times(void **state)
{
    static const struct {
        const char *in;
        int64_t ms; /* -1: refused */
    } table[] = {
        {"1ms", 1},
        {"90s", 90000},
        {"1.5m", 90000},
        {"2min", 120000},
        {"24h", 86400000},
        {"1h30m", 5400000},
        {"3 min 20 s", 200000},
        {"0.5 s", 500},
        {"1m0.5s", 60500},
        {"0h5m", 300000},
        {"", -1},
        {"s", -1},
        {"5", -1},
        {"1h30", -1},
        {"1h 30", -1},
        {"-5s", -1},
        {"5 ", -1},
        {"5sec", -1},
        {"5S", -1},
        {"1e3s", -1},
        {"0s", -1},
        {"0.4ms", -1},
        {"24h1ms", -1},
        {"99999999999999999h", -1},
        {"1h,30m", -1},
        {" 5s", -1},
        {"5s\n", -1},
        {"5 s x", -1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        uint64_t ms = 77;
        struct err err = {0};
        int r = sizes_parse_ms(table[i].in, &ms, &err);

        if ((r == 0) != (table[i].ms >= 0))
            fail_msg("\"%s\": %d %s", table[i].in, r, err.text);
        assert_int_equal(ms, table[i].ms < 0 ? 77 : table[i].ms);
    }
}

static void errors(void **state)
{
    struct err err = {0};
    char longer[600];

    assert_int_equal(err_set(&err, EINVAL, "bad %d", 7), -EINVAL);
    assert_int_equal(err_wrap(&err, "file %s", "x"), -EINVAL);
    assert_string_equal(err.text, "file x: bad 7");
    assert_int_equal(err_set(NULL, ENOENT, "x"), -ENOENT);
    memset(longer, 'y', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    err_set(&err, EINVAL, "%s", longer);
    assert_int_equal(err_wrap(&err, "%s", longer), -EINVAL);
    assert_true(strlen(err.text) < sizeof(err.text));
}

static void uuids(void **state)
{
    static const char good[] = "01234567-89ab-cdef-0123-456789abcdef";
    static const char *const bad[] = {
        "",
        "01234567-89ab-cdef-0123-456789abcde",
        "01234567-89ab-cdef-0123-456789abcdef0",
        "0123456789abcdef0123456789abcdef",
        "01234567x89ab-cdef-0123-456789abcdef",
        "01234567-89ab-cdef-0123-456789abcdeg",
        "0123456-789ab-cdef-0123-456789abcdef",
    };
    struct ident a = {.domid = 3}, b;
    char text[IDENT_UUID_TEXT];

    assert_true(ident_parse_uuid(good, a.uuid));
    assert_string_equal(ident_uuid_text(&a, text), good);
    b = a;
    assert_true(ident_equal(&a, &b));
    b.uuid[15]++;
    assert_false(ident_equal(&a, &b));
    b = a;
    b.domid++;
    assert_false(ident_equal(&a, &b));
    assert_true(ident_parse_uuid("01234567-89AB-CDEF-0123-456789ABCDEF", b.uuid));
    b.domid = a.domid;
    assert_true(ident_equal(&a, &b));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(ident_parse_uuid(bad[i], b.uuid));
}

/* Lines go to the journal's socket with fields if stderr is the journal, and to stderr if that does
 * not take them. */
static void log_journal(void **state)
{
    static const struct log_field fields[] = {{"SCRUBD_NAME", "x\nSCRUBD_EVENT=dead"},
                                              {"SCRUBD_PURPOSE", NULL},
                                              {"SCRUBD_STEPS", "12"},
                                              {0}};
    static const struct log_subject about = {5, "00000005-a4a5-a6a7-a8a9-aaabacadaeaf", 7, fields};
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char file[] = "/tmp/test-log.XXXXXX", got[2048], again[2048], stream[64], want[512];
    int fd = mkstemp(file), err_fd = dup(STDERR_FILENO), sock = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct stat st;
    ssize_t n;

    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s.sock", file);
    assert_int_equal(bind(sock, (struct sockaddr *)&sa, sizeof(sa)), 0);
    dup2(fd, STDERR_FILENO);
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino + 1);
    setenv("JOURNAL_STREAM", stream, 1);
    log_open(sa.sun_path);
    log_warning("to a file"); /* stderr is not what the journal gave us */
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_open(sa.sun_path);
    log_about(&about, LOG_LEVEL_NOTICE, "a\nb %d", 3);
    n = recv(sock, got, sizeof(got) - 1, MSG_DONTWAIT);
    got[n > 0 ? n : 0] = '\0';
    /* It hangs: nobody waits, and how many are lost is told. */
    for (int i = 0; i < 3000; i++)
        log_info("many");
    while (recv(sock, again, sizeof(again), MSG_DONTWAIT) > 0)
        ;
    log_info("one more");
    recv(sock, again, sizeof(again), MSG_DONTWAIT);
    n = recv(sock, again, sizeof(again) - 1, MSG_DONTWAIT);
    again[n > 0 ? n : 0] = '\0';
    close(sock);
    unlink(sa.sun_path);
    log_error("nobody listens");
    dup2(err_fd, STDERR_FILENO);

    snprintf(want, sizeof(want),
             "PRIORITY=5\nSYSLOG_IDENTIFIER=%s\nMESSAGE=a?b 3\nSCRUBD_DOMID=5\nSCRUBD_UUID=%s\n"
             "SCRUBD_JOB=7\nSCRUBD_NAME=x?SCRUBD_EVENT=dead\nSCRUBD_STEPS=12\n",
             program_invocation_short_name, about.uuid);
    assert_string_equal(got, want);
    assert_non_null(strstr(again, " lines before this were lost"));
    n = pread(fd, got, sizeof(got) - 1, 0);
    got[n > 0 ? n : 0] = '\0';
    assert_string_equal(got, "<4>to a file\n<3>nobody listens\n");
    unlink(file);
    close(fd);
    close(err_fd);
}

static void log_limits(void **state)
{
    struct log_limit l = {0};
    unsigned int missed = 9;

    assert_true(log_limit_pass(&l, 1000, 500, &missed));
    assert_int_equal(missed, 0);
    assert_false(log_limit_pass(&l, 1100, 500, &missed));
    assert_false(log_limit_pass(&l, 1499, 500, &missed));
    assert_true(log_limit_pass(&l, 1500, 500, &missed));
    assert_int_equal(missed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wire_strict), cmocka_unit_test(wire_bytes), cmocka_unit_test(wire_types),
        cmocka_unit_test(sizes),       cmocka_unit_test(times),      cmocka_unit_test(errors),
        cmocka_unit_test(uuids),       cmocka_unit_test(log_limits), cmocka_unit_test(log_journal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
