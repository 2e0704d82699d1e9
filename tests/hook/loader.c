/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program without libxenctrl.
 *     loader MODULE DOMID   loads MODULE for itself alone, as Python does, and lets it destroy the
 * domain loader none DOMID     calls xc_domain_destroy() where nobody but the hook has one
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int (*destroy)(uint32_t domid);
    int (*symbol)(void *xch, uint32_t domid);
    void *handle;
    int rc;

    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "none") == 0) {
        symbol = (int (*)(void *, uint32_t))dlsym(RTLD_DEFAULT, "xc_domain_destroy");
        if (symbol == NULL)
            return 3;
        errno = 0;
        rc = symbol(NULL, (uint32_t)atoi(argv[2]));
        printf("rc=%d errno=%d\n", rc, errno);
        return rc != 0;
    }
    handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    destroy = (int (*)(uint32_t))dlsym(handle, "module_destroy");
    errno = 0;
    rc = destroy((uint32_t)atoi(argv[2]));
    printf("rc=%d errno=%d\n", rc, errno);
    return rc != 0;
}
