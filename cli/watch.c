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
#define BAR_COLUMNS_MAX WATCH_PAST

#define SPARK_SCALE_MIN_PAGES (64 * 1024 / PAGE_KIB) /* a full column is at least this */

#define LINE_NAME_COLUMNS 20 /* so that no line is longer than 80 */

static const char plain[] = "", bold[] = "\033[1m", dim[] = "\033[2m", red[] = "\033[31m",
                  green[] = "\033[32m", yellow[] = "\033[33m", cyan[] = "\033[36m";

struct screen {
    const struct watch_view *view;
    const char *before, *after;
    FILE *out;
    size_t line; /* lines written */
};

__attribute__((format(printf, 3, 4))) static void put_line(struct screen *s, const char *colour,
                                                           const char *fmt, ...)
{
    const char *on = s->view->colour ? colour : plain;
    char text[1024], cut[1024];
    va_list ap;

    if (s->line == s->view->lines)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(s->out, "%s%s%s%s%s%s", s->line > 0 ? "\n" : "", s->before, on,
            output_clean(text, s->view->columns, cut, sizeof(cut)), *on ? "\033[0m" : "", s->after);
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

/* Its domain is not dead yet. */
static bool is_alive(struct json_object *job)
{
    return strcmp(wire_get_str(job, "state", ""), "scrubbing") != 0;
}

static const char *job_colour(struct json_object *job)
{
    const char *state = wire_get_str(job, "state", "");

    if (wire_get_bool(job, "hurry", false) && is_alive(job))
        return bold;
    return strcmp(state, "freeing") == 0     ? green
           : strcmp(state, "waiting") == 0   ? yellow
           : strcmp(state, "scrubbing") == 0 ? cyan
                                             : dim;
}

static void put_job(struct screen *s, struct json_object *job)
{
    int64_t total = wire_get_int(job, "pages_total", 0), left = wire_get_int(job, "pages_left", 0);
    double done = total > 0 ? 1 - (double)left / (double)total : 0;
    char label[256], padded[300], bar[512], pages[OUTPUT_TEXT], rate[OUTPUT_TEXT], eta[OUTPUT_TEXT];

    done = done < 0 ? 0 : done;
    put_line(s, job_colour(job), "%s %s %3d%% %-9s%7s%10s%12s",
             pad(output_job_label(job, NAME_COLUMNS - 1, label, sizeof(label)), padded,
                 sizeof(padded), NAME_COLUMNS - 1),
             output_bar(done, bar_columns(s->view), s->view->unicode, bar, sizeof(bar)),
             (int)(done * 100), wire_get_str(job, "state", "?"), output_pages(left, pages),
             output_rate(wire_get_int(job, "rate_kib_s", -1), rate),
             output_duration(wire_get_int(job, "eta_ms", -1), eta));
}

static size_t count_alive(struct json_object *jobs)
{
    size_t n = 0;

    for (size_t i = 0; jobs != NULL && i < json_object_array_length(jobs); i++)
        n += is_alive(json_object_array_get_idx(jobs, i));
    return n;
}

static struct watch_node *find_node(struct watch_view *view, int64_t number)
{
    struct watch_node *node;

    for (size_t i = 0; i < view->n_nodes; i++) {
        if (view->nodes[i].number == number)
            return &view->nodes[i];
    }
    if (view->n_nodes == WATCH_NODES)
        return NULL;
    node = &view->nodes[view->n_nodes++];
    memset(node, 0, sizeof(*node));
    node->number = number;
    node->scrubbed_pages = -1;
    return node;
}

static void take_past(struct watch_node *node, bool new_column)
{
    if (node->n_past == 0 || new_column) {
        if (node->n_past == WATCH_PAST)
            memmove(node->past, node->past + 1, --node->n_past * sizeof(node->past[0]));
        node->past[node->n_past++] = node->backlog_pages;
    } else if (node->past[node->n_past - 1] < node->backlog_pages) {
        node->past[node->n_past - 1] = node->backlog_pages;
    }
}

void watch_take(struct watch_view *view, struct json_object *params, int64_t now_ms)
{
    struct json_object *nodes = wire_get_obj(wire_get_obj(params, "status"), "nodes");
    bool new_column = now_ms - view->cell_ms >= WATCH_CELL_MS;
    int64_t passed_ms = now_ms - view->last_ms;

    for (size_t i = 0; nodes != NULL && i < json_object_array_length(nodes); i++) {
        struct json_object *o = json_object_array_get_idx(nodes, i);
        struct watch_node *node = find_node(view, wire_get_int(o, "node", -1));
        int64_t scrubbed =
            wire_get_int(o, "idle", 0) + wire_get_int(o, "floor", 0) + wire_get_int(o, "alloc", 0);

        if (node == NULL)
            continue;
        node->scrub_kib_s = node->scrubbed_pages < 0 || passed_ms <= 0 ? -1
                            : scrubbed < node->scrubbed_pages
                                ? -1
                                : (scrubbed - node->scrubbed_pages) * PAGE_KIB * 1000 / passed_ms;
        node->scrubbed_pages = scrubbed;
        node->backlog_pages = wire_get_int(o, "backlog_pages", 0);
        take_past(node, new_column);
    }
    if (new_column)
        view->cell_ms = now_ms;
    view->last_ms = now_ms;
}

/* The backlog of the last so many columns, the present at the right. */
static const char *sparkline(const struct watch_view *view, const struct watch_node *node,
                             int64_t scale, char *buf)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {" ", ".", ".", ":", ":", "+", "+", "#", "#"};
    size_t columns = bar_columns(view), n = node->n_past < columns ? node->n_past : columns;
    char *p = buf + sprintf(buf, "%*s", (int)(columns - n), "");

    for (size_t i = node->n_past - n; i < node->n_past; i++) {
        /* Whatever is there is seen. */
        int64_t eighths = (node->past[i] * 8 + scale - 1) / scale;
        size_t level = eighths < 0 ? 0 : eighths > 8 ? 8 : (size_t)eighths;

        p += sprintf(p, "%s", view->unicode ? blocks[level] : ascii[level]);
    }
    return buf;
}

