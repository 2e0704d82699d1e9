/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The series as a live patch: what it adds, which functions of the running
 * hypervisor it replaces, and what has to be undone before they come back.
 */

#include <xen/init.h>
#include <xen/lib.h>
#include <xen/livepatch.h>
#include <xen/livepatch_payload.h>

#include "scrub_ctl.c"
#include "teardown.c"
/* Made by the build: FN_ADDR, FN_OLD_SIZE and FN_NEW_SIZE. */
#include "scrub_livepatch_sizes.h"

/* Static in page_alloc.c, and only its address is of interest. */
void alloc_heap_pages(void);

#define REPLACED(fn)                                                           \
    { .name = #fn, .version = LIVEPATCH_PAYLOAD_VERSION,                       \
      .old_addr = (void *)fn ## _ADDR, .old_size = fn ## _OLD_SIZE,            \
      .new_addr = fn, .new_size = fn ## _NEW_SIZE }

/* One array: there would be padding between separate objects. */
static struct livepatch_func __used __section(".livepatch.funcs") funcs[] = {
    REPLACED(scrub_free_pages),
    REPLACED(alloc_heap_pages),
    REPLACED(do_domctl),
    REPLACED(do_sysctl),
};

/*
 * Called while all other CPUs wait with their stacks unwound: nobody is in
 * here, holds a lock, or runs a timer or tasklet.  A step that was about to
 * continue finds a hypervisor without it, and is told -ENOSYS.
 */
static void scrub_livepatch_unload(void)
{
    unsigned int i;

    /* What idle CPUs do from now on is up to the functions that come back. */
    reset();

    for ( i = 0; i < MAX_NUMNODES; i++ )
        if ( scrub_nodes[i].timer.function )
        {
            kill_timer(&scrub_nodes[i].timer);
            tasklet_kill(&scrub_nodes[i].tasklet);
        }

    if ( lease_timer.function )
        kill_timer(&lease_timer);

    if ( step_timer.function )
        kill_timer(&step_timer);
}
LIVEPATCH_UNLOAD_HOOK(scrub_livepatch_unload);
