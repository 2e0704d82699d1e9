/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_SIZES_H
#define SCRUBD_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define SIZES_TEXT 24

/*
 * Parse an amount of memory (or of memory per second) as people write it: "200M", "1.5G", "512K",
 * "2T"; "MiB", "MB", "M/s" mean the same as "M", all are powers of 1024. "0" needs no unit, every
 * other number does. The result is in KiB, rounded to the nearest. -EINVAL with text.
 */
int sizes_parse_kib(const char *text, uint64_t *ret_kib, struct err *err);

/* Parse a time span: "500ms", "90s", "1.5m", "2h", "1h30m", "3 min 20 s". More than 0, at most a
 * day. -EINVAL with text. */
int sizes_parse_ms(const char *text, uint64_t *ret_ms, struct err *err);

/* "512K", "200M", "1.50G", "3.25T": three digits that count. Returns buf, which has SIZES_TEXT
 * bytes. */
char *sizes_format_kib(uint64_t kib, char *buf);

#endif
