/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "real.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <string.h>

#define LIBRARY "libxenctrl.so"
#define SYMBOL "xc_domain_destroy"

/* Ours, in the program or library that this is linked into. */
int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid);

static scrubhook_real_fn real_from(void *handle)
{
    scrubhook_real_fn fn = (scrubhook_real_fn)dlsym(handle, SYMBOL);

    return fn == xc_domain_destroy ? NULL : fn;
}

scrubhook_real_fn real_next(void)
{
    return real_from(RTLD_NEXT);
}

static int copy_path(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;
    char *path = data;

    (void)size;
    if (slash == NULL || strncmp(slash + 1, LIBRARY, strlen(LIBRARY)) != 0)
        return 0;
    if (strlen(info->dlpi_name) >= PATH_MAX)
        return 0;
    strcpy(path, info->dlpi_name);
    return 1;
}

scrubhook_real_fn real_loaded(void)
{
    char path[PATH_MAX];
    scrubhook_real_fn fn;
    void *handle;

    /* The path is copied out, since a dlopen() in the callback would take the loader's locks in the
     * wrong order. */
    if (dl_iterate_phdr(copy_path, path) == 0)
        return NULL;
    handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == NULL)
        return NULL;
    fn = real_from(handle);
    if (fn == NULL)
        dlclose(handle);
    /* Else the handle is kept: the library must outlive the pointer into it. */
    return fn;
}
