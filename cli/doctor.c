/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>

#include "wire.h"

struct json_object *doctor_say(struct doctor *d, enum doctor_severity severity, const char *check,
                               const char *command, const char *fmt, ...)
{
    static const char *const names[] = {"ok", "note", "warning", "error"};
    struct json_object *finding = wire_object();
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    wire_add_str(finding, "severity", names[severity]);
    wire_add_str(finding, "check", check);
    wire_add_str(finding, "text", text);
    wire_add_str_opt(finding, "command", command);
    json_object_array_add(d->findings, finding);
    if (severity > d->worst)
        d->worst = severity;
    return finding;
}
