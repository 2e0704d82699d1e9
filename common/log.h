/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_LOG_H
#define SCRUBD_LOG_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Lines for the journal: to its own socket, with fields, if log_open() finds that stderr leads
 * there; else on stderr with the <N> prefix that it understands. One line a call; control
 * characters in it, which may come from outside, are replaced. A journal that hangs holds nobody
 * up: lines that it does not take are lost, and counted.
 */
enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
};

/* Once, at start, with the path of the journal's socket. Without it lines go to stderr. */
#define LOG_JOURNAL "/run/systemd/journal/socket"
void log_open(const char *journal);

/* Levels above this one are not printed. LOG_LEVEL_INFO at start. */
void log_set_level(enum log_level level);

void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * What a line is about: fields SCRUBD_DOMID, SCRUBD_UUID and SCRUBD_JOB (not if 0) in the journal,
 * and those of fields, which ends with a keyless one or is NULL. Control characters in values are
 * replaced, and values that are NULL left out.
 */
struct log_field {
    const char *key, *value;
};
struct log_subject {
    uint32_t domid;
    const char *uuid;
    uint64_t job;
    const struct log_field *fields;
};
void log_about(const struct log_subject *about, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_at(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

/*
 * For lines that others could provoke without end: says whether to print now. The first of each
 * interval passes; *ret_missed is how many did not since the last that passed.
 */
struct log_limit {
    uint64_t next_us;
    unsigned int missed;
};
bool log_limit_pass(struct log_limit *limit, uint64_t now_us, uint64_t interval_us,
                    unsigned int *ret_missed);

#endif
