/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "limits-text.h"

#include <stdio.h>

#include "output.h"

/* ", for 9 min 3 s more", or nothing. */
static const char *more(struct json_object *limits, const char *key, char *buf, size_t size)
{
    int64_t ms = wire_get_int(limits, key, -1);
    char text[OUTPUT_TEXT];

    *buf = '\0';
    if (ms >= 0)
        snprintf(buf, size, ", for %s more", output_duration(ms, text));
    return buf;
}

void limits_print(const char *left, struct json_object *limits)
{
    int64_t ceiling_kib = wire_get_int(limits, "ceiling_kib", -1);
    const char *mask = wire_get_str(limits, "mask", NULL);
    char text[OUTPUT_TEXT], time[OUTPUT_TEXT + 16];

    if (ceiling_kib >= 0)
        output_say("%sceiling  %s%s%s", left, output_rate_limit(ceiling_kib, text),
                   ceiling_kib > 0 ? " on each node" : "",
                   more(limits, "ceiling_for_ms", time, sizeof(time)));
    if (mask != NULL)
        output_say("%sCPUs     %s%s", left, mask, more(limits, "mask_for_ms", time, sizeof(time)));
}
