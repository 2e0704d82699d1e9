/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xenctrl.h>
#include <xentoollog.h>

#include "xen-real.h"

struct xen {
    xentoollog_logger *logger;
    xc_interface *xch;
    struct xen_call *call;
    struct xen_names *names;
    char version[64];
};

static void real_close(struct xen *x)
{
    if (!x)
        return;
    xen_names_close(x->names);
    xen_call_close(x->call);
    if (x->xch)
        xc_interface_close(x->xch);
    if (x->logger)
        xtl_logger_destroy(x->logger);
    free(x);
}

static const char *real_version(struct xen *x)
{
    xen_extraversion_t extra = "";
    int version;

    if (x->version[0])
        return x->version;
    version = xc_version(x->xch, XENVER_version, NULL);
    if (version < 0 || xc_version(x->xch, XENVER_extraversion, &extra) < 0)
        return "unknown";
    snprintf(x->version, sizeof(x->version), "%d.%d%.16s", version >> 16, version & 0xffff, extra);
    return x->version;
}

static int real_probe(struct xen *x, struct err *err)
{
    return xen_call_probe(x->call, err);
}

static enum xen_shutdown shutdown_of(const xc_domaininfo_t *info)
{
    uint32_t code = info->flags >> XEN_DOMINF_shutdownshift & XEN_DOMINF_shutdownmask;

    if (!(info->flags & XEN_DOMINF_shutdown))
        return XEN_SHUTDOWN_NONE;
    /* A code of a newer Xen is at least none that somebody waits for. */
    return code < XEN_SHUTDOWN_SOFT_RESET ? code + 1 : XEN_SHUTDOWN_POWEROFF;
}

static void from_info(const xc_domaininfo_t *info, struct xen_domain *ret)
{
    ret->ident.domid = info->domain;
    memcpy(ret->ident.uuid, info->handle, sizeof(ret->ident.uuid));
    ret->pages = info->tot_pages;
    ret->shutdown = shutdown_of(info);
    ret->cpupool = info->cpupool;
    ret->building = info->flags & XEN_DOMINF_paused && !info->cpu_time &&
                    !(info->flags & (XEN_DOMINF_shutdown | XEN_DOMINF_dying));
    ret->dead = info->flags & XEN_DOMINF_dying; /* set at the end of dying, not before */
}

static int real_domain_get(struct xen *x, uint32_t domid, struct xen_domain *ret)
{
    xc_domaininfo_t info;
    int n = xc_domain_getinfolist(x->xch, domid, 1, &info);

    if (n < 0)
        return -errno;
    if (n == 0 || info.domain != domid)
        return -ESRCH;
    from_info(&info, ret);
    return 0;
}

static int real_domain_list(struct xen *x, uint32_t first, struct xen_domain *ret, size_t max)
{
    xc_domaininfo_t *infos;
    int n;

    if (first > IDENT_DOMID_MAX)
        return 0;
    infos = calloc(max, sizeof(*infos));
    if (!infos)
        return -ENOMEM;
    n = xc_domain_getinfolist(x->xch, first, (unsigned int)max, infos);
    if (n < 0)
        n = -errno;
    for (int i = 0; i < n; i++)
        from_info(&infos[i], &ret[i]);
    free(infos);
    return n;
}

static int list_for_names(void *arg, uint32_t first, struct xen_domain *ret, size_t max)
{
    return real_domain_list(arg, first, ret, max);
}

static int real_step(struct xen *x, const struct ident *id, uint32_t max_us, unsigned int flags,
                     struct xen_step *ret)
{
    return xen_call_step(x->call, id, max_us, flags, ret);
}

static int real_scrub_get(struct xen *x, bool with_cpus, struct xen_scrub *ret)
{
    return xen_call_scrub_get(x->call, with_cpus, ret);
}

static int real_scrub_set(struct xen *x, const struct xen_scrub_settings *s)
{
    return xen_call_scrub_set(x->call, s);
}

static int real_scrub_reset(struct xen *x)
{
    return xen_call_scrub_reset(x->call);
}

static int real_cpus(struct xen *x, struct xen_cpu *ret, size_t max)
{
    return xen_cpus_list(x->xch, ret, max);
}

static int real_affinity(struct xen *x, const struct ident *id, struct cpulist *ret_hard,
                         struct cpulist *ret_soft)
{
    return xen_cpus_affinity(x->xch, id, ret_hard, ret_soft);
}

static int real_cpupool_name(struct xen *x, uint32_t cpupool, char *ret, size_t size)
{
    return xen_names_pool(x->names, cpupool, ret, size);
}

static int real_memory_free(struct xen *x, uint64_t *ret_pages)
{
    return xen_cpus_memory_free(x->xch, ret_pages);
}

static int real_names_fd(struct xen *x)
{
    return xen_names_fd(x->names);
}

static void real_names_update(struct xen *x)
{
    xen_names_update(x->names);
}

static const char *real_names_trouble(struct xen *x)
{
    return xen_names_trouble(x->names);
}

static const char *real_name_of(struct xen *x, const struct ident *id)
{
    return xen_names_get(x->names, id);
}

static const struct xen_ops real_ops = {
    .close = real_close,
    .version = real_version,
    .probe = real_probe,
    .domain_get = real_domain_get,
    .domain_list = real_domain_list,
    .step = real_step,
    .scrub_get = real_scrub_get,
    .scrub_set = real_scrub_set,
    .scrub_reset = real_scrub_reset,
    .cpus = real_cpus,
    .affinity = real_affinity,
    .cpupool_name = real_cpupool_name,
    .memory_free = real_memory_free,
    .names_fd = real_names_fd,
    .names_update = real_names_update,
    .names_trouble = real_names_trouble,
    .name_of = real_name_of,
};

int xen_real_open(struct xen **ret, const struct xen_ops **ret_ops, struct err *err)
{
    struct xen *x = calloc(1, sizeof(*x));
    int r;

    if (!x)
        return err_set(err, ENOMEM, "out of memory");
    if (access("/proc/xen/privcmd", F_OK) < 0 && access("/dev/xen/privcmd", F_OK) < 0) {
        free(x);
        return err_set(err, ENODEV, "this is not a Xen control domain: no /dev/xen/privcmd");
    }
    x->logger = (xentoollog_logger *)xtl_createlogger_stdiostream(stderr, XTL_ERROR, 0);
    x->xch = x->logger ? xc_interface_open(x->logger, x->logger, 0) : NULL;
    if (!x->xch) {
        r = errno ? errno : ENOMEM;
        real_close(x);
        return err_set(err, r, "cannot talk to the hypervisor: %s", strerror(r));
    }
    r = xen_call_open(&x->call, err);
    if (r < 0) {
        real_close(x);
        return r;
    }
    x->names = xen_names_open(list_for_names, x);
    *ret = x;
    *ret_ops = &real_ops;
    return 0;
}
