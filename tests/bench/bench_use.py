# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups idle and busy: what scrubd itself costs."""

import time

import benchhost
import lab

TURNS, PAUSE_US = 2000, 700
IDLE_S = 30
RSS_KIB = 8 * 1024


def idle(bench, state):
    del state
    bench.dirty.wait_clean()
    time.sleep(2)  # scrubd's timers of the last job
    before = bench.daemon_use()
    bench.note(f"{IDLE_S} s without a job")
    time.sleep(IDLE_S)
    after = bench.daemon_use()
    seconds = after[0] - before[0]
    bench.add("wakeups", round((after[1] - before[1]) / seconds, 2), "a second", "<=1", [after[1] - before[1]])
    bench.add("rss", after[2], "KiB", f"<={RSS_KIB}")


def cpu_ms(bench):
    """CPU time of scrubd's threads so far, its hypercalls included."""
    return int(bench.boot.check("cat /proc/$(systemctl show -P MainPID scrubd.service)/task/*/schedstat | "
                                "awk '{n += $1} END {printf \"%d\", n / 1000}'")) / 1000


def busy(bench, state):
    del state
    sleep_us, hypercall_us = (float(x) for x in bench.boot.check(f"/{benchhost.TURN} {TURNS} {PAUSE_US}").split())
    bench.add("bare-turn", sleep_us + hypercall_us, "us", "", [sleep_us, hypercall_us])
    for guest in ("pv", "pvh"):
        shares, turns = [], []
        for _ in range(bench.repeats(1)):
            bench.note(f"{guest}: creating")
            domid = bench.start("victim", guest, 4096)
            bench.settle()
            before = cpu_ms(bench)
            bench.note(f"{guest}: destroying")
            bench.boot.check("xl destroy victim")
            job = bench.job(domid)
            after = cpu_ms(bench)
            if not job:
                raise lab.LabError("the destroy did not go through scrubd")
            bench.dirty.wait_clean()
            own_ms = after - before - job["hypervisor_ms"]
            shares.append(round(own_ms / job["hypervisor_ms"] * 100, 2))
            turns.append(round(own_ms * 1000 / job["steps"]))
            lab.PROGRESS.say(f"      {guest}: {job}, scrubd {after - before:.1f} ms")
        bench.add(f"{guest}-own-cpu", max(shares), "% of its steps' time", "<=5", shares)
        bench.add(f"{guest}-own-turn", max(turns), "us a step", "", turns)
