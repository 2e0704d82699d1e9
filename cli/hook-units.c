/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hook-file.h"

#define SYSTEMCTL "/usr/bin/systemctl"

/* xapi's, and libvirt's: one daemon for all, or one for Xen. */
const char *const hook_units[] = {"libvirtd.service", "virtxend.service", "xenopsd-xc.service",
                                  "xenopsd-xenlight.service", NULL};

static const char *const unit_dirs[] = {
    "/etc/systemd/system",         "/run/systemd/system",           "/run/systemd/generator",
    "/run/systemd/generator.late", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
    "/lib/systemd/system",
};

#define UNIT_PATH 160

bool hook_unit_exists(const struct hook_host *host, const char *unit)
{
    char path[UNIT_PATH];

    for (size_t i = 0; i < sizeof(unit_dirs) / sizeof(unit_dirs[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", unit_dirs[i], unit);
        if (hook_exists(host, path))
            return true;
    }
    return false;
}

static char *dropin_of(const char *unit, char buf[UNIT_PATH])
{
    snprintf(buf, UNIT_PATH, "/etc/systemd/system/%s.d/50-scrubd.conf", unit);
    return buf;
}

bool hook_unit_has_dropin(const struct hook_host *host, const char *unit)
{
    char path[UNIT_PATH];

    return hook_file_kind(host, dropin_of(unit, path)) == HOOK_FILE_OURS;
}

static bool systemd_runs(const struct hook_host *host)
{
    return hook_exists(host, "/run/systemd/system");
}

static int tell_systemd(struct hook_host *host, struct err *err)
{
    const char *const argv[] = {SYSTEMCTL, "daemon-reload", NULL};
    char out[512];

    if (!systemd_runs(host))
        return 0;
    return hook_run(host, argv, out, sizeof(out), err);
}

/* Ours would take the place of what the unit preloads already. */
static int check_preload(const struct hook_host *host, const char *unit, struct err *err)
{
    const char *const argv[] = {SYSTEMCTL, "show", "-P", "Environment", unit, NULL};
    char out[4096];

    if (!systemd_runs(host) || hook_run(host, argv, out, sizeof(out), NULL) < 0)
        return 0;
    if (strstr(out, "LD_PRELOAD=") == NULL)
        return 0;
    return err_set(err, EEXIST, "%s has an LD_PRELOAD of its own: add " SCRUBD_HOOK_LIB " to it",
                   unit);
}

static int enable_unit(struct hook_host *host, const char *unit, struct err *err)
{
    char path[UNIT_PATH];
    enum hook_file_kind kind = hook_file_kind(host, dropin_of(unit, path));
    int r = 0;

    if (kind == HOOK_FILE_FOREIGN)
        return err_set(err, EEXIST, "%s is in the way, and not of scrubctl", path);
    if (kind == HOOK_FILE_NONE)
        r = check_preload(host, unit, err);
    if (r < 0)
        return r;
    r = hook_file_write(host, path,
                        HOOK_MARKER "\n[Service]\nEnvironment=LD_PRELOAD=" SCRUBD_HOOK_LIB "\n",
                        0644, err);
    if (r > 0)
        hook_changed(host, "%s has a drop-in; if it runs: systemctl restart %s", unit, unit);
    return r;
}

int hook_units_enable(struct hook_host *host, struct err *err)
{
    bool changed = false;
    int r;

    for (size_t i = 0; hook_units[i] != NULL; i++) {
        if (!hook_unit_exists(host, hook_units[i]))
            continue;
        r = enable_unit(host, hook_units[i], err);
        if (r < 0)
            return r;
        changed |= r > 0;
    }
    return changed ? tell_systemd(host, err) : 0;
}

int hook_units_disable(struct hook_host *host, struct err *err)
{
    char path[UNIT_PATH];
    bool changed = false;
    int r;

    for (size_t i = 0; hook_units[i] != NULL; i++) {
        if (!hook_unit_has_dropin(host, hook_units[i]))
            continue;
        r = hook_file_remove(host, dropin_of(hook_units[i], path), err);
        if (r == 0) {
            *strrchr(path, '/') = '\0';
            r = hook_dir_remove(host, path, err);
        }
        if (r < 0)
            return r;
        hook_changed(
            host, "the drop-in of %s is removed; if it runs, it has the hook until it is restarted",
            hook_units[i]);
        changed = true;
    }
    return changed ? tell_systemd(host, err) : 0;
}
