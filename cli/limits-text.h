/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CLI_LIMITS_TEXT_H
#define CLI_LIMITS_TEXT_H

#include "wire.h"

/* Prints a line for each of the limits that there are in an object of the interface's Limits, after
 * left. */
void limits_print(const char *left, struct json_object *limits);

#endif
