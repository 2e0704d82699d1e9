# SPDX-License-Identifier: GPL-2.0-or-later
"""Finding the hypervisor in the emulated machine's memory: symbols, the image's place; reading its
count; the recorder's pace."""

import os
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import hvmem  # noqa: E402

XENSYMS = """\
ffff82d0403fce84 T trampoline_xen_phys_start
ffff82d040484600 D xen_phys_start
ffff82d040251f00 T do_sched_op
ffff82d0405a1aa0 b common/page_alloc.c#node_need_scrub
ffff82d0405a1ab0 b common/page_alloc.c#avail
"""
SYMBOLS = {"xen_phys_start": 0xffff82d040484600, "node_need_scrub": 0xffff82d0405a1aa0,
           "do_sched_op": 0xffff82d040251f00}
SIZE = 64 << 20
PHYS = 32 << 20


class Symbols(unittest.TestCase):
    def test_static_ones_too(self):
        self.assertEqual(hvmem.parse_symbols(XENSYMS), SYMBOLS)

    def test_missing_is_named(self):
        with self.assertRaisesRegex(hvmem.HvmemError, "node_need_scrub"):
            hvmem.parse_symbols(XENSYMS.replace("node_need_scrub", "other"))


class Memory(unittest.TestCase):
    """A file of 64 MiB that holds an image at 32 MiB, and its stale original at 2 MiB."""

    def setUp(self):
        self.fd = os.memfd_create("test")
        os.ftruncate(self.fd, SIZE)
        for at in (2 << 20, PHYS):
            os.pwrite(self.fd, struct.pack("<Q", PHYS), at + 0x484600)
        os.pwrite(self.fd, struct.pack("<QQ", 1234, 4321), PHYS + 0x5a1aa0)

    def tearDown(self):
        os.close(self.fd)

    def test_reads_all_nodes(self):
        self.assertEqual(hvmem.DirtyReader(self.fd, SYMBOLS).read(), 1234)
        self.assertEqual(hvmem.DirtyReader(self.fd, SYMBOLS, nodes=2).read(), 5555)

    def test_reads_what_is_there_now(self):
        reader = hvmem.DirtyReader(self.fd, SYMBOLS)
        os.pwrite(self.fd, struct.pack("<Q", 7), PHYS + 0x5a1aa0)
        self.assertEqual(reader.read(), 7)

    def test_wait_clean(self):
        reader = hvmem.DirtyReader(self.fd, SYMBOLS)
        with self.assertRaisesRegex(hvmem.HvmemError, "1234 pages still dirty after 0 s"):
            reader.wait_clean(0)
        os.pwrite(self.fd, bytes(8), PHYS + 0x5a1aa0)
        reader.wait_clean(0)

    def test_nowhere(self):
        os.pwrite(self.fd, bytes(8), PHYS + 0x484600)
        with self.assertRaises(hvmem.HvmemError):
            hvmem.DirtyReader(self.fd, SYMBOLS)


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
        self.assertFalse(any(t.is_alive() for t in recorder.threads))
        for wakes in recorder.wakes.values():
            self.assertGreater(len(wakes), 0)

    def test_each_core_is_watched_from_itself(self):
        seen = set()
        with hvmem.Recorder(lambda: seen.update(os.sched_getaffinity(0)), every_s=0.005) as recorder:
            end = time.monotonic() + 5
            while not recorder.series and time.monotonic() < end:
                time.sleep(0.005)
        self.assertEqual(len(seen), 1)
        self.assertEqual(set(recorder.wakes), os.sched_getaffinity(0))

    def test_longest_gap(self):
        recorder = hvmem.Recorder(None)
        recorder.wakes = {0: [1.0, 1.125, 1.25], 1: [1.0, 1.25, 1.375]}
        self.assertEqual(recorder.longest_gap_s(), 0.25)


if __name__ == "__main__":
    unittest.main()
