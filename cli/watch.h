/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `scrubctl watch` shows, drawn into a stream. Pure. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#define WATCH_PAST 60      /* columns of a sparkline at most */
#define WATCH_NODES 64     /* that are followed */
#define WATCH_CELL_MS 1000 /* each column is a second, or a look where those are rarer */

/* What was seen of a node. */
struct watch_node {
    int64_t number;
    int64_t backlog_pages;    /* now */
    int64_t scrubbed_pages;   /* since boot, as last seen */
    int64_t scrub_kib_s;      /* since the look before; -1 where that is not known */
    int64_t past[WATCH_PAST]; /* the most of each column, in pages; the last of n_past is now */
    size_t n_past;
};

struct watch_view {
    size_t columns, lines; /* of the terminal */
    bool unicode, colour;
    struct watch_node nodes[WATCH_NODES]; /* the first n_nodes are in use */
    size_t n_nodes;
    int64_t last_ms, cell_ms; /* when watch_take() was called last; when the last column began */
};

/* Take in the parameters of a reply to Watch, which came at now_ms of any clock. */
void watch_take(struct watch_view *view, struct json_object *params, int64_t now_ms);

/*
 * A whole screen: at most view->lines lines that are at most view->columns wide, without a newline
 * after the last one. params is that of the reply that was taken last. Each line begins with before
 * and ends with after.
 */
void watch_draw(const struct watch_view *view, struct json_object *params, const char *before,
                const char *after, FILE *out);

/*
 * Lines of at most 80 columns for something that is not a terminal: what awaits scrubbing, and one
 * a job. before are the parameters of the last call, NULL for none: a line for each job that has
 * come to its end since.
 */
void watch_print(struct json_object *before, struct json_object *params, const char *when,
                 FILE *out);

#endif
