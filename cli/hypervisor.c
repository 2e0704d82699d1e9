/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hypervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xen/sysctl.h>
#include <xenctrl.h>

#include "xen-real.h"

#define TRIES 20 /* Xen gives up when it cannot hold all CPUs for a moment within 30 ms */
#define WAIT_MS 10000

static char name[] = HYPERVISOR_PAYLOAD; /* libxenctrl wants it so */

static void sleep_ms(long ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&ts, NULL);
}

static int read_id(struct hypervisor *h)
{
    union {
        xen_build_id_t id;
        unsigned char space[sizeof(xen_build_id_t) + 64];
    } u = {.id = {.len = sizeof(u.space) - sizeof(u.id)}};
    int r = xc_version(h->xch, XENVER_build_id, &u);

    if (r > 0)
        payload_hex(u.id.buf, (size_t)r, h->id);
    return r;
}

static int find_payload(struct hypervisor *h, struct err *err)
{
    xen_livepatch_status_t status = {0};

    if (xc_livepatch_get(h->xch, name, &status) == 0)
        h->payload =
            status.state == LIVEPATCH_STATE_APPLIED ? HYPERVISOR_APPLIED : HYPERVISOR_UPLOADED;
    else if (errno == ENOENT)
        h->payload = HYPERVISOR_NO_PAYLOAD;
    else if (errno == ENOSYS || errno == EOPNOTSUPP)
        h->payload = HYPERVISOR_NO_LIVEPATCH;
    else
        return err_set(err, errno, "cannot ask the hypervisor for its live patches: %s",
                       strerror(errno));
    return 0;
}

static int find_patch(struct hypervisor *h, struct err *err)
{
    struct xen_call *call;
    int r = xen_call_open(&call, err);

    if (r < 0)
        return r;
    r = xen_call_probe(call, err);
    h->patched = r == 0;
    xen_call_close(call);
    return r == -ENOSYS ? 0 : r;
}

int hypervisor_open(struct hypervisor *ret, struct err *err)
{
    struct hypervisor h = {.xch = xc_interface_open(NULL, NULL, 0)};
    int r;

    if (h.xch == NULL)
        return err_set(err, errno != 0 ? errno : EIO,
                       "cannot reach the hypervisor: %s (this needs root, on a Xen host)",
                       strerror(errno));
    read_id(&h);
    r = find_patch(&h, err);
    if (r == 0)
        r = find_payload(&h, err);
    if (r < 0)
        hypervisor_close(&h);
    else
        *ret = h;
    return r;
}

void hypervisor_close(struct hypervisor *h)
{
    xc_interface_close(h->xch);
}

int hypervisor_upload(struct hypervisor *h, const struct payload *p, struct err *err)
{
    if (xc_livepatch_upload(h->xch, name, p->data, p->size) == 0)
        return 0;
    return err_set(err, errno, "the hypervisor refuses the payload: %s; see xl dmesg",
                   strerror(errno));
}

/* Until what was asked for has been done: the hypervisor does it when all CPUs come by. */
static int outcome(struct hypervisor *h, uint32_t want)
{
    xen_livepatch_status_t status;

    for (int ms = 0; ms < WAIT_MS; ms++) {
        if (xc_livepatch_get(h->xch, name, &status) != 0)
            return -errno;
        if (status.rc == 0 && status.state == want)
            return 0;
        if (status.rc != -EAGAIN)
            return status.rc != 0 ? status.rc : -EIO;
        sleep_ms(1);
    }
    return -ETIMEDOUT;
}

static int act(struct hypervisor *h, uint32_t want,
               int (*action)(xc_interface *xch, char *payload, uint32_t timeout, uint32_t flags))
{
    int r = -EBUSY;

    for (int i = 0; i < TRIES && r == -EBUSY; i++) {
        if (i > 0)
            sleep_ms(50);
        r = action(h->xch, name, 0, 0) == 0 ? outcome(h, want) : -errno;
    }
    return r;
}

int hypervisor_apply(struct hypervisor *h, struct err *err)
{
    int r = act(h, LIVEPATCH_STATE_APPLIED, xc_livepatch_apply);

    if (r == -EINVAL)
        return err_set(err, EINVAL,
                       "the hypervisor does not apply the payload: another one is applied that it "
                       "does not build upon; see xen-livepatch list, and xl dmesg");
    if (r < 0)
        return err_set(err, -r, "the hypervisor does not apply the payload: %s; see xl dmesg",
                       strerror(-r));
    return 0;
}

int hypervisor_revert(struct hypervisor *h, struct err *err)
{
    int r = act(h, LIVEPATCH_STATE_CHECKED, xc_livepatch_revert);

    if (r == -EBUSY)
        return err_set(err, EBUSY,
                       "the hypervisor does not revert the payload: either another one was applied "
                       "on top of it, which has to go first (see xen-livepatch list), or the CPUs "
                       "are too busy");
    if (r < 0)
        return err_set(err, -r, "the hypervisor does not revert the payload: %s; see xl dmesg",
                       strerror(-r));
    return 0;
}

int hypervisor_unload(struct hypervisor *h, struct err *err)
{
    if (xc_livepatch_unload(h->xch, name, 0, 0) == 0)
        return 0;
    return err_set(err, errno, "the hypervisor does not unload the payload: %s", strerror(errno));
}
