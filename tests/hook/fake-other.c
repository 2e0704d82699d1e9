/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Somebody else's preloaded library. */
int other_library(void);

int other_library(void)
{
    return 0;
}