static int64_t spark_scale(const struct watch_view *view)
{
    int64_t most = SPARK_SCALE_MIN_PAGES;

    for (size_t i = 0; i < view->n_nodes; i++) {
        for (size_t k = 0; k < view->nodes[i].n_past; k++) {
            if (view->nodes[i].past[k] > most)
                most = view->nodes[i].past[k];
        }
    }
    return most;
}

static int64_t ceiling_of(struct json_object *status, int64_t number)
{
    struct json_object *nodes = wire_get_obj(status, "nodes");

    for (size_t i = 0; nodes != NULL && i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);

        if (wire_get_int(node, "node", -1) == number)
            return wire_get_int(node, "ceiling_kib", 0);
    }
    return 0;
}

/* The backlog of each node, on n lines at most and one for the heading. */
static void put_nodes(struct screen *s, struct json_object *status, size_t n)
{
    const struct watch_view *view = s->view;
    size_t shown = view->n_nodes > n && n > 0 ? n - 1 : n < view->n_nodes ? n : view->n_nodes;
    char spark[WATCH_PAST * 4 + 1], pages[OUTPUT_TEXT], rate[OUTPUT_TEXT], limit[OUTPUT_TEXT];
    int64_t scale = spark_scale(view), rest = 0;

    put_line(s, bold, "%-*s%-*s %16s%10s%12s", NAME_COLUMNS, "TO BE SCRUBBED",
             (int)bar_columns(view) + 5, "", "LEFT", "RATE", "CEILING");
    for (size_t i = 0; i < view->n_nodes; i++) {
        const struct watch_node *node = &view->nodes[i];
        char name[OUTPUT_TEXT];

        if (i >= shown) {
            rest += node->backlog_pages;
            continue;
        }
        snprintf(name, sizeof(name), "node %lld", (long long)node->number);
        put_line(s, plain, "%-*s%s%5s %16s%10s%12s", NAME_COLUMNS, name,
                 sparkline(view, node, scale, spark), "", output_pages(node->backlog_pages, pages),
                 output_rate(node->scrub_kib_s, rate),
                 output_rate_limit(ceiling_of(status, node->number), limit));
    }
    if (shown < view->n_nodes)
        put_line(s, plain, "... and %s on %zu more nodes", output_pages(rest, pages),
                 view->n_nodes - shown);
}

