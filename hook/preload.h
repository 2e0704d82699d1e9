/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef HOOK_PRELOAD_H
#define HOOK_PRELOAD_H

#include <stdbool.h>

/*
 * Takes the entries whose last path component is name out of list, a value of LD_PRELOAD (entries
 * separated by colons and spaces), in place; the others keep their order and separators. Returns
 * whether any entry is left.
 */
bool preload_remove(char *list, const char *name);

#endif
