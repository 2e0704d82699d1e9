/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stands for libxl and libxenctrl under a real scrubctl, preloaded. Domains: 0, 7 web-3, 8 without
 * a name (its guest is half destroyed), 9 with a name that no terminal should see. Destroys as
 * libxl does: in a forked child, by the xc_domain_destroy() that comes first in the program. The
 * real one writes "real DOMID" to $FAKE_XC_LOG. $FAKE_LIBXL_FAIL: destroying fails before that.
 * $FAKE_NO_XEN: there is no Xen.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libxl.h>
#include <libxl_utils.h>

static const struct {
    uint32_t domid;
    const char *name;
    const char *uuid;
} domains[] = {
    {0, "Domain-0", "00000000-0000-0000-0000-000000000000"},
    {7, "web-3", "6f1b6d6e-0f53-4c1c-9d70-2b4b9b0c7a07"},
    {8, NULL, "6f1b6d6e-0f53-4c1c-9d70-2b4b9b0c7a08"},
    {9, "evil\033[2J\n", "6f1b6d6e-0f53-4c1c-9d70-2b4b9b0c7a09"},
};

#define N_DOMAINS ((int)(sizeof(domains) / sizeof(domains[0])))

int xc_domain_destroy(void *xch, uint32_t domid);

int libxl_ctx_alloc(libxl_ctx **pctx, int version, unsigned flags, xentoollog_logger *lg)
{
    (void)version;
    (void)flags;
    (void)lg;
    if (getenv("FAKE_NO_XEN") != NULL)
        return ERROR_FAIL;
    *pctx = malloc(1);
    return 0;
}

int libxl_ctx_free(libxl_ctx *ctx)
{
    free(ctx);
    return 0;
}

int libxl_name_to_domid(libxl_ctx *ctx, const char *name, uint32_t *domid)
{
    (void)ctx;
    for (int i = 0; i < N_DOMAINS; i++) {
        if (domains[i].name != NULL && strcmp(domains[i].name, name) == 0) {
            *domid = domains[i].domid;
            return 0;
        }
    }
    return ERROR_INVAL;
}

char *libxl_domid_to_name(libxl_ctx *ctx, uint32_t domid)
{
    (void)ctx;
    for (int i = 0; i < N_DOMAINS; i++) {
        if (domains[i].domid == domid && domains[i].name != NULL)
            return strdup(domains[i].name);
    }
    return NULL;
}

int libxl_domain_info(libxl_ctx *ctx, libxl_dominfo *info, uint32_t domid)
{
    (void)ctx;
    (void)info;
    for (int i = 0; i < N_DOMAINS; i++) {
        if (domains[i].domid == domid)
            return 0;
    }
    return ERROR_DOMAIN_NOTFOUND;
}

libxl_dominfo *libxl_list_domain(libxl_ctx *ctx, int *nb_domain_out)
{
    libxl_dominfo *list = calloc(N_DOMAINS, sizeof(*list));

    (void)ctx;
    for (int i = 0; i < N_DOMAINS; i++) {
        libxl_dominfo_init(&list[i]);
        list[i].domid = domains[i].domid;
        libxl_uuid_from_string(&list[i].uuid, domains[i].uuid);
    }
    *nb_domain_out = N_DOMAINS;
    return list;
}

/* $FAKE_VCPUS, like "0:0-1/0-1,7:2-3": of a domain, the CPUs of each vCPU, as single numbers or
 * ranges; domains without an entry have no vCPUs. */
static const char *vcpus_of(uint32_t domid)
{
    const char *text = getenv("FAKE_VCPUS");

    while (text != NULL) {
        char *end;

        if (strtoul(text, &end, 10) == domid && *end == ':')
            return end + 1;
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
    return NULL;
}

libxl_vcpuinfo *libxl_list_vcpu(libxl_ctx *ctx, uint32_t domid, int *nb_vcpu, int *nr_cpus_out)
{
    const char *text = vcpus_of(domid);
    libxl_vcpuinfo *list = calloc(8, sizeof(*list));

    (void)ctx;
    *nr_cpus_out = 8;
    *nb_vcpu = 0;
    while (text != NULL && *text != '\0' && *text != ',') {
        libxl_vcpuinfo *vcpu = &list[*nb_vcpu];
        char *end;
        unsigned long first = strtoul(text, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

        libxl_vcpuinfo_init(vcpu);
        vcpu->vcpuid = (uint32_t)(*nb_vcpu)++;
        vcpu->online = true;
        vcpu->cpumap.size = 1;
        vcpu->cpumap.map = calloc(1, 1);
        for (; first <= last; first++)
            vcpu->cpumap.map[0] |= (uint8_t)(1u << first);
        text = *end == '/' ? end + 1 : end;
    }
    return list;
}

int libxl_domain_destroy(libxl_ctx *ctx, uint32_t domid, const libxl_asyncop_how *ao_how)
{
    int status;
    pid_t pid;

    (void)ctx;
    (void)ao_how;
    if (getenv("FAKE_LIBXL_FAIL") != NULL)
        return ERROR_FAIL;
    pid = fork();
    if (pid == 0)
        _exit(xc_domain_destroy(NULL, domid) == 0 ? 0 : errno);
    while (waitpid(pid, &status, 0) < 0)
        ;
    return status == 0 ? 0 : ERROR_FAIL;
}

__attribute__((visibility("default"))) int xc_domain_destroy(void *xch, uint32_t domid)
{
    int fd = open(getenv("FAKE_XC_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    (void)xch;
    dprintf(fd, "real %u\n", domid);
    close(fd);
    return 0;
}
