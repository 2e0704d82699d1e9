/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "options.h"
#include "output.h"
#include "session.h"
#include "watch.h"

#define TERMINAL_INTERVAL_MS 250
#define LINES_INTERVAL_MS 1000
#define INTERVAL_MIN_MS 50
#define INTERVAL_MAX_MS 60000

/* Another screen without a cursor; and back to the one with the user's work. */
#define SCREEN_BEGIN "\033[?1049h\033[?25l"
#define SCREEN_END "\033[?25h\033[?1049l"
#define SCREEN_HOME "\033[H"
#define SCREEN_CLEAR_LINE "\033[K"
#define SCREEN_CLEAR_REST "\033[J"

struct watch {
    const struct cmd_args *args;
    struct client *client;
    bool terminal;
    bool on_screen; /* SCREEN_BEGIN was written */
    struct watch_view view;
    struct json_object *last; /* last reply */
    bool idle;                /* the last line said that nothing goes on */
    int signal_fd;
};

static void end_screen(struct watch *w)
{
    if (w->on_screen)
        fputs(SCREEN_END, stdout);
    fflush(stdout);
    w->on_screen = false;
}

static void show_screen(struct watch *w)
{
    char *text = NULL;
    size_t size = 0;
    FILE *frame = open_memstream(&text, &size);

    if (frame == NULL)
        return;
    output_terminal(STDOUT_FILENO, &w->view.columns, &w->view.lines);
    fputs(SCREEN_HOME, frame);
    watch_draw(&w->view, wire_params(w->last), "", SCREEN_CLEAR_LINE, frame);
    fputs(SCREEN_CLEAR_REST, frame);
    fclose(frame);
    if (!w->on_screen)
        fputs(SCREEN_BEGIN, stdout);
    w->on_screen = true;
    /* At once, so that no half of a picture is seen. */
    fwrite(text, 1, size, stdout);
    fflush(stdout);
    free(text);
}

static void show_lines(struct watch *w, struct json_object *before)
{
    struct json_object *jobs = wire_get_obj(wire_params(w->last), "jobs");
    bool idle = jobs == NULL || json_object_array_length(jobs) == 0;
    time_t now = time(NULL);
    char when[16];
    struct tm tm;

    if (idle && w->idle)
        return;
    w->idle = idle;
    strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&now, &tm));
    watch_print(before, wire_params(w->last), when, stdout);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A terminal that obeys: others get lines. */
static bool has_screen(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && (term == NULL || strcmp(term, "dumb") != 0);
}

static bool wants_colour(void)
{
    const char *no_colour = getenv("NO_COLOR");

    return no_colour == NULL || *no_colour == '\0';
}

/* before: the parameters that were shown before, or NULL. */
static void show(struct watch *w, struct json_object *before)
{
    if (w->args->json) {
        puts(json_object_to_json_string_ext(
            wire_params(w->last), JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
        fflush(stdout);
    } else if (w->terminal) {
        show_screen(w);
    } else {
        show_lines(w, before);
    }
}

/* Take the replies that are there. EXIT_REFUSED also if nobody takes our output any more. */
static enum exit_code receive(struct watch *w, struct err *err)
{
    do {
        struct json_object *reply = NULL, *before;
        enum exit_code code;
        int r = client_receive(w->client, SESSION_TIMEOUT_MS, &reply, err);

        if (r == -EINTR)
            continue;
        if (r < 0)
            return EXIT_UNREACHABLE;
        if (wire_error_name(reply) != NULL) {
            end_screen(w);
            code = session_check(w->args, reply);
            json_object_put(reply);
            return code;
        }
        before = w->last;
        w->last = reply;
        watch_take(&w->view, wire_params(reply), now_ms());
        show(w, wire_params(before));
        json_object_put(before);
        if (ferror(stdout))
            return EXIT_REFUSED;
    } while (client_pending(w->client));
    return EXIT_OK;
}

/* Until the user ends it. With EXIT_UNREACHABLE err says why. */
static enum exit_code loop(struct watch *w, struct err *err)
{
    for (;;) {
        struct pollfd pfds[2] = {{.fd = w->client->fd, .events = POLLIN},
                                 {.fd = w->signal_fd, .events = POLLIN}};
        struct signalfd_siginfo info;
        enum exit_code code;

        if (poll(pfds, 2, -1) < 0)
            continue;
        if (pfds[1].revents && read(w->signal_fd, &info, sizeof(info)) == sizeof(info)) {
            if (info.ssi_signo != SIGWINCH)
                return EXIT_OK;
            if (w->terminal && w->last != NULL)
                show_screen(w);
        }
        if (pfds[0].revents) {
            code = receive(w, err);
            if (code != EXIT_OK)
                return code;
        }
    }
}

static int catch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static enum exit_code run(const struct cmd_args *args)
{
    struct watch w = {.args = args, .terminal = has_screen() && !args->json};
    uint64_t interval_ms = w.terminal ? TERMINAL_INTERVAL_MS : LINES_INTERVAL_MS;
    struct json_object *params;
    struct err err = {0};
    enum exit_code code = option_ms(args, 0, &interval_ms);

    if (code != EXIT_OK)
        return code;
    if (interval_ms < INTERVAL_MIN_MS || interval_ms > INTERVAL_MAX_MS)
        return cmd_fail(args, EXIT_USAGE, NULL, "--interval: \"%.40s\" is not between 50ms and 1m",
                        args->option[0]);
    code = session_open(args, &w.client);
    if (code != EXIT_OK)
        return code;
    w.view.unicode = output_unicode();
    w.view.colour = wants_colour();
    w.signal_fd = catch_signals();
    params = wire_object();
    wire_add_int(params, "interval_ms", (int64_t)interval_ms);
    if (client_send(w.client, WIRE_INTERFACE ".Watch", params, true, &err) < 0) {
        code = session_fail(args, &err);
    } else {
        code = loop(&w, &err);
        end_screen(&w);
        if (code == EXIT_UNREACHABLE)
            session_fail(args, &err);
    }
    json_object_put(w.last);
    client_close(w.client);
    close(w.signal_fd);
    return code;
}

const struct cmd cmd_watch = {
    .name = "watch",
    .operands = "",
    .summary = "live bars of what is being destroyed, until Ctrl-C",
    .details = "Shows the domains that are being destroyed, and for each NUMA node the memory\n"
               "that is still to be scrubbed, as it was in the last minute. Where the output\n"
               "is no terminal it writes a line a second for each domain; with --json one\n"
               "object a line. No colours with NO_COLOR in the environment.\n",
    .options = {{"interval", "TIME", "how often to look; 250ms on a terminal, else 1s"}},
    .run = run,
};
