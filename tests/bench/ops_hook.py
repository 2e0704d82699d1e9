# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups hook and mixed: what the hook costs, and that it catches everything."""

import statistics

import lab
import suite
from scenarios import ways

MEM_MIB = 96
PAIRS = 20
DESTROYS = 50

# The time that a command takes, in us; bash reads the clock without starting anything.
TIMED = """#!/bin/bash
a=${EPOCHREALTIME/./}; "$@" || exit 1; b=${EPOCHREALTIME/./}; echo $((b - a))
"""
# The same xl: through the wrapper, and what the wrapper runs.
XL = {"with": "xl", "without": "/usr/lib/scrubd/xl"}


def cost(host):
    host.boot.put("/usr/lib/lab/timed", TIMED, 0o755)
    took = {kind: [] for kind in XL}
    with ways.hook_enabled(host):
        for n in range(host.repeats(PAIRS)):
            host.note(f"pair {n + 1}")
            # Who comes first takes turns.
            for kind in sorted(XL, reverse=n % 2 == 0):
                host.victim("pv", mem=MEM_MIB, create=XL["without"])
                host.sh("udevadm settle")
                us = int(host.sh(f"/usr/lib/lab/timed {XL[kind]} destroy {host.name}"))
                took[kind].append(us / 1000)
                host.poll("all clean", 20, lambda: host.status()["backlog_pages"] == 0)
    pairs = [round(a - b, 1) for a, b in zip(took["with"], took["without"])]
    for kind, ms in took.items():
        host.add(kind, round(statistics.median(ms), 1), "ms", "", [round(x, 1) for x in ms])
    host.add("cost", round(statistics.median(pairs), 1), "ms more", "<=10", pairs)


def plan(rng, count):
    """[(name of a way, guest), ..]: each way as often as the others, in any order."""
    names = list(ways.WAYS)
    chosen = [(names[n % len(names)], rng.choice(("pv", "pvh"))) for n in range(count)]
    rng.shuffle(chosen)
    return chosen


def mixed(host):
    """Each way asserts that scrubd did it, and that nobody was told so before the domain was dead."""
    rng = host.random()
    failed, done = [], 0
    ways.start_libvirt(host)
    with ways.hook_enabled(host):
        host.sh("systemctl restart libvirtd.service && poll 60 virsh -c xen:///system list >/dev/null", 200)
        before = host.free_kib()
        for n, (name, guest) in enumerate(plan(rng, host.repeats(DESTROYS))):
            host.note(f"{n + 1}: {name}, {guest}")
            try:
                ways.WAYS[name](host, guest)
                done += 1
            except (suite.Failure, lab.LabError) as e:
                failed.append(f"{name} {guest}: {str(e).splitlines()[0]}")
                lab.PROGRESS.say(f"      {failed[-1]}")
                host.boot.run(f"xl destroy {host.name} 2>/dev/null", 60)
        host.sh(f"free_back {before}")
    host.add("done", done, "destroys", f">={host.repeats(DESTROYS)}")
    host.add("missed", len(failed), "missed, or told too early", "<=0", failed)
