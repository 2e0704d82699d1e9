/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "payload.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPENDS ".livepatch.xen_depends"

void payload_hex(const unsigned char *id, size_t len, char *ret)
{
    if (len > (PAYLOAD_ID_TEXT - 1) / 2)
        len = (PAYLOAD_ID_TEXT - 1) / 2;
    for (size_t i = 0; i < len; i++)
        sprintf(ret + 2 * i, "%02x", id[i]);
    ret[2 * len] = '\0';
}

static bool inside(const struct payload *p, uint64_t at, uint64_t size)
{
    return at <= p->size && size <= p->size - at;
}

static bool name_is(const struct payload *p, const Elf64_Shdr *names, uint32_t at, const char *name)
{
    size_t size = strlen(name) + 1;

    return at <= names->sh_size && size <= names->sh_size - at &&
           memcmp(p->data + names->sh_offset + at, name, size) == 0;
}

/* A note: three sizes, a name, the id. */
static int read_note(struct payload *p, const Elf64_Shdr *s, const char *path, struct err *err)
{
    Elf64_Nhdr note = {0};
    uint64_t at = sizeof(note);

    if (s->sh_size >= sizeof(note))
        memcpy(&note, p->data + s->sh_offset, sizeof(note));
    at += ((uint64_t)note.n_namesz + 3) / 4 * 4;
    if (note.n_type != NT_GNU_BUILD_ID || !note.n_descsz || at > s->sh_size ||
        note.n_descsz > s->sh_size - at || note.n_descsz > 64)
        return err_set(err, EINVAL, "%s: " DEPENDS " holds no build-id", path);
    payload_hex(p->data + s->sh_offset + at, note.n_descsz, p->xen_id);
    return 0;
}

/* Every section has to be there: where a file is cut off, some are not. */
static int check(struct payload *p, const char *path, struct err *err)
{
    const Elf64_Shdr *found = NULL;
    Elf64_Shdr *sections;
    Elf64_Ehdr head;
    int r = 0;

    if (p->size < sizeof(head) || memcmp(p->data, ELFMAG, SELFMAG) != 0)
        return err_set(err, EINVAL, "%s: is no payload of a live patch, but %s", path,
                       p->size == 0 ? "empty" : "something else");
    memcpy(&head, p->data, sizeof(head));
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_type != ET_REL ||
        head.e_shentsize != sizeof(*sections) || head.e_shstrndx >= head.e_shnum)
        return err_set(err, EINVAL, "%s: is no payload of a live patch", path);
    if (!inside(p, head.e_shoff, (uint64_t)head.e_shnum * sizeof(*sections)))
        return err_set(err, EINVAL, "%s: is cut off, only %u bytes of it are there", path, p->size);
    sections = malloc(head.e_shnum * sizeof(*sections));
    if (sections == NULL)
        return err_set(err, ENOMEM, "out of memory");
    memcpy(sections, p->data + head.e_shoff, head.e_shnum * sizeof(*sections));
    for (unsigned int i = 0; i < head.e_shnum && r == 0; i++) {
        if (sections[i].sh_type != SHT_NOBITS &&
            !inside(p, sections[i].sh_offset, sections[i].sh_size))
            r = err_set(err, EINVAL, "%s: is cut off, only %u bytes of it are there", path,
                        p->size);
    }
    for (unsigned int i = 0; i < head.e_shnum && r == 0; i++) {
        if (sections[i].sh_type != SHT_NOBITS &&
            name_is(p, &sections[head.e_shstrndx], sections[i].sh_name, DEPENDS))
            found = &sections[i];
    }
    if (r == 0)
        r = found != NULL
                ? read_note(p, found, path, err)
                : err_set(err, EINVAL,
                          "%s: is no payload of a live patch: it has no section " DEPENDS, path);
    free(sections);
    return r;
}

int payload_read(const char *path, struct payload *ret, struct err *err)
{
    struct payload p = {.data = malloc(PAYLOAD_MAX)};
    FILE *f = fopen(path, "re");
    int r = 0;

    if (p.data == NULL)
        r = err_set(err, ENOMEM, "out of memory");
    else if (f == NULL)
        r = err_set(err, errno, "%s: %s", path, strerror(errno));
    if (r == 0) {
        p.size = (uint32_t)fread(p.data, 1, PAYLOAD_MAX, f);
        if (ferror(f))
            r = err_set(err, EIO, "%s: cannot be read", path);
        else if (p.size == PAYLOAD_MAX)
            r = err_set(err, EFBIG, "%s: is too large for a payload", path);
        else
            r = check(&p, path, err);
    }
    if (f != NULL)
        fclose(f);
    if (r < 0)
        free(p.data);
    else
        *ret = p;
    return r;
}
