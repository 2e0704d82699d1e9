/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_IDENT_H
#define SCRUBD_IDENT_H

#include <stdbool.h>
#include <stdint.h>

#define IDENT_UUID_TEXT 37     /* "01234567-89ab-cdef-0123-456789abcdef" and NUL */
#define IDENT_DOMID_MAX 0x7fef /* the last number before Xen's reserved ones */

/* What a domain is: its number, which is used again, and the hypervisor's handle for it, which is
 * not. */
struct ident {
    uint32_t domid;
    uint8_t uuid[16];
};

bool ident_equal(const struct ident *a, const struct ident *b);

/* Write the handle as text into buf (IDENT_UUID_TEXT bytes), and return buf. */
char *ident_uuid_text(const struct ident *id, char *buf);

/* True if text is a UUID with dashes; its bytes then are in ret. */
bool ident_parse_uuid(const char *text, uint8_t ret[16]);

#endif
