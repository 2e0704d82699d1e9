/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * scrubd-sim [--seed N] [--schedules N] [--one] [--big] [--fit] [--series FILE] [--json FILE]
 *
 * Runs the simulator: so many random schedules with seeds from N on; --one is a single one, told in
 * full; --big the big host. Exit status 1 if a promise was broken.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "loop.h"
#include "report.h"
#include "schedule.h"

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'}, {"schedules", required_argument, NULL, 'n'},
        {"one", no_argument, NULL, '1'},        {"big", no_argument, NULL, 'b'},
        {"fit", no_argument, NULL, 'F'},        {"series", required_argument, NULL, 'f'},
        {"json", required_argument, NULL, 'j'}, {NULL, 0, NULL, 0},
    };
    uint64_t seed = loop_real_ns() / 1000 % 1000000000;
    unsigned int schedules = 0, bad = 0;
    const char *series = NULL, *json = NULL;
    bool one = false, big = false, fit = false;
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (o) {
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            schedules = (unsigned int)strtoul(optarg, NULL, 10);
            break;
        case '1':
            one = true;
            break;
        case 'b':
            big = true;
            break;
        case 'F':
            fit = true;
            break;
        case 'f':
            series = optarg;
            break;
        case 'j':
            json = optarg;
            break;
        default:
            return 2;
        }
    }
    printf("seed %" PRIu64 "\n", seed);
    log_set_level((enum log_level)0);
    if (!report_open(json))
        return 1;
    if (one) {
        struct tally t = {0};
        char text[256];

        log_set_level(LOG_LEVEL_INFO);
        if (!schedule_run(seed, true, &t, text)) {
            printf("%s\n", text);
            bad = 1;
        }
    }
    if (fit)
        bad += !fit_check(seed);
    if (big)
        bad += !ends_run(seed) + !big_run(seed, series);
    if (schedules)
        bad += schedule_many(seed, schedules);
    report_close();
    return bad ? 1 : 0;
}
