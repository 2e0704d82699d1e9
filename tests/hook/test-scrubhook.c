/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The hook's core against a scripted scrubd in this process: every way in which scrubd can answer,
 * fail to answer or go away ends in a dead domain, in time, and the real function is called exactly
 * when it has to be.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "scrubhook.h"

#define HELLO "{\"parameters\":{\"event\":\"hello\",\"job\":{\"domid\":7}},\"continues\":true}"
#define BEAT "{\"parameters\":{\"event\":\"heartbeat\",\"job\":{\"domid\":7}},\"continues\":true}"
#define DEAD "{\"parameters\":{\"event\":\"dead\",\"job\":{\"domid\":7,\"state\":\"dead\"}}}"
#define WAIT_200 "{\"parameters\":{\"event\":\"hello\",\"wait_ms\":200},\"continues\":true}"
#define GO "{\"parameters\":{\"event\":\"go\"}}"

/* What the server does after it has read the request, in order. */
struct action {
    enum {
        END,
        SEND,
        SEND_BYTES_ONE_BY_ONE,
        PAUSE_MS,
        WAIT_HANGUP,
        SEND_HUGE,
        ABORT
    } what;
    const char *text; /* sent with its NUL; without it where no_nul */
    int ms;
    bool no_nul;
};

struct server {
    char dir[64];
    char path[96];
    int listen_fd;
    pthread_t thread;
    bool running;
    const struct action *script;
    const struct action *then; /* for the next client; NULL: nobody listens any more */
    bool unread;               /* hang up without reading the request */
    char request[256];         /* what the client sent */
    bool hangup_in_real; /* WAIT_HANGUP ended while the real function was running, or before */
};

static struct server *current;

static int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

/* Set while the fake real function is inside; the server looks at it when the client hangs up. */
static volatile int real_inside;

static void play(struct server *s, int fd)
{
    for (const struct action *a = s->script; a->what != END; a++) {
        size_t len = a->text != NULL ? strlen(a->text) + !a->no_nul : 0;
        char c;

        switch (a->what) {
        case SEND:
            send_all(fd, a->text, len);
            break;
        case SEND_BYTES_ONE_BY_ONE:
            for (size_t i = 0; i < len; i++) {
                send_all(fd, a->text + i, 1);
                usleep(200);
            }
            break;
        case SEND_HUGE:
            for (int i = 0; i < 1024 * 1024 / 64; i++)
                send_all(fd, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                         64);
            break;
        case PAUSE_MS:
            usleep((useconds_t)a->ms * 1000);
            break;
        case WAIT_HANGUP:
            while (recv(fd, &c, 1, 0) > 0 || errno == EINTR)
                ;
            s->hangup_in_real = real_inside;
            break;
        default:
            break;
        }
    }
}

static void serve_one(struct server *s, int fd)
{
    size_t fill = 0;

    memset(s->request, 0, sizeof(s->request));
    while (!s->unread && fill < sizeof(s->request) && memchr(s->request, 0, fill) == NULL) {
        ssize_t n = recv(fd, s->request + fill, sizeof(s->request) - fill, 0);

        if (n <= 0)
            break;
        fill += (size_t)n;
    }
    play(s, fd);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (s->script != NULL) {
        int fd = accept(s->listen_fd, NULL, NULL);

        if (fd < 0)
            break;
        serve_one(s, fd);
        s->script = s->then;
        s->then = NULL;
        if (s->script == NULL)
            shutdown(s->listen_fd, SHUT_RDWR);
        close(fd);
    }
    return NULL;
}

static void server_listen(struct server *s, int backlog)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    strcpy(addr.sun_path, s->path);
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->listen_fd >= 0);
    assert_int_equal(bind(s->listen_fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(s->listen_fd, backlog), 0);
}

static void server_start(struct server *s, const struct action *script)
{
    s->script = script;
    server_listen(s, 8);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
    s->running = true;
}

