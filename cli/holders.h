/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who may hold on to the pages of a dead domain. */
#ifndef CLI_HOLDERS_H
#define CLI_HOLDERS_H

#include <stdint.h>

#include <json-c/json.h>

/*
 * The candidates, the likeliest first, as an array that the caller puts: backends of this kernel
 * for the domain (device), and processes that map pages of domains (pid, command, maps: "privcmd",
 * "gntdev" or both). Of which domain these pages are the kernel does not tell: so a process is
 * proven to have to do with it only if its arguments say its number, and likely else. Processes
 * that name another domain come after those that name none, and daemons of the system, which map
 * pages of all domains, last (system). name may be NULL.
 *
 * Members: certainty ("proven", "likely"), names_domain, system, and those above.
 */
struct json_object *holders_find(uint32_t domid, const char *name);

/* "qemu-system-i386 (pid 812)", "vif-7-0". Returns buf. */
const char *holders_label(struct json_object *holder, char *buf, size_t size);

#endif
