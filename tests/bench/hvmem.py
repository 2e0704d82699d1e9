# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a variable of the running hypervisor out of the emulator's memory.

The demo follows the amount of dirty memory through a destroy. Asking for it in dom0 (on stock Xen
only debug key H tells) would load the very CPU whose latency is measured, so it is looked up
from outside, alike for both hypervisors: nothing in the emulated machine notices.
"""

import contextlib
import os
import struct
import threading
import time

ALIGN = 2 << 20  # of the hypervisor's image in memory
LOW_MEMORY = 3 << 30  # up to here physical address and offset in the emulator's memory are the same
VIRT_ALIGN = 1 << 30  # of the virtual address that the image begins at
SYMBOLS = ("node_need_scrub", "xen_phys_start", "do_sched_op")


class HvmemError(Exception):
    pass


def parse_symbols(text):
    """{name: address} of SYMBOLS (translations.py uses the last one) in the format of /proc/xen/xensyms, which lists a static variable
    as FILE#NAME."""
    found = {}
    for line in text.splitlines():
        f = line.split()
        name = f[2].split("#")[-1] if len(f) == 3 else ""
        if name in SYMBOLS:
            found[name] = int(f[0], 16)
    missing = [n for n in SYMBOLS if n not in found]
    if missing:
        raise HvmemError("the hypervisor's symbols lack " + ", ".join(missing))
    return found


def locate(read, size, symbols):
    """Physical address of the hypervisor's image: where its own note of that address,
    xen_phys_start, fits the place that it is read from. read(offset, length) -> bytes."""
    at = symbols["xen_phys_start"] % VIRT_ALIGN
    for phys in range(ALIGN, min(size, LOW_MEMORY) - at - 8, ALIGN):
        if struct.unpack("<Q", read(phys + at, 8))[0] == phys:
            return phys
    raise HvmemError("the hypervisor is not to be found in the emulator's memory")


class DirtyReader:
    """read() is the number of pages waiting to be scrubbed, on all of `nodes` NUMA nodes.

    fd: the file that is the machine's memory."""

    def __init__(self, fd, symbols, nodes=1):
        self.fd, self.nodes = fd, nodes
        image = locate(lambda at, n: os.pread(fd, n, at), os.fstat(fd).st_size, symbols)
        self.address = image + symbols["node_need_scrub"] % VIRT_ALIGN

    def read(self):
        data = os.pread(self.fd, 8 * self.nodes, self.address)
        return sum(struct.unpack(f"<{self.nodes}Q", data))

    def wait_clean(self, limit_s=180):
        end = time.monotonic() + limit_s
        while (pages := self.read()) > 0:
            if time.monotonic() > end:
                raise HvmemError(f"{pages} pages still dirty after {limit_s} s")
            time.sleep(0.02)


class Recorder:
    """Collects (monotonic seconds, value of read()) every `every_s` until stopped.

    A thread on each core of this machine, ahead of all else there, notes that it was woken: a gap
    in what it notes is a stall of that core."""

    def __init__(self, read, every_s=0.01):
        self.read, self.every_s = read, every_s
        self.series = []
        self.wakes = {core: [] for core in sorted(os.sched_getaffinity(0))}
        self.done = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(core, k == 0), daemon=True)
                        for k, core in enumerate(self.wakes)]

    def _run(self, core, reads):
        os.sched_setaffinity(0, {core})
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(20))
        due = time.monotonic()
        while not self.done.is_set():
            now = time.monotonic()
            self.wakes[core].append(now)
            if reads:
                self.series.append((now, self.read()))
            due = max(due + self.every_s, time.monotonic())
            self.done.wait(due - time.monotonic())

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        for t in self.threads:
            t.join()

    def longest_gap_s(self):
        return max((b - a for times in self.wakes.values() for a, b in zip(times, times[1:])),
                   default=0)
