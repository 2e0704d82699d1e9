/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static enum log_level log_max = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    log_max = level;
}

void log_at(enum log_level level, const char *fmt, ...)
{
    int saved = errno;
    char line[1024];
    size_t start, len;
    va_list ap;
    int n;

    if (level > log_max)
        return;
    start = (size_t)snprintf(line, sizeof(line), "<%d>", level);
    va_start(ap, fmt);
    n = vsnprintf(line + start, sizeof(line) - start - 1, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    len = start + (size_t)n;
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2;
    for (size_t i = start; i < len; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    }
    line[len++] = '\n';
    /* One write, so that lines of several threads or processes do not mix. Nobody to tell if it
     * fails. */
    if (write(STDERR_FILENO, line, len) < 0) {
        /* nothing */
    }
    errno = saved;
}

bool log_limit_pass(struct log_limit *limit, uint64_t now_us, uint64_t interval_us,
                    unsigned int *ret_missed)
{
    if (now_us < limit->next_us) {
        limit->missed++;
        return false;
    }
    *ret_missed = limit->missed;
    limit->missed = 0;
    limit->next_us = now_us + interval_us;
    return true;
}
