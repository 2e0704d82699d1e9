/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "metrics-http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "log.h"
#include "metrics.h"
#include "reload.h"

#define CLIENTS_MAX 8
#define HEADERS_MAX 8192
#define CLIENT_S 10
#define RETRY_S 10
#define FRESH_US 200000 /* who asks more often gets the same again */

struct client {
    TAILQ_ENTRY(client) link;
    struct metrics_http *m;
    struct bufferevent *bev;
    struct event *ev_end;
    bool answered; /* to be closed once the answer has been read */
};

struct metrics_http {
    struct event_base *base;
    const struct reload *reload;
    struct evconnlistener *listener; /* NULL: not listening */
    struct event *ev_retry;
    TAILQ_HEAD(client_list, client) clients;
    unsigned int n_clients;
    double start_s;
    char *text; /* as last told */
    size_t len;
    uint64_t text_us;
};

static double to_s(const struct timeval *tv)
{
    return (double)tv->tv_sec + (double)tv->tv_usec / 1e6;
}

static uint64_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (f && fscanf(f, "%*u %lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Renew the text if it is old. -ENOMEM without one. */
static int refresh(struct metrics_http *m)
{
    uint64_t now_us = engine_now_us();
    struct status status;
    struct metrics metrics = {.status = &status};
    struct rusage use;
    char *text;

    if (m->text && now_us - m->text_us < FRESH_US)
        return 0;
    engine_metrics(m->reload->engine, &status, &metrics);
    metrics.reload_failed = m->reload->failed;
    metrics.start_s = m->start_s;
    getrusage(RUSAGE_SELF, &use);
    metrics.cpu_s = to_s(&use.ru_utime) + to_s(&use.ru_stime);
    metrics.resident_bytes = resident_bytes();
    text = metrics_text(&metrics, &m->len);
    free(m->text);
    m->text = text;
    m->text_us = now_us;
    return text ? 0 : -ENOMEM;
}

static void close_client(struct client *c)
{
    struct metrics_http *m = c->m;

    TAILQ_REMOVE(&m->clients, c, link);
    m->n_clients--;
    event_free(c->ev_end);
    bufferevent_free(c->bev);
    free(c);
    if (m->listener)
        evconnlistener_enable(m->listener);
}

/* Answer, and close the connection when that has been read. extra: more header lines. */
static void answer(struct client *c, const char *status, const char *extra, const char *text,
                   size_t len)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);

    bufferevent_disable(c->bev, EV_READ);
    c->answered = true;
    evbuffer_add_printf(out, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n",
                        status, len, extra);
    evbuffer_add(out, text, len);
}

static void refuse(struct client *c, const char *status, const char *extra)
{
    answer(c, status, extra, "", 0);
}

/* line: METHOD TARGET VERSION, which is taken apart. */
static void serve(struct client *c, char *line)
{
    char *method = strsep(&line, " "), *target = strsep(&line, " ");

    if (!target || !line || strncmp(line, "HTTP/1.", 7)) {
        refuse(c, "400 Bad Request", "");
        return;
    }
    target[strcspn(target, "?")] = '\0';
    if (strcmp(target, "/metrics"))
        refuse(c, "404 Not Found", "");
    else if (strcmp(method, "GET"))
        refuse(c, "405 Method Not Allowed", "Allow: GET\r\n");
    else if (refresh(c->m) < 0)
        refuse(c, "503 Service Unavailable", "");
    else
        answer(c, "200 OK", "Content-Type: " METRICS_TYPE "\r\n", c->m->text, c->m->len);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct evbuffer *in = bufferevent_get_input(bev);
    struct client *c = arg;
    char *line;

    if (c->answered)
        return;
    if (evbuffer_search(in, "\r\n\r\n", 4, NULL).pos < 0) {
        if (evbuffer_get_length(in) >= HEADERS_MAX)
            refuse(c, "431 Request Header Fields Too Large", "");
        return;
    }
    line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF_STRICT);
    if (!line) {
        close_client(c);
        return;
    }
    serve(c, line);
    free(line);
}

/* The output is down to nothing. */
static void on_write(struct bufferevent *bev, void *arg)
{
    struct client *c = arg;

    if (c->answered)
        close_client(c);
}

