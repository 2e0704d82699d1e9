/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CLI_ZOMBIES_H
#define CLI_ZOMBIES_H

#include "wire.h"

/* Prints an empty line and a table of zombies, an array of the interface's Zombie; nothing if there
 * are none, or zombies is NULL. */
void zombies_print(struct json_object *zombies);

#endif
