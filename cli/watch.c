/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "watch.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "wire.h"

/* What is not the bar: name, per cent, state, memory left, rate, time left, and what is between
 * them. */
#define NAME_COLUMNS 18
#define FIGURES_COLUMNS 44
#define BAR_COLUMNS_MIN 5
#define BAR_COLUMNS_MAX 60

#define BACKLOG_SCALE_MIN_PAGES (64 * 1024 / PAGE_KIB)

struct screen {
    const struct watch_view *view;
    const char *before, *after;
    FILE *out;
    size_t line; /* lines written */
};

__attribute__((format(printf, 2, 3))) static void put_line(struct screen *s, const char *fmt, ...)
{
    char text[1024], cut[1024];
    va_list ap;

    if (s->line == s->view->lines)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(s->out, "%s%s%s%s", s->line > 0 ? "\n" : "", s->before,
            output_clean(text, s->view->columns, cut, sizeof(cut)), s->after);
    s->line++;
}

static size_t bar_columns(const struct watch_view *view)
{
    size_t others = NAME_COLUMNS + FIGURES_COLUMNS;

    if (view->columns < others + BAR_COLUMNS_MIN)
        return BAR_COLUMNS_MIN;
    return view->columns - others < BAR_COLUMNS_MAX ? view->columns - others : BAR_COLUMNS_MAX;
}

/* printf() pads bytes, not columns. */
static const char *pad(const char *text, char *buf, size_t size, size_t columns)
{
    size_t width = output_width(text);

    snprintf(buf, size, "%s%*s", text, (int)(width < columns ? columns - width : 0), "");
    return buf;
}

static void put_job(struct screen *s, struct json_object *job)
{
    int64_t total = wire_get_int(job, "pages_total", 0), left = wire_get_int(job, "pages_left", 0);
    double done = total > 0 ? 1 - (double)left / (double)total : 0;
    char label[256], padded[300], bar[512], pages[OUTPUT_TEXT], rate[OUTPUT_TEXT], eta[OUTPUT_TEXT];

    done = done < 0 ? 0 : done;
    put_line(s, "%s %s %3d%% %-9s%7s%10s%12s",
             pad(output_job_label(job, NAME_COLUMNS - 1, label, sizeof(label)), padded,
                 sizeof(padded), NAME_COLUMNS - 1),
             output_bar(done, bar_columns(s->view), s->view->unicode, bar, sizeof(bar)),
             (int)(done * 100), wire_get_str(job, "state", "?"), output_pages(left, pages),
             output_rate(wire_get_int(job, "rate_kib_s", -1), rate),
             output_duration(wire_get_int(job, "eta_ms", -1), eta));
}

/* Its domain is not dead yet. */
static bool is_alive(struct json_object *job)
{
    return strcmp(wire_get_str(job, "state", ""), "scrubbing") != 0;
}

static size_t count_alive(struct json_object *jobs)
{
    size_t n = 0;

    for (size_t i = 0; jobs != NULL && i < json_object_array_length(jobs); i++)
        n += is_alive(json_object_array_get_idx(jobs, i));
    return n;
}

static void put_backlog(struct screen *s, struct watch_view *view, int64_t backlog)
{
    char padded[64], bar[512], pages[OUTPUT_TEXT];

    if (backlog < 0)
        return;
    if (view->max_backlog_pages < BACKLOG_SCALE_MIN_PAGES)
        view->max_backlog_pages = BACKLOG_SCALE_MIN_PAGES;
    if (backlog > view->max_backlog_pages)
        view->max_backlog_pages = backlog;
    put_line(s, "%s %s      %-9s%7s",
             pad("to be scrubbed", padded, sizeof(padded), NAME_COLUMNS - 1),
             output_bar((double)backlog / (double)view->max_backlog_pages, bar_columns(view),
                        view->unicode, bar, sizeof(bar)),
             "", output_pages(backlog, pages));
}

static void put_limits(struct screen *s, struct json_object *status)
{
    struct json_object *nodes = wire_get_obj(status, "nodes");
    int64_t ceiling = -1;
    char text[OUTPUT_TEXT];
    bool differ = false;

    for (size_t i = 0; nodes != NULL && i < json_object_array_length(nodes); i++) {
        int64_t kib = wire_get_int(json_object_array_get_idx(nodes, i), "ceiling_kib", 0);

        differ |= ceiling >= 0 && kib != ceiling;
        ceiling = kib;
    }
    if (wire_get_str(status, "mask", NULL) == NULL)
        return;
    put_line(s, "scrubbing on CPUs %s, ceiling %s", wire_get_str(status, "mask", "?"),
             differ ? "differs by node" : output_rate_limit(ceiling, text));
}

