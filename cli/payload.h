/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CLI_PAYLOAD_H
#define CLI_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define PAYLOAD_ID_TEXT 129 /* a build-id of at most 64 bytes, in hex, with its NUL */
#define PAYLOAD_MAX (8u << 20)

/* A live patch's payload in a file. */
struct payload {
    unsigned char *data; /* to be freed */
    uint32_t size;
    char xen_id[PAYLOAD_ID_TEXT]; /* of the hypervisor that it is for */
};

/* -errno with text: it cannot be read, is cut off, or is no payload. */
int payload_read(const char *path, struct payload *ret, struct err *err);
void payload_hex(const unsigned char *id, size_t len, char *ret);

#endif
