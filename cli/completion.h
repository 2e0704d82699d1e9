/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scripts by which shells complete command lines of scrubctl, made from the table of verbs. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdio.h>

void completion_bash(FILE *out);
void completion_zsh(FILE *out);

#endif
