/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How scrubctl writes things for people. Pure, but for the writing, and for asking how wide a
 * terminal is. */
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

/* "web-3 (domain 7)", the name cleaned and cut to columns; "domain 7" where name is NULL or "".
 * Returns buf. */
char *output_domain(const char *name, int64_t domid, size_t columns, char *buf, size_t size);

/*
 * text, cleaned, on lines of at most columns, which end at blanks or commas where there are any;
 * all but the first begin with indent blanks. first: columns that are taken on the first one.
 * Returns those that are taken on the last one.
 */
size_t output_wrapped(const char *text, size_t first, size_t indent, size_t columns, FILE *out);

/* printf() for a sentence: wrapped, and a newline. */
void output_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Columns that are as wide as what is in them, as far as they fit the terminal (80 columns where
 * out is none): then the last one, if it is aligned left, goes on in further lines, and of the
 * others the widest that is aligned left is cut.
 */
struct output_table {
    const char *const *titles; /* a title that starts with '>' is for a column aligned right */
    size_t n_columns;
    char **cells;
    size_t n_cells;
};

#define OUTPUT_TABLE(titles)                                                                       \
    {                                                                                              \
        titles, sizeof(titles) / sizeof(titles[0]), NULL, 0                                        \
    }

/* Add the next cell, row by row; text is copied and cleaned. */
void output_table_add(struct output_table *table, const char *text);
void output_table_add_int(struct output_table *table, int64_t value); /* "-" where negative */
void output_table_print(struct output_table *table, FILE *out);
void output_table_done(struct output_table *table);
/* Print it on standard output, and be done. */
void output_table_end(struct output_table *table);

/* A JSON document for programs; {} of NULL. */
void output_json(struct json_object *object);

#endif
