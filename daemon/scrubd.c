/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scrubd.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "log.h"
#include "metrics-http.h"
#include "reload.h"
#include "rpc.h"
#include "socket-watch.h"

#define DRAIN_MS 20000 /* less than TimeoutStopSec of the unit */

struct options {
    const char *config, *socket;
    bool check_config, reset;
};

struct scrubd {
    struct options opts;
    struct config conf;
    struct event_base *base;
    struct xen *xen;
    const struct xen_ops *ops;
    struct engine *engine;
    struct reload reload;
    struct rpc *rpc;
    struct server *server;
    struct event *ev_term, *ev_int, *ev_hup, *ev_watchdog;
    struct socket_watch *socket_watch;
    char path[108];  /* of the listening socket, "" if it has none */
    int fd;          /* the listening socket */
    bool own_socket; /* made by us, not by systemd */
    bool stopping, hurry;
};

static const char usage[] =
    "Usage: scrubd [OPTION]...\n"
    "Tear down Xen domains in bounded steps, and control how their memory is scrubbed.\n"
    "\n"
    "  -c, --config FILE  read FILE instead of " SCRUBD_CONF_FILE "\n"
    "      --check-config check the configuration file, and exit\n"
    "      --reset        have the hypervisor scrub as if there were no scrubd, and exit\n"
    "  -s, --socket PATH  serve on PATH instead of " SCRUBD_SOCKET_PATH ";\n"
    "                     not with a socket from systemd\n"
    "  -v, --verbose      log every change of state\n"
    "  -h, --help         show this help\n"
    "  -V, --version      show the version\n";

/* -1: go on, else the exit status. */
static int parse_options(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"config", required_argument, NULL, 'c'}, {"check-config", no_argument, NULL, 'k'},
        {"reset", no_argument, NULL, 'r'},        {"socket", required_argument, NULL, 's'},
        {"verbose", no_argument, NULL, 'v'},      {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0},
    };
    int c;

    o->config = SCRUBD_CONF_FILE;
    o->socket = SCRUBD_SOCKET_PATH;
    while ((c = getopt_long(argc, argv, "c:s:vhV", longs, NULL)) != -1) {
        switch (c) {
        case 'c':
            o->config = optarg;
            break;
        case 'k':
            o->check_config = true;
            break;
        case 'r':
            o->reset = true;
            break;
        case 's':
            o->socket = optarg;
            break;
        case 'v':
            log_set_level(LOG_LEVEL_DEBUG);
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'V':
            puts("scrubd " SCRUBD_VERSION);
            return 0;
        default:
            fputs("Try 'scrubd --help'.\n", stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "scrubd: unexpected argument '%s'\nTry 'scrubd --help'.\n", argv[optind]);
        return 2;
    }
    return -1;
}

static void on_term(evutil_socket_t sig, short what, void *arg)
{
    struct scrubd *s = arg;

    if (s->stopping) {
        s->hurry = true;
        return;
    }
    log_info("%s: stopping%s", sig == SIGTERM ? "SIGTERM" : "SIGINT",
             s->own_socket ? "" : "; the next caller starts scrubd again by way of scrubd.socket");
    s->stopping = true;
    event_base_loopbreak(s->base);
}

static void on_hup(evutil_socket_t sig, short what, void *arg)
{
    struct scrubd *s = arg;
    struct config_change changes[CONFIG_KEYS];
    struct err err = {0};
    size_t n = 0;
    int r = reload_run(&s->reload, changes, &n, &err);

    reload_log(&s->reload, r, changes, n, &err);
}

