/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "sizes.h"
#include "wire.h"

#define COLUMN_GAP 2
#define LAST_MIN 20 /* columns that a last column of text keeps */

char *output_duration(int64_t ms, char *buf)
{
    long long s = ms / 1000;

    if (ms < 0)
        snprintf(buf, OUTPUT_TEXT, "-");
    else if (ms < 9950)
        snprintf(buf, OUTPUT_TEXT, "%.1f s", (double)ms / 1000);
    else if (s < 60)
        snprintf(buf, OUTPUT_TEXT, "%lld s", s);
    else if (s < 3600)
        snprintf(buf, OUTPUT_TEXT, "%lld min %lld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buf, OUTPUT_TEXT, "%lld h %lld min", s / 3600, s / 60 % 60);
    else
        snprintf(buf, OUTPUT_TEXT, "%lld d %lld h", s / 86400, s / 3600 % 24);
    return buf;
}

char *output_pages(int64_t pages, char *buf)
{
    if (pages < 0)
        return strcpy(buf, "-");
    return sizes_format_kib((uint64_t)pages * PAGE_KIB, buf);
}

char *output_rate(int64_t kib_s, char *buf)
{
    if (kib_s < 0)
        return strcpy(buf, "-");
    return strcat(sizes_format_kib((uint64_t)kib_s, buf), "/s");
}

char *output_rate_limit(int64_t kib_s, char *buf)
{
    return kib_s > 0 ? output_rate(kib_s, buf) : strcpy(buf, "none");
}

/* Invisible ones that turn the direction of text or hide letters; combining marks are no such
 * thing. */
static bool deceives(wchar_t wc)
{
    return (wc >= 0x200b && wc <= 0x200f) || (wc >= 0x202a && wc <= 0x202e) ||
           (wc >= 0x2060 && wc <= 0x206f) || wc == 0xfeff;
}

char *output_clean(const char *text, size_t columns, char *buf, size_t size)
{
    const char *end = text + strlen(text);
    size_t used = 0, width = 0, cut = 0;
    mbstate_t state = {0};

    /* cut: where the text would end for ".." to follow. */
    while (text < end) {
        wchar_t wc;
        size_t n = mbrtowc(&wc, text, (size_t)(end - text), &state);
        bool good = n != (size_t)-1 && n != (size_t)-2 && n > 0 && iswprint((wint_t)wc) &&
                    wcwidth(wc) >= 0 && !deceives(wc);
        size_t w = good ? (size_t)wcwidth(wc) : 1;

        if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
            memset(&state, 0, sizeof(state));
            n = 1;
        }
        if (width + w > columns || used + (good ? n : 1) + 3 > size) {
            used = cut;
            used += columns >= 2 ? (size_t)sprintf(buf + used, "..") : 0;
            break;
        }
        if (good)
            memcpy(buf + used, text, n);
        else
            buf[used] = '?';
        used += good ? n : 1;
        width += w;
        text += n;
        if (width + 2 <= columns)
            cut = used;
    }
    buf[used] = '\0';
    return buf;
}

size_t output_width(const char *text)
{
    size_t width = 0;
    mbstate_t state = {0};

    while (*text != '\0') {
        wchar_t wc;
        size_t n = mbrtowc(&wc, text, strlen(text), &state);

        if (n == (size_t)-1 || n == (size_t)-2 || n == 0)
            return width + strlen(text);
        width += wcwidth(wc) > 0 ? (size_t)wcwidth(wc) : 0;
        text += n;
    }
    return width;
}

char *output_bar(double fraction, size_t columns, bool unicode, char *buf, size_t size)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t parts = unicode ? 8 : 1, full, part, used = 0;

    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    full = (size_t)(fraction * (double)(columns * parts));
    part = full % parts;
    full /= parts;
    buf[0] = '\0';
    for (size_t i = 0; i < columns && used + 4 < size; i++) {
        const char *cell = unicode ? "░" : "-";

        if (i < full)
            cell = unicode ? "█" : "#";
        else if (i == full && part > 0)
            cell = eighths[part];
        used += (size_t)sprintf(buf + used, "%s", cell);
    }
    return buf;
}

