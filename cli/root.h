/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of the host that scrubctl looks at. */
#ifndef CLI_ROOT_H
#define CLI_ROOT_H

#include <stdbool.h>
#include <stddef.h>

/* Where the host's root directory is: "" but in tests, which set $SCRUBD_ROOT. */
const char *root_dir(void);

/* Below it. Returns buf, with at most size bytes. */
char *root_path(const char *path, char *buf, size_t size);

/* The beginning of a file, with zeros at its end, but without the newline there. False, and "", if
 * it cannot be read. */
bool root_read(const char *path, char *buf, size_t size);

#endif