/* Sent by the loop itself, so that one that no longer turns is noticed. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    sd_notify(0, "WATCHDOG=1");
}

static int start_watchdog(struct scrubd *s, struct err *err)
{
    uint64_t us;
    struct timeval tv;

    if (sd_watchdog_enabled(0, &us) <= 0)
        return 0;
    tv.tv_sec = (time_t)(us / 2 / 1000000);
    tv.tv_usec = (suseconds_t)(us / 2 % 1000000);
    s->ev_watchdog = event_new(s->base, -1, EV_PERSIST, on_watchdog, s);
    if (!s->ev_watchdog || evtimer_add(s->ev_watchdog, &tv) < 0)
        return err_set(err, ENOMEM, "out of memory");
    return 0;
}

/* Make a socket where the present one had its place, if nobody serves there any more. */
static int renew_socket(struct scrubd *s, struct err *err)
{
    int fd, r = server_listen(s->path, &fd, err);

    if (r == -EADDRINUSE)
        return 0;
    if (r == 0 && s->server)
        r = server_move(s->server, fd, err);
    if (r < 0)
        return r;
    close(s->fd);
    s->fd = fd;
    log_warning("%s was removed: listening there anew", s->path);
    return 0;
}

static void on_socket_gone(void *arg)
{
    struct scrubd *s = arg;
    struct err err = {0};

    if (renew_socket(s, &err) == 0)
        return;
    /* The service manager makes the directory, which we may not. */
    log_error("%s was removed: %s: leaving, to be started again", s->path, err.text);
    s->stopping = true;
    event_base_loopbreak(s->base);
}

/* Before it is looked at, or made: it may be removed at any time. */
static void watch_socket(struct scrubd *s, const char *path)
{
    struct err err = {0};

    snprintf(s->path, sizeof(s->path), "%s", path);
    if (socket_watch_new(s->base, path, on_socket_gone, s, &s->socket_watch, &err) < 0)
        log_warning("%s", err.text);
}

/* Where the socket of systemd is, and whether it can still be reached there. */
static int check_socket(struct scrubd *s, struct err *err)
{
    struct sockaddr_un sa = {0};
    socklen_t len = sizeof(sa);

    if (getsockname(s->fd, (struct sockaddr *)&sa, &len) < 0 || !sa.sun_path[0])
        return 0;
    watch_socket(s, sa.sun_path);
    return renew_socket(s, err);
}

static int get_socket(struct scrubd *s, struct err *err)
{
    int n = sd_listen_fds(1);

    if (n > 1)
        return err_set(err, EINVAL, "systemd passed %d sockets instead of one", n);
    if (n == 1) {
        s->fd = SD_LISTEN_FDS_START;
        if (sd_is_socket_unix(s->fd, SOCK_STREAM, 1, NULL, 0) <= 0)
            return err_set(err, EINVAL, "what systemd passed is not a listening stream socket");
        return check_socket(s, err);
    }
    s->own_socket = true;
    watch_socket(s, s->opts.socket);
    return server_listen(s->opts.socket, &s->fd, err);
}

static int make_base(struct scrubd *s, struct err *err)
{
    struct event_config *ec = event_config_new();

    /*
     * Pauses are milliseconds long, hence the precise timer. And no cached time: it would be older
     * than the step that was just made, and the pause after it too short by as much.
     */
    if (ec) {
        event_config_set_flag(ec, EVENT_BASE_FLAG_PRECISE_TIMER);
        event_config_set_flag(ec, EVENT_BASE_FLAG_NO_CACHE_TIME);
        s->base = event_base_new_with_config(ec);
        event_config_free(ec);
    }
    if (!s->base)
        return err_set(err, ENOMEM, "cannot make an event loop");
    s->ev_term = evsignal_new(s->base, SIGTERM, on_term, s);
    s->ev_int = evsignal_new(s->base, SIGINT, on_term, s);
    s->ev_hup = evsignal_new(s->base, SIGHUP, on_hup, s);
    if (!s->ev_term || !s->ev_int || !s->ev_hup)
        return err_set(err, ENOMEM, "out of memory");
    event_add(s->ev_term, NULL);
    event_add(s->ev_int, NULL);
    event_add(s->ev_hup, NULL);
    return 0;
}

