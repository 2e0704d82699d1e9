/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks of what scrubd says about itself and the hypervisor. */
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "holders.h"
#include "output.h"
#include "wire.h"

#define RESTART "systemctl restart scrubd.service"
#define BACKLOG_PAGES 1024         /* less is what a running host has anyway */
#define BACKLOG_OLD_MS 60000       /* a healthy host has scrubbed a teardown's memory by then */
#define BASELINE_PAGES (64 * 1024) /* of memory that has been dirty ever since boot */

void doctor_scrubd(struct doctor *d, const struct doctor_scrubd *s)
{
    const char *version = wire_get_str(s->status, "version", "?"),
               *reason = wire_get_str(s->status, "reason", NULL),
               *xen = wire_get_str(s->status, "xen", "?");
    bool degraded = strcmp(wire_get_str(s->status, "state", ""), "ready") != 0;

    if (strcmp(version, SCRUBD_VERSION) != 0)
        doctor_say(d, DOCTOR_WARNING, "scrubd", RESTART,
                   "version %s runs, but " SCRUBD_VERSION " is installed", version);
    else
        doctor_say(d, DOCTOR_OK, "scrubd", NULL, "version %s runs", version);
    if (degraded)
        doctor_say(d, DOCTOR_ERROR, "hypervisor",
                   "scrubctl hypervisor load, or boot the patched Xen: see hv-patch/README.md",
                   "Xen %s: %s, destroys are not divided", xen,
                   reason != NULL ? reason : "degraded");
    else
        doctor_say(d, DOCTOR_OK, "hypervisor", NULL, "Xen %s has the patch, in the right version",
                   xen);
    if (!degraded && reason != NULL)
        doctor_say(d, DOCTOR_WARNING, "trouble", NULL, "%s", reason);
}

static void check_lease(struct doctor *d, struct json_object *h)
{
    int64_t left_ms = wire_get_int(h, "lease_ms", 0), all_ms = wire_get_int(h, "lease_s", 0) * 1000;
    char text[OUTPUT_TEXT];

    if (left_ms <= 0)
        doctor_say(d, DOCTOR_ERROR, "lease", RESTART,
                   "none: the limits would outlive a scrubd that crashes");
    else if (left_ms < all_ms / 3)
        doctor_say(d, DOCTOR_WARNING, "lease", RESTART, "%s left: scrubd does not renew it in time",
                   output_duration(left_ms, text));
    else
        doctor_say(d, DOCTOR_OK, "lease", NULL, "%s left, and renewed",
                   output_duration(left_ms, text));
}

/* A kind of limit that is wanted, and not there, or the reverse. */
static bool check_force(struct doctor *d, const char *what, bool wanted, bool in_force)
{
    if (wanted == in_force)
        return true;
    doctor_say(d, DOCTOR_ERROR, "settings", RESTART, "the %s is %s", what,
               wanted ? "not in force in the hypervisor"
                      : "in force in the hypervisor, though it should not be");
    return false;
}

void doctor_settings(struct doctor *d, const struct doctor_scrubd *s)
{
    struct json_object *h = s->health;
    const char *mask = wire_get_str(h, "mask", NULL), *now = wire_get_str(s->status, "mask", "?");
    bool busy = wire_get_bool(h, "busy", false), good, any;
    int64_t ceiling = wire_get_int(h, "ceiling_kib", 0), floor = wire_get_int(h, "floor_kib", 0);
    char c[OUTPUT_TEXT], f[OUTPUT_TEXT];

    if (h == NULL)
        return;
    good = check_force(d, "list of CPUs that may scrub", mask != NULL,
                       wire_get_bool(h, "has_mask", false));
    good &= check_force(d, "ceiling", busy && ceiling > 0, wire_get_bool(h, "has_ceiling", false));
    good &= check_force(d, "floor", busy && floor > 0, wire_get_bool(h, "has_floor", false));
    if (good)
        doctor_say(d, DOCTOR_OK, "settings", NULL, "CPUs %s may scrub; ceiling %s, floor %s", now,
                   output_rate_limit(ceiling, c), output_rate_limit(floor, f));
    any = wire_get_bool(h, "has_mask", false) || wire_get_bool(h, "has_ceiling", false) ||
          wire_get_bool(h, "has_floor", false);
    if (any)
        check_lease(d, h);
    if (ceiling > 0 && floor == 0 && wire_get_int(h, "max_dirty_age_s", 0) == 0)
        doctor_say(d, DOCTOR_WARNING, "settings", "set max_dirty_age_s in /etc/scrubd/scrubd.conf",
                   "a ceiling, but no maximum age: memory may stay dirty for ever");
}

