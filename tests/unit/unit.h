/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_UNIT_H
#define SCRUBD_UNIT_H

/* What cmocka wants to have been included before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
