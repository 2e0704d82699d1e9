/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>
#include <wctype.h>

#include "sizes.h"
#include "wire.h"

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

static void print_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
    size_t pad = width - output_width(text);

    if (right)
        fprintf(out, "%*s%s", (int)pad, "", text);
    else if (last)
        fprintf(out, "%s", text);
    else
        fprintf(out, "%s%*s", text, (int)pad, "");
    fputs(last ? "\n" : "  ", out);
}

void output_table_print(struct output_table *table, FILE *out)
{
    size_t n = table->n_columns, *widths = grow(NULL, n * sizeof(*widths));

    for (size_t i = 0; i < n; i++)
        widths[i] = strlen(table->titles[i]) - (table->titles[i][0] == '>');
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t width = output_width(table->cells[i]);

        if (width > widths[i % n])
            widths[i % n] = width;
    }
    for (size_t i = 0; i < n + table->n_cells; i++) {
        const char *title = table->titles[i % n];
        bool right = title[0] == '>';

        print_cell(out, i < n ? title + right : table->cells[i - n], widths[i % n], right,
                   i % n == n - 1);
    }
    free(widths);
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
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                    JSON_C_TO_STRING_NOSLASHESCAPE));
}
