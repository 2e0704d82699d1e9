/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `scrubctl doctor` finds. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <json-c/json.h>

#include "cpulist.h"

enum doctor_severity {
    DOCTOR_OK = 0,
    DOCTOR_NOTE,    /* worth knowing, nothing to be done */
    DOCTOR_WARNING, /* neighbours may be hurt, or figures may not hold */
    DOCTOR_ERROR,   /* scrubd does not do what it is there for */
};

struct doctor {
    enum doctor_severity worst;
    struct json_object *findings; /* array of {severity, check, text, command?, candidates?} */
};

/* Add a finding. command mends it, NULL if none does or need be. Returns it, for more members. */
struct json_object *doctor_say(struct doctor *d, enum doctor_severity severity, const char *check,
                               const char *command, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* What scrubd says; NULL where it does not. */
struct doctor_scrubd {
    struct json_object *status;    /* GetStatus */
    struct json_object *health;    /* GetHealth */
    struct json_object *protected; /* array of Protected */
    struct json_object *cpus;      /* array of PlacedCpu */
};

/* A domain and the CPUs that it may run on, by Xen's word. */
struct doctor_domain {
    uint32_t domid;
    unsigned int vcpus; /* that are online */
    struct cpulist hard;
};
struct doctor_domains {
    struct doctor_domain *list;
    size_t n; /* 0: Xen cannot be asked */
};

/* The checks. Those of the kernel read files of the host, see root.h. */
void doctor_host(struct doctor *d);
void doctor_kernel(struct doctor *d, unsigned int dom0_vcpus);
void doctor_clocksource(struct doctor *d);
void doctor_socket(struct doctor *d, const char *path);
void doctor_enabled(struct doctor *d);
void doctor_hook(struct doctor *d);

void doctor_scrubd(struct doctor *d, const struct doctor_scrubd *s);
void doctor_settings(struct doctor *d, const struct doctor_scrubd *s);
void doctor_backlog(struct doctor *d, const struct doctor_scrubd *s);
void doctor_zombies(struct doctor *d, const struct doctor_scrubd *s);

void doctor_dom0(struct doctor *d, const struct doctor_scrubd *s,
                 const struct doctor_domains *domains);
void doctor_protected(struct doctor *d, const struct doctor_scrubd *s,
                      const struct doctor_domains *domains);
void doctor_siblings(struct doctor *d, const struct doctor_scrubd *s);

/* With libxl. Free with doctor_domains_done(). */
void doctor_domains_read(struct doctor_domains *ret);
void doctor_domains_done(struct doctor_domains *domains);

#endif
