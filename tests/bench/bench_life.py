# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups reboot, ends and kills: how long guests are away, and that a destroy always ends."""

import random
import statistics
import time

import lab
import suite
from scenarios import recovery

MEM_MIB = 4096
END_LIMIT_S = 120  # max_teardown_s as it comes: comfort's limit for any teardown
PAUSE_S = 3
KILLS = 100

# Of "TIME WATCH [..]" a line: from the first release after `begin` to the first introduction after that,
# and to `end`.
REBOOT_AWK = """$1 >= begin && /release/ && !off { off = $1 }
    off && /introduce/ && !on { on = $1 }
    END { print on - off, end - off }"""
REBOOT = """#!/bin/sh
# reboot-times NAME: reboots the guest; prints the seconds from its shutdown until it is there again,
# with its memory but not yet running, and until it is up
. /usr/lib/lab/lib.sh
log=$(console_of "$1")
: > /run/lab/events
stdbuf -oL xenstore-watch @releaseDomain @introduceDomain 2>/dev/null |
    while read -r what; do read -r now _ < /proc/uptime; echo "$now $what"; done > /run/lab/events &
ups=$(grep -c LAB-READY "$log")
up() { [ "$(grep -c LAB-READY "$log")" -gt "$ups" ]; }
poll 5 sh -c '[ $(grep -c @ /run/lab/events) -ge 2 ]' || exit 1  # a watch fires when it is set
read -r begin _ < /proc/uptime
xl reboot "$1" || exit 1
poll 120 up || exit 1
read -r end _ < /proc/uptime
pkill -x xenstore-watch
awk -v begin="$begin" -v end="$end" '""" + REBOOT_AWK + """' /run/lab/events
"""


def reboot(bench, state):
    """state: on stock the times are compared with those that the patched host left there."""
    bench.boot.put("/usr/lib/lab/reboot-times", REBOOT, 0o755)
    kind = bench.boot.hypervisor
    times = []
    bench.note("creating")
    bench.start("victim", "pv", MEM_MIB)
    for n in range(bench.repeats(3)):
        bench.settle()
        bench.note(f"reboot {n + 1}")
        times.append([float(x) for x in bench.boot.check("/usr/lib/lab/reboot-times victim", 200).split()])
        lab.PROGRESS.say(f"      {times[-1][0]:.2f} s until there again, {times[-1][1]:.2f} s until up")
    bench.boot.check("xl destroy victim", 60)
    state[kind] = times
    for what, column, bar in (("again", 0, "<=1.25"), ("up", 1, "")):
        mine = [t[column] for t in times]
        bench.add(f"{what}-{kind}", round(statistics.median(mine), 2), "s", "", mine)
        if kind == "stock" and "patched" in state:
            ours = statistics.median(t[column] for t in state["patched"])
            bench.add(what, round(ours / statistics.median(mine), 2), "x stock", bar)


def ends(bench, state):
    del state
    bench.note("paused")
    domid = bench.build("victim", "pv", 1024)
    bench.configure(f"max_pause_s = {PAUSE_S}\nstep_us = 200\nduty_percent = 5\n")
    xl = bench.boot.start_command("exec xl destroy victim")
    bench.boot.check(f"poll 20 scrubctl pause {domid} >/dev/null 2>&1")
    began = time.monotonic()
    bench.boot.check("poll 5 sh -c \"scrubctl list --json | grep -q paused\"")
    rc, _, err = xl.wait(END_LIMIT_S)
    if rc != 0:
        raise lab.LabError(f"the paused destroy failed: {err.decode(errors='replace')}")
    bench.add("paused", round(time.monotonic() - began, 1), "s", f"<={END_LIMIT_S}")
    bench.configure("")

    bench.note("busy: creating")
    bench.build("victim", "pv", 2048)
    bench.spin()
    bench.note("busy: destroying")
    took = bench.boot.check("read -r a _ < /proc/uptime; xl destroy victim || exit 1; read -r b _ < /proc/uptime; "
                            "echo $a $b", 4 * END_LIMIT_S).split()
    bench.add("busy", round(float(took[1]) - float(took[0]), 1), "s", f"<={END_LIMIT_S}")
    bench.end_spin()
    bench.dirty.wait_clean()


def kills(bench, state):
    """The lab's scenario, in full."""
    del state
    bench.end_neighbour()
    host = suite.Host(bench.boot)
    total, recovery.SEED = bench.options.repeats or KILLS, random.randrange(1, 1 << 30)
    recovery.KILLS = -(-total // 2)
    half_way = killed = 0
    try:
        host.prepare(needs_scrubd=True)
        for guest in ("pv", "pvh"):
            bench.note(f"{guest}: {recovery.KILLS} kills")
            figures = recovery.kills(host, guest)
            killed, half_way = killed + figures["kills"], half_way + figures["half_way"]
        failed = ""
    except suite.Failure as e:
        failed = str(e).splitlines()[0]
        lab.PROGRESS.say(str(e))
        bench.recover()
    bench.boot.run("xl destroy bystander", 60)
    bench.add("failures", int(bool(failed)), failed, "<=0", [recovery.SEED])
    bench.add("kills", killed, "of which half way through a teardown: samples", f">={total}", [half_way])
