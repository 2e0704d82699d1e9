/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks of dom0 itself: its kernel, its clock, and how scrubd was set up. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "root.h"
#include "wire.h"

#define CLOCKSOURCE "/sys/devices/system/clocksource/clocksource0"
#define DEBUGFS_PREEMPT "/sys/kernel/debug/sched/preempt"

void doctor_host(struct doctor *d)
{
    char text[128], major[16], minor[16], extra[32], built[64] = SCRUBD_XEN_VERSION, running[64];

    if (!root_read("/proc/xen/capabilities", text, sizeof(text)) ||
        strstr(text, "control_d") == NULL) {
        doctor_say(d, DOCTOR_ERROR, "host", NULL, "this is not the control domain of a Xen host");
        return;
    }
    if (!root_read("/sys/hypervisor/version/major", major, sizeof(major)) ||
        !root_read("/sys/hypervisor/version/minor", minor, sizeof(minor))) {
        doctor_say(d, DOCTOR_NOTE, "host", NULL, "which Xen this is the kernel does not tell");
        return;
    }
    root_read("/sys/hypervisor/version/extra", extra, sizeof(extra));
    snprintf(running, sizeof(running), "%s.%s", major, minor);
    built[strcspn(built, ".") + 1 + strcspn(built + strcspn(built, ".") + 1, ".")] = '\0';
    if (strcmp(running, built) != 0)
        doctor_say(d, DOCTOR_ERROR, "host", NULL,
                   "Xen %s%s: this scrubd is built for Xen %s, install the one for %s", running,
                   extra, built, running);
    else
        doctor_say(d, DOCTOR_OK, "host", NULL, "control domain of Xen %s%s", running, extra);
}

/* "full", ... out of "none voluntary (full)". */
static bool chosen(const char *text, char *buf, size_t size)
{
    const char *open = strchr(text, '('), *close = open != NULL ? strchr(open, ')') : NULL;

    if (close == NULL)
        return false;
    snprintf(buf, size, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

/* The value of an option of the kernel's command line. */
static bool boot_option(const char *key, char *buf, size_t size)
{
    char line[4096];
    size_t len = strlen(key);

    root_read("/proc/cmdline", line, sizeof(line));
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        if (strncmp(word, key, len) == 0 && word[len] == '=') {
            snprintf(buf, size, "%s", word + len + 1);
            return true;
        }
    }
    return false;
}

/* What the kernel was built to have where nobody says anything. */
static bool built_default(char *buf, size_t size)
{
    static const struct {
        const char *line, *model;
    } defaults[] = {
        {"CONFIG_PREEMPT=y", "full"},
        {"CONFIG_PREEMPT_LAZY=y", "lazy"},
        {"CONFIG_PREEMPT_VOLUNTARY=y", "voluntary"},
        {"CONFIG_PREEMPT_NONE=y", "none"},
    };
    char release[128], path[256], full[PATH_MAX], line[256];
    bool found = false;
    FILE *file;

    root_read("/proc/sys/kernel/osrelease", release, sizeof(release));
    snprintf(path, sizeof(path), "/boot/config-%s", release);
    file = fopen(root_path(path, full, sizeof(full)), "re");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
            if (strcmp(line, defaults[i].line) == 0) {
                snprintf(buf, size, "%s", defaults[i].model);
                found = true;
            }
        }
    }
    if (file != NULL)
        fclose(file);
    return found;
}