void watch_draw(struct watch_view *view, struct json_object *params, const char *before,
                const char *after, FILE *out)
{
    struct json_object *status = wire_get_obj(params, "status"),
                       *jobs = wire_get_obj(params, "jobs");
    const char *reason = wire_get_str(status, "reason", NULL);
    struct screen s = {view, before, after, out, 0};
    size_t n = jobs != NULL ? json_object_array_length(jobs) : 0;
    /* Title, reason, blank, heading, the jobs, and then: blank, backlog, limits, blank, last line.
     */
    size_t others = 8 + (reason != NULL),
           room = view->lines > others + 1 ? view->lines - others : 1;
    size_t shown = n > room ? room - 1 : n;

    put_line(&s, "scrubd %s on Xen %s is %s; %zu being destroyed, %lld done",
             wire_get_str(status, "version", "?"), wire_get_str(status, "xen", "?"),
             wire_get_str(status, "state", "?"), count_alive(jobs),
             (long long)wire_get_int(status, "jobs_done", 0));
    if (reason != NULL)
        put_line(&s, "%s", reason);
    put_line(&s, "%s", "");
    if (n > 0)
        put_line(&s, "%-*s%*s %-9s%7s%10s%12s", NAME_COLUMNS, "DOMAIN", (int)bar_columns(view) + 5,
                 "DONE", "STATE", "LEFT", "RATE", "TIME LEFT");
    else
        put_line(&s, "No domain is being destroyed.");
    for (size_t i = 0; i < shown; i++)
        put_job(&s, json_object_array_get_idx(jobs, i));
    if (shown < n)
        put_line(&s, "... and %zu more", n - shown);
    put_line(&s, "%s", "");
    put_backlog(&s, view, wire_get_int(status, "backlog_pages", -1));
    put_limits(&s, status);
    put_line(&s, "%s", "");
    put_line(&s, "Ctrl-C ends");
}

static bool has_alive(struct json_object *jobs, int64_t id)
{
    for (size_t i = 0; jobs != NULL && i < json_object_array_length(jobs); i++) {
        struct json_object *job = json_object_array_get_idx(jobs, i);

        if (wire_get_int(job, "id", -1) == id)
            return is_alive(job);
    }
    return false;
}

/* Jobs whose domain has died. */
static void print_ends(struct json_object *before, struct json_object *jobs, const char *when,
                       FILE *out)
{
    for (size_t i = 0; before != NULL && i < json_object_array_length(before); i++) {
        struct json_object *job = json_object_array_get_idx(before, i);
        char label[256];

        if (is_alive(job) && !has_alive(jobs, wire_get_int(job, "id", -1)))
            fprintf(out, "%s %s: destroyed\n", when,
                    output_job_label(job, 64, label, sizeof(label)));
    }
}

void watch_print(struct json_object *before, struct json_object *params, const char *when,
                 FILE *out)
{
    struct json_object *status = wire_get_obj(params, "status"),
                       *jobs = wire_get_obj(params, "jobs");
    size_t n = jobs != NULL ? json_object_array_length(jobs) : 0;
    char label[256], left[OUTPUT_TEXT], total[OUTPUT_TEXT], rate[OUTPUT_TEXT], eta[OUTPUT_TEXT],
        backlog[OUTPUT_TEXT];

    output_pages(wire_get_int(status, "backlog_pages", -1), backlog);
    print_ends(wire_get_obj(before, "jobs"), jobs, when, out);
    if (n == 0)
        fprintf(out, "%s no domain is being destroyed, %s to be scrubbed\n", when, backlog);
    for (size_t i = 0; i < n; i++) {
        struct json_object *job = json_object_array_get_idx(jobs, i);

        fprintf(out, "%s %s: %s, %s of %s left, %s, %s to go, %s to be scrubbed\n", when,
                output_job_label(job, 64, label, sizeof(label)), wire_get_str(job, "state", "?"),
                output_pages(wire_get_int(job, "pages_left", -1), left),
                output_pages(wire_get_int(job, "pages_total", -1), total),
                output_rate(wire_get_int(job, "rate_kib_s", -1), rate),
                output_duration(wire_get_int(job, "eta_ms", -1), eta), backlog);
    }
    fflush(out);
}
