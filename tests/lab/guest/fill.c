/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fill MIB|all: writes a pattern over that much of a lab guest's memory and keeps it there.
 *
 * It writes into a tmpfs file, which takes no page-table work from a PV guest and so is several
 * times faster under emulation than faulting pages in. "all" leaves 24 MiB and a 32nd for the rest.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define CHUNK (1u << 20)
#define SPARE_MIB 24
#define PATTERN 0x64656164706167ULL /* "deadpag" */

int main(int argc, char **argv)
{
    static uint64_t chunk[CHUNK / sizeof(uint64_t)];
    struct sysinfo info;
    long want, done = 0;
    int fd;

    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "all") == 0) {
        sysinfo(&info);
        want = (long)((info.freeram * info.mem_unit) >> 20) - SPARE_MIB;
        want -= (long)((info.totalram * info.mem_unit) >> 25);
    } else {
        want = atol(argv[1]);
    }
    for (size_t i = 0; i < CHUNK / sizeof(uint64_t); i++)
        chunk[i] = PATTERN;
    fd = open("/fill/pattern", O_CREAT | O_WRONLY, 0600);
    while (fd >= 0 && done < want && write(fd, chunk, CHUNK) == CHUNK)
        done++;
    printf("LAB-FILLED %ld\n", done);
    return done >= want ? 0 : 1;
}
