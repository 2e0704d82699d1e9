/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What scrubd has left in the journal. */
#ifndef CLI_JOURNAL_H
#define CLI_JOURNAL_H

#include <json-c/json.h>

#include "err.h"

/*
 * The last jobs of scrubd, at most max, as an array with the newest first, which the caller puts.
 * domain, unless NULL: only those of this name or uuid. Members: time (seconds since 1970), domid,
 * uuid, name (absent if unknown), event (dead, gone, caller: see daemon/engine-records.c), purpose,
 * pages, steps, and the stages toolstack_ms, waiting_ms, freeing_ms, hypervisor_ms, scrubbing_ms;
 * what the journal does not say is absent. -errno with text if there is no journal to read.
 */
int journal_jobs(const char *domain, unsigned int max, struct json_object **ret, struct err *err);

#endif