static void server_join(struct server *s)
{
    if (!s->running)
        return;
    /* A server that nobody connected to must not keep us. */
    shutdown(s->listen_fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    s->running = false;
}

static int setup(void **state)
{
    struct server *s = calloc(1, sizeof(*s));

    s->listen_fd = -1;
    strcpy(s->dir, "/tmp/scrubhook-XXXXXX");
    if (mkdtemp(s->dir) == NULL)
        return -1;
    snprintf(s->path, sizeof(s->path), "%s/sock", s->dir);
    *state = s;
    current = s;
    return 0;
}

static int teardown(void **state)
{
    struct server *s = *state;

    server_join(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    unlink(s->path);
    rmdir(s->dir);
    free(s);
    return 0;
}

static int real_calls;
static int real_result;
static uint32_t real_domid;

static int fake_real(struct xc_interface_core *xch, uint32_t domid)
{
    assert_ptr_equal(xch, (struct xc_interface_core *)0x1234);
    real_inside = 1;
    real_calls++;
    real_domid = domid;
    /* Time for the server to see a hang-up that comes too early. */
    usleep(20000);
    real_inside = 0;
    errno = real_result < 0 ? ESRCH : 0;
    return real_result;
}

struct seen {
    enum scrubhook_verdict verdict;
    int verdicts;
    int64_t verdict_ms; /* when it came */
    int replies;
    int low_fds; /* of the standard streams, how many are the hook's socket during a reply */
};

/* Whether it is the hook's end of the connection; the other end is in this process too. */
static bool is_to_server(int fd)
{
    struct sockaddr_un addr = {0};
    socklen_t len = sizeof(addr) - 1;

    return getpeername(fd, (struct sockaddr *)&addr, &len) == 0 &&
           strcmp(addr.sun_path, current->path) == 0;
}

static void on_reply(void *ctx, const char *json, size_t len)
{
    struct seen *seen = ctx;

    assert_int_equal(strlen(json), len);
    seen->replies++;
    seen->low_fds = 0;
    for (int fd = 0; fd < 3; fd++)
        seen->low_fds += is_to_server(fd);
}

static void on_verdict(void *ctx, enum scrubhook_verdict verdict, const char *text)
{
    struct seen *seen = ctx;

    assert_non_null(text);
    seen->verdict = verdict;
    seen->verdicts++;
    seen->verdict_ms = now_ms();
}

/*
 * How long the hook waits. Short where a test is about waiting, long elsewhere, so that a machine
 * that is busy with something else does not turn an answer into a silence.
 */
enum patience {
    LONG,
    MEDIUM,
    SHORT
};

static const struct {
    int connect_ms, hello_ms, silence_ms;
} patiences[] = {
    [LONG] = {5000, 5000, 5000},
    [MEDIUM] = {5000, 1000, 1000},
    [SHORT] = {150, 150, 250},
};

static struct scrubhook_opts options(struct server *s, enum patience patience, struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    return (struct scrubhook_opts){
        .socket_path = s->path,
        .connect_ms = patiences[patience].connect_ms,
        .hello_ms = patiences[patience].hello_ms,
        .silence_ms = patiences[patience].silence_ms,
        .on_reply = on_reply,
        .on_verdict = on_verdict,
        .ctx = seen,
    };
}

static int destroy(struct server *s, uint32_t domid, enum patience patience, struct seen *seen)
{
    struct scrubhook_opts opts = options(s, patience, seen);

    real_calls = 0;
    return scrubhook_destroy(domid, &opts, fake_real, (struct xc_interface_core *)0x1234);
}

/* What a busy machine may add. */
#define BUSY_MS 2000

struct scripted_case {
    const char *name;
    enum scrubhook_verdict verdict;
    int replies;
    struct action script[8];
    enum patience patience;
    int min_ms; /* until the verdict, which has to come within BUSY_MS more; 0 = not looked at */
    struct action then[4]; /* if asked again */
};

/* clang-format off */
static const struct scripted_case cases[] = {
    {"hello, heartbeat, dead", SCRUBHOOK_DEAD, 3, {{SEND, HELLO}, {SEND, BEAT}, {SEND, DEAD}}},
    {"dead at once", SCRUBHOOK_DEAD, 1, {{SEND, DEAD}}},
    {"dead after a silence shorter than the limit", SCRUBHOOK_DEAD, 2,
        {{SEND, HELLO}, {PAUSE_MS, .ms = 400}, {SEND, DEAD}}, MEDIUM, 400},
    {"each heartbeat starts the silence anew", SCRUBHOOK_DEAD, 4,
        {{SEND, HELLO}, {PAUSE_MS, .ms = 400}, {SEND, BEAT}, {PAUSE_MS, .ms = 400}, {SEND, BEAT},
         {PAUSE_MS, .ms = 400}, {SEND, DEAD}}, MEDIUM, 1200},
    {"byte by byte", SCRUBHOOK_DEAD, 3,
        {{SEND_BYTES_ONE_BY_ONE, HELLO}, {SEND_BYTES_ONE_BY_ONE, BEAT}, {SEND_BYTES_ONE_BY_ONE, DEAD}}},
    {"white space, keys in another order", SCRUBHOOK_DEAD, 2,
        {{SEND, "{ \"continues\" : true ,\n \"parameters\" : { \"job\" : null , \"event\" : \"hello\" } }\n"},
         {SEND, "{ \"parameters\" : { \"job\" : [ ] , \"event\" : \"dead\" } }"}}},
    {"an event of a later version", SCRUBHOOK_DEAD, 2,
        {{SEND, "{\"parameters\":{\"event\":\"paused\"},\"continues\":true}"}, {SEND, DEAD}}},
    {"a name that looks like the end", SCRUBHOOK_DECLINED, 2,
        {{SEND, "{\"parameters\":{\"event\":\"hello\",\"job\":{\"event\":\"dead\",\"name\":\"\\\"event\\\":\\\"dead\\\"\"}},"
                "\"continues\":true}"},
         {SEND, "{\"parameters\":{\"event\":\"decline\"}}"}}},
    {"decline", SCRUBHOOK_DECLINED, 1, {{SEND, "{\"parameters\":{\"event\":\"decline\",\"reason\":\"small\"}}"}}},
    {"error", SCRUBHOOK_REFUSED, 1,
        {{SEND, "{\"error\":\"org.scrubd.NoSuchDomain\",\"parameters\":{\"domid\":7}}"}}},
    {"error after hello", SCRUBHOOK_REFUSED, 2,
        {{SEND, HELLO}, {SEND, "{\"error\":\"org.scrubd.Refused\",\"parameters\":{\"event\":\"dead\"}}"}}},
    {"hang-up before any reply", SCRUBHOOK_CLOSED, 0, {{END}}},
    {"hang-up after hello", SCRUBHOOK_CLOSED, 1, {{SEND, HELLO}}},
    {"hang-up inside a reply", SCRUBHOOK_CLOSED, 1, {{SEND, HELLO}, {SEND, DEAD, .no_nul = true}}},
    {"hang-up, and another scrubd ends it", SCRUBHOOK_DEAD, 3, {{SEND, HELLO}},
        .then = {{SEND, HELLO}, {SEND, DEAD}}},
    {"another scrubd that takes its time", SCRUBHOOK_DEAD, 2, {{SEND, HELLO}}, SHORT, 200,
        .then = {{PAUSE_MS, .ms = 200}, {SEND, DEAD}}},
    {"another scrubd that is silent", SCRUBHOOK_SILENT, 1, {{SEND, HELLO}}, SHORT, 250,
        .then = {{WAIT_HANGUP}}},
    {"another scrubd that knows no such domain", SCRUBHOOK_REFUSED, 2, {{SEND, HELLO}},
        .then = {{SEND, "{\"error\":\"org.scrubd.NoSuchDomain\",\"parameters\":{\"domid\":7}}"}}},
    {"another scrubd that hangs up too", SCRUBHOOK_CLOSED, 2, {{SEND, HELLO}}, .then = {{SEND, HELLO}}},
    {"a last reply without the end", SCRUBHOOK_GARBAGE, 1,
        {{SEND, "{\"parameters\":{\"event\":\"heartbeat\"}}"}, {WAIT_HANGUP}}},
    {"no hello", SCRUBHOOK_SILENT, 0, {{WAIT_HANGUP}}, SHORT, 150},
    {"half a hello", SCRUBHOOK_SILENT, 0, {{SEND, HELLO, .no_nul = true}, {WAIT_HANGUP}}, SHORT, 150},
    {"silence after hello", SCRUBHOOK_SILENT, 1, {{SEND, HELLO}, {WAIT_HANGUP}}, SHORT, 250},
    {"garbage", SCRUBHOOK_GARBAGE, 0, {{SEND, "hello, who is there?"}, {WAIT_HANGUP}}},
    {"an empty reply", SCRUBHOOK_GARBAGE, 0, {{SEND, ""}, {WAIT_HANGUP}}},
    {"JSON that is no reply", SCRUBHOOK_GARBAGE, 1, {{SEND, "{}"}, {WAIT_HANGUP}}},
    {"an array", SCRUBHOOK_GARBAGE, 0, {{SEND, "[{\"parameters\":{\"event\":\"dead\"}}]"}, {WAIT_HANGUP}}},
    {"an event outside the parameters", SCRUBHOOK_GARBAGE, 1, {{SEND, "{\"event\":\"dead\"}"}, {WAIT_HANGUP}}},
    {"cut-off JSON", SCRUBHOOK_GARBAGE, 0, {{SEND, "{\"parameters\":{\"event\":\"dead\"}"}, {WAIT_HANGUP}}},
    {"something after the end of the JSON", SCRUBHOOK_GARBAGE, 0,
        {{SEND, DEAD "{}"}, {WAIT_HANGUP}}},
    {"too deep", SCRUBHOOK_GARBAGE, 0,
        {{SEND, "{\"parameters\":{\"job\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]],\"event\":\"dead\"}}"}, {WAIT_HANGUP}}},
    {"a huge reply", SCRUBHOOK_GARBAGE, 0, {{SEND_HUGE}, {WAIT_HANGUP}}},
};

/* Before a domain is created. */
static const struct scripted_case awaits[] = {
    {"hello, heartbeat, go", SCRUBHOOK_GO, 3, {{SEND, HELLO}, {SEND, BEAT}, {SEND, GO}}},
    {"go at once", SCRUBHOOK_GO, 1, {{SEND, GO}}},
    {"go within the time that scrubd said", SCRUBHOOK_GO, 3,
        {{SEND, WAIT_200}, {PAUSE_MS, .ms = 150}, {SEND, BEAT}, {PAUSE_MS, .ms = 150}, {SEND, GO}}, MEDIUM, 300},
    {"heartbeats for longer than scrubd said", SCRUBHOOK_SILENT, 4,
        {{SEND, WAIT_200}, {PAUSE_MS, .ms = 300}, {SEND, BEAT}, {PAUSE_MS, .ms = 300}, {SEND, BEAT},
         {PAUSE_MS, .ms = 300}, {SEND, BEAT}, {WAIT_HANGUP}}, LONG, 1200},
    {"no time that scrubd could mean", SCRUBHOOK_GO, 4,
        {{SEND, "{\"parameters\":{\"event\":\"hello\",\"wait_ms\":-5},\"continues\":true}"},
         {SEND, "{\"parameters\":{\"event\":\"hello\",\"wait_ms\":99999999999999999999},\"continues\":true}"},
         {SEND, "{\"parameters\":{\"event\":\"hello\",\"wait_ms\":null},\"continues\":true}"}, {SEND, GO}}},
    {"the dead of another method", SCRUBHOOK_GARBAGE, 1, {{SEND, DEAD}, {WAIT_HANGUP}}},
    {"a scrubd that knows no such method", SCRUBHOOK_REFUSED, 1,
        {{SEND, "{\"error\":\"org.varlink.service.MethodNotFound\",\"parameters\":{\"method\":\"x\"}}"}}},
    {"decline", SCRUBHOOK_DECLINED, 1, {{SEND, "{\"parameters\":{\"event\":\"decline\"}}"}}},
    {"hang-up before any reply", SCRUBHOOK_CLOSED, 0, {{END}}},
    {"hang-up after hello", SCRUBHOOK_CLOSED, 1, {{SEND, HELLO}}},
    {"no hello", SCRUBHOOK_SILENT, 0, {{WAIT_HANGUP}}, SHORT, 150},
    {"silence after hello", SCRUBHOOK_SILENT, 1, {{SEND, HELLO}, {WAIT_HANGUP}}, SHORT, 250},
    {"garbage", SCRUBHOOK_GARBAGE, 0, {{SEND, "go"}, {WAIT_HANGUP}}},
    {"a huge reply", SCRUBHOOK_GARBAGE, 0, {{SEND_HUGE}, {WAIT_HANGUP}}},
};
/* clang-format on */

static const uint8_t handle[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 253, 254, 255};

static void check_seen(const struct scripted_case *c, const struct seen *seen, int64_t took_ms)
{
    print_message("        %-46s verdict %d, %d replies, %d ms\n", c->name, seen->verdict,
                  seen->replies, (int)took_ms);
    assert_int_equal(seen->verdict, c->verdict);
    assert_int_equal(seen->verdicts, 1);
    assert_int_equal(seen->replies, c->replies);
    assert_true(took_ms >= c->min_ms - 1);
    assert_true(took_ms <= c->min_ms + BUSY_MS);
}

static void check_case(struct server *s, const struct scripted_case *c)
{
    int64_t start_ms = now_ms();
    bool by_us = c->verdict != SCRUBHOOK_DEAD;
    struct seen seen;
    int rc;

    real_result = -1;
    rc = destroy(s, 7, c->patience, &seen);
    if (by_us)
        assert_int_equal(errno, ESRCH);
    check_seen(c, &seen, seen.verdict_ms - start_ms);
    assert_int_equal(real_calls, by_us ? 1 : 0);
    assert_int_equal(rc, by_us ? -1 : 0);
    if (by_us)
        assert_int_equal(real_domid, 7);
}

static void check_await(struct server *s, const struct scripted_case *c)
{
    int64_t start_ms = now_ms();
    struct seen seen;
    struct scrubhook_opts opts = options(s, c->patience, &seen);

    errno = E2BIG;
    scrubhook_await(handle, &opts);
    assert_int_equal(errno, E2BIG);
    check_seen(c, &seen, seen.verdict_ms - start_ms);
}

static void play_all(struct server *s, const struct scripted_case *c, size_t n, const char *request,
                     void (*check)(struct server *s, const struct scripted_case *c))
{
    for (; n-- > 0; c++) {
        s->then = c->then[0].what != END ? c->then : NULL;
        server_start(s, c->script);
        check(s, c);
        server_join(s);
        assert_string_equal(s->request, request);
        close(s->listen_fd);
        s->listen_fd = -1;
        unlink(s->path);
    }
}

static void test_scripted(void **state)
{
    play_all(*state, cases, sizeof(cases) / sizeof(cases[0]),
             "{\"method\":\"org.scrubd.Destroy\",\"parameters\":{\"domid\":7},\"more\":true}",
             check_case);
}

static void test_awaits(void **state)
{
    play_all(*state, awaits, sizeof(awaits) / sizeof(awaits[0]),
             "{\"method\":\"org.scrubd.AwaitMemory\",\"parameters\":{\"uuid\":"
             "\"00010203-0405-0607-0809-0a0b0cfdfeff\"},\"more\":true}",
             check_await);
}

static void nothing(int sig)
{
    (void)sig;
}

/* The same with a signal every millisecond, whose handler does not restart system calls. */
static void test_signals(void **state)
{
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = nothing};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every_ms, NULL);
    test_scripted(state);
    test_awaits(state);
    setitimer(ITIMER_REAL, &never, NULL);
}

