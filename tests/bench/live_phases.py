# SPDX-License-Identifier: GPL-2.0-or-later
"""One host that runs on, in three phases: as it booted, with the patch loaded, with it taken out again."""

import time

import analysis
import lab
from demohost import COMMAND_AT_MS, INTERVAL_US, Disturbed

# What the host is in a phase, and what made it so.
PHASES = (("stock", None), ("livepatched", "live_load"), ("unloaded", "live_unload"))
STATES = {"stock": "degraded", "livepatched": "ready", "unloaded": "degraded"}
DESTROY_TRIES = 3
CHANGE_MAX_US = 50000
CHANGE_COUNT = 2000


def change(host, command):
    """A window in which the patch is loaded or taken out."""
    window = host.window(f"sh -c '. /usr/lib/lab/lib.sh; {command}'", CHANGE_COUNT, INTERVAL_US, COMMAND_AT_MS,
                         clean=False)
    if window["status"] != 0:
        raise lab.LabError(f"{command} failed: {window['message']}")
    return window


def enter(host, phase):
    """Waits until scrubd, too, knows what the hypervisor is now."""
    end = time.monotonic() + 30
    while host.status()["state"] != STATES[phase]:
        if time.monotonic() > end:
            raise lab.LabError(f"{phase}: scrubd is not {STATES[phase]}: {host.status()}")
        time.sleep(0.2)
    host.kind = phase


def run(host, options, changes, voided, note):
    """A generator of (entry of runs, its windows), all guests and repeats of each phase in turn.

    host: a demohost.Host on a boot that has a payload. (command, window) of what lies between the
    phases goes to changes."""
    host.boot.check("scrubctl hook enable")
    for phase, command in PHASES:
        if command:
            note(command.replace("live_", "live patch: "))
            changes.append((command, change(host, command)))
        enter(host, phase)
        for n in range(1, options.repeats + 1):
            for guest in options.guest:
                yield destroy(host, guest, n, options.repeats, voided, note)


def destroy(host, guest, n, repeats, voided, note):
    for _ in range(DESTROY_TRIES):
        counted = host.cycle(guest, lambda text: note(
            f"{analysis.NAMES[host.kind]} {guest.upper()} {n}/{repeats}: {text}"), voided)
        if counted:
            counted[0]["repeat"] = n
            return counted
    raise Disturbed


def figures(changes):
    """[{change, took_s, pings of the whole window, and the worst while it was made}]"""
    return [{"change": command.replace("live_", ""), "took_s": w["took_s"], "worst_us": worst(w),
             "pings": analysis.summary([s[2] for s in w["samples"]])} for command, w in changes]


def worst(window):
    """The longest round trip, in us, of a ping under way during the change; None if one was lost, or pings ended before it did."""
    if window["sends"][-1] < window["took_s"]:
        return None
    return analysis.worst_between([s[2] for s in window["samples"]], window["sends"], 0, window["took_s"])


def verdict(changes):
    """As analysis.verdict()."""
    out = []
    for f in figures(changes):
        met = f["worst_us"] is not None and f["worst_us"] <= CHANGE_MAX_US
        shown = "lost" if f["worst_us"] is None else f"{f['worst_us'] / 1000:.2f} ms"
        out.append((met, f"{f['change']}: worst ping meanwhile {shown}, at most {CHANGE_MAX_US // 1000} ms; "
                         f"took {f['took_s']:.2f} s"))
    return out
