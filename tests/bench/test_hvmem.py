# SPDX-License-Identifier: GPL-2.0-or-later
"""Finding the hypervisor in the emulator's memory: symbols, mappings, the image's place; reading
another process; the recorder's pace."""

import mmap
import os
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import hvmem  # noqa: E402

XENSYMS = """\
ffff82d0403fce84 T trampoline_xen_phys_start
ffff82d040484600 D xen_phys_start
ffff82d0405a1aa0 b common/page_alloc.c#node_need_scrub
ffff82d0405a1ab0 b common/page_alloc.c#avail
"""
SYMBOLS = {"xen_phys_start": 0xffff82d040484600, "node_need_scrub": 0xffff82d0405a1aa0}
SIZE = 64 << 20
PHYS = 32 << 20

# A process with 64 MiB that hold an image at 32 MiB, and its stale original at 2 MiB.
CHILD = f"""
import mmap, struct, sys
m = mmap.mmap(-1, {SIZE + (4 << 20)})
import ctypes
base = -ctypes.addressof(ctypes.c_char.from_buffer(m)) % {2 << 20}
for at in ({2 << 20}, {PHYS}):
    m[base + at + 0x484600:base + at + 0x484608] = struct.pack('<Q', {PHYS})
m[base + {PHYS} + 0x5a1aa0:base + {PHYS} + 0x5a1ab0] = struct.pack('<QQ', 1234, 4321)
print('ready', flush=True)
sys.stdin.read()
"""


class Symbols(unittest.TestCase):
    def test_static_ones_too(self):
        self.assertEqual(hvmem.parse_symbols(XENSYMS), SYMBOLS)

    def test_missing_is_named(self):
        with self.assertRaisesRegex(hvmem.HvmemError, "node_need_scrub"):
            hvmem.parse_symbols(XENSYMS.replace("node_need_scrub", "other"))


class Locate(unittest.TestCase):
    def memory(self, base, places):
        def read(address, length):
            self.assertEqual(length, 8)
            return struct.pack("<Q", places.get(address - base - 0x484600, 0))
        return read

    def test_maps(self):
        maps = ("7f0000000000-7f0004000000 rw-p 00000000 00:00 0\n"
                "7f1000000000-7f1000001000 rw-p 00000000 00:00 0\n"
                "7f2000000000-7f2004000000 r--p 00000000 08:01 5 /lib/x\n")
        self.assertEqual(list(hvmem.guest_ram(maps, SIZE)), [(0x7f0000000000, 0x7f0004000000)])

    def test_stale_copy_is_passed_over(self):
        base = 0x7f0000000000
        read = self.memory(base, {2 << 20: PHYS, PHYS: PHYS})
        self.assertEqual(hvmem.locate(read, [(base, base + SIZE)], SIZE, SYMBOLS), base + PHYS)

    def test_nowhere(self):
        read = self.memory(0, {2 << 20: PHYS})
        with self.assertRaises(hvmem.HvmemError):
            hvmem.locate(read, [(0, SIZE)], SIZE, SYMBOLS)


class OtherProcess(unittest.TestCase):
    def test_reads_all_nodes(self):
        with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as child:
            try:
                self.assertEqual(child.stdout.readline(), b"ready\n")
                one = hvmem.DirtyReader(child.pid, SIZE >> 20, SYMBOLS)
                two = hvmem.DirtyReader(child.pid, SIZE >> 20, SYMBOLS, nodes=2)
                self.assertEqual((one.read(), two.read()), (1234, 5555))
                one.close()
                two.close()
            finally:
                child.stdin.close()


class Record(unittest.TestCase):
    def test_series_is_timed_and_ends(self):
        with hvmem.Recorder(lambda: 5, every_s=0.005) as recorder:
            end = time.monotonic() + 5
            while len(recorder.series) < 10 and time.monotonic() < end:
                time.sleep(0.005)
        n = len(recorder.series)
        times = [t for t, _ in recorder.series]
        self.assertGreaterEqual(n, 10)
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[9] - times[0], 0.04)
        self.assertFalse(recorder.thread.is_alive())


if __name__ == "__main__":
    unittest.main()
