/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ident.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool ident_equal(const struct ident *a, const struct ident *b)
{
    return a->domid == b->domid && memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

char *ident_uuid_text(const struct ident *id, char *buf)
{
    char *p = buf;

    for (int i = 0; i < 16; i++)
        p +=
            snprintf(p, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id->uuid[i]);
    return buf;
}

static int hex_digit(char c)
{
    if (isdigit((unsigned char)c))
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool ident_parse_uuid(const char *text, uint8_t ret[16])
{
    uint8_t uuid[16];

    if (strlen(text) != IDENT_UUID_TEXT - 1)
        return false;
    for (int i = 0; i < 16; i++) {
        int high, low;

        if (i == 4 || i == 6 || i == 8 || i == 10) {
            if (*text++ != '-')
                return false;
        }
        high = hex_digit(text[0]);
        low = hex_digit(text[1]);
        if (high < 0 || low < 0)
            return false;
        uuid[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    memcpy(ret, uuid, sizeof(uuid));
    return true;
}
