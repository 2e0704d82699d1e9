/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "domain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libxl_utils.h>
#include <libxl_uuid.h>

#include "client.h"
#include "options.h"
#include "output.h"
#include "session.h"

/* What libxl knows of as a domain; reserved numbers begin above. */
#define DOMID_MAX 0x7fefu

enum exit_code xen_open(const struct cmd_args *args, struct xen *xen)
{
    /* Our own words say more than libxl's about what is wrong here. */
    xen->logger = xtl_createlogger_stdiostream(stderr, XTL_CRITICAL, 0);
    if (libxl_ctx_alloc(&xen->ctx, LIBXL_VERSION, 0, (xentoollog_logger *)xen->logger) != 0) {
        xtl_logger_destroy((xentoollog_logger *)xen->logger);
        return cmd_fail(args, EXIT_REFUSED, NULL, "cannot speak to Xen: %s",
                        geteuid() != 0 ? "only root can"
                                       : "this is not the control domain of a Xen host");
    }
    xtl_stdiostream_set_minlevel(xen->logger, XTL_ERROR);
    return EXIT_OK;
}

void xen_close(struct xen *xen)
{
    libxl_ctx_free(xen->ctx);
    xtl_logger_destroy((xentoollog_logger *)xen->logger);
}

static bool find_by_uuid(libxl_ctx *ctx, const libxl_uuid *uuid, uint32_t *ret_domid)
{
    int n = 0;
    libxl_dominfo *list = libxl_list_domain(ctx, &n);
    bool found = false;

    for (int i = 0; list != NULL && i < n && !found; i++) {
        found = libxl_uuid_compare(&list[i].uuid, uuid) == 0;
        if (found)
            *ret_domid = list[i].domid;
    }
    if (list != NULL)
        libxl_dominfo_list_free(list, n);
    return found;
}

/* Quiet: that scrubd does not run is nothing to speak of here. */
static bool find_job(const char *text, uint32_t *ret_domid)
{
    struct json_object *reply;
    struct client *client;
    bool found = false, more = true;

    if (client_open(client_socket_path(), SESSION_TIMEOUT_MS, &client, NULL) < 0)
        return false;
    if (client_send(client, WIRE_INTERFACE ".ListJobs", NULL, true, NULL) < 0)
        more = false;
    while (more && !found && client_receive(client, SESSION_TIMEOUT_MS, &reply, NULL) == 0) {
        struct json_object *job = wire_get_obj(wire_params(reply), "job");

        found = job != NULL && session_job_is(job, text);
        if (found)
            *ret_domid = (uint32_t)wire_get_int(job, "domid", 0);
        more = wire_flag(reply, "continues");
        json_object_put(reply);
    }
    client_close(client);
    return found;
}

static bool exists(libxl_ctx *ctx, uint32_t domid)
{
    libxl_dominfo info;
    bool found;

    libxl_dominfo_init(&info);
    found = libxl_domain_info(ctx, &info, domid) == 0;
    libxl_dominfo_dispose(&info);
    return found;
}

enum exit_code domain_find(const struct cmd_args *args, libxl_ctx *ctx, const char *text,
                           struct domain *ret)
{
    char shown[DOMAIN_NAME_SIZE];
    libxl_uuid uuid;
    uint32_t domid = 0;
    char *name;

    output_clean(text, 100, shown, sizeof(shown));
    if (option_is_domid(text)) {
        unsigned long long number = strtoull(text, NULL, 10);

        if (number > DOMID_MAX || (number != 0 && !exists(ctx, (uint32_t)number)))
            return cmd_fail(args, EXIT_REFUSED, "NoSuchDomain", "there is no domain %s", shown);
        domid = (uint32_t)number;
    } else if (libxl_name_to_domid(ctx, text, &domid) != 0 &&
               !(libxl_uuid_from_string(&uuid, text) == 0 && find_by_uuid(ctx, &uuid, &domid)) &&
               !find_job(text, &domid)) {
        return cmd_fail(args, EXIT_REFUSED, "NoSuchDomain",
                        "there is no domain \"%s\"; see xl list", shown);
    }
    if (domid == 0)
        return cmd_fail(args, EXIT_REFUSED, "NotAllowed",
                        "domain 0 runs this host: it cannot be destroyed");

    ret->domid = domid;
    name = libxl_domid_to_name(ctx, domid);
    output_clean(name != NULL            ? name
                 : option_is_domid(text) ? ""
                                         : text,
                 DOMAIN_NAME_SIZE, ret->name, sizeof(ret->name));
    free(name);
    return EXIT_OK;
}

char *domain_label(const struct domain *domain, char *buf, size_t size)
{
    return output_domain(domain->name, domain->domid, DOMAIN_NAME_SIZE, buf, size);
}
