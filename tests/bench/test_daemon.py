# SPDX-License-Identifier: GPL-2.0-or-later
"""The bench of scrubd without a host: its groups, the scripts that it runs in dom0, how it keeps within its time."""

import errno
import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lab")]

import bench_life  # noqa: E402
import bench_pings  # noqa: E402
import daemonhost  # noqa: E402
from groups import GROUPS, HOSTS  # noqa: E402


class Groups(unittest.TestCase):
    def test_hosts_exist(self):
        for g in GROUPS.values():
            self.assertLessEqual(set(g.parts), {h.name for h in HOSTS}, g.name)
            self.assertTrue(bool(g.parts) != bool(g.alone), g.name)

    def test_documented(self):
        with open(os.path.join(HERE, "README.md")) as f:
            text = f.read()
        self.assertEqual([g for g in GROUPS if f"\n| `{g}` |" not in text], [])

    def test_no_such_group(self):
        p = subprocess.run([os.path.join(HERE, "daemon"), "nonsense"], stderr=subprocess.PIPE, text=True,
                           check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("nonsense", p.stderr)


class Scripts(unittest.TestCase):
    def run_script(self, text, *args):
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as f:
            f.write(text)
            f.flush()
            began = time.monotonic()
            p = subprocess.run(["sh", f.name, *args], stdout=subprocess.PIPE, text=True, check=False)
            return p.returncode, p.stdout, time.monotonic() - began

    def test_at_once(self):
        rc, _, took = self.run_script(daemonhost.AT_ONCE, "sleep", "--", "0.5", "0.5", "0.5", "0.5")
        self.assertEqual(rc, 0)
        self.assertGreaterEqual(took, 0.5)
        self.assertLess(took, 1.5)

    def test_in_turn(self):
        rc, _, took = self.run_script(daemonhost.IN_TURN, "sleep", "--", "0.2", "0.2", "0.2")
        self.assertEqual(rc, 0)
        self.assertGreaterEqual(took, 0.6)

    def test_one_fails(self):
        for script in (daemonhost.AT_ONCE, daemonhost.IN_TURN):
            rc, out, _ = self.run_script(script, "ls", "-d", "--", "/", "/nonexistent", "/tmp")
            self.assertEqual((rc, sorted(out.split())), (1, ["/", "/tmp"]))

    def test_reboot_events(self):
        events = ("10.00 @releaseDomain\n10.01 @introduceDomain\n"  # a watch fires when it is set
                  "20.50 @releaseDomain release\n22.00 @releaseDomain release\n24.75 @introduceDomain intro\n"
                  "26.00 @introduceDomain intro\n")
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(events)
            f.flush()
            out = subprocess.check_output(["awk", "-v", "begin=20.00", "-v", "end=30.50", bench_life.REBOOT_AWK,
                                           f.name], text=True)
        self.assertEqual([float(x) for x in out.split()], [4.25, 10.0])


IOCTLS = """
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
int main(void)
{
    int n;
    for (int i = 0; i < 500; i++)
        ioctl(0, FIONREAD, &n);
    printf("%d ", ioctl(99, FIONREAD, &n));
    printf("%d\\n", errno);
    return poll(NULL, 0, 300);
}
"""


class Ioctls(unittest.TestCase):
    def test_counted_and_passed_on(self):
        """Their number and time, not what goes on between them; results and errno are as ever."""
        with tempfile.TemporaryDirectory() as d:
            with open(f"{d}/caller.c", "w") as f:
                f.write(IOCTLS)
            subprocess.check_call(["gcc", "-o", f"{d}/caller", f"{d}/caller.c"])
            subprocess.check_call(["gcc", "-shared", "-fPIC", "-o", f"{d}/time.so", f"{HERE}/ioctltime.c"])
            out = subprocess.check_output([f"{d}/caller"], text=True, stdin=subprocess.PIPE,
                                          env={"LD_PRELOAD": f"{d}/time.so", "IOCTLTIME": f"{d}/sums"})
            with open(f"{d}/sums", "rb") as f:
                ns, calls = struct.unpack("=2Q", f.read())
        self.assertEqual(out, f"-1 {errno.EBADF}\n")
        self.assertEqual(calls, 501)
        self.assertGreater(ns, 501 * 20)
        self.assertLess(ns, 200e6)


class FakeBench:
    patched = False

    def __init__(self):
        self.began = 0
        self.added = []

    def add(self, *args):
        self.added.append(args)


class Rounds(unittest.TestCase):
    """On a clock of its own, of which each cycle takes 20 s."""

    def setUp(self):
        clock = {"now": 0}

        def cycle(bench, kind):
            clock["now"] += 20
            return kind
        for name, stand_in in (("cycle", cycle), ("time", mock.Mock(monotonic=lambda: clock["now"])),
                               ("LIMIT_S", 70)):
            patch = mock.patch.object(bench_pings, name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)

    def test_all_repeats(self):
        bench = FakeBench()
        self.assertEqual(bench_pings.rounds(bench, ["pv"], 3), {"pv": ["pv"] * 3})
        self.assertEqual(bench.added, [])

    def test_short_of_time(self):
        """Then no cycle that would not fit; the figure tells."""
        bench = FakeBench()
        self.assertEqual(bench_pings.rounds(bench, ["pv", "pvh"], 9), {"pv": ["pv"] * 2, "pvh": ["pvh"]})
        self.assertEqual(bench.added, [("short", 1, "repeats")])

    def test_each_kind_once_at_least(self):
        bench = FakeBench()
        kinds = [str(k) for k in range(6)]
        self.assertEqual(bench_pings.rounds(bench, kinds, 9), {k: [k] for k in kinds})


if __name__ == "__main__":
    unittest.main()
