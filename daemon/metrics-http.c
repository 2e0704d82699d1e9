/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "metrics-http.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#define LOOK_US 100000
#define RETRY_S 10
#define FRESH_US 200000 /* who asks more often gets the same again */

/*
 * evhttp knows no limit of connections, nor of their time but between two bytes. A reference to the
 * bufferevent of each tells when evhttp has let go of it, which is when it has no callbacks any
 * more: then the place is free.
 */
struct client {
    struct bufferevent *bev; /* NULL: a free place */
    uint64_t since_us;
};

struct metrics_http {
    struct event_base *base;
    const struct reload *reload;
    struct evhttp *http;
    struct evhttp_bound_socket *socket; /* NULL: not listening */
    struct event *ev_retry, *ev_look;
    struct client clients[CLIENTS_MAX];
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

static void on_metrics(struct evhttp_request *req, void *arg)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
    struct metrics_http *m = arg;
    struct evbuffer *body;

    evhttp_add_header(headers, "Connection", "close");
    if (evhttp_request_get_command(req) != EVHTTP_REQ_GET) {
        evhttp_add_header(headers, "Allow", "GET");
        evhttp_send_reply(req, HTTP_BADMETHOD, NULL, NULL);
        return;
    }
    body = refresh(m) == 0 ? evbuffer_new() : NULL;
    if (!body) {
        evhttp_send_reply(req, HTTP_SERVUNAVAIL, NULL, NULL);
        return;
    }
    evbuffer_add(body, m->text, m->len);
    evhttp_add_header(headers, "Content-Type", METRICS_TYPE);
    evhttp_send_reply(req, HTTP_OK, NULL, body);
    evbuffer_free(body);
}

static bool is_over(const struct client *c)
{
    bufferevent_data_cb read, write;
    bufferevent_event_cb event;
    void *arg;

    bufferevent_getcb(c->bev, &read, &write, &event, &arg);
    return !read && !write && !event;
}

static void let_go(struct client *c)
{
    bufferevent_decref(c->bev); /* closes it */
    c->bev = NULL;
}

static void accept_more(struct metrics_http *m, bool yes)
{
    struct evconnlistener *l = m->socket ? evhttp_bound_socket_get_listener(m->socket) : NULL;

    if (l && yes)
        evconnlistener_enable(l);
    else if (l)
        evconnlistener_disable(l);
}

static struct client *free_place(struct metrics_http *m)
{
    for (struct client *c = m->clients; c < m->clients + CLIENTS_MAX; c++) {
        if (!c->bev)
            return c;
    }
    return NULL;
}

static void look_again(struct metrics_http *m)
{
    struct timeval tv = {0, LOOK_US};

    evtimer_add(m->ev_look, &tv);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    uint64_t now_us = engine_now_us();
    struct metrics_http *m = arg;
    bool some = false;

    for (struct client *c = m->clients; c < m->clients + CLIENTS_MAX; c++) {
        if (c->bev && is_over(c))
            let_go(c);
        else if (c->bev && now_us - c->since_us > CLIENT_S * 1000000ull)
            shutdown(bufferevent_getfd(c->bev), SHUT_RDWR); /* evhttp sees to the rest */
        some |= c->bev != NULL;
    }
    if (some)
        look_again(m);
    if (!evtimer_pending(m->ev_retry, NULL))
        accept_more(m, free_place(m));
}

/* For a connection that has just been accepted: there is a place, or nobody would listen. */
static struct bufferevent *on_client(struct event_base *base, void *arg)
{
    struct metrics_http *m = arg;
    struct client *c = free_place(m);
    struct bufferevent *bev = c ? bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE) : NULL;

    if (!bev)
        return NULL;
    /* One byte more than evhttp takes, or it would wait for the rest of what is too long. */
    bufferevent_setwatermark(bev, EV_READ, 0, HEADERS_MAX + 1);
    bufferevent_incref(bev);
    *c = (struct client){bev, engine_now_us()};
    if (!evtimer_pending(m->ev_look, NULL))
        look_again(m);
    accept_more(m, free_place(m));
    return bev;
}

static void retry_later(struct metrics_http *m)
{
    struct timeval tv = {RETRY_S, 0};

    evtimer_add(m->ev_retry, &tv);
}

static struct metrics_http *only; /* evhttp keeps a listener's argument to itself */

/* Out of file descriptors: trying again at once would spin. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    struct metrics_http *m = only;

    log_error("metrics: cannot accept connections: %s", strerror(EVUTIL_SOCKET_ERROR()));
    evconnlistener_disable(l);
    retry_later(m);
}

static int start_listening(struct metrics_http *m)
{
    const struct config *conf = m->reload->conf;

    errno = 0;
    m->socket = evhttp_bind_socket_with_handle(m->http, conf->metrics_address, conf->metrics_port);
    if (!m->socket)
        return errno ? -errno : -ENOMEM;
    evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(m->socket), on_accept_error);
    accept_more(m, free_place(m));
    return 0;
}

static void stop_listening(struct metrics_http *m)
{
    if (m->socket)
        evhttp_del_accept_socket(m->http, m->socket);
    m->socket = NULL;
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

    if (m->socket)
        accept_more(m, free_place(m));
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
    gettimeofday(&now, NULL);
    m->start_s = to_s(&now);
    m->http = evhttp_new(base);
    m->ev_retry = evtimer_new(base, on_retry, m);
    m->ev_look = evtimer_new(base, on_look, m);
    if (!m->http || !m->ev_retry || !m->ev_look) {
        metrics_http_free(m);
        return err_set(err, ENOMEM, "out of memory");
    }
    evhttp_set_max_headers_size(m->http, HEADERS_MAX);
    evhttp_set_max_body_size(m->http, 0);
    evhttp_set_allowed_methods(m->http, UINT16_MAX); /* the others get an answer too */
    evhttp_set_bevcb(m->http, on_client, m);
    evhttp_set_cb(m->http, "/metrics", on_metrics, m);
    only = m;
    metrics_http_listen(m);
    *ret = m;
    return 0;
}

void metrics_http_free(struct metrics_http *m)
{
    if (!m)
        return;
    if (m->ev_retry)
        event_free(m->ev_retry);
    if (m->ev_look)
        event_free(m->ev_look);
    if (m->http)
        evhttp_free(m->http);
    for (struct client *c = m->clients; c < m->clients + CLIENTS_MAX; c++) {
        if (c->bev)
            let_go(c);
    }
    free(m->text);
    free(m);
}
