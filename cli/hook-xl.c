/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook-file.h"

#define DPKG_DIVERT "/usr/bin/dpkg-divert"

/* Where packages put xl; and where `make install` does, for the wrapper in PATH alone. */
static const char *const packaged[] = {"/usr/sbin/xl", "/usr/bin/xl"};
#define LOCAL_XL "/usr/local/bin/xl"

/* Debian's xl is a link to a script that runs what has the name that it was called by: so a link
 * that is called xl stands between the wrapper and xl.distrib. That it is there also tells that the
 * diversion is ours, before the wrapper is and after. In place of that script the wrapper runs xl
 * itself: a second shell takes longer than the destroy of a small guest. */
#define PRIVATE_XL SCRUBD_PRIVATE_DIR "/xl"
#define DEBIANS_XL "/usr/lib/xen-common/bin/xen-utils-wrapper"

static char *distrib_of(const char *xl, char *buf, size_t size)
{
    snprintf(buf, size, "%s.distrib", xl);
    return buf;
}

static bool private_link_is_ours(const struct hook_host *host, const char *distrib)
{
    char real[PATH_MAX], target[PATH_MAX];
    ssize_t n = readlink(hook_path(host, PRIVATE_XL, real), target, sizeof(target) - 1);

    if (n < 0)
        return false;
    target[n] = '\0';
    return strcmp(target, distrib) == 0;
}

void hook_xl_look(const struct hook_host *host, struct hook_xl *ret)
{
    char distrib[64];

    *ret = (struct hook_xl){0};
    for (size_t i = 0; i < sizeof(packaged) / sizeof(packaged[0]) && ret->path == NULL; i++) {
        enum hook_file_kind kind = hook_file_kind(host, packaged[i]);

        if (kind == HOOK_FILE_OURS) {
            /* The package may have gone since. */
            if (hook_exists(host, distrib_of(packaged[i], distrib, sizeof(distrib))))
                ret->path = packaged[i];
            ret->way = HOOK_XL_DIVERTED;
            return;
        }
        if (kind == HOOK_FILE_FOREIGN)
            ret->path = packaged[i];
    }
    if (hook_file_kind(host, HOOK_WRAPPER_IN_PATH) == HOOK_FILE_OURS) {
        ret->way = HOOK_XL_IN_PATH;
        if (ret->path == NULL && hook_exists(host, LOCAL_XL))
            ret->path = LOCAL_XL;
        return;
    }
    if (ret->path == NULL && hook_exists(host, HOOK_WRAPPER_IN_PATH))
        ret->path = HOOK_WRAPPER_IN_PATH;
    if (ret->path == NULL && hook_exists(host, LOCAL_XL))
        ret->path = LOCAL_XL;
}

static int write_wrapper(struct hook_host *host, const char *path, const char *target,
                         struct err *err)
{
    char text[2048];

    snprintf(text, sizeof(text),
             "#!/bin/sh\n" HOOK_MARKER "\n"
             "# xl, with its destroys handed to scrubd, and creates that wait for clean memory.\n"
             "hook=" SCRUBD_HOOK_LIB "\n"
             "if [ -e \"$hook\" ]; then\n"
             "    LD_PRELOAD=$hook${LD_PRELOAD:+:$LD_PRELOAD}\n"
             "    export LD_PRELOAD\n"
             "fi\n"
             "if [ %s -ef " DEBIANS_XL " ]; then\n"
             "    read -r major 2>/dev/null </sys/hypervisor/version/major\n"
             "    read -r minor 2>/dev/null </sys/hypervisor/version/minor\n"
             "    xl=/usr/lib/xen-$major.$minor/bin/xl\n"
             "    [ ! -x \"$xl\" ] || exec \"$xl\" \"$@\"\n"
             "fi\n"
             "exec %s \"$@\"\n",
             target, target);
    return hook_file_write(host, path, text, 0755, err);
}

/* --- The diversion --- */