static int start(struct scrubd *s,
                 int (*open_host)(struct xen **ret, const struct xen_ops **ret_ops,
                                  struct err *err),
                 struct err *err)
{
    int r = make_base(s, err);

    if (r == 0)
        r = open_host(&s->xen, &s->ops, err);
    if (r == 0)
        r = engine_new(s->base, s->xen, s->ops, &s->conf, &s->engine, err);
    s->reload = (struct reload){.path = s->opts.config, .conf = &s->conf, .engine = s->engine};
    if (r == 0)
        r = get_socket(s, err);
    if (r == 0)
        r = metrics_http_new(s->base, &s->reload, &s->reload.metrics, err);
    if (r == 0)
        r = rpc_new(s->base, s->engine, &s->reload, &s->rpc, err);
    if (r == 0)
        r = server_new(s->base, s->fd, &rpc_server_ops, s->rpc, &s->server, err);
    if (r == 0)
        r = start_watchdog(s, err);
    if (r < 0)
        return r;
    engine_start(s->engine);
    return 0;
}

/* Also after a start that failed half-way. */
static void stop(struct scrubd *s)
{
    socket_watch_free(s->socket_watch);
    metrics_http_free(s->reload.metrics);
    if (s->engine)
        engine_withdraw(s->engine);
    server_free(s->server);
    rpc_free(s->rpc);
    if (s->own_socket && s->fd >= 0)
        unlink(s->opts.socket);
    if (s->engine && s->stopping)
        engine_drain(s->engine, DRAIN_MS, &s->hurry);
    engine_free(s->engine);
    if (s->ops)
        s->ops->close(s->xen);
    if (s->ev_term)
        event_free(s->ev_term);
    if (s->ev_int)
        event_free(s->ev_int);
    if (s->ev_hup)
        event_free(s->ev_hup);
    if (s->ev_watchdog)
        event_free(s->ev_watchdog);
    if (s->fd >= 0)
        close(s->fd);
    if (s->base)
        event_base_free(s->base);
}

/* For a scrubd that could not do it itself any more. An unpatched hypervisor has nothing to reset.
 */
static int reset_host(int (*open_host)(struct xen **ret, const struct xen_ops **ret_ops,
                                       struct err *err),
                      struct err *err)
{
    const struct xen_ops *ops;
    struct xen *xen;
    int r = open_host(&xen, &ops, err);

    if (r < 0)
        return r;
    r = ops->probe(xen, err);
    if (r == 0) {
        r = ops->scrub_reset(xen);
        if (r < 0)
            err_set(err, -r, "cannot reset the scrubber: %s", strerror(-r));
    }
    ops->close(xen);
    return r == -ENOSYS ? 0 : r;
}

int scrubd_main(int argc, char **argv,
                int (*open_host)(struct xen **ret, const struct xen_ops **ret_ops, struct err *err))
{
    struct scrubd s = {.fd = -1};
    struct err err = {0};
    int r = parse_options(&s.opts, argc, argv);

    if (r >= 0)
        return r;
    signal(SIGPIPE, SIG_IGN);
    log_open(LOG_JOURNAL);
    if (s.opts.reset) {
        r = reset_host(open_host, &err);
        if (r < 0)
            log_error("%s", err.text);
        return r < 0 ? 1 : 0;
    }
    if (config_load(s.opts.config, &s.conf, &err) < 0) {
        log_error("%s", err.text);
        return 1;
    }
    if (s.opts.check_config)
        return 0;
    r = start(&s, open_host, &err);
    if (r == 0) {
        log_info("scrubd " SCRUBD_VERSION " serves, Xen %s%s", s.ops->version(s.xen),
                 engine_degraded(s.engine) ? ", degraded" : "");
        sd_notify(0, "READY=1");
        event_base_dispatch(s.base);
        sd_notify(0, "STOPPING=1\nSTATUS=Stopping");
    } else {
        log_error("%s", err.text);
    }
    stop(&s);
    return r < 0 ? 1 : 0;
}
