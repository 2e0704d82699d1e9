/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * search MIB: looks through all memory of a lab guest for the pattern that fill writes.
 *
 * It reads the kernel's view of its RAM, free pages included, which is as Xen gave it if the kernel
 * does not clear pages (init_on_alloc=0) and has not used them yet. Then it has fill write the
 * pattern to so many MiB, frees that, and searches again, to show that it does find free pages.
 * Prints, counting pages:
 *   LAB-SEARCH pages=N zero=N found=N
 *   LAB-OWN filled=N pages=N found=N
 */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define WORDS (PAGE / sizeof(uint64_t))
#define CHUNK_PAGES 64
#define KERNEL_TEXT 0xffffffff80000000ULL
#define RUN 4 /* so many words one after the other: not by chance, nor on a stack */

struct result {
    unsigned long pages, zero, found, unread;
};

/* Not as fill has it: this program's own memory is searched, too. */
static const volatile uint64_t key = 0x5bd1e995a3c59ac3ULL;
static const volatile uint64_t hidden = 0x64656164706167ULL ^ 0x5bd1e995a3c59ac3ULL;

static void look_at(const uint64_t *page, uint64_t pattern, struct result *r)
{
    unsigned int run = 0, longest = 0;
    uint64_t any = 0;

    for (size_t i = 0; i < WORDS; i++) {
        any |= page[i];
        run = page[i] == pattern ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    r->pages++;
    r->zero += !any;
    r->found += longest >= RUN;
}

static struct result search(void)
{
    static uint64_t chunk[CHUNK_PAGES * WORDS];
    static Elf64_Phdr phdrs[256];
    struct result r = {0};
    uint64_t pattern = hidden ^ key;
    Elf64_Ehdr header;
    int fd = open("/proc/kcore", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || pread(fd, &header, sizeof(header), 0) != sizeof(header) || header.e_phnum > 256 ||
        pread(fd, phdrs, header.e_phnum * sizeof(*phdrs), (off_t)header.e_phoff) !=
            (ssize_t)(header.e_phnum * sizeof(*phdrs))) {
        printf("LAB-FAILED: /proc/kcore cannot be read\n");
        exit(1);
    }
    for (unsigned int i = 0; i < header.e_phnum; i++) {
        const Elf64_Phdr *p = &phdrs[i];

        /* RAM has a physical address; the kernel's text, which is there twice, another virtual one.
         */
        if (p->p_type != PT_LOAD || p->p_paddr == UINT64_MAX || p->p_vaddr >= KERNEL_TEXT)
            continue;
        for (uint64_t done = 0; done < p->p_filesz;) {
            size_t want = sizeof(chunk);
            ssize_t got;

            if (want > p->p_filesz - done)
                want = p->p_filesz - done;
            got = pread(fd, chunk, want, (off_t)(p->p_offset + done));
            if (got < PAGE) {
                r.unread++;
                done += PAGE;
                continue;
            }
            for (ssize_t at = 0; at + PAGE <= got; at += PAGE)
                look_at(chunk + at / sizeof(uint64_t), pattern, &r);
            done += (uint64_t)got / PAGE * PAGE;
        }
    }
    memset(chunk, 0, sizeof(chunk));
    close(fd);
    return r;
}

int main(int argc, char **argv)
{
    struct result r;
    int status;
    pid_t pid;

    if (argc != 2)
        return 2;
    r = search();
    printf("LAB-SEARCH pages=%lu zero=%lu found=%lu unread=%lu\n", r.pages, r.zero, r.found,
           r.unread);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        execl("/bin/fill", "fill", argv[1], NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0 || unlink("/fill/pattern") != 0) {
        printf("LAB-FAILED: %s MiB could not be filled and freed\n", argv[1]);
        return 1;
    }
    r = search();
    printf("LAB-OWN filled=%ld pages=%lu found=%lu\n", atol(argv[1]) << 8, r.pages, r.found);
    return 0;
}
