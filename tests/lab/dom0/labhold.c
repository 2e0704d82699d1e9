/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * labhold DOMID GFN COUNT: maps pages of a guest, as a backend or a debugger does, says so, and
 * holds on to them until it is killed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xenforeignmemory.h>

int main(int argc, char **argv)
{
    xenforeignmemory_handle *fmem = xenforeignmemory_open(NULL, 0);
    xen_pfn_t gfns[64];
    int errs[64];
    size_t count;

    if (fmem == NULL || argc != 4)
        return 2;
    count = strtoul(argv[3], NULL, 0);
    if (count == 0 || count > 64)
        return 2;
    for (size_t i = 0; i < count; i++)
        gfns[i] = strtoul(argv[2], NULL, 0) + i;
    if (xenforeignmemory_map(fmem, (uint32_t)atoi(argv[1]), PROT_READ, count, gfns, errs) == NULL) {
        perror("labhold");
        return 1;
    }
    printf("held\n");
    fflush(stdout);
    pause();
    return 0;
}
