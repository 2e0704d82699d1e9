/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (err) {
        err->code = code;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
    }
    return -code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    char context[120], old[sizeof(err->text)];
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, fmt);
    vsnprintf(context, sizeof(context), fmt, ap);
    va_end(ap);
    memcpy(old, err->text, sizeof(old));
    snprintf(err->text, sizeof(err->text), "%s: %.270s", context, old);
    return -err->code;
}
