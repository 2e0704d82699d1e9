/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "log.h"

#include <errno.h>
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

/* Whether that was all that can be done: the journal may also be restarted. */
static bool to_journal(enum log_level level, const struct log_subject *about, const char *line)
{
    char text[LINE + 256];
    int n = snprintf(text, sizeof(text), "PRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nMESSAGE=%s\n", level,
                     program_invocation_short_name, line);

    if (about) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, "SCRUBD_DOMID=%u\nSCRUBD_UUID=%s\n",
                      about->domid, about->uuid);
        if (about->job)
            n += snprintf(text + n, sizeof(text) - (size_t)n, "SCRUBD_JOB=%llu\n",
                          (unsigned long long)about->job);
    }
    if (send(journal_fd, text, (size_t)n, MSG_NOSIGNAL) == n) {
        if (lost) {
            n = snprintf(
                text, sizeof(text),
                "PRIORITY=4\nSYSLOG_IDENTIFIER=%s\nMESSAGE=%u lines before this were lost: "
                "the journal did not take them\n",
                program_invocation_short_name, lost);
            if (send(journal_fd, text, (size_t)n, MSG_NOSIGNAL) == n)
                lost = 0;
        }
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
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
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
