/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "model.h"

const struct sim_model sim_lab = {
    .kind =
        {
            [SIM_PV] = {.chunk_pages = 262144, .phases = {{4, 0.12, 0}, {6, 0.80, 1}}},
            [SIM_PVH] = {.phases = {{3, 0.1, 0}, {6, 0.8, 1}}},
        },
    .scrub_pages_us = 0.5,
    .overshoot_us = {0, 5, 10, 15, 20, 25, 30, 40, 50, 80, 500},
    .lateness_us = {20, 50, 60, 70, 80, 90, 100, 110, 130, 200, 2000},
};

const struct sim_model sim_metal = {
    .kind =
        {
            [SIM_PV] = {.chunk_pages = 262144, .phases = {{4, 0.12, 0}, {6, 0.80, 1}}},
            [SIM_PVH] = {.phases = {{3, 0.1, 0}, {6, 0.8, 1}}},
        },
    .scrub_pages_us = 0.5,
    .overshoot_us = {0, 5, 10, 15, 20, 25, 30, 40, 50, 80, 500},
    .lateness_us = {20, 50, 60, 70, 80, 90, 100, 110, 130, 200, 2000},
};
