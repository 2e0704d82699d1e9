/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCRUBD_XEN_REAL_H
#define SCRUBD_XEN_REAL_H

#include "xen.h"

/* Insides of the real backend: what its files share. */

struct xc_interface_core; /* libxc's handle: its header redefines macros that xen-call.c needs */
struct xen_call;          /* our two hypercalls, xen-call.c */
struct xen_names;         /* names from xenstore, xen-names.c */

/* List domains with domid >= first, as in struct xen_ops. */
typedef int (*xen_list_fn)(void *arg, uint32_t first, struct xen_domain *ret, size_t max);

int xen_call_open(struct xen_call **ret, struct err *err);
void xen_call_close(struct xen_call *c); /* takes NULL */
int xen_call_probe(struct xen_call *c, struct err *err);
int xen_call_step(struct xen_call *c, const struct ident *id, uint32_t max_us, unsigned int flags,
                  struct xen_step *ret);
int xen_call_scrub_get(struct xen_call *c, bool with_cpus, struct xen_scrub *ret);
int xen_call_scrub_set(struct xen_call *c, const struct xen_scrub_settings *s);
int xen_call_scrub_reset(struct xen_call *c);

/* xen-cpus.c: as in struct xen_ops. */
int xen_cpus_list(struct xc_interface_core *xch, struct xen_cpu *ret, size_t max);
int xen_cpus_affinity(struct xc_interface_core *xch, const struct ident *id,
                      struct cpulist *ret_hard, struct cpulist *ret_soft);
int xen_cpus_memory_free(struct xc_interface_core *xch, uint64_t *ret_pages);

/* As in struct xen_ops; all take NULL. list is called by the thread that calls these alone. */
struct xen_names *xen_names_open(xen_list_fn list, void *arg);
void xen_names_close(struct xen_names *n);
int xen_names_fd(struct xen_names *n);
void xen_names_update(struct xen_names *n);
const char *xen_names_trouble(struct xen_names *n);
const char *xen_names_get(struct xen_names *n, const struct ident *id);
int xen_names_pool(struct xen_names *n, uint32_t id, char *ret, size_t size);

#endif