static void expect_absent(struct server *s, int min_ms)
{
    int64_t start_ms = now_ms(), took_ms;
    struct seen seen;

    real_result = 0;
    assert_int_equal(destroy(s, 7, min_ms > 0 ? SHORT : LONG, &seen), 0);
    took_ms = seen.verdict_ms - start_ms;
    assert_int_equal(seen.verdict, SCRUBHOOK_ABSENT);
    assert_int_equal(real_calls, 1);
    assert_true(took_ms >= min_ms - 1 && took_ms <= min_ms + BUSY_MS);
}

static void test_no_socket(void **state)
{
    expect_absent(*state, 0);
}

static void test_refuses_connection(void **state)
{
    struct server *s = *state;

    server_listen(s, 1);
    close(s->listen_fd); /* the file stays, nobody listens */
    s->listen_fd = -1;
    expect_absent(s, 0);
}

static void test_path_too_long(void **state)
{
    struct server *s = *state;
    char path[200];
    struct scrubhook_opts opts = {.socket_path = path};

    (void)s;
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    real_calls = 0;
    real_result = 0;
    assert_int_equal(scrubhook_destroy(7, &opts, fake_real, (struct xc_interface_core *)0x1234), 0);
    assert_int_equal(real_calls, 1);
}

/* A create is not held up, and no descriptor stays, where there is no scrubd. */
static void test_awaits_nobody(void **state)
{
    struct server *s = *state;
    struct seen seen;
    struct scrubhook_opts opts = options(s, SHORT, &seen);
    int64_t start_ms = now_ms();

    scrubhook_await(handle, &opts);
    assert_int_equal(seen.verdict, SCRUBHOOK_ABSENT);
    server_listen(s, 8); /* takes nobody out of the queue */
    scrubhook_await(handle, &opts);
    assert_int_equal(seen.verdict, SCRUBHOOK_SILENT);
    assert_int_equal(seen.verdicts, 2);
    assert_true(now_ms() - start_ms <= 150 + BUSY_MS);
}

