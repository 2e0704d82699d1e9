/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "preload.h"

#include <string.h>

#define SEPARATORS ": "

static bool last_component_is(const char *entry, size_t len, const char *name)
{
    size_t name_len = strlen(name);

    if (len < name_len || memcmp(entry + len - name_len, name, name_len) != 0)
        return false;
    return len == name_len || entry[len - name_len - 1] == '/';
}

bool preload_remove(char *list, const char *name)
{
    const char *in = list;
    char *out = list;

    while (*in != '\0') {
        size_t len = strcspn(in, SEPARATORS);
        size_t gap = strspn(in + len, SEPARATORS);

        if (len > 0 && last_component_is(in, len, name)) {
            in += len + gap;
            continue;
        }
        memmove(out, in, len + gap);
        out += len + gap;
        in += len + gap;
    }
    /* What was before an entry that stood last. */
    while (out > list && strchr(SEPARATORS, out[-1]) != NULL)
        out--;
    *out = '\0';
    return out > list;
}
