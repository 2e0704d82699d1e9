/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the xc_domain_destroy() that we stand in front of. */
#ifndef HOOK_REAL_H
#define HOOK_REAL_H

#include "scrubhook.h"

/*
 * The one after ours in the search order of the program's own libraries, or NULL: where libxenctrl
 * is not loaded, or only behind a dlopen() that kept it to itself.
 */
scrubhook_real_fn real_next(void);

/*
 * The one of any libxenctrl in the process, however it was loaded, or NULL. The library stays
 * loaded from then on. Not from within dl_iterate_phdr().
 */
scrubhook_real_fn real_loaded(void);

#endif
