# SPDX-License-Identifier: GPL-2.0-or-later
"""The probe and dom0's window against each other over loopback, in a network of their own: the
schedule is open loop, what is lost is lost, late replies count in full, the command is timed.
Needs root (raw sockets, real-time priority)."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

import analysis  # noqa: E402

IGNORE = "/proc/sys/net/ipv4/icmp_echo_ignore_all"


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class Probe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        for name in ("probe", "window"):
            subprocess.check_call(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror",
                                   "-static", "-o", f"{cls.dir.name}/{name}", f"{HERE}/{name}.c"])

    @classmethod
    def tearDownClass(cls):
        cls.dir.cleanup()

    def in_network(self, script):
        """stdout of a shell script that runs beside the probe; loopback is its own."""
        p = subprocess.run(
            ["unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec",
             "ip link set lo up; mkfifo ready; ./probe 127.0.0.1 > ready & echo $! > pid; read line < ready;"
             f"[ \"$line\" = PROBE-READY ]; rm ready; {script}"],
            cwd=self.dir.name, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return p.stdout

    def test_all_answered(self):
        began = time.monotonic()
        head, samples = analysis.parse_window(self.in_network(
            "./window 127.0.0.1 200 2000 30000 100 sh -c 'echo not in the samples; exit 3'"))
        self.assertEqual(len(samples), 200)
        self.assertEqual([s for s in samples if s[2] is None], [])
        self.assertLess(time.monotonic() - began, 25)  # the grace time ends early
        self.assertEqual(head["status"], 3)
        self.assertGreaterEqual(head["begin_us"], 100000)
        self.assertGreater(head["end_us"], head["begin_us"])
        # A round trip counts from the schedule: it cannot be shorter than the delay in sending.
        self.assertEqual([s for s in samples if s[2] < s[1]], [])

    def test_command_is_timed(self):
        head, _ = analysis.parse_window(self.in_network(
            "./window 127.0.0.1 300 2000 1000 50 sleep 0.3"))
        self.assertGreaterEqual(head["end_us"] - head["begin_us"], 300000)
        self.assertLess(head["end_us"] - head["begin_us"], 600000)

    def test_lost_in_the_middle(self):
        """Nobody answers for 0.3 s: these are lost, and the schedule goes on through it."""
        text = self.in_network(
            f"./window 127.0.0.1 600 5000 300 350 "
            f"sh -c 'echo 1 > {IGNORE}; sleep 0.3; echo 0 > {IGNORE}'")
        head, samples = analysis.parse_window(text)
        lost = [seq for seq, _, rtt in samples if rtt is None]
        self.assertEqual(lost, list(range(lost[0], lost[-1] + 1)))
        self.assertGreaterEqual(len(lost), 55)
        self.assertLessEqual(len(lost), (head["end_us"] - head["begin_us"]) // 5000 + 1)
        self.assertGreater(lost[0], 68)
        self.assertLess(lost[-1], 599)

    def test_every_fifth_sends(self):
        _, samples = analysis.parse_window(self.in_network(
            "./window -e 5 127.0.0.1 100 2000 30000 10 true"))
        self.assertEqual([seq for seq, _, rtt in samples if rtt is not None], list(range(0, 100, 5)))

    def test_nothing_sent(self):
        began = time.monotonic()
        _, samples = analysis.parse_window(self.in_network(
            "./window -e 0 127.0.0.1 100 2000 30000 10 true"))
        self.assertEqual({rtt for _, _, rtt in samples}, {None})
        self.assertEqual(len(samples), 100)
        self.assertLess(time.monotonic() - began, 25)  # there is nothing to wait for

    def test_stopped_prober_hides_nothing(self):
        """The prober itself stands still for 0.3 s: what it should have sent then counts from then."""
        text = self.in_network(
            "./window 127.0.0.1 600 5000 1000 300 "
            "sh -c 'read p < pid; kill -STOP $p; sleep 0.3; kill -CONT $p'")
        _, samples = analysis.parse_window(text)
        rtts = [rtt for _, _, rtt in samples]
        self.assertNotIn(None, rtts)
        self.assertGreater(max(rtts), 250000)
        self.assertGreaterEqual(len([r for r in rtts if r > 20000]), 50)

    def test_nothing_answers(self):
        began = time.monotonic()
        _, samples = analysis.parse_window(self.in_network(
            f"echo 1 > {IGNORE}; ./window 127.0.0.1 50 2000 400 10 true"))
        self.assertEqual({s[2] for s in samples}, {None})
        self.assertGreater(time.monotonic() - began, 0.5)

    def test_bad_requests_are_refused(self):
        out = self.in_network(
            "printf 'window 0 5000 1 1\\nwindow 1 1 1 1\\nwindow 99999999 5000 1 1\\n"
            "garbage\\nclock\\n' > requests; python3 -c \"import socket;"
            "s=socket.create_connection(('127.0.0.1',7007));s.sendall(open('requests','rb').read());"
            "s.shutdown(socket.SHUT_WR);f=s.makefile();print(f.read(),end='')\"")
        lines = out.splitlines()
        self.assertEqual([x.split()[0] for x in lines], ["error:"] * 4 + ["clock"])


if __name__ == "__main__":
    unittest.main()