bool output_unicode(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void output_terminal(int fd, size_t *ret_columns, size_t *ret_lines)
{
    struct winsize ws;

    *ret_columns = 80;
    *ret_lines = 24;
    if (ioctl(fd, TIOCGWINSZ, &ws) == 0) {
        if (ws.ws_col > 0)
            *ret_columns = ws.ws_col;
        if (ws.ws_row > 0)
            *ret_lines = ws.ws_row;
    }
}

char *output_job_label(struct json_object *job, size_t columns, char *buf, size_t size)
{
    long long domid = wire_get_int(job, "domid", -1);
    const char *name = wire_get_str(job, "name", NULL);
    char number[OUTPUT_TEXT];
    size_t len;

    if (name == NULL) {
        snprintf(buf, size, "domain %lld", domid);
        return buf;
    }
    len = (size_t)snprintf(number, sizeof(number), " (%lld)", domid);
    output_clean(name, columns > len ? columns - len : 0, buf, size - len);
    return strcat(buf, number);
}

char *output_domain(const char *name, int64_t domid, size_t columns, char *buf, size_t size)
{
    char shown[256];

    if (name != NULL && *name != '\0')
        snprintf(buf, size, "%s (domain %lld)", output_clean(name, columns, shown, sizeof(shown)),
                 (long long)domid);
    else
        snprintf(buf, size, "domain %lld", (long long)domid);
    return buf;
}

static void *grow(void *array, size_t size)
{
    void *bigger = realloc(array, size);

    if (bigger == NULL)
        abort();
    return bigger;
}

void output_table_add(struct output_table *table, const char *text)
{
    size_t size = strlen(text) + 4;
    char *cell = grow(NULL, size);

    output_clean(text, size, cell, size);
    table->cells = grow(table->cells, (table->n_cells + 1) * sizeof(*table->cells));
    table->cells[table->n_cells++] = cell;
}

void output_table_add_int(struct output_table *table, int64_t value)
{
    char text[OUTPUT_TEXT];

    snprintf(text, sizeof(text), "%lld", (long long)value);
    output_table_add(table, value < 0 ? "-" : text);
}

/* How many bytes of text to put on a line of columns: up to a blank, or after a comma if the line
 * would be short, else as many as fit, and at least one character. */
static size_t line_bytes(const char *text, size_t columns)
{
    size_t used = 0, width = 0, blank = 0, comma = 0;
    mbstate_t state = {0};

    while (text[used] != '\0') {
        wchar_t wc;
        size_t n = mbrtowc(&wc, text + used, strlen(text + used), &state);

        if (n == (size_t)-1 || n == (size_t)-2 || n == 0)
            n = 1;
        else
            width += wcwidth(wc) > 0 ? (size_t)wcwidth(wc) : 0;
        if (text[used] == ' ')
            blank = used;
        if (width > columns && used > 0)
            return blank > used / 2 ? blank : comma > 0 ? comma : blank > 0 ? blank : used;
        used += n;
        if (text[used - 1] == ',')
            comma = used;
    }
    return used;
}

size_t output_wrapped(const char *text, size_t first, size_t indent, size_t columns, FILE *out)
{
    size_t size = strlen(text) + 4, taken = first;
    char *clean = grow(NULL, size), *rest = clean;

    output_clean(text, size, clean, size);
    for (size_t n = strlen(clean); n > 0 && clean[n - 1] == ' '; n--)
        clean[n - 1] = '\0';
    for (;;) {
        size_t n = line_bytes(rest, columns > taken ? columns - taken : 1);
        char next = rest[n];

        rest[n] = '\0';
        fputs(rest, out);
        taken += output_width(rest);
        rest[n] = next;
        rest += n + (next == ' ');
        if (*rest == '\0')
            break;
        fprintf(out, "\n%*s", (int)indent, "");
        taken = indent;
    }
    free(clean);
    return taken;
}

void output_say(const char *fmt, ...)
{
    size_t columns, lines;
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    output_terminal(STDOUT_FILENO, &columns, &lines);
    output_wrapped(text, 0, 4, columns, stdout);
    putchar('\n');
}

static size_t total_width(const struct output_table *table, const size_t *widths)
{
    size_t total = 0;

    for (size_t i = 0; i < table->n_columns; i++)
        total += widths[i] + (i > 0 ? COLUMN_GAP : 0);
    return total;
}

/* The widest column that may be cut, n_columns if there is none: aligned left, wider than its
 * title, and not the last one. */
static size_t widest_column(const struct output_table *table, const size_t *widths)
{
    size_t widest = table->n_columns;

    for (size_t i = 0; i + 1 < table->n_columns; i++) {
        const char *title = table->titles[i];

        if (title[0] != '>' && widths[i] > strlen(title) &&
            (widest == table->n_columns || widths[i] > widths[widest]))
            widest = i;
    }
    return widest;
}

/* The widths of the columns: those of their cells, and then less where it has to be. */
static void measure(const struct output_table *table, size_t columns, size_t *widths)
{
    size_t n = table->n_columns, last = n - 1, total, widest;

    for (size_t i = 0; i < n; i++)
        widths[i] = strlen(table->titles[i]) - (table->titles[i][0] == '>');
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t width = output_width(table->cells[i]);

        if (width > widths[i % n])
            widths[i % n] = width;
    }
    total = total_width(table, widths);
    if (total > columns && table->titles[last][0] != '>' && widths[last] > LAST_MIN) {
        size_t others = total - widths[last];

        widths[last] = columns > others + LAST_MIN ? columns - others : LAST_MIN;
    }
    for (total = total_width(table, widths);
         total > columns && (widest = widest_column(table, widths)) < n; total--)
        widths[widest]--;
}

