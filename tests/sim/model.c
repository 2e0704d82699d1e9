/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "model.h"

#include "lab.h"

const struct sim_model sim_lab = LAB_MODEL;
const struct sim_seen sim_lab_seen[SIM_KINDS] = LAB_SEEN;

/* 1 TiB destroyed in a minute or so, 8 GiB scrubbed in a second by a CPU; timers and steps are as
 * exact as an interrupt is. */
const struct sim_model sim_metal = {
    .kind =
        {
            [SIM_PV] = {{{0.005, 0.02}, {0.045, 0}, {0.2, 0.98}},
                        {-20, 0, 0, 1, 2, 3, 4, 5, 10, 40}},
            [SIM_PVH] = {{{0, 0}, {0, 0}, {0.25, 1}}, {-20, 0, 0, 1, 2, 3, 4, 5, 10, 40}},
        },
    .scrub_pages_us = 2,
    .lateness_us = {5, 8, 10, 12, 15, 20, 25, 30, 40, 100},
    .turn_us = 20,
};