void doctor_kernel(struct doctor *d, unsigned int dom0_vcpus)
{
    char version[256], text[128], model[32], path[PATH_MAX];
    const char *command;

    if (!root_read("/proc/sys/kernel/version", version, sizeof(version))) {
        doctor_say(d, DOCTOR_NOTE, "kernel", NULL, "the kernel's version cannot be read");
        return;
    }
    /* Linux lets go of the CPU in a long hypercall by itself only if it is built without
     * CONFIG_PREEMPTION, which PREEMPT_DYNAMIC sets whatever is chosen at boot. */
    if (strstr(version, "PREEMPT") == NULL) {
        doctor_say(d, DOCTOR_OK, "kernel", NULL,
                   "built without preemption: it interrupts long hypercalls itself");
        return;
    }
    if (strstr(version, "PREEMPT_DYNAMIC") == NULL)
        snprintf(model, sizeof(model), "full");
    else if (!(root_read(DEBUGFS_PREEMPT, text, sizeof(text)) &&
               chosen(text, model, sizeof(model))) &&
             !boot_option("preempt", model, sizeof(model)) && !built_default(model, sizeof(model)))
        snprintf(model, sizeof(model), "unknown");
    if (strcmp(model, "full") == 0) {
        doctor_say(d, DOCTOR_OK, "kernel", NULL,
                   "preempt=full: a long hypercall holds up one task, not a CPU");
        return;
    }
    command = access(root_path(DEBUGFS_PREEMPT, path, sizeof(path)), F_OK) == 0
                  ? "echo full >" DEBUGFS_PREEMPT
                  : "add preempt=full to the command line of dom0's kernel";
    doctor_say(d, dom0_vcpus == 1 ? DOCTOR_WARNING : DOCTOR_NOTE, "kernel", command,
               "preempt=%s: a destroy that goes past scrubd holds up %s to its end", model,
               dom0_vcpus == 1 ? "all of dom0" : "a vCPU of dom0");
}

void doctor_clocksource(struct doctor *d)
{
    char source[64], others[256];

    if (!root_read(CLOCKSOURCE "/current_clocksource", source, sizeof(source)))
        return;
    if (strcmp(source, "xen") == 0 || strcmp(source, "tsc") == 0) {
        doctor_say(d, DOCTOR_OK, "clock", NULL, "dom0's clock is %s", source);
        return;
    }
    root_read(CLOCKSOURCE "/available_clocksource", others, sizeof(others));
    doctor_say(d, DOCTOR_WARNING, "clock",
               strstr(others, "xen") != NULL ? "echo xen >" CLOCKSOURCE "/current_clocksource"
                                             : "add clocksource=xen to dom0's command line",
               "dom0's clock is %s: slow or coarse, so that pauses are long", source);
}

void doctor_socket(struct doctor *d, const char *path)
{
    char command[PATH_MAX + 64];
    struct stat st;

    if (stat(path, &st) < 0) {
        doctor_say(d, DOCTOR_ERROR, "socket", "systemctl start scrubd.socket", "%s: %s", path,
                   strerror(errno));
        return;
    }
    if (!S_ISSOCK(st.st_mode)) {
        snprintf(command, sizeof(command), "rm %s; systemctl restart scrubd.socket", path);
        doctor_say(d, DOCTOR_ERROR, "socket", command, "%s is no socket", path);
        return;
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        snprintf(command, sizeof(command), "chown root %s", path);
        doctor_say(d, DOCTOR_ERROR, "socket", command, "%s belongs to uid %u, not to root", path,
                   st.st_uid);
        return;
    }
    if (st.st_mode & 0002) {
        snprintf(command, sizeof(command), "chmod o= %s", path);
        doctor_say(d, DOCTOR_WARNING, "socket", command,
                   "everybody may read what scrubd does: mode %03o", st.st_mode & 0777);
        return;
    }
    if (st.st_mode & 0020)
        doctor_say(d, DOCTOR_NOTE, "socket", NULL,
                   "group %u may read what scrubd does, root alone act", st.st_gid);
    else
        doctor_say(d, DOCTOR_OK, "socket", NULL, "for root alone");
}

static bool exists(const char *path)
{
    char full[PATH_MAX];
    struct stat st;

    return lstat(root_path(path, full, sizeof(full)), &st) == 0;
}

void doctor_enabled(struct doctor *d)
{
    if (exists("/etc/systemd/system/sockets.target.wants/scrubd.socket"))
        doctor_say(d, DOCTOR_OK, "boot", NULL, "scrubd is there again after a reboot");
    else
        doctor_say(d, DOCTOR_WARNING, "boot", "systemctl enable scrubd.socket scrubd.service",
                   "scrubd is not enabled: it is gone after a reboot");
}
