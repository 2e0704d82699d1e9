/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the functions of libxenctrl that we stand in front of. */
#ifndef HOOK_REAL_H
#define HOOK_REAL_H

/* Any of them, to be converted to what it is. */
typedef void (*real_fn)(void);

/*
 * The one after ours in the search order of the program's own libraries, or NULL: where libxenctrl
 * is not loaded, or only behind a dlopen() that kept it to itself.
 */
real_fn real_next(const char *symbol);

/*
 * The one of any libxenctrl in the process, however it was loaded, or NULL. The library stays
 * loaded from then on. Not from within dl_iterate_phdr().
 */
real_fn real_loaded(const char *symbol);

#endif
