/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scrubctl has an xc_domain_destroy() of its own, which libxl in the same process finds first: the
 * hook, with the means to see what goes on. libxl calls it in a child that it forks, hence the
 * shared memory.
 */
#ifndef CLI_INTERPOSE_H
#define CLI_INTERPOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "scrubhook.h"

#define INTERPOSE_REPLY_SIZE 32768

struct interpose {
    bool called; /* libxl has come to the point of destroying */
    bool begun;  /* scrubd has answered: it goes on whatever becomes of us */
    bool done;   /* verdict is there */
    enum scrubhook_verdict verdict;
    int verdict_errno;                /* of SCRUBHOOK_ABSENT */
    char verdict_text[64];            /* of the hook */
    char first[INTERPOSE_REPLY_SIZE]; /* the first reply, "" if none */
    char reply[INTERPOSE_REPLY_SIZE]; /* the last one, "" if none */
    char params[96];                  /* of scrubhook_opts; "" if none */
    /* Called in libxl's child for each reply; may be NULL. */
    void (*on_reply)(void *ctx, const char *json);
    void *ctx;
};

/* From now on, what is destroyed in this process or its children is told to the returned memory.
 * NULL: errno. */
struct interpose *interpose_begin(void);
void interpose_end(struct interpose *ip);

#endif
