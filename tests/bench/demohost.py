# SPDX-License-Identifier: GPL-2.0-or-later
"""The demo's host: guests are created and destroyed, and each destroy has its two windows."""

import analysis
import benchhost
import lab

MEM_MIB = 4096
INTERVAL_US, COUNT = 5000, 1000
COMMAND_AT_MS = 1000
WARM_COUNT, WARM_COMMAND_AT_MS = 240, 200
QUIET_TRIES = 3


class Disturbed(Exception):
    """The machine does not keep quiet enough to measure on."""


class Host(benchhost.Host):
    """Takes the demo's windows and destroys guests."""

    def __init__(self, boot, ram, kind, options):
        """kind: of analysis.NAMES, what the host is now."""
        super().__init__(boot, ram)
        self.kind, self.options = kind, options
        self.start_neighbour()

    @property
    def scrubd(self):
        """Whether scrubd does what it is for."""
        return self.kind in analysis.WITH_SCRUBD

    def create(self, guest, mem_mib):
        self.boot.check(f"guest_start victim --type {guest} --mem {mem_mib} --cpus 1", 180)

    def settle(self):
        """What creating a guest stirred up is not part of the quiet window, nor is what the
        emulator has to translate anew."""
        self.boot.check("udevadm settle")
        self.dirty.wait_clean()
        if not self.options.keep_translations:
            self.translations.drop()
        self.destroy("nobody", WARM_COUNT, WARM_COMMAND_AT_MS)

    def destroy(self, target, count=COUNT, at_ms=COMMAND_AT_MS):
        return self.window(f"xl destroy {target}", count, INTERVAL_US, at_ms)

    def void(self, guest, name, window, voided):
        """Whether a window is not to be counted; then its figures go to `voided`."""
        figures = analysis.summary([s[2] for s in window["samples"]])
        why = analysis.disturbed(name, figures, window["host_gap_ms"])
        if self.options.noisy or not why:
            return False
        voided.append({"hypervisor": self.kind, "guest": guest, "window": name,
                       "why": why, "host_gap_ms": window["host_gap_ms"], **figures})
        return True

    def quiet_window(self, guest, note, voided):
        for attempt in range(QUIET_TRIES):
            note("quiet window" + (f", try {attempt + 1}" if attempt else ""))
            window = self.destroy("nobody")
            if not self.void(guest, "quiet", window, voided):
                return window
        raise Disturbed

    def cycle(self, guest, note, voided):
        """One destroy, with the quiet window before it: an entry of runs, and its two windows; None
        if the destroy's window is void."""
        self.dirty.wait_clean()
        free_before = int(self.boot.check("free_mib"))
        note("creating the guest")
        self.create(guest, MEM_MIB)
        self.settle()
        use = self.daemon_use() if self.scrubd else None
        quiet = self.quiet_window(guest, note, voided)
        run = {}
        if self.scrubd:
            now = self.daemon_use()
            run["idle"] = {"seconds": round(now[0] - use[0], 1), "wakeups": now[1] - use[1],
                           "rss_kib": now[2]}
            before = self.status()
        note("destroying the guest")
        during = self.destroy("victim")
        if during["status"] != 0:
            raise lab.LabError(f"xl destroy failed: {during['message']}")
        if max(d for _, d in during["dirty"]) == 0:
            raise lab.LabError("no dirty memory was seen in a destroy: the reading is wrong")
        if self.scrubd:
            after = self.status()
            if after["jobs_done"] != before["jobs_done"] + 1:
                raise lab.LabError("the destroy did not go through scrubd")
            was = {c["cpu"]: c["scrubbed_pages"] for c in before["cpus"]}
            run["mask"] = after["mask"]
            run["pages_outside_mask"] = sum(
                c["scrubbed_pages"] - was[c["cpu"]] for c in after["cpus"] if not c["allowed"])
        if self.void(guest, "during", during, voided):
            return None
        run.update({
            "hypervisor": self.kind, "guest": guest, "mem_mib": MEM_MIB, "dom0_vcpus": self.boot.dom0_vcpus,
            "teardown_s": during["took_s"],
            "clean_s": analysis.clean_time(during["dirty"], 0, during["took_s"]),
            "quiet": analysis.summary([s[2] for s in quiet["samples"]]),
            "during": analysis.summary([s[2] for s in during["samples"]]),
            "free_mib_before": free_before,
            "free_mib_after": self.wait_free(free_before),
            "dirty_max_mib": max(d for _, d in during["dirty"]) // 256,
            "host_gap_ms": {"quiet": quiet["host_gap_ms"], "during": during["host_gap_ms"]},
            "quiet_samples": [s[2] for s in quiet["samples"]],
            "during_samples": [s[2] for s in during["samples"]],
        })
        return run, {"quiet": quiet, "during": during}
