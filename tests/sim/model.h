/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdint.h>

/*
 * What the model host is made of. sim_lab is fitted to the lab (lab.json, which ./measure writes;
 * README.md says how); sim_metal is the same with rates of the order that real hosts are reported
 * to have, for hosts that no lab has.
 */
enum sim_kind {
    SIM_PV = 0,
    SIM_PVH,
    SIM_KINDS,
};

/* A part of a teardown: what it takes of CPU time, and how much of the memory is released over it,
 * evenly. */
struct sim_phase {
    uint32_t stage;
    double us_per_page;
    double released; /* 0..1, of the chunk */
};

#define SIM_PHASES 6
#define SIM_QUANTILES 11

struct sim_model {
    struct {
        uint64_t chunk_pages; /* the phases are gone through for each such part; 0: once for all */
        struct sim_phase phases[SIM_PHASES]; /* up to one of stage 0 */
    } kind[SIM_KINDS];
    double scrub_pages_us;              /* of one CPU, on its own node */
    double overshoot_us[SIM_QUANTILES]; /* of a step: minimum, 10 %, .. maximum */
    double lateness_us[SIM_QUANTILES];  /* of a timer on a quiet dom0, the same */
};

extern const struct sim_model sim_lab, sim_metal;

#endif
