/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "root.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *root_dir(void)
{
    const char *dir = getenv("SCRUBD_ROOT");

    return dir != NULL ? dir : "";
}

char *root_path(const char *path, char *buf, size_t size)
{
    snprintf(buf, size, "%s%s", root_dir(), path);
    return buf;
}

bool root_read(const char *path, char *buf, size_t size)
{
    char full[PATH_MAX];
    size_t len = 0;
    ssize_t n = 0;
    int fd = open(root_path(path, full, sizeof(full)), O_RDONLY | O_CLOEXEC);

    memset(buf, 0, size);
    if (fd < 0)
        return false;
    /* Files of /proc come in pieces. */
    while (len < size - 1 && (n = read(fd, buf + len, size - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    if (n < 0) {
        memset(buf, 0, size);
        return false;
    }
    if (len > 0 && buf[len - 1] == '\n')
        buf[len - 1] = '\0';
    return true;
}
