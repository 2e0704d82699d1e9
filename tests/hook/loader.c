/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program without libxenctrl. Prints "rc=N errno=N".
 *     loader MODULE DOMID          loads MODULE for itself alone, as Python does, and lets it
 *                                  destroy the domain
 *     loader MODULE DOMID create   lets it create a domain
 *     loader none DOMID [create]   calls them where nobody but the hook has any
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int report(int rc)
{
    printf("rc=%d errno=%d\n", rc, errno);
    return rc < 0;
}

static int without(uint32_t domid, int create)
{
    uint8_t config[256] = {0};
    void *symbol = dlsym(RTLD_DEFAULT, create ? "xc_domain_create" : "xc_domain_destroy");

    if (symbol == NULL)
        return 3;
    errno = 0;
    if (create)
        return report(((int (*)(void *, uint32_t *, void *))symbol)(NULL, &domid, config));
    return report(((int (*)(void *, uint32_t))symbol)(NULL, domid));
}

int main(int argc, char **argv)
{
    int (*call)(uint32_t domid);
    void *handle;

    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "none") == 0)
        return without((uint32_t)atoi(argv[2]), argc > 3);
    handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    call = (int (*)(uint32_t))dlsym(handle, argc > 3 ? "module_create" : "module_destroy");
    errno = 0;
    return report(call((uint32_t)atoi(argv[2])));
}
