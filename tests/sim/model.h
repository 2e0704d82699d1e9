/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdint.h>

/*
 * What the model host is made of. sim_lab is fitted to the lab: lab.json is what ./measure measured
 * there, and fit.py makes lab.h of it. sim_metal has rates of the order that real hosts are
 * reported to have, for hosts that no lab has: an assumption, no measurement.
 */
enum sim_kind {
    SIM_PV = 0,
    SIM_PVH,
    SIM_KINDS,
};

/* A part of a teardown: what it takes of CPU time for each page of the domain, and what part of the
 * pages comes free in it, evenly. */
struct sim_phase {
    double us_per_page;
    double released; /* 0..1 */
};

#define SIM_PHASES 3
#define SIM_DECILES 10 /* of a distribution: the mean of its lowest tenth, of the next, .. */

struct sim_model {
    struct {
        struct sim_phase phases[SIM_PHASES];
        double overshoot_us[SIM_DECILES]; /* of a step */
    } kind[SIM_KINDS];
    double scrub_pages_us;           /* of one CPU, on its own node */
    double lateness_us[SIM_DECILES]; /* of a timer on a quiet dom0 */
    double turn_us;                  /* scrubd's own time for each step */
};

/* A destroy by scrubd, as the lab saw it: medians. */
struct sim_seen {
    uint64_t pages;
    double ms, hypervisor_ms, steps;
    double backlog_pages; /* mean while there is one */
};

extern const struct sim_model sim_lab, sim_metal;
extern const struct sim_seen sim_lab_seen[SIM_KINDS];

#endif
