/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The preloaded library: stands in front of libxenctrl's xc_domain_destroy() in whatever program it
 * is put. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "preload.h"
#include "real.h"
#include "scrubhook.h"

__attribute__((visibility("default"))) int xc_domain_destroy(struct xc_interface_core *xch,
                                                             uint32_t domid);

/* Written by the constructor only, but for real, which any thread may fill in with the same value.
 */
static _Atomic(scrubhook_real_fn) real;
static char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
static bool debug;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[256];
    va_list args;
    int n;

    if (!debug)
        return;
    n = snprintf(line, sizeof(line), "libscrubhook[%d]: ", (int)getpid());
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "%s\n", line);
}

/*
 * Children of a program that has the hook need none. Where libxenctrl is not linked the entry
 * stays, because that is often a shell script on its way to exec the program that is meant:
 * Debian's xl is one.
 */
static void leave_environment(void)
{
    char *list = getenv("LD_PRELOAD");
    const char *slash;
    Dl_info self;

    if (list == NULL || dladdr(&socket_path, &self) == 0 || self.dli_fname == NULL)
        return;
    slash = strrchr(self.dli_fname, '/');
    if (!preload_remove(list, slash != NULL ? slash + 1 : self.dli_fname))
        unsetenv("LD_PRELOAD");
}

__attribute__((constructor)) static void scrubhook_load(void)
{
    const char *path = secure_getenv("SCRUBD_SOCKET");
    const char *wanted = secure_getenv("SCRUBHOOK_DEBUG");

    debug = wanted != NULL && *wanted != '\0' && strcmp(wanted, "0") != 0;
    /* Cut off at a length that no socket address can have, a longer path fails as it should. */
    snprintf(socket_path, sizeof(socket_path), "%s",
             path != NULL && *path != '\0' ? path : SCRUBHOOK_SOCKET);
    /* Now, rather than in the child that libxl forks from a program with who knows how many
     * threads. */
    real = real_next();
    if (real != NULL)
        leave_environment();
}

static void on_verdict(void *ctx, enum scrubhook_verdict verdict, const char *text)
{
    const uint32_t *domid = ctx;

    if (verdict == SCRUBHOOK_ABSENT)
        say("dom=%u: %s (%s): %s", *domid, text, socket_path, strerror(errno));
    else
        say("dom=%u: %s", *domid, text);
}

int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid)
{
    struct scrubhook_opts opts = {
        .socket_path = socket_path,
        .on_verdict = on_verdict,
        .ctx = &domid,
    };
    scrubhook_real_fn fn = real;

    if (fn == NULL)
        fn = real_next();
    if (fn == NULL)
        fn = real_loaded();
    if (fn == NULL)
        say("dom=%u: no xc_domain_destroy() of libxenctrl in this program", domid);
    real = fn;
    return scrubhook_destroy(domid, &opts, fn, xch);
}
