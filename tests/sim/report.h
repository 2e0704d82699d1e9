/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Figures, on standard output and, if there is a file for them, as JSON in the form of the other
 * benches: [{"name", "value", "unit", "bar", "met", "samples"}, ..].
 */
enum bar {
    BAR_NONE = 0, /* only told */
    BAR_AT_MOST,
    BAR_AT_LEAST,
};

/* path may be NULL. False if it cannot be written. */
bool report_open(const char *path);
void report(const char *name, double value, const char *unit, enum bar bar, double limit,
            const double *samples, size_t n_samples);
/* Close the file; how many bars were missed. */
unsigned int report_close(void);

/* "  37 %  1234 of 10000, 250/s, 35 s left" on a terminal line of its own, not too often; only if
 * standard error is a terminal, else a line every 10 s. */
void progress(const char *what, unsigned int done, unsigned int all);

#endif
