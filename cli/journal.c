/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "journal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <systemd/sd-journal.h>

#include "root.h"
#include "wire.h"

/* The field of the present entry as text; "" if it has none. Returns buf, cut to size. */
static const char *field(sd_journal *j, const char *key, char *buf, size_t size)
{
    const void *data;
    size_t len, skip = strlen(key) + 1;

    buf[0] = '\0';
    if (sd_journal_get_data(j, key, &data, &len) < 0 || len < skip)
        return buf;
    snprintf(buf, size, "%.*s", (int)(len - skip), (const char *)data + skip);
    return buf;
}

static void add_text(struct json_object *job, const char *key, sd_journal *j, const char *name)
{
    char text[256];

    if (field(j, name, text, sizeof(text))[0] != '\0')
        wire_add_str(job, key, text);
}

static void add_number(struct json_object *job, const char *key, sd_journal *j, const char *name)
{
    char text[32], *end;
    long long value;

    field(j, name, text, sizeof(text));
    errno = 0;
    value = strtoll(text, &end, 10);
    if (text[0] != '\0' && *end == '\0' && errno == 0)
        wire_add_int(job, key, value);
}

/* A job's number starts again with each scrubd, hence the process as well. Returns buf. */
static const char *job_key(sd_journal *j, char *buf, size_t size)
{
    char boot[40], pid[24], uuid[40], id[24];

    snprintf(buf, size, "%s %s %s %s", field(j, "_BOOT_ID", boot, sizeof(boot)),
             field(j, "_PID", pid, sizeof(pid)), field(j, "SCRUBD_UUID", uuid, sizeof(uuid)),
             field(j, "SCRUBD_JOB", id, sizeof(id)));
    return buf;
}

static struct json_object *read_job(sd_journal *j, struct json_object *clean)
{
    static const struct {
        const char *key, *name;
    } numbers[] = {
        {"domid", "SCRUBD_DOMID"},
        {"pages", "SCRUBD_PAGES"},
        {"steps", "SCRUBD_STEPS"},
        {"toolstack_ms", "SCRUBD_TOOLSTACK_MS"},
        {"waiting_ms", "SCRUBD_WAITING_MS"},
        {"freeing_ms", "SCRUBD_FREEING_MS"},
        {"hypervisor_ms", "SCRUBD_HYPERVISOR_MS"},
    };
    struct json_object *job = wire_object(), *scrubbing;
    uint64_t us = 0;
    char key[160];

    sd_journal_get_realtime_usec(j, &us);
    wire_add_int(job, "time", (int64_t)(us / 1000000));
    add_text(job, "uuid", j, "SCRUBD_UUID");
    add_text(job, "name", j, "SCRUBD_NAME");
    add_text(job, "event", j, "SCRUBD_EVENT");
    add_text(job, "purpose", j, "SCRUBD_PURPOSE");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        add_number(job, numbers[i].key, j, numbers[i].name);
    if (json_object_object_get_ex(clean, job_key(j, key, sizeof(key)), &scrubbing))
        wire_add_int(job, "scrubbing_ms", json_object_get_int64(scrubbing));
    return job;
}

static bool is_of(struct json_object *job, const char *domain)
{
    return domain == NULL || strcmp(wire_get_str(job, "name", ""), domain) == 0 ||
           strcasecmp(wire_get_str(job, "uuid", ""), domain) == 0;
}

static int open_journal(sd_journal **ret, struct err *err)
{
    char path[PATH_MAX];
    int r;

    if (root_dir()[0] != '\0')
        r = sd_journal_open_directory(ret, root_path("/var/log/journal", path, sizeof(path)), 0);
    else
        r = sd_journal_open(ret, SD_JOURNAL_LOCAL_ONLY);
    if (r < 0)
        return err_set(err, -r, "cannot open the journal: %s", strerror(-r));
    /* Only what systemd says is scrubd's: anybody can write a field of ours. */
    r = sd_journal_add_match(*ret, "_SYSTEMD_UNIT=scrubd.service", 0);
    for (const char *const *event = (const char *const[]){"dead", "gone", "caller", "clean", NULL};
         r >= 0 && *event != NULL; event++) {
        char match[40];

        snprintf(match, sizeof(match), "SCRUBD_EVENT=%s", *event);
        r = sd_journal_add_match(*ret, match, 0);
    }
    if (r >= 0)
        r = sd_journal_seek_tail(*ret);
    if (r < 0) {
        sd_journal_close(*ret);
        return err_set(err, -r, "cannot read the journal: %s", strerror(-r));
    }
    return 0;
}

int journal_jobs(const char *domain, unsigned int max, struct json_object **ret, struct err *err)
{
    struct json_object *jobs, *clean; /* of jobs that are yet to come: when they were clean */
    sd_journal *j;
    char text[160];
    int r = open_journal(&j, err);

    if (r < 0)
        return r;
    jobs = wire_array();
    clean = wire_object();
    while (json_object_array_length(jobs) < max && (r = sd_journal_previous(j)) > 0) {
        struct json_object *job;

        if (strcmp(field(j, "SCRUBD_EVENT", text, sizeof(text)), "clean") == 0) {
            add_number(clean, job_key(j, text, sizeof(text)), j, "SCRUBD_SCRUBBING_MS");
            continue;
        }
        job = read_job(j, clean);
        if (is_of(job, domain))
            json_object_array_add(jobs, job);
        else
            json_object_put(job);
    }
    json_object_put(clean);
    sd_journal_close(j);
    if (r < 0) {
        json_object_put(jobs);
        return err_set(err, -r, "cannot read the journal: %s", strerror(-r));
    }
    *ret = jobs;
    return 0;
}
