/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "interpose.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "client.h"
#include "real.h"

__attribute__((visibility("default"))) int xc_domain_destroy(struct xc_interface_core *xch,
                                                             uint32_t domid);

/* What xc_domain_destroy() writes to: libxl gives it no argument of ours. */
static struct interpose *current;

static void on_reply(void *ctx, const char *json, size_t len)
{
    struct interpose *ip = ctx;

    if (!ip->begun && len < sizeof(ip->first))
        memcpy(ip->first, json, len + 1);
    ip->begun = true;
    if (len < sizeof(ip->reply))
        memcpy(ip->reply, json, len + 1);
    if (ip->on_reply != NULL)
        ip->on_reply(ip->ctx, json);
}

static void on_verdict(void *ctx, enum scrubhook_verdict verdict, const char *text)
{
    struct interpose *ip = ctx;

    ip->verdict_errno = errno;
    ip->verdict = verdict;
    snprintf(ip->verdict_text, sizeof(ip->verdict_text), "%s", text);
    ip->done = true;
}

int xc_domain_destroy(struct xc_interface_core *xch, uint32_t domid)
{
    scrubhook_real_fn real = (scrubhook_real_fn)real_next("xc_domain_destroy");
    struct scrubhook_opts opts = {
        .socket_path = client_socket_path(),
        .on_reply = on_reply,
        .on_verdict = on_verdict,
        .ctx = current,
    };

    if (current == NULL)
        return scrubhook_destroy(domid, NULL, real, xch);
    current->called = true;
    opts.params = current->params;
    return scrubhook_destroy(domid, &opts, real, xch);
}

struct interpose *interpose_begin(void)
{
    void *memory =
        mmap(NULL, sizeof(*current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    current = memory;
    return current;
}

void interpose_end(struct interpose *ip)
{
    current = NULL;
    munmap(ip, sizeof(*ip));
}
