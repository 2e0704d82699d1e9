# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a variable of the running hypervisor out of the emulator's memory.

The demo follows the amount of dirty memory through a destroy. Asking for it in dom0 (on stock Xen
only debug key H tells) would load the very CPU whose latency is measured, so it is looked up
from outside, alike for both hypervisors: nothing in the emulated machine notices.
"""

import os
import struct
import threading
import time

ALIGN = 2 << 20  # of the hypervisor's image in memory, and of guest memory in the emulator
VIRT_ALIGN = 1 << 30  # of the virtual address that the image begins at
SYMBOLS = ("node_need_scrub", "xen_phys_start")


class HvmemError(Exception):
    pass


def parse_symbols(text):
    """{name: address} of SYMBOLS in the format of /proc/xen/xensyms, which lists a static variable
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


def guest_ram(maps, size):
    """(begin, end) of the mappings that can hold guest memory of `size` bytes; /proc/PID/maps."""
    for line in maps.splitlines():
        f = line.split()
        begin, end = (int(x, 16) for x in f[0].split("-"))
        if end - begin >= size and f[1].startswith("rw"):
            yield begin, end


def locate(read, ram, size, symbols):
    """Address, in the emulator, of the hypervisor's image: where its own note of its physical
    address, xen_phys_start, fits the place that it is read from. read(address, length) -> bytes."""
    at = symbols["xen_phys_start"] % VIRT_ALIGN
    for begin, end in ram:
        for base in range(-(-begin // ALIGN) * ALIGN, end - size + 1, ALIGN):
            for phys in range(0, min(size, 4 << 30) - at - 8, ALIGN):
                if struct.unpack("<Q", read(base + phys + at, 8))[0] == phys and phys > 0:
                    return base + phys
    raise HvmemError("the hypervisor is not to be found in the emulator's memory")


class DirtyReader:
    """read() is the number of pages waiting to be scrubbed, on all of `nodes` NUMA nodes."""

    def __init__(self, pid, mem_mib, symbols, nodes=1):
        size = mem_mib << 20
        self.fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        with open(f"/proc/{pid}/maps") as f:
            ram = list(guest_ram(f.read(), size))
        image = locate(lambda a, n: os.pread(self.fd, n, a), ram, size, symbols)
        self.address = image + symbols["node_need_scrub"] % VIRT_ALIGN
        self.nodes = nodes

    def read(self):
        data = os.pread(self.fd, 8 * self.nodes, self.address)
        return sum(struct.unpack(f"<{self.nodes}Q", data))

    def close(self):
        os.close(self.fd)


class Recorder:
    """Collects (monotonic seconds, value of read()) every `every_s` until stopped."""

    def __init__(self, read, every_s=0.01):
        self.read, self.every_s = read, every_s
        self.series = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        due = time.monotonic()
        while not self.done.is_set():
            self.series.append((time.monotonic(), self.read()))
            due = max(due + self.every_s, time.monotonic())
            self.done.wait(due - time.monotonic())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