/* Listening but never accepting: the queue is full after backlog + 1, then connect() blocks. */
static void test_never_accepts(void **state)
{
    struct server *s = *state;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fds[8], n = 0;

    server_listen(s, 0);
    strcpy(addr.sun_path, s->path);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
            assert_int_equal(errno, EAGAIN);
            close(fd);
            break;
        }
        assert_true(n < 8);
        fds[n++] = fd;
    }
    expect_absent(s, 150);
    while (n > 0)
        close(fds[--n]);
}

/* Room in the queue, but nobody takes us out of it: no hello. */
static void test_connected_but_not_accepted(void **state)
{
    struct server *s = *state;
    struct seen seen;

    real_result = 0;
    server_listen(s, 8);
    assert_int_equal(destroy(s, 7, SHORT, &seen), 0);
    assert_int_equal(seen.verdict, SCRUBHOOK_SILENT);
    assert_int_equal(real_calls, 1);
}

/* scrubd hangs up without reading the request: no SIGPIPE, which would end the caller. */
static void test_unread_request(void **state)
{
    static const struct action nothing_more[] = {{END}};
    struct server *s = *state;
    struct seen seen;

    signal(SIGPIPE, SIG_DFL);
    s->unread = true;
    real_result = 0;
    server_start(s, nothing_more);
    assert_int_equal(destroy(s, 7, LONG, &seen), 0);
    assert_int_equal(seen.verdict, SCRUBHOOK_CLOSED);
    assert_int_equal(real_calls, 1);
}

