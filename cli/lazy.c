/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libxl and libsystemd, loaded when a verb first calls one of their functions: they bring twenty
 * other libraries with them, which takes ten times as long as to ask scrubd for its status. What
 * is called is defined here, and passed on.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <libxl.h>
#include <libxl_utils.h>
#include <libxl_uuid.h>
#include <systemd/sd-journal.h>
#include <xencall.h>
#include <xenctrl.h>
#include <xentoollog.h>

/* Global, so that libxl finds our xc_domain_destroy() before libxenctrl's, and we find that. */
static void *load(const char *library, const char *name)
{
    void *fn = dlsym(RTLD_DEFAULT, name);

    if (fn == NULL && dlopen(library, RTLD_NOW | RTLD_GLOBAL) != NULL)
        fn = dlsym(RTLD_DEFAULT, name);
    if (fn == NULL) {
        fprintf(stderr, "scrubctl: cannot load %s: %s\n", library, dlerror());
        exit(1);
    }
    return fn;
}

/* Hidden, or dlsym() would find these. */
#define LAZY(library, type, name, params, args)                                                    \
    __attribute__((visibility("hidden"))) type name params                                         \
    {                                                                                              \
        static __typeof__(type(*) params) fn;                                                      \
                                                                                                   \
        if (fn == NULL)                                                                            \
            fn = (__typeof__(fn))load(library, #name);                                             \
        return fn args;                                                                            \
    }
#define LIBXL(type, name, params, args) LAZY(LIBXENLIGHT, type, name, params, args)
#define JOURNAL(type, name, params, args) LAZY("libsystemd.so.0", type, name, params, args)

LIBXL(int, libxl_ctx_alloc, (libxl_ctx * *pctx, int version, unsigned flags, xentoollog_logger *lg),
      (pctx, version, flags, lg))
LIBXL(int, libxl_ctx_free, (libxl_ctx * ctx), (ctx))
LIBXL(libxl_dominfo *, libxl_list_domain, (libxl_ctx * ctx, int *n), (ctx, n))
LIBXL(void, libxl_dominfo_list_free, (libxl_dominfo * list, int n), (list, n))
LIBXL(int, libxl_domain_info, (libxl_ctx * ctx, libxl_dominfo *info, uint32_t domid),
      (ctx, info, domid))
LIBXL(void, libxl_dominfo_init, (libxl_dominfo * info), (info))
LIBXL(void, libxl_dominfo_dispose, (libxl_dominfo * info), (info))
LIBXL(int, libxl_name_to_domid, (libxl_ctx * ctx, const char *name, uint32_t *domid),
      (ctx, name, domid))
LIBXL(char *, libxl_domid_to_name, (libxl_ctx * ctx, uint32_t domid), (ctx, domid))
LIBXL(int, libxl_uuid_compare, (const libxl_uuid *a, const libxl_uuid *b), (a, b))
LIBXL(int, libxl_uuid_from_string, (libxl_uuid * uuid, const char *text), (uuid, text))
LIBXL(int, libxl_domain_destroy, (libxl_ctx * ctx, uint32_t domid, const libxl_asyncop_how *how),
      (ctx, domid, how))
LIBXL(libxl_vcpuinfo *, libxl_list_vcpu, (libxl_ctx * ctx, uint32_t domid, int *n, int *n_cpus),
      (ctx, domid, n, n_cpus))
LIBXL(void, libxl_vcpuinfo_list_free, (libxl_vcpuinfo * list, int n), (list, n))
LIBXL(int, libxl_bitmap_test, (const libxl_bitmap *bitmap, int bit), (bitmap, bit))
LIBXL(xentoollog_logger_stdiostream *, xtl_createlogger_stdiostream,
      (FILE * f, xentoollog_level min, unsigned flags), (f, min, flags))
LIBXL(void, xtl_logger_destroy, (xentoollog_logger * logger), (logger))
LIBXL(void, xtl_stdiostream_set_minlevel,
      (xentoollog_logger_stdiostream * logger, xentoollog_level min), (logger, min))

/* Of libxenctrl and libxencall, which libxl brings. */
LIBXL(xc_interface *, xc_interface_open,
      (xentoollog_logger * logger, xentoollog_logger *builder, unsigned flags),
      (logger, builder, flags))
LIBXL(int, xc_interface_close, (xc_interface * xch), (xch))
LIBXL(int, xc_version, (xc_interface * xch, int cmd, void *arg), (xch, cmd, arg))
LIBXL(int, xc_livepatch_get, (xc_interface * xch, char *name, xen_livepatch_status_t *status),
      (xch, name, status))
LIBXL(int, xc_livepatch_upload,
      (xc_interface * xch, char *name, unsigned char *payload, uint32_t size),
      (xch, name, payload, size))
LIBXL(int, xc_livepatch_apply, (xc_interface * xch, char *name, uint32_t timeout, uint32_t flags),
      (xch, name, timeout, flags))
LIBXL(int, xc_livepatch_revert, (xc_interface * xch, char *name, uint32_t timeout, uint32_t flags),
      (xch, name, timeout, flags))
LIBXL(int, xc_livepatch_unload, (xc_interface * xch, char *name, uint32_t timeout, uint32_t flags),
      (xch, name, timeout, flags))
LIBXL(xencall_handle *, xencall_open, (xentoollog_logger * logger, unsigned flags), (logger, flags))
LIBXL(int, xencall_close, (xencall_handle * xcall), (xcall))
LIBXL(void *, xencall_alloc_buffer, (xencall_handle * xcall, size_t size), (xcall, size))
LIBXL(void, xencall_free_buffer, (xencall_handle * xcall, void *p), (xcall, p))
LIBXL(int, xencall1, (xencall_handle * xcall, unsigned int op, uint64_t arg), (xcall, op, arg))

JOURNAL(int, sd_journal_open, (sd_journal * *ret, int flags), (ret, flags))
JOURNAL(int, sd_journal_open_directory, (sd_journal * *ret, const char *path, int flags),
        (ret, path, flags))
JOURNAL(void, sd_journal_close, (sd_journal * j), (j))
JOURNAL(int, sd_journal_previous, (sd_journal * j), (j))
JOURNAL(int, sd_journal_seek_tail, (sd_journal * j), (j))
JOURNAL(int, sd_journal_get_realtime_usec, (sd_journal * j, uint64_t *ret), (j, ret))
JOURNAL(int, sd_journal_get_data,
        (sd_journal * j, const char *field, const void **data, size_t *len), (j, field, data, len))
JOURNAL(int, sd_journal_add_match, (sd_journal * j, const void *data, size_t size), (j, data, size))
