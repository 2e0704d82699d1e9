/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Values as people write them, in options and operands. Whatever is wrong with one has been told,
 * and *ret is as it was. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd.h"

/* The value of an option, by its index in cmd.options: see sizes.h. Without the option nothing is
 * changed. */
enum exit_code option_ms(const struct cmd_args *args, int option, uint64_t *ret_ms);
enum exit_code option_kib(const struct cmd_args *args, int option, uint64_t *ret_kib);

/* A priority; what: how to call it in a message. */
enum exit_code option_priority(const struct cmd_args *args, const char *what, const char *text,
                               int64_t *ret);

/* Whether text is a domid, not a name. */
bool option_is_domid(const char *text);

#endif
