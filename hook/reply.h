/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads what scrubd answers to org.scrubd.Destroy and AwaitMemory. Pure: no I/O, no allocation. */
#ifndef HOOK_REPLY_H
#define HOOK_REPLY_H

#include <stdbool.h>
#include <stddef.h>

enum reply_event {
    REPLY_NO_EVENT,
    REPLY_ALIVE, /* hello, heartbeat, or an event of a later version: scrubd is at work */
    REPLY_DEAD,
    REPLY_DECLINE,
    REPLY_GO,
};

struct reply {
    bool error;     /* an error reply */
    bool continues; /* more replies follow */
    enum reply_event event;
    int wait_ms; /* how long scrubd may keep us waiting at most; -1 if it does not say */
};

/* Whether text is one JSON object, at most 16 deep, that may be a Varlink reply; false leaves
 * *ret_reply alone. */
bool reply_parse(const char *text, size_t len, struct reply *ret_reply);

#endif
