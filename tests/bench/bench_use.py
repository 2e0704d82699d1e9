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


TIMED = f"""mkdir -p /run/systemd/system/scrubd.service.d
printf '[Service]\\nEnvironment=LD_PRELOAD=/{benchhost.IOCTLTIME} IOCTLTIME={{sums}}\\n' \\
    > /run/systemd/system/scrubd.service.d/lab.conf
rm -f {{sums}}; systemctl daemon-reload"""
SUMS = "/run/scrubd/ioctltime"
UNTIMED = "rm -rf /run/systemd/system/scrubd.service.d; systemctl daemon-reload"


def use(bench):
    """(CPU time of scrubd's threads so far, time in its hypercalls, both in ms; their number)"""
    text = bench.boot.check("cat /proc/$(systemctl show -P MainPID scrubd.service)/task/*/schedstat | "
                            f"awk '{{n += $1}} END {{printf \"%d \", n / 1000}}'; od -An -v -t u8 {SUMS}").split()
    return int(text[0]) / 1000, int(text[1]) / 1e6, int(text[2])


def busy(bench, state):
    """In the time of hypercalls are what preempted them, and the way into the hypervisor and back."""
    del state
    sleep_us, hypercall_us = (float(x) for x in bench.boot.check(f"/{benchhost.TURN} {TURNS} {PAUSE_US}").split())
    bench.add("bare-turn", round(sleep_us + hypercall_us, 1), "us", "", [sleep_us, hypercall_us])
    bench.boot.check(TIMED.format(sums=SUMS))
    try:
        bench.configure("")
        for guest in ("pv", "pvh"):
            own_cpu(bench, guest)
    finally:
        bench.boot.check(UNTIMED)
        bench.configure("")


def own_cpu(bench, guest):
    shares, turns = [], []
    for _ in range(bench.repeats(1)):
        bench.note(f"{guest}: creating")
        domid = bench.start("victim", guest, 4096)
        bench.settle()
        before = use(bench)
        bench.note(f"{guest}: destroying")
        bench.boot.check("xl destroy victim")
        job = bench.job(domid)
        after = use(bench)
        if not job:
            raise lab.LabError("the destroy did not go through scrubd")
        bench.dirty.wait_clean()
        cpu_ms, calls_ms, calls = (b - a for a, b in zip(before, after))
        own_ms = cpu_ms - calls_ms
        shares.append(round(own_ms / job["hypervisor_ms"] * 100, 2))
        turns.append(round(own_ms * 1000 / job["steps"]))
        lab.PROGRESS.say(f"      {guest}: {job}, scrubd {cpu_ms:.0f} ms of CPU time, {calls_ms:.0f} ms of it in "
                         f"{calls} hypercalls")
        if calls < job["steps"]:
            raise lab.LabError(f"{calls} hypercalls were seen in {job['steps']} steps")
    bench.add(f"{guest}-own-cpu", max(shares), "% of its steps' time", "<=5", shares)
    bench.add(f"{guest}-own-turn", max(turns), "us a step", "", turns)
