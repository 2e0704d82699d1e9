/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stands for what scrubctl hypervisor uses of libxenctrl and libxencall. The file $FAKE_HV holds
 * the state: stock, uploaded, applied or patched; without it: stock. What changes it is written
 * there, and appended to $FAKE_HV.log. $FAKE_HV_FAIL=CALL:ERRNO has upload, apply, revert, unload,
 * get or open fail. Its build-id is 20 bytes of 0xab.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xen/sysctl.h>
#include <xencall.h>
#include <xenctrl.h>

#include "scrub_ctl.h"

static const char *state(void)
{
    static char text[20];
    FILE *f = getenv("FAKE_HV") != NULL ? fopen(getenv("FAKE_HV"), "re") : NULL;

    if (f == NULL || fscanf(f, "%19s", text) != 1)
        snprintf(text, sizeof(text), "stock");
    if (f != NULL)
        fclose(f);
    return text;
}

static int fails(const char *call)
{
    const char *text = getenv("FAKE_HV_FAIL");
    size_t len = strlen(call);

    if (text == NULL || strncmp(text, call, len) != 0 || text[len] != ':')
        return 0;
    return atoi(text + len + 1);
}

static int change(const char *call, const char *to)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s.log", getenv("FAKE_HV"));
    f = fopen(path, "ae");
    fprintf(f, "%s\n", call);
    fclose(f);
    errno = fails(call);
    if (errno != 0)
        return -1;
    f = fopen(getenv("FAKE_HV"), "we");
    fprintf(f, "%s\n", to);
    fclose(f);
    return 0;
}

xc_interface *xc_interface_open(xentoollog_logger *logger, xentoollog_logger *dombuild_logger,
                                unsigned open_flags)
{
    (void)logger;
    (void)dombuild_logger;
    (void)open_flags;
    errno = fails("open");
    return errno != 0 ? NULL : malloc(1);
}

int xc_interface_close(xc_interface *xch)
{
    free(xch);
    return 0;
}

int xc_version(xc_interface *xch, int cmd, void *arg)
{
    (void)xch;
    if (cmd != XENVER_build_id)
        return -1;
    memset(((xen_build_id_t *)arg)->buf, 0xab, 20);
    return 20;
}

int xc_livepatch_get(xc_interface *xch, char *name, xen_livepatch_status_t *status)
{
    (void)xch;
    errno = strcmp(name, "scrubd") != 0 ? EINVAL : fails("get");
    if (errno == 0 && strcmp(state(), "uploaded") != 0 && strcmp(state(), "applied") != 0)
        errno = ENOENT;
    if (errno != 0)
        return -1;
    status->state =
        strcmp(state(), "applied") == 0 ? LIVEPATCH_STATE_APPLIED : LIVEPATCH_STATE_CHECKED;
    status->rc = 0;
    return 0;
}

int xc_livepatch_upload(xc_interface *xch, char *name, unsigned char *payload, uint32_t size)
{
    (void)xch;
    (void)name;
    (void)payload;
    (void)size;
    return change("upload", "uploaded");
}

int xc_livepatch_apply(xc_interface *xch, char *name, uint32_t timeout, uint32_t flags)
{
    (void)xch;
    (void)name;
    (void)timeout;
    (void)flags;
    return change("apply", "applied");
}

int xc_livepatch_revert(xc_interface *xch, char *name, uint32_t timeout, uint32_t flags)
{
    (void)xch;
    (void)name;
    (void)timeout;
    (void)flags;
    return change("revert", "uploaded");
}

int xc_livepatch_unload(xc_interface *xch, char *name, uint32_t timeout, uint32_t flags)
{
    (void)xch;
    (void)name;
    (void)timeout;
    (void)flags;
    return change("unload", "stock");
}

xencall_handle *xencall_open(struct xentoollog_logger *logger, unsigned open_flags)
{
    (void)logger;
    (void)open_flags;
    return malloc(1);
}

int xencall_close(xencall_handle *xcall)
{
    free(xcall);
    return 0;
}

void *xencall_alloc_buffer(xencall_handle *xcall, size_t size)
{
    (void)xcall;
    return calloc(1, size);
}

void xencall_free_buffer(xencall_handle *xcall, void *p)
{
    (void)xcall;
    free(p);
}

int xencall1(xencall_handle *xcall, unsigned int op, uint64_t arg1)
{
    struct xen_sysctl *sysctl = (struct xen_sysctl *)(uintptr_t)arg1;
    struct xen_sysctl_scrub_control *scrub = (void *)sysctl->u.pad;

    (void)xcall;
    (void)op;
    if (strcmp(state(), "applied") != 0 && strcmp(state(), "patched") != 0) {
        errno = ENOSYS;
        return -1;
    }
    scrub->nr_nodes = 1;
    scrub->nr_cpus = 4;
    return 0;
}
