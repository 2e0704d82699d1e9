# SPDX-License-Identifier: GPL-2.0-or-later
"""Group fit: what the simulator's model of this host is made of. tests/sim/measure takes it."""

import json
import os
import statistics
import subprocess

import lab
import results

MEASURE = os.path.join(lab.ROOT, "tests", "sim", "measure")
OUTPUT = os.path.join(results.OUT, "lab.json")


def fit(into, repeats):
    os.makedirs(results.OUT, exist_ok=True)
    p = subprocess.run([MEASURE, "--output", OUTPUT, "--repeats", str(repeats or 1)], stdout=subprocess.DEVNULL,
                       check=False)
    if p.returncode != 0:
        raise lab.LabError(f"tests/sim/measure ended with {p.returncode}")
    with open(OUTPUT) as f:
        got = json.load(f)
    for guest in ("pv", "pvh"):
        by_hand = got[guest]["by_hand"]
        rates = [round(r["pages"] / (r["before_us"] + r["dry_us"] + r["after_us"]), 3) for r in by_hand]
        into.add(f"fit-{guest}-freed", statistics.median(rates), "pages/us", "", rates)
        for name in ("overshoot_us", "lateness_us"):
            deciles = [round(statistics.mean(d), 1) for d in zip(*(r[name] for r in by_hand))]
            into.add(f"fit-{guest}-{name[:-3]}", deciles[-1], "us, mean of the highest tenth", "", deciles)
    into.add("fit-scrubbed", statistics.median(got["scrub_pages_us"]), "pages/us by one CPU", "",
             got["scrub_pages_us"])
