# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups pings, pings-2, pings-stock and create: what a neighbour sees."""

import statistics
import time

import analysis
import daemonhost
import lab
from daemonhost import NEIGHBOUR_CPU, Disturbed

FOUR = ("victim1", "victim2", "victim3", "victim4")
LIMIT_S = 240  # no cycle begins that would end after this
CREATE_MIB = 6144


def _single(guest):
    return lambda bench: [bench.start("victim", guest, 4096)]


def _four(bench):
    return [bench.build(name, "pv", 1024) for name in FOUR]


# name: (creates the guests and gives their domids, command of the destroy, command with nothing to destroy)
KINDS = {
    "pv": (_single("pv"), "xl destroy victim", "xl destroy nobody"),
    "pvh": (_single("pvh"), "xl destroy victim", "xl destroy nobody"),
    "four": (_four, f"/usr/lib/lab/at-once xl destroy -- {' '.join(FOUR)}",
             f"/usr/lib/lab/at-once xl destroy -- {' '.join(n + 'x' for n in FOUR)}"),
}
IN_TURN = f"/usr/lib/lab/in-turn xl destroy -- {' '.join(FOUR)}"


def cycle(bench, kind):
    """(quiet window, the destroy's), neither of them void."""
    create, destroy, nothing = KINDS[kind]
    for _ in range(daemonhost.TRIES):
        bench.note(f"{kind}: creating")
        domids = create(bench)
        bench.settle()
        bench.note(f"{kind}: quiet")
        quiet = bench.quiet(nothing)
        bench.note(f"{kind}: destroying")
        before = bench.scrubbed(NEIGHBOUR_CPU) if bench.patched else 0
        during = bench.take(destroy)
        if during["status"] != 0:
            raise lab.LabError(f"the destroy failed: {during['message']}")
        if bench.patched:
            for domid in domids:
                if not bench.job(domid):
                    raise lab.LabError(f"domain {domid} was not destroyed by scrubd")
            during["on_neighbours_cpu"] = bench.scrubbed(NEIGHBOUR_CPU) - before
        if not bench.void("during", during):
            return quiet, during
    raise Disturbed("no destroy that counts")


def rounds(bench, kinds, repeats):
    """{kind: [(quiet, during)]}: as many rounds through all kinds as there is time for."""
    taken = {kind: [] for kind in kinds}
    took = []
    for _ in range(repeats):
        for kind in kinds:
            left = LIMIT_S - (time.monotonic() - bench.began)
            if taken[kind] and left < max(took):
                bench.add("short", min(len(t) for t in taken.values()), "repeats")
                return taken
            began = time.monotonic()
            taken[kind].append(cycle(bench, kind))
            took.append(time.monotonic() - began)
    return taken


def report(bench, name, windows, what, bar):
    """windows: [(quiet, during)]; what: "wakes" or "pings"."""
    quiet, during = ([w[k][what] for w in windows] for k in (0, 1))
    figures = analysis.compare(quiet, during)
    bench.add(f"{name}-quiet-quiet", figures["quiet_quiet"], "x")
    bench.add(name, figures["ratio"], "x quiet p99", bar, [figures["quiet_p99"], figures["during_p99"]])
    bench.add(f"{name}-worst", figures["during_max"], "us", "", [figures["quiet_max"], figures["lost"]])


def pings(bench, state):
    del state
    bench.neighbour()
    taken = rounds(bench, list(KINDS), bench.repeats(3))
    for kind, windows in taken.items():
        report(bench, f"{kind}-wakes", windows, "wakes", "<=1.2")
        report(bench, f"{kind}-pings", windows, "pings", "<=1.5" if bench.boot.dom0_vcpus == 1 else "<=1.2")
        bench.add(f"{kind}-on-neighbours-cpu", sum(d["on_neighbours_cpu"] for _, d in windows), "pages scrubbed")
        bench.add(f"{kind}-teardown", statistics.median(d["took_s"] for _, d in windows), "s", "",
                  [d["took_s"] for _, d in windows])
    if bench.boot.dom0_vcpus > 1:
        return
    together = [d["took_s"] for _, d in taken["four"]]
    bench.note("four, one after the other")
    _four(bench)
    bench.settle()
    in_turn = bench.take(IN_TURN)["took_s"]
    bench.add("four-at-once", round(statistics.median(together) / in_turn, 2), "x one after another", "<=1.2",
              together + [in_turn])


def stock(bench, state):
    del state
    bench.neighbour()
    for kind, windows in rounds(bench, ["pv", "pvh"], bench.repeats(1)).items():
        report(bench, f"{kind}-wakes", windows, "wakes", "")
        report(bench, f"{kind}-pings", windows, "pings", "")


# --- create ---

CREATE = """#!/bin/sh
# create-after NAME [VICTIM]: creates NAME, right after VICTIM is destroyed; prints when it began
[ -z "$2" ] || xl destroy "$2" || exit 1
read -r now _ < /proc/uptime
echo "began $now" >&2
xl create -p -q "/run/lab/$1.cfg"
"""


def create_window(bench, guest, dirty):
    """Worst ping, in us, while a guest is created; None if one was lost."""
    for _ in range(daemonhost.TRIES):
        bench.boot.check(f"guest_config fresh --type {guest} --mem {CREATE_MIB} --cpus 0 >/dev/null")
        if dirty:
            bench.note(f"{guest}: creating the one to destroy")
            bench.build("victim", guest, CREATE_MIB)
        bench.settle()
        bench.note(f"{guest}: creating on {'dirty' if dirty else 'clean'} memory")
        window = bench.take("/usr/lib/lab/create-after fresh" + (" victim" if dirty else ""), 14000, clean=False)
        if window["status"] != 0:
            raise lab.LabError(f"the create failed: {window['message']}")
        bench.boot.check("xl destroy fresh")
        bench.dirty.wait_clean()
        if bench.void("during", window):
            continue
        began_s = float(window["message"].split("began ")[1].split()[0]) - window["begin_s"]
        if window["took_s"] > window["sends"][-1]:
            raise lab.LabError(f"the create took {window['took_s']} s: the window is too short")
        worst = analysis.worst_between(window["pings"], window["sends"][::daemonhost.EVERY], began_s,
                                       window["took_s"])
        lab.PROGRESS.say(f"      {guest} on {'dirty' if dirty else 'clean'} memory: worst {worst} us, "
                         f"create took {window['took_s'] - began_s:.2f} s after {began_s:.2f} s")
        return worst
    raise Disturbed("no create that counts")


def create(bench, state):
    del state
    bench.neighbour()
    bench.boot.put("/usr/lib/lab/create-after", CREATE, 0o755)
    name = "" if bench.patched else "stock-"
    for guest, repeats in (("pv", 2), ("pvh", 1)) if bench.patched else (("pv", 1),):
        clean, dirty = [], []
        for _ in range(bench.repeats(repeats)):
            clean.append(create_window(bench, guest, False))
            dirty.append(create_window(bench, guest, True))
        worst = [None if None in ws else max(ws) for ws in (clean, dirty)]
        bench.add(f"{name}{guest}", analysis.ratio(worst[1], worst[0]), "x on clean memory",
                  "<=1.5" if bench.patched else "", clean + dirty)