void doctor_backlog(struct doctor *d, const struct doctor_scrubd *s)
{
    int64_t pages = wire_get_int(s->status, "backlog_pages", -1),
            base = wire_get_int(s->status, "baseline_pages", 0),
            age_ms = wire_get_int(s->health, "dirty_ms", 0);
    char text[OUTPUT_TEXT], age[OUTPUT_TEXT];

    if (pages < 0)
        return;
    output_pages(pages, text);
    output_duration(age_ms, age);
    if (pages > BACKLOG_PAGES && age_ms > BACKLOG_OLD_MS)
        doctor_say(d, DOCTOR_WARNING, "backlog", "set floor_mib_s in /etc/scrubd/scrubd.conf",
                   "%s dirty, some of it for %s: too few idle CPUs", text, age);
    else
        doctor_say(d, DOCTOR_OK, "backlog", NULL, "%s waits to be scrubbed", text);
    if (base > BASELINE_PAGES)
        doctor_say(d, DOCTOR_NOTE, "baseline", NULL, "%s not scrubbed since boot",
                   output_pages(base, text));
}

/* What makes a holder let go, "" if that would do more harm than good. Returns buf. */
static const char *letting_go(struct json_object *holder, char *buf, size_t size)
{
    const char *device = wire_get_str(holder, "device", NULL);
    unsigned int domid, number;
    char kind[32];

    buf[0] = '\0';
    if (device != NULL && sscanf(device, "%31[^-]-%u-%u", kind, &domid, &number) == 3)
        snprintf(buf, size, "xenstore-rm /local/domain/0/backend/%s/%u/%u", kind, domid, number);
    else if (device == NULL && !wire_get_bool(holder, "system", false))
        snprintf(buf, size, "kill %lld", (long long)wire_get_int(holder, "pid", 0));
    return buf;
}

static void say_zombie(struct doctor *d, struct json_object *z)
{
    long long domid = wire_get_int(z, "domid", -1), pages = wire_get_int(z, "pages", 0);
    struct json_object *holders = holders_find((uint32_t)domid, wire_get_str(z, "name", NULL));
    struct json_object *first = json_object_array_get_idx(holders, 0), *finding;
    size_t n = json_object_array_length(holders);
    char label[128], domain[128], command[128], more[48] = "";
    const char *s = pages == 1 ? "" : "s";

    output_job_label(z, 30, domain, sizeof(domain));
    if (n > 1)
        snprintf(more, sizeof(more), ", or one of %zu more", n - 1);
    if (n == 0)
        finding =
            doctor_say(d, DOCTOR_WARNING, "zombie", NULL,
                       "%s keeps %lld page%s; no process maps pages of domains", domain, pages, s);
    else
        finding =
            doctor_say(d, DOCTOR_WARNING, "zombie",
                       letting_go(first, command, sizeof(command))[0] != '\0' ? command : NULL,
                       "%s keeps %lld page%s, %sheld by %s%s", domain, pages, s,
                       strcmp(wire_get_str(first, "certainty", ""), "proven") == 0 ? "" : "likely ",
                       holders_label(first, label, sizeof(label)), more);
    wire_add_obj(finding, "candidates", holders);
}

void doctor_zombies(struct doctor *d, const struct doctor_scrubd *s)
{
    struct json_object *zombies = wire_get_obj(s->status, "zombies");
    size_t n = zombies != NULL ? json_object_array_length(zombies) : 0;

    if (s->status != NULL && n == 0)
        doctor_say(d, DOCTOR_OK, "zombies", NULL, "none");
    for (size_t i = 0; i < n; i++)
        say_zombie(d, json_object_array_get_idx(zombies, i));
}