/* After a decline the connection stays until the real function is done: scrubd serves the next
 * caller then. */
static void test_decline_holds_connection(void **state)
{
    static const struct action script[] = {
        {SEND, "{\"parameters\":{\"event\":\"decline\"}}"}, {WAIT_HANGUP}, {END}};
    struct server *s = *state;
    struct seen seen;

    server_start(s, script);
    real_result = 0;
    s->hangup_in_real = true;
    assert_int_equal(destroy(s, 7, LONG, &seen), 0);
    server_join(s);
    assert_int_equal(real_calls, 1);
    assert_false(s->hangup_in_real);
}

static void test_not_asked(void **state)
{
    static const uint32_t domids[] = {0, 0x7ff0, 0x7ff4, 0xffffffff};
    static const struct action script[] = {{SEND, DEAD}, {END}};
    struct server *s = *state;
    struct seen seen;

    server_start(s, script);
    for (size_t i = 0; i < sizeof(domids) / sizeof(domids[0]); i++) {
        real_result = -1;
        assert_int_equal(destroy(s, domids[i], LONG, &seen), -1);
        assert_int_equal(errno, ESRCH);
        assert_int_equal(seen.verdict, SCRUBHOOK_NOT_ASKED);
        assert_int_equal(real_calls, 1);
        assert_int_equal(real_domid, domids[i]);
    }
    server_join(s);
    assert_string_equal(s->request, "");
}

