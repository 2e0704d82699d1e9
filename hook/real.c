/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "real.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#define LIBRARY "libxenctrl.so"
#define HOOK "libscrubhook.so"

static bool last_component_begins(const char *path, const char *with)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;

    return slash != NULL && strncmp(slash + 1, with, strlen(with)) == 0;
}

static int copy_path(struct dl_phdr_info *info, size_t size, void *data)
{
    char *path = data;

    (void)size;
    if (!last_component_begins(info->dlpi_name, LIBRARY))
        return 0;
    if (strlen(info->dlpi_name) >= PATH_MAX)
        return 0;
    strcpy(path, info->dlpi_name);
    return 1;
}

real_fn real_loaded(const char *symbol)
{
    char path[PATH_MAX];
    real_fn fn;
    void *handle;

    /* The path is copied out, since a dlopen() in the callback would take the loader's locks in the
     * wrong order. */
    if (dl_iterate_phdr(copy_path, path) == 0)
        return NULL;
    handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == NULL)
        return NULL;
    fn = (real_fn)dlsym(handle, symbol);
    if (fn == NULL)
        dlclose(handle);
    /* Else the handle is kept: the library must outlive the pointer into it. */
    return fn;
}

real_fn real_next(const char *symbol)
{
    real_fn fn = (real_fn)dlsym(RTLD_NEXT, symbol);
    Dl_info info;

    /*
     * Preloaded under scrubctl, or twice. Two of us in a row would ask twice, and where scrubd lets
     * its callers go one after another the second would wait for the first, which waits for it.
     */
    if (fn != NULL && dladdr((void *)fn, &info) != 0 && last_component_begins(info.dli_fname, HOOK))
        return real_loaded(symbol);
    return fn;
}
