/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Destroy a domain through scrubd, or without it where scrubd cannot or will not. And wait for
 * clean memory before a domain is created, for as long as scrubd thinks fit.
 *
 * Runs inside other people's programs (xl, libvirt, xenopsd, Python): libc only, no malloc, no
 * locks, no output, usable in a forked child, safe with any number of threads.
 */
#ifndef SCRUBHOOK_H
#define SCRUBHOOK_H

#include <stddef.h>
#include <stdint.h>

#define SCRUBHOOK_SOCKET "/run/scrubd/scrubd.sock"
#define SCRUBHOOK_CONNECT_MS 2000 /* to reach scrubd */
#define SCRUBHOOK_HELLO_MS 2000   /* from the request to the first reply */
#define SCRUBHOOK_SILENCE_MS 5000 /* from one reply to the next; scrubd sends one a second */
#define SCRUBHOOK_WAIT_MS 60000   /* before a create, unless scrubd says less */
#define SCRUBHOOK_LATE_MS 1000    /* how much later than it said scrubd may let a create go */

/*
 * What became of asking scrubd. All but DEAD mean that the caller has to destroy the domain itself;
 * a create goes on whatever it is.
 */
enum scrubhook_verdict {
    SCRUBHOOK_NOT_ASKED, /* domain 0 or a reserved number */
    SCRUBHOOK_DEAD,      /* scrubd has torn the domain down */
    SCRUBHOOK_GO,        /* memory is clean, or scrubd has waited for long enough */
    SCRUBHOOK_ABSENT,    /* scrubd cannot be reached; errno says why */
    SCRUBHOOK_REFUSED,   /* error reply */
    SCRUBHOOK_DECLINED,  /* scrubd asks the caller to do it */
    SCRUBHOOK_CLOSED,    /* scrubd hung up half-way, and there was no other one */
    SCRUBHOOK_SILENT,    /* no reply in time */
    SCRUBHOOK_GARBAGE,   /* not a reply of scrubd's, or one too long */
};

/* Zero means the default everywhere. */
struct scrubhook_opts {
    const char *socket_path;
    int connect_ms;
    int hello_ms;
    int silence_ms;
    /* More parameters of a destroy, as members of a JSON object that begin with a comma; short. */
    const char *params;
    /* Each reply as it came, NUL-terminated, valid during the call. */
    void (*on_reply)(void *ctx, const char *json, size_t len);
    /* Once, before the real function is called; text is a constant sentence without a full stop. */
    void (*on_verdict)(void *ctx, enum scrubhook_verdict verdict, const char *text);
    void *ctx;
};

/*
 * Waits until scrubd says that a domain may be created now, one that will have this handle, or
 * cannot be heard: at most as long as its first reply says, and SCRUBHOOK_LATE_MS. errno is what it
 * was. opts may be NULL.
 */
void scrubhook_await(const uint8_t uuid[16], const struct scrubhook_opts *opts);

/* libxenctrl's xc_interface and xc_domain_destroy(). */
struct xc_interface_core;
typedef int (*scrubhook_real_fn)(struct xc_interface_core *xch, uint32_t domid);

/*
 * Does what real(xch, domid) does, by way of scrubd where possible. If that hangs up half-way the
 * next one is asked, once: it has as long to answer as scrubd may be silent. Returns when the
 * domain is dead, or what real() returned, with its errno. real may be NULL: -1 and ENOSYS then if
 * scrubd did not do it. opts may be NULL.
 */
int scrubhook_destroy(uint32_t domid, const struct scrubhook_opts *opts, scrubhook_real_fn real,
                      struct xc_interface_core *xch);

#endif
