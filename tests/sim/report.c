/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "report.h"

#include <stdio.h>
#include <unistd.h>

#include "loop.h"

static FILE *file;
static unsigned int n_entries, n_missed;

bool report_open(const char *path)
{
    n_entries = n_missed = 0;
    file = NULL;
    if (!path)
        return true;
    file = fopen(path, "we");
    if (!file) {
        perror(path);
        return false;
    }
    fputs("[", file);
    return true;
}

void report(const char *name, double value, const char *unit, enum bar bar, double limit,
            const double *samples, size_t n_samples)
{
    bool met = bar == BAR_AT_MOST ? value <= limit : value >= limit;
    char text[32] = "";

    if (bar != BAR_NONE) {
        snprintf(text, sizeof(text), "%s%g", bar == BAR_AT_MOST ? "<=" : ">=", limit);
        n_missed += !met;
    }
    printf("%s  %-34s %12.6g %-10s %s\n",
           bar == BAR_NONE ? "    "
           : met           ? "PASS"
                           : "MISS",
           name, value, unit, text);
    fflush(stdout);
    if (!file)
        return;
    fprintf(file,
            "%s\n {\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"bar\": \"%s\", "
            "\"met\": %s, \"samples\": [",
            n_entries++ ? "," : "", name, value, unit, text,
            bar == BAR_NONE ? "null"
            : met           ? "true"
                            : "false");
    for (size_t i = 0; i < n_samples; i++)
        fprintf(file, "%s%.6g", i ? ", " : "", samples[i]);
    fputs("]}", file);
}

unsigned int report_close(void)
{
    if (file) {
        fputs("\n]\n", file);
        fclose(file);
    }
    file = NULL;
    return n_missed;
}

void progress(const char *what, unsigned int done, unsigned int all)
{
    static uint64_t began_ns, said_ns;
    uint64_t now_ns = loop_real_ns();
    bool terminal = isatty(STDERR_FILENO);
    double rate;

    if (!done) {
        began_ns = said_ns = now_ns;
        return;
    }
    if (done < all && now_ns - said_ns < (terminal ? 200000000u : 10000000000u))
        return;
    said_ns = now_ns;
    rate = done / ((double)(now_ns - began_ns + 1) / 1e9);
    if (done == all && !terminal)
        return;
    fprintf(stderr, "%s%3u %%  %u of %u %s, %.0f/s, %.0f s left%s", terminal ? "\r" : "",
            done * 100u / all, done, all, what, rate, (all - done) / rate,
            terminal && done < all ? "   " : "   \n");
}
