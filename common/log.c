/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LINE 1024

static enum log_level log_max = LOG_LEVEL_INFO;
static const char *journal_path;
static int journal_fd = -1; /* connected, if stderr is the journal */
static unsigned int lost;   /* lines that a full journal did not take */

void log_set_level(enum log_level level)
{
    log_max = level;
}

/*
 * The journal's native protocol, and not sd_journal_sendv(): that waits for a journal that hangs,
 * and a log is not worth standing still for.
 */
void log_open(const char *journal)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2 || fstat(STDERR_FILENO, &st) < 0 ||
        st.st_dev != dev || st.st_ino != ino)
        return;
    journal_path = journal;
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", journal);
    journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (journal_fd >= 0 && connect(journal_fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
        close(journal_fd);
        journal_fd = -1;
    }
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* A datagram for the journal. What does not fit is left out, a whole field at a time. */
struct datagram {
    char text[LINE + 1024];
    size_t len;
};

static void add_field(struct datagram *d, const char *key, const char *value)
{
    size_t room = sizeof(d->text) - d->len;
    int n = snprintf(d->text + d->len, room, "%s=%s\n", key, value);

    if (n < 0 || (size_t)n >= room)
        return;
    for (size_t i = d->len; i < d->len + (size_t)n - 1; i++) {
        if (is_control(d->text[i]))
            d->text[i] = '?';
    }
    d->len += (size_t)n;
}

static void add_number(struct datagram *d, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    add_field(d, key, text);
}

static void add_line(struct datagram *d, enum log_level level, const char *line)
{
    add_number(d, "PRIORITY", level);
    add_field(d, "SYSLOG_IDENTIFIER", program_invocation_short_name);
    add_field(d, "MESSAGE", line);
}

static void add_subject(struct datagram *d, const struct log_subject *about)
{
    add_number(d, "SCRUBD_DOMID", about->domid);
    add_field(d, "SCRUBD_UUID", about->uuid);
    if (about->job)
        add_number(d, "SCRUBD_JOB", about->job);
    for (const struct log_field *f = about->fields; f && f->key; f++) {
        if (f->value)
            add_field(d, f->key, f->value);
    }
}

static bool send_datagram(const struct datagram *d)
{
    return send(journal_fd, d->text, d->len, MSG_NOSIGNAL) == (ssize_t)d->len;
}

static void tell_lost(void)
{
    struct datagram d = {.len = 0};
    char line[96];

    snprintf(line, sizeof(line), "%u lines before this were lost: the journal did not take them",
             lost);
    add_line(&d, LOG_LEVEL_WARNING, line);
    if (send_datagram(&d))
        lost = 0;
}

/* Whether that was all that can be done: the journal may also be restarted. */
static bool to_journal(enum log_level level, const struct log_subject *about, const char *line)
{
    struct datagram d = {.len = 0};

    add_line(&d, level, line);
    if (about)
        add_subject(&d, about);
    if (send_datagram(&d)) {
        if (lost)
            tell_lost();
        return true;
    }
    /* On stderr it would be waited for. */
    if (errno == EAGAIN || errno == ENOBUFS) {
        lost++;
        return true;
    }
    if (errno == ECONNREFUSED || errno == ENOTCONN || errno == ECONNRESET) {
        close(journal_fd);
        journal_fd = -1;
        log_open(journal_path);
    }
    return false;
}

__attribute__((format(printf, 3, 0))) static void log_vat(const struct log_subject *about,
                                                          enum log_level level, const char *fmt,
                                                          va_list ap)
{
    int saved = errno;
    char line[LINE];
    size_t start, len;
    int n;

    if (level > log_max)
        return;
    start = (size_t)snprintf(line, sizeof(line), "<%d>", level);
    n = vsnprintf(line + start, sizeof(line) - start - 1, fmt, ap);
    if (n < 0)
        return;
    len = start + (size_t)n;
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2;
    for (size_t i = start; i < len; i++) {
        if (is_control(line[i]))
            line[i] = '?';
    }
    line[len] = '\0';
    if (journal_fd < 0 || !to_journal(level, about, line + start)) {
        line[len++] = '\n';
        /* One write, so that lines of several threads or processes do not mix. Nobody to tell if it
         * fails. */
        if (write(STDERR_FILENO, line, len) < 0) {
            /* nothing */
        }
    }
    errno = saved;
}

void log_at(enum log_level level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_vat(NULL, level, fmt, ap);
    va_end(ap);
}

void log_about(const struct log_subject *about, enum log_level level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_vat(about, level, fmt, ap);
    va_end(ap);
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