/* A row of cells, or the titles, whose marks are left out. */
static void print_row(const struct output_table *table, const char *const *cells,
                      const size_t *widths, FILE *out)
{
    size_t n = table->n_columns, indent = total_width(table, widths) - widths[n - 1];
    char cut[512];

    for (size_t i = 0; i < n; i++) {
        bool right = table->titles[i][0] == '>', last = i == n - 1;
        const char *text = cells[i] + (right && cells == table->titles);
        int pad;

        if (last && !right) {
            output_wrapped(text, indent, indent, indent + widths[i], out);
            continue;
        }
        output_clean(text, widths[i], cut, sizeof(cut));
        pad = (int)(widths[i] - output_width(cut));
        if (right)
            fprintf(out, "%*s%s%*s", pad, "", cut, last ? 0 : COLUMN_GAP, "");
        else
            fprintf(out, "%s%*s", cut, pad + COLUMN_GAP, "");
    }
    fputc('\n', out);
}

void output_table_print(struct output_table *table, FILE *out)
{
    size_t n = table->n_columns, columns, lines;
    size_t *widths = grow(NULL, n * sizeof(*widths));

    output_terminal(fileno(out), &columns, &lines);
    measure(table, columns, widths);
    print_row(table, table->titles, widths, out);
    for (size_t i = 0; i + n <= table->n_cells; i += n)
        print_row(table, (const char *const *)table->cells + i, widths, out);
    free(widths);
}

void output_table_end(struct output_table *table)
{
    output_table_print(table, stdout);
    output_table_done(table);
}

void output_table_done(struct output_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->n_cells = 0;
}

void output_json(struct json_object *object)
{
    if (object == NULL)
        puts("{}");
    else
        puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
                                                        JSON_C_TO_STRING_SPACED |
                                                        JSON_C_TO_STRING_NOSLASHESCAPE));
}
