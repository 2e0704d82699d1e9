# SPDX-License-Identifier: GPL-2.0-or-later
"""A host on which scrubd is measured: guests to destroy, pairs of windows, scrubd's own use of the CPU."""

import json
import time

import analysis
import benchhost
import joblog
import lab

# A wake-up each ms, a ping each 4 ms; the command a second into the window.
INTERVAL_US, EVERY, AT_MS = 1000, 4, 1000
COUNT = 7000
WARM_COUNT, WARM_AT_MS = 1200, 200
TRIES = 3
NEIGHBOUR_CPU = 1

# NAME COMMAND...: a command for each name, all at once; status 1 if any failed.
AT_ONCE = """#!/bin/sh
# at-once COMMAND -- NAMES: the command for each name, all of them at the same time
c=; while [ "$1" != -- ]; do c="$c $1"; shift; done; shift
p=; for n; do $c "$n" & p="$p $!"; done
r=0; for i in $p; do wait "$i" || r=1; done; exit $r
"""
IN_TURN = """#!/bin/sh
# in-turn COMMAND -- NAMES: the command for each name, one after the other
c=; while [ "$1" != -- ]; do c="$c $1"; shift; done; shift
r=0; for n; do $c "$n" || r=1; done; exit $r
"""


class Disturbed(Exception):
    """The machine does not keep quiet enough to measure on."""


class Bench(benchhost.Host):
    """boot: from Ram.boot(). results: a Results. options: .repeats, .noisy."""

    def __init__(self, boot, ram, results, options):
        super().__init__(boot, ram)
        self.results, self.options = results, options
        self.patched = boot.hypervisor != "stock"
        self.has_neighbour = False
        self.group = self.step = None
        boot.put("/usr/lib/lab/at-once", AT_ONCE, 0o755)
        boot.put("/usr/lib/lab/in-turn", IN_TURN, 0o755)
        if self.patched:
            self.link_xl()
        self.dirty.wait_clean()

    def begin(self, group, step):
        self.group, self.step = group, step
        self.began = time.monotonic()
        self.note("")

    def note(self, text):
        self.step.note(f"{self.group} on {self.boot.hypervisor}: {text}")

    def add(self, name, *args):
        self.results.add(f"{self.group}-{name}", *args)

    def repeats(self, usual):
        return self.options.repeats or usual

    def neighbour(self):
        """Pinned to a CPU of its own."""
        if not self.has_neighbour:
            self.start_neighbour(cpus=NEIGHBOUR_CPU)
            self.has_neighbour = True

    def end_neighbour(self):
        if self.has_neighbour:
            self.boot.check("xl destroy neighbour", 60)
            self.has_neighbour = False

    def recover(self):
        """After a failure: no guest but the neighbour, and scrubd as it came."""
        self.boot.run("for d in $(labhv domains | while read -r d _; do echo $d; done); do [ $d = 0 ] || "
                      "[ \"$(xenstore-read /local/domain/$d/name 2>/dev/null)\" = neighbour ] || "
                      "timeout 60 xl destroy $d; done >/dev/null 2>&1", 240)
        if self.patched:
            self.configure("")

    # --- Guests: on CPU 0, for CPU 1 is the neighbour's ---

    def start(self, name, guest, mib, options=""):
        """Domid of a guest that has booted."""
        return int(self.boot.check(f"guest_start {name} --type {guest} --mem {mib} --cpus 0 {options}",
                                   300).split()[0])

    def build(self, name, guest, mib):
        """Domid of a guest that has its memory and never ran."""
        return int(self.boot.check(f"guest_build {name} --type {guest} --mem {mib} --cpus 0", 120).split()[0])

    def settle(self):
        """What creating guests stirred up is no part of what comes, nor is what the emulator has to
        translate anew."""
        self.boot.check("udevadm settle")
        self.dirty.wait_clean()
        self.translations.drop()

    # --- Windows ---

    def take(self, command, count=COUNT, **more):
        return self.window(command, count, INTERVAL_US, AT_MS, every=EVERY, **more)

    def void(self, name, window):
        """Whether a window ("quiet" or "during") is not to be counted."""
        why = analysis.disturbed(name, analysis.summary(window["pings"]), window["host_gap_ms"])
        if not why or self.options.noisy:
            return False
        lab.PROGRESS.say(f"      {self.group}: a {name} window is void: {why}")
        return True

    def quiet(self, command):
        """A window of that command, with nothing to do for it."""
        self.window(command, WARM_COUNT, INTERVAL_US, WARM_AT_MS, every=EVERY)
        for _ in range(TRIES):
            window = self.take(command)
            if not self.void("quiet", window):
                return window
        raise Disturbed("no quiet window")

    # --- scrubd ---

    def scrubbed(self, cpu):
        """Pages that this CPU has scrubbed so far, by the hypervisor's word."""
        counted = json.loads(self.boot.check("labscrub get"))["cpus"][cpu]
        return counted["idle"] + counted["floor"]

    def job(self, domid, limit_s=15):
        """Of scrubd's job of a domain that is dead, as joblog.end_of_job(); None if it had none."""
        end = time.monotonic() + limit_s
        while True:
            job = joblog.end_of_job(self.boot.check("journalctl -q -u scrubd -o cat --no-pager"), domid)
            if job or time.monotonic() > end:
                return job
            time.sleep(0.2)

    def configure(self, text):
        """Restarts scrubd with these lines as its configuration; "": its defaults."""
        self.boot.put("/etc/scrubd/scrubd.conf", text)
        self.boot.check("systemctl reset-failed scrubd.service 2>/dev/null; systemctl restart scrubd.service && "
                        "poll 15 scrubctl status >/dev/null 2>&1")
