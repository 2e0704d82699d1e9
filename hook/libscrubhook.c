/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The preloaded library: stands in front of libxenctrl's xc_domain_destroy() and xc_domain_create()
 * in whatever program it is put. */
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

#include <xenctrl.h>

#include "preload.h"
#include "real.h"
#include "scrubhook.h"

__attribute__((visibility("default"))) int xc_domain_destroy(struct xc_interface_core *xch,
                                                             uint32_t domid);
typedef int (*create_fn)(struct xc_interface_core *xch, uint32_t *pdomid,
                         struct xen_domctl_createdomain *config);
__attribute__((visibility("default"))) int xc_domain_create(struct xc_interface_core *xch,
                                                            uint32_t *pdomid,
                                                            struct xen_domctl_createdomain *config);

enum real {
    REAL_DESTROY,
    REAL_CREATE,
    REALS,
};
static const char *const symbols[REALS] = {
    [REAL_DESTROY] = "xc_domain_destroy",
    [REAL_CREATE] = "xc_domain_create",
};

/* Written by the constructor only, but for these, which any thread may fill in with the same value.
 */
static _Atomic(real_fn) reals[REALS];
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
    for (int i = 0; i < REALS; i++)
        reals[i] = real_next(symbols[i]);
    if (reals[REAL_DESTROY] != NULL)
        leave_environment();
}

static void on_verdict(void *ctx, enum scrubhook_verdict verdict, const char *text)
{
    const char *what = ctx;

    if (verdict == SCRUBHOOK_ABSENT)
        say("%s: %s (%s): %s", what, text, socket_path, strerror(errno));
    else
        say("%s: %s", what, text);
}

static real_fn find_real(enum real which, const char *what)
{
    real_fn fn = reals[which];

    if (fn == NULL)
        fn = real_next(symbols[which]);
    if (fn == NULL)
        fn = real_loaded(symbols[which]);
    if (fn == NULL)
        say("%s: no %s() of libxenctrl in this program", what, symbols[which]);
    reals[which] = fn;
    return fn;
}

int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid)
{
    char what[32];
    struct scrubhook_opts opts = {
        .socket_path = socket_path,
        .on_verdict = on_verdict,
        .ctx = what,
    };

    snprintf(what, sizeof(what), "dom=%u", domid);
    return scrubhook_destroy(domid, &opts, (scrubhook_real_fn)find_real(REAL_DESTROY, what), xch);
}

int xc_domain_create(struct xc_interface_core *xch, uint32_t *pdomid,
                     struct xen_domctl_createdomain *config)
{
    char what[] = "create";
    struct scrubhook_opts opts = {
        .socket_path = socket_path,
        .on_verdict = on_verdict,
        .ctx = what,
    };
    create_fn fn = (create_fn)find_real(REAL_CREATE, what);

    if (fn == NULL) {
        errno = ENOSYS;
        return -1;
    }
    scrubhook_await(config->handle, &opts);
    return fn(xch, pdomid, config);
}