void watch_draw(const struct watch_view *view, struct json_object *params, const char *before,
                const char *after, FILE *out)
{
    struct json_object *status = wire_get_obj(params, "status"),
                       *jobs = wire_get_obj(params, "jobs");
    const char *reason = wire_get_str(status, "reason", NULL);
    const char *mask = wire_get_str(status, "mask", NULL);
    bool ready = strcmp(wire_get_str(status, "state", ""), "ready") == 0;
    struct screen s = {view, before, after, out, 0};
    size_t n = jobs != NULL ? json_object_array_length(jobs) : 0;
    /* A third of the screen at most is for nodes. */
    size_t nodes = view->n_nodes < view->lines / 3 ? view->n_nodes : view->lines / 3;
    /* Title, reason, blank, heading, the jobs, and then: blank, heading, the nodes, CPUs, blank,
     * last line. */
    size_t others = 8 + nodes + (reason != NULL),
           room = view->lines > others + 1 ? view->lines - others : 1;
    size_t shown = n > room ? room - 1 : n;

    put_line(&s, ready ? bold : red, "scrubd %s on Xen %s is %s; %zu being destroyed, %lld done",
             wire_get_str(status, "version", "?"), wire_get_str(status, "xen", "?"),
             wire_get_str(status, "state", "?"), count_alive(jobs),
             (long long)wire_get_int(status, "jobs_done", 0));
    if (reason != NULL)
        put_line(&s, red, "%s", reason);
    put_line(&s, plain, "%s", "");
    if (n > 0)
        put_line(&s, bold, "%-*s%*s %-9s%7s%10s%12s", NAME_COLUMNS, "DOMAIN",
                 (int)bar_columns(view) + 5, "DONE", "STATE", "LEFT", "RATE", "TIME LEFT");
    else
        put_line(&s, plain, "No domain is being destroyed.");
    for (size_t i = 0; i < shown; i++)
        put_job(&s, json_object_array_get_idx(jobs, i));
    if (shown < n)
        put_line(&s, plain, "... and %zu more", n - shown);
    put_line(&s, plain, "%s", "");
    if (nodes > 0)
        put_nodes(&s, status, nodes);
    if (mask != NULL)
        put_line(&s, plain, "scrubbing on CPUs %s", mask);
    put_line(&s, plain, "%s", "");
    put_line(&s, dim, "Ctrl-C ends");
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
                    output_job_label(job, LINE_NAME_COLUMNS, label, sizeof(label)));
    }
}

void watch_print(struct json_object *before, struct json_object *params, const char *when,
                 FILE *out)
{
    struct json_object *status = wire_get_obj(params, "status"),
                       *jobs = wire_get_obj(params, "jobs");
    size_t n = jobs != NULL ? json_object_array_length(jobs) : 0;
    char label[256], left[OUTPUT_TEXT], rate[OUTPUT_TEXT], eta[OUTPUT_TEXT], backlog[OUTPUT_TEXT];

    output_pages(wire_get_int(status, "backlog_pages", -1), backlog);
    print_ends(wire_get_obj(before, "jobs"), jobs, when, out);
    fprintf(out, "%s %s%s to be scrubbed\n", when, n == 0 ? "no domain is being destroyed, " : "",
            backlog);
    for (size_t i = 0; i < n; i++) {
        struct json_object *job = json_object_array_get_idx(jobs, i);
        int64_t eta_ms = wire_get_int(job, "eta_ms", -1);

        fprintf(out, "%s %s: %s, %s left, %s%s%s%s\n", when,
                output_job_label(job, LINE_NAME_COLUMNS, label, sizeof(label)),
                wire_get_str(job, "state", "?"),
                output_pages(wire_get_int(job, "pages_left", -1), left),
                output_rate(wire_get_int(job, "rate_kib_s", -1), rate), eta_ms >= 0 ? ", " : "",
                eta_ms >= 0 ? output_duration(eta_ms, eta) : "", eta_ms >= 0 ? " to go" : "");
    }
    fflush(out);
}
