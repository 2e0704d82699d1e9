# SPDX-License-Identifier: GPL-2.0-or-later
"""SIGKILLs at random instants over destroys: of scrubd, of the caller, of both.

Shared by the lab's scenario and by the bench, which does more of them.
"""

import random
import time

from suite import expect

# Slow enough for a destroy of MEM_MIB to last through its kills.
CONFIG = "step_us = 200\nduty_percent = 5\n"
MEM_MIB = 256
SPAN_S = 2  # kills come within this time from the destroy's beginning
TARGETS = ("scrubd", "caller", "both")
SCRUBD = "kill -KILL $(systemctl show -P MainPID scrubd.service) 2>/dev/null; "
CALLER = "kill -KILL -$(cat /run/lab/xl.pid) 2>/dev/null; "
KILL = {"scrubd": SCRUBD, "caller": CALLER, "both": SCRUBD + CALLER}


def one(host, guest, kills, rng):
    """A destroy with so many kills. Returns how often each of TARGETS was killed while the domain was
    still there."""
    domid = host.victim(guest, mem=MEM_MIB)
    hits = dict.fromkeys(TARGETS, 0)
    host.sh("rm -f /run/lab/xl.pid")
    xl = host.boot.start_command(f"echo $$ > /run/lab/xl.pid; hooked xl destroy {domid}")
    began = time.monotonic()
    for at in sorted(rng.uniform(0, SPAN_S) for _ in range(kills)):
        time.sleep(max(began + at - time.monotonic(), 0))
        target = rng.choice(TARGETS)
        there = host.sh(f"labhv domain {domid}; {KILL[target]} true").split()[0] != "none"
        hits[target] += there
    xl.wait(120)
    # Whoever asked was perhaps killed before it got to asking: as an operator does, ask again.
    host.try_sh(f"labhv domain {domid} | grep -q none || hooked xl destroy {domid}")
    host.expect_gone(domid)
    return hits


def storm(host, destroys, kills, seed, note=lambda text: None):
    """destroys, PV and PVH in turns, with `kills` among them. Figures; raises suite.Failure."""
    rng = random.Random(seed)
    hits = dict.fromkeys(TARGETS, 0)
    before = host.free_kib()
    with host.configured(CONFIG):
        restarts = host.restarts()
        for n in range(destroys):
            note(f"destroy {n + 1} of {destroys}, seed {seed}")
            share = kills * (n + 1) // destroys - kills * n // destroys
            for target, times in one(host, ("pv", "pvh")[n % 2], share, rng).items():
                hits[target] += times
        host.poll("scrubd answers", 20, lambda: host.try_sh("scrubctl status >/dev/null")[0] == 0)
        host.poll("no job is left", 30, lambda: host.jobs() == [])
        host.poll("nothing is dirty", 60, lambda: host.status()["backlog_pages"] == 0)
        restarts = host.restarts() - restarts
    host.poll("no xl is left over", 30, lambda: host.try_sh("pgrep -f '[v]ictim'")[0] != 0)
    host.poll("free memory is what it was", 20, lambda: abs(host.free_kib() - before) < 1024)
    expect(sum(hits.values()) > 0, f"no kill met a destroy (seed {seed})")
    return {"destroys": destroys, "kills": kills, "seed": seed, "restarts": restarts,
            **{f"{t}_killed_in_destroy": k for t, k in hits.items()}}
