/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How scrubctl writes things for people. Pure, but for output_columns() and the writing itself. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#define OUTPUT_TEXT 64 /* room for any of the texts below */

#define PAGE_KIB 4

/* "0.8 s", "12 s", "3 min 20 s", "2 h 13 min", "5 d 3 h". Returns buf, which has OUTPUT_TEXT bytes,
 * as below. */
char *output_duration(int64_t ms, char *buf);

/* "1.50G" of pages; "-" where pages is negative: unknown. */
char *output_pages(int64_t pages, char *buf);

/* "200M/s". */
char *output_rate(int64_t kib_s, char *buf);

/* "200M/s" or "none". */
char *output_rate_limit(int64_t kib_s, char *buf);

/*
 * text as a terminal may have it: control characters and broken UTF-8 become '?', and what does not
 * fit into columns is cut, with ".." at its end. Returns buf, cut to size too.
 */
char *output_clean(const char *text, size_t columns, char *buf, size_t size);

/* How many columns text takes. It has no control characters. */
size_t output_width(const char *text);

/* A bar of exactly columns, filled to fraction (0 to 1), in blocks where unicode, else "###--".
 * Returns buf. */
char *output_bar(double fraction, size_t columns, bool unicode, char *buf, size_t size);

/* Whether the locale's character set has blocks. */
bool output_unicode(void);

/* Columns and lines of the terminal, 80 and 24 where unknown. */
void output_terminal(int fd, size_t *ret_columns, size_t *ret_lines);

/* "web-3 (7)" of a job, cleaned and cut to columns. */
char *output_job_label(struct json_object *job, size_t columns, char *buf, size_t size);

/* Columns that are as wide as what is in them. */
struct output_table {
    const char *const *titles; /* a title that starts with '>' is for a column aligned right */
    size_t n_columns;
    char **cells;
    size_t n_cells;
};

/* Add the next cell, row by row; text is copied and cleaned. */
void output_table_add(struct output_table *table, const char *text);
void output_table_print(struct output_table *table, FILE *out);
void output_table_done(struct output_table *table);

/* A JSON document for programs. */
void output_json(struct json_object *object);

#endif
