#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""fit.py LAB.JSON LAB.H: the model's constants out of what the lab measured, as C."""

import json
import statistics
import sys

DUTY = 75  # per cent: scrubd's default

def deciles(rows):
    """The median of each over the runs."""
    return [round(statistics.median(column), 1) for column in zip(*rows)]


def phases(runs):
    """[(us for each page, part of the pages released)] of the three parts of a teardown: before, in
    and after the longest time in which no page came free."""
    out = []
    for us, pages in (("before_us", "before_pages"), ("dry_us", None), ("after_us", "after_pages")):
        out.append((statistics.median(r[us] / r["pages"] for r in runs),
                    statistics.median(r[pages] / r["pages"] for r in runs) if pages else 0.0))
    rest = 1 - out[0][1]
    return [out[0], out[1], (out[2][0], rest)]


def own_us(destroy, late_us):
    """scrubd's own time for each step: what is left of the time between two of them without the pause
    of the duty cycle and the lateness of the timer."""
    step_ms, between_ms = (ms / destroy["steps"] for ms in (destroy["hypervisor_ms"], destroy["ms"] - destroy["hypervisor_ms"]))
    return max(0.0, (between_ms - step_ms * (100 - DUTY) / DUTY) * 1000 - late_us)


def braces(values):
    return "{" + ", ".join(v if isinstance(v, str) else f"{v:.6g}" for v in values) + "}"


def header(lab):
    kinds, seen, late = [], [], []
    # A mean over a destroy, but a single stall of the machine doubles it: the median over both kinds.
    backlog = statistics.median(d["backlog_pages"] for kind in ("pv", "pvh") for d in lab[kind]["destroys"])
    for kind in ("pv", "pvh"):
        runs, destroys = lab[kind]["by_hand"], lab[kind]["destroys"]
        kinds.append(braces([braces(braces(p) for p in phases(runs)), braces(deciles([r["overshoot_us"] for r in runs]))]))
        late += [r["lateness_us"] for r in runs]
        seen.append(braces([statistics.median(d[k] for d in destroys) for k in ("pages", "ms", "hypervisor_ms", "steps")]
                           + [backlog]))
    mean_late = statistics.mean(quiet for row in late for quiet in row)
    turn = statistics.median(own_us(d, mean_late) for d in lab["pv"]["destroys"])
    return (f"/* Made by fit.py. */\n#define LAB_MODEL \\\n{braces([braces(kinds), statistics.median(lab['scrub_pages_us']), braces(deciles(late)), turn])}\n"
            f"#define LAB_SEEN \\\n{braces(seen)}\n")


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        text = header(json.load(f))
    with open(sys.argv[2], "w") as f:
        f.write(text)