static void on_end(struct bufferevent *bev, short what, void *arg)
{
    struct client *c = arg;

    /* Who has sent all that he has to say may still want to read. */
    if ((what & BEV_EVENT_ERROR) || !c->answered)
        close_client(c);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
    close_client(arg);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int len,
                      void *arg)
{
    struct metrics_http *m = arg;
    struct client *c = calloc(1, sizeof(*c));
    struct timeval tv = {CLIENT_S, 0};

    if (c) {
        c->m = m;
        c->bev = bufferevent_socket_new(m->base, fd, BEV_OPT_CLOSE_ON_FREE);
        c->ev_end = evtimer_new(m->base, on_late, c);
    }
    if (!c || !c->bev || !c->ev_end) {
        if (c && c->ev_end)
            event_free(c->ev_end);
        if (c && c->bev)
            bufferevent_free(c->bev);
        else
            close(fd);
        free(c);
        return;
    }
    TAILQ_INSERT_TAIL(&m->clients, c, link);
    bufferevent_setcb(c->bev, on_read, on_write, on_end, c);
    bufferevent_setwatermark(c->bev, EV_READ, 0, HEADERS_MAX);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    evtimer_add(c->ev_end, &tv);
    if (++m->n_clients >= CLIENTS_MAX)
        evconnlistener_disable(l);
}

static void retry_later(struct metrics_http *m)
{
    struct timeval tv = {RETRY_S, 0};

    evtimer_add(m->ev_retry, &tv);
}

/* Out of file descriptors: trying again at once would spin. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    struct metrics_http *m = arg;

    log_error("metrics: cannot accept connections: %s", strerror(EVUTIL_SOCKET_ERROR()));
    evconnlistener_disable(l);
    retry_later(m);
}

/* A socket that listens on the address of the configuration, or -errno. */
static int open_socket(const struct config *conf)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(conf->metrics_port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(conf->metrics_port)};
    bool is_v6 = strchr(conf->metrics_address, ':');
    const struct sockaddr *sa = is_v6 ? (const void *)&v6 : (const void *)&v4;
    int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, r;

    if (fd < 0)
        return -errno;
    inet_pton(AF_INET, conf->metrics_address, &v4.sin_addr);
    inet_pton(AF_INET6, conf->metrics_address, &v6.sin6_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (is_v6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, sa, is_v6 ? sizeof(v6) : sizeof(v4)) < 0 || listen(fd, CLIENTS_MAX) < 0) {
        r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

static int start_listening(struct metrics_http *m)
{
    int fd = open_socket(m->reload->conf);

    if (fd < 0)
        return fd;
    m->listener = evconnlistener_new(m->base, on_accept, m,
                                     LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
    if (!m->listener) {
        close(fd);
        return -ENOMEM;
    }
    evconnlistener_set_error_cb(m->listener, on_accept_error);
    if (m->n_clients >= CLIENTS_MAX)
        evconnlistener_disable(m->listener);
    return 0;
}

static void stop_listening(struct metrics_http *m)
{
    if (m->listener)
        evconnlistener_free(m->listener);
    m->listener = NULL;
    evtimer_del(m->ev_retry);
}

void metrics_http_listen(struct metrics_http *m)
{
    const struct config *conf = m->reload->conf;
    int r;

    stop_listening(m);
    if (!conf->metrics_port)
        return;
    r = start_listening(m);
    if (r == 0) {
        log_info("metrics: listening on %s port %u", conf->metrics_address, conf->metrics_port);
        return;
    }
    log_error("metrics: cannot listen on %s port %u: %s: trying again every %d s",
              conf->metrics_address, conf->metrics_port, strerror(-r), RETRY_S);
    retry_later(m);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct metrics_http *m = arg;

    if (m->listener)
        evconnlistener_enable(m->listener);
    else
        metrics_http_listen(m);
}

int metrics_http_new(struct event_base *base, const struct reload *reload,
                     struct metrics_http **ret, struct err *err)
{
    struct metrics_http *m = calloc(1, sizeof(*m));
    struct timeval now;

    if (!m)
        return err_set(err, ENOMEM, "out of memory");
    m->base = base;
    m->reload = reload;
    TAILQ_INIT(&m->clients);
    gettimeofday(&now, NULL);
    m->start_s = to_s(&now);
    m->ev_retry = evtimer_new(base, on_retry, m);
    if (!m->ev_retry) {
        free(m);
        return err_set(err, ENOMEM, "out of memory");
    }
    metrics_http_listen(m);
    *ret = m;
    return 0;
}

void metrics_http_free(struct metrics_http *m)
{
    struct client *c;

    if (!m)
        return;
    stop_listening(m);
    while ((c = TAILQ_FIRST(&m->clients)))
        close_client(c);
    event_free(m->ev_retry);
    free(m->text);
    free(m);
}
