# SPDX-License-Identifier: GPL-2.0-or-later
"""A booted host to measure on: its neighbour, dirty memory, windows, scrubd.

What the demo and the benches share. See README.md for how a window is taken.
"""

import hashlib
import json
import os
import signal
import sys
import time

import analysis
import hvmem
import lab
import translations

HERE = os.path.dirname(os.path.realpath(__file__))
WINDOW, TURN, IOCTLTIME = "usr/lib/lab/window", "usr/lib/lab/turn", "usr/lib/lab/ioctltime.so"
NEIGHBOUR_IP, DOM0_IP = "10.99.1.2", "10.99.1.1"
GRACE_MS = 3000
SPIN = "--run '/bin/busybox dd if=/dev/zero of=/dev/null bs=64k'"
CACHE = os.path.join(lab.ROOT, "build", "bench", "cache")


def end_on_sigterm():
    """SIGTERM ends this program as an error would: the emulator, in a session of its own, is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def programs():
    """What Boot takes as guest_extra and dom0_extra."""
    return ({"bin/probe": lab.compile_static(os.path.join(HERE, "probe.c"))},
            {WINDOW: lab.compile_static(os.path.join(HERE, "window.c")),
             TURN: lab.compile_dom0(os.path.join(HERE, "turn.c"), ["-lxenctrl"]),
             IOCTLTIME: lab.compile_dom0(os.path.join(HERE, "ioctltime.c"), ["-shared", "-fPIC"])})


class Ram:
    """The emulated machine's memory: one boot after the other finds it allocated."""

    def __init__(self, mib):
        self.mib = mib
        self.fd = os.memfd_create("bench-ram")
        os.ftruncate(self.fd, mib << 20)

    def close(self):
        os.close(self.fd)

    def boot(self, kind, name, **more):
        """lab.Boot for measuring, in this memory."""
        in_guest, in_dom0 = programs()
        args = {"pin": True, "guest_extra": in_guest, "dom0_extra": in_dom0, "mem_mib": self.mib,
                "ram_file": f"/proc/{os.getpid()}/fd/{self.fd}", "time_limit_s": 2400,
                "boot_limit_s": 300}
        return lab.Boot(kind, name=name, **{**args, **more})


def symbols(boot):
    """Addresses of the hypervisor's variables, asked for once for each build of it."""
    with open(lab.hypervisor(boot.hypervisor), "rb") as f:
        digest = hashlib.sha256(f.read() + repr(hvmem.SYMBOLS).encode()).hexdigest()[:16]
    path = os.path.join(CACHE, f"symbols-{digest}.json")
    if not os.path.exists(path):
        found = hvmem.parse_symbols(boot.check("cat /proc/xen/xensyms"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as f:
            json.dump(found, f)
        os.rename(path + ".new", path)
    with open(path) as f:
        return json.load(f)


class Host:
    """boot: from Ram.boot(), up."""

    def __init__(self, boot, ram):
        self.boot = boot
        found = symbols(boot)
        self.dirty = hvmem.DirtyReader(ram.fd, found)
        self.translations = translations.Translations(boot.gdb_path(), found["do_sched_op"])

    def start_neighbour(self, cpus=1):
        self.boot.check(f"guest_start neighbour --type pv --mem 128 --cpus {cpus} --ip {NEIGHBOUR_IP} "
                        f"--run '/bin/probe {DOM0_IP}' && guest_wait neighbour PROBE-READY")

    # --- scrubd ---

    def link_xl(self):
        """From now on every xl goes through scrubd, which has to be ready for it."""
        self.boot.check("scrubctl hook enable")
        if self.status()["state"] != "ready":
            raise lab.LabError(f"scrubd is not ready: {self.status()}")

    def status(self):
        return json.loads(self.boot.check("scrubctl status --json"))

    def daemon_use(self):
        """(seconds, context switches that scrubd's threads asked for, resident KiB)"""
        out = self.boot.check(
            "pid=$(systemctl show -P MainPID scrubd.service); "
            "cat /proc/uptime /proc/$pid/task/*/status | awk 'NR == 1 {t = $1} "
            "/^voluntary/ {n += $2} /^VmRSS/ {rss = $2} END {print t, n, rss}'").split()
        return float(out[0]), int(out[1]), int(out[2])

    # --- Memory ---

    def wait_free(self, mib, limit_s=10):
        """Free memory in MiB, once it is that much, or after a while."""
        end = time.monotonic() + limit_s
        while (now := int(self.boot.check("free_mib"))) != mib and time.monotonic() < end:
            time.sleep(0.2)
        return now

    # --- A host without idle time ---

    def spin(self):
        for cpu in (0, 1):
            self.boot.check(f"guest_start spin{cpu} --type pv --mem 96 --cpus {cpu} {SPIN}", 400)

    def end_spin(self):
        for cpu in (0, 1):
            self.boot.check(f"/usr/sbin/xl destroy spin{cpu}", 400)

    # --- Windows ---

    def window(self, command, count, interval_us, at_ms, every=1, clean=True, limit_s=60):
        """One window with `command` (of dom0's shell) in it, and dirty memory through it.

        The epoch of all times in s is the moment at which the command was started. With `clean`
        it lasts until no more memory is dirty than before the command."""
        clocks = []

        def on_output(kind, data):
            if kind == b"O" and not clocks:
                clocks.append(time.monotonic())

        with hvmem.Recorder(self.dirty.read) as recorder:
            rc, out, err = self.boot.start_command(
                f"exec /{WINDOW} -e {every} {NEIGHBOUR_IP} {count} {interval_us} {GRACE_MS} "
                f"{at_ms} {command}", on_output).wait(limit_s)
            if rc != 0:
                raise lab.LabError(f"the window failed: {err.decode(errors='replace')}")
            head, samples = analysis.parse_window(out.decode())
            begin = (clocks[0] - head["clock_ns"] / 1e9 + head["t0_ns"] / 1e9
                     + head["begin_us"] / 1e6)
            end = time.monotonic() + limit_s
            baseline = [d for t, d in recorder.series if t <= begin][-1]
            while clean and self.dirty.read() > baseline and time.monotonic() < end:
                time.sleep(0.02)
            time.sleep(0.05)  # for a few readings more
        return {
            "status": head["status"],
            "message": err.decode(errors="replace").strip(),
            "took_s": round((head["end_us"] - head["begin_us"]) / 1e6, 3),
            "begin_s": head["t0_ns"] / 1e9 + head["begin_us"] / 1e6,  # on dom0's monotonic clock
            "samples": samples,
            "pings": [rtt for seq, _, rtt in samples if every and seq % every == 0],
            "wakes": [late for _, late, _ in samples],
            "sends": [(k * interval_us - head["begin_us"]) / 1e6 for k in range(len(samples))],
            "dirty": [(t - begin, d) for t, d in recorder.series],
            "host_gap_ms": round(recorder.longest_gap_s() * 1000, 1),
        }
