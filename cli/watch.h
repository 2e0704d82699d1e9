/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `scrubctl watch` shows, drawn into a stream. Pure. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#define WATCH_MIN_COLUMNS 40

struct watch_view {
    size_t columns, lines; /* of the terminal */
    bool unicode;
    int64_t max_backlog_pages; /* the most seen so far: the end of its bar. Updated by the functions
                                  below. */
};

/*
 * A whole screen: at most view->lines lines that are at most view->columns wide, without a newline
 * after the last one. params is that of a reply to Watch. Each line begins with before and ends
 * with after.
 */
void watch_draw(struct watch_view *view, struct json_object *params, const char *before,
                const char *after, FILE *out);

/*
 * A line a job for something that is not a terminal, or one that says that there is none. before
 * are the parameters of the last call, NULL for none: a line for each job that has come to its end
 * since.
 */
void watch_print(struct json_object *before, struct json_object *params, const char *when,
                 FILE *out);

#endif