/* dpkg-divert with these words, which end with NULL. */
static int dpkg_divert(const struct hook_host *host, const char *const *words, char *out,
                       size_t size, struct err *err)
{
    const char *argv[12] = {DPKG_DIVERT};
    size_t n = 1;

    if (host->root[0] != '\0') {
        argv[n++] = "--root";
        argv[n++] = host->root;
    }
    while (*words != NULL)
        argv[n++] = *words++;
    return hook_run(host, argv, out, size, err);
}

/* What dpkg would unpack xl as: xl itself, or where it is diverted to. */
static int divert_truename(const struct hook_host *host, const char *xl, char *ret, size_t size,
                           struct err *err)
{
    const char *const words[] = {"--truename", xl, NULL};

    return dpkg_divert(host, words, ret, size, err);
}

/* verb is --add or --remove. dpkg-divert does not rename: there is never a moment without xl. */
static int divert(const struct hook_host *host, const char *verb, const char *xl,
                  const char *distrib, struct err *err)
{
    const char *const words[] = {"--quiet", "--local", "--no-rename", "--divert", distrib,
                                 verb,      xl,        NULL};
    char out[512];

    return dpkg_divert(host, words, out, sizeof(out), err);
}

static int make_private_link(const struct hook_host *host, const char *distrib, struct err *err)
{
    char real[PATH_MAX];
    int r = hook_file_make_parents(host, PRIVATE_XL, err);

    if (r < 0 || private_link_is_ours(host, distrib))
        return r;
    if (symlink(distrib, hook_path(host, PRIVATE_XL, real)) != 0)
        return err_set(err, errno, "cannot make the link %s: %s", PRIVATE_XL, strerror(errno));
    return 0;
}

static bool same_file(const struct hook_host *host, const char *a, const char *b)
{
    char real[PATH_MAX];
    struct stat at, bt;

    return lstat(hook_path(host, a, real), &at) == 0 && lstat(hook_path(host, b, real), &bt) == 0 &&
           at.st_dev == bt.st_dev && at.st_ino == bt.st_ino;
}

/* Whether the diversion of a bare xl may be made, or an earlier attempt may be gone on with. */
static int check_divertible(const struct hook_host *host, const char *xl, const char *distrib,
                            bool *ret_diverted, struct err *err)
{
    bool begun = private_link_is_ours(host, distrib);
    char truename[PATH_MAX];
    int r = divert_truename(host, xl, truename, sizeof(truename), err);

    if (r < 0)
        return r;
    *ret_diverted = strcmp(truename, xl) != 0;
    if (*ret_diverted && (!begun || strcmp(truename, distrib) != 0))
        return err_set(err, EEXIST, "%s is diverted to %s, and not by scrubctl", xl, truename);
    if (hook_exists(host, distrib) && !(begun && same_file(host, xl, distrib)))
        return err_set(err, EEXIST, "%s is in the way, and not of scrubctl", distrib);
    return 0;
}

static int enable_diverted(struct hook_host *host, const char *xl, struct err *err)
{
    char distrib[64], from[PATH_MAX], to[PATH_MAX];
    bool diverted;
    int r = 0;

    distrib_of(xl, distrib, sizeof(distrib));
    if (hook_file_kind(host, xl) != HOOK_FILE_OURS) {
        r = check_divertible(host, xl, distrib, &diverted, err);
        if (r == 0)
            r = make_private_link(host, distrib, err);
        if (r == 0 && !diverted)
            r = divert(host, "--add", xl, distrib, err);
        if (r < 0)
            return r;
        if (link(hook_path(host, xl, from), hook_path(host, distrib, to)) != 0 && errno != EEXIST)
            return err_set(err, errno, "cannot keep %s as %s: %s", xl, distrib, strerror(errno));
    } else {
        r = make_private_link(host, distrib, err);
        if (r < 0)
            return r;
    }
    r = write_wrapper(host, xl, PRIVATE_XL, err);
    if (r > 0)
        hook_changed(host, "%s is diverted to %s, and a wrapper with the hook is in its place", xl,
                     distrib);
    return r < 0 ? r : 0;
}