static void test_no_real_function(void **state)
{
    static const struct action dies[] = {{SEND, HELLO}, {END}};
    static const struct action works[] = {{SEND, HELLO}, {SEND, DEAD}, {END}};
    struct server *s = *state;
    struct scrubhook_opts opts = {.socket_path = s->path};

    errno = 0;
    assert_int_equal(scrubhook_destroy(7, &opts, NULL, NULL), -1);
    assert_int_equal(errno, ENOSYS);

    server_start(s, dies);
    errno = 0;
    assert_int_equal(scrubhook_destroy(7, &opts, NULL, NULL), -1);
    assert_int_equal(errno, ENOSYS);
    server_join(s);
    close(s->listen_fd);
    unlink(s->path);

    server_start(s, works);
    errno = E2BIG; /* success leaves errno alone */
    assert_int_equal(scrubhook_destroy(7, &opts, NULL, NULL), 0);
    assert_int_equal(errno, E2BIG);
}

/* A program that runs with its standard streams closed must not get the socket as its standard
 * error. */
static void test_closed_streams(void **state)
{
    static const struct action script[] = {
        {SEND, HELLO}, {PAUSE_MS, .ms = 20}, {SEND, DEAD}, {END}};
    struct server *s = *state;
    int saved[3];
    struct seen seen;
    int rc;

    server_start(s, script);
    for (int fd = 0; fd < 3; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
        close(fd);
    }
    rc = destroy(s, 7, LONG, &seen);
    for (int fd = 0; fd < 3; fd++) {
        dup2(saved[fd], fd);
        close(saved[fd]);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(seen.verdict, SCRUBHOOK_DEAD);
    assert_int_equal(seen.low_fds, 0);
}

static int count_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_no_descriptor_leaks(void **state)
{
    static const struct action script[] = {{SEND, HELLO}, {END}};
    struct server *s = *state;
    struct scrubhook_opts opts;
    struct seen seen;
    int before = count_fds();

    real_result = 0;
    assert_int_equal(destroy(s, 7, LONG, &seen), 0);
    assert_int_equal(count_fds(), before);
    server_start(s, script);
    assert_int_equal(destroy(s, 7, LONG, &seen), 0);
    server_join(s);
    close(s->listen_fd);
    unlink(s->path);
    server_start(s, script);
    opts = options(s, LONG, &seen);
    scrubhook_await(handle, &opts);
    server_join(s);
    close(s->listen_fd);
    s->listen_fd = -1;
    assert_int_equal(count_fds(), before);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_scripted),
        TEST(test_awaits),
        TEST(test_signals),
        TEST(test_no_socket),
        TEST(test_awaits_nobody),
        TEST(test_refuses_connection),
        TEST(test_path_too_long),
        TEST(test_never_accepts),
        TEST(test_connected_but_not_accepted),
        TEST(test_unread_request),
        TEST(test_decline_holds_connection),
        TEST(test_not_asked),
        TEST(test_no_real_function),
        TEST(test_closed_streams),
        TEST(test_no_descriptor_leaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