/* Puts back what the wrapper stands for. */
static int restore(struct hook_host *host, const char *xl, const char *distrib, struct err *err)
{
    char from[PATH_MAX], to[PATH_MAX];

    if (hook_file_kind(host, xl) == HOOK_FILE_FOREIGN && hook_exists(host, distrib)) {
        if (!same_file(host, xl, distrib))
            return err_set(err, EEXIST,
                           "%s is not what scrubctl has put there: it stays, and so does %s", xl,
                           distrib);
        return hook_file_remove(host, distrib, err);
    }
    if (hook_file_kind(host, xl) != HOOK_FILE_OURS)
        return 0;
    if (!hook_exists(host, distrib))
        return hook_file_remove(host, xl, err);
    if (rename(hook_path(host, distrib, from), hook_path(host, xl, to)) != 0)
        return err_set(err, errno, "cannot put %s back: %s", distrib, strerror(errno));
    return 0;
}

static int disable_diverted(struct hook_host *host, const char *xl, struct err *err)
{
    char distrib[64], truename[PATH_MAX];
    int r;

    distrib_of(xl, distrib, sizeof(distrib));
    if (!private_link_is_ours(host, distrib) && hook_file_kind(host, xl) != HOOK_FILE_OURS)
        return 0;
    r = restore(host, xl, distrib, err);
    if (r == 0)
        r = divert_truename(host, xl, truename, sizeof(truename), err);
    if (r == 0 && strcmp(truename, distrib) == 0)
        r = divert(host, "--remove", xl, distrib, err);
    if (r == 0)
        r = hook_file_remove(host, PRIVATE_XL, err);
    if (r == 0)
        r = hook_dir_remove(host, SCRUBD_PRIVATE_DIR, err);
    if (r == 0)
        hook_changed(host, "%s is the package's again", xl);
    return r;
}

/* --- Both ways --- */

static int enable_in_path(struct hook_host *host, const char *xl, struct err *err)
{
    int r;

    if (hook_file_kind(host, HOOK_WRAPPER_IN_PATH) == HOOK_FILE_FOREIGN)
        return err_set(err, EEXIST, "%s is in the way, and not of scrubctl", HOOK_WRAPPER_IN_PATH);
    r = write_wrapper(host, HOOK_WRAPPER_IN_PATH, xl, err);
    if (r > 0)
        hook_changed(host, "%s runs %s with the hook; who calls that by its path goes past it",
                     HOOK_WRAPPER_IN_PATH, xl);
    return r < 0 ? r : 0;
}

int hook_xl_enable(struct hook_host *host, struct err *err)
{
    struct hook_xl xl;

    hook_xl_look(host, &xl);
    if (xl.path == NULL)
        return 0;
    if (xl.way == HOOK_XL_IN_PATH || strcmp(xl.path, LOCAL_XL) == 0 ||
        strcmp(xl.path, HOOK_WRAPPER_IN_PATH) == 0 || !hook_exists(host, DPKG_DIVERT))
        return enable_in_path(host, xl.path, err);
    return enable_diverted(host, xl.path, err);
}

int hook_xl_disable(struct hook_host *host, struct err *err)
{
    int r;

    for (size_t i = 0; i < sizeof(packaged) / sizeof(packaged[0]); i++) {
        r = disable_diverted(host, packaged[i], err);
        if (r < 0)
            return r;
    }
    if (hook_file_kind(host, HOOK_WRAPPER_IN_PATH) != HOOK_FILE_OURS)
        return 0;
    r = hook_file_remove(host, HOOK_WRAPPER_IN_PATH, err);
    if (r == 0)
        hook_changed(host, "%s is removed", HOOK_WRAPPER_IN_PATH);
    return r;
}
