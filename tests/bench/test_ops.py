# SPDX-License-Identifier: GPL-2.0-or-later
"""The bench of what an operator notices, without a host: its groups, the script that takes the time, the mix of ways."""

import collections
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lab")]

import ops_hook  # noqa: E402
import ops_status  # noqa: E402
from opsgroups import BOOTS, GROUPS  # noqa: E402


class Groups(unittest.TestCase):
    def test_boots_exist(self):
        self.assertLessEqual({g.boot for g in GROUPS.values()}, set(BOOTS))

    def test_documented(self):
        with open(os.path.join(HERE, "README.md")) as f:
            text = f.read()
        self.assertEqual([g for g in GROUPS if f"\n| `{g}` |" not in text], [])

    def test_no_such_group(self):
        p = subprocess.run([os.path.join(HERE, "ops"), "nonsense"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("nonsense", p.stderr)


class Hook(unittest.TestCase):
    def timed(self, *command):
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as f:
            f.write(ops_hook.TIMED)
            f.flush()
            return subprocess.run(["bash", f.name, *command], stdout=subprocess.PIPE, text=True, check=False)

    def test_timed(self):
        us = int(self.timed("sleep", "0.2").stdout)
        self.assertGreaterEqual(us, 200000)
        self.assertLess(us, 2000000)
        self.assertEqual(self.timed("false").returncode, 1)

    def test_mix_has_every_way(self):
        count = collections.Counter(name for name, _ in ops_hook.plan(random.Random(1), 50))
        self.assertEqual(set(count), set(ops_hook.ways.WAYS))
        self.assertEqual(sum(count.values()), 50)
        self.assertLessEqual(max(count.values()) - min(count.values()), 1)


class Status(unittest.TestCase):
    def answers(self, answer):
        """What the script makes of a scrubctl that gives this answer, and a scrubd that takes a while."""
        def serve():
            for _ in range(3):
                s, _ = listener.accept()
                with s:
                    s.recv(1000)
                    time.sleep(0.02)
                    s.sendall(b"{}\0")
        with tempfile.TemporaryDirectory() as tmp, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{tmp}/sock")
            listener.listen()
            threading.Thread(target=serve, daemon=True).start()
            for name, text in (("scrubctl", f"#!/bin/sh\nsleep 0.05\necho '{answer}'\n"), ("script", ops_status.ANSWERS)):
                with open(f"{tmp}/{name}", "w") as f:
                    f.write(text)
            os.chmod(f"{tmp}/scrubctl", 0o755)
            p = subprocess.run([sys.executable, f"{tmp}/script", "3", "0.01", "scrubctl", "status"], stdout=subprocess.PIPE,
                               text=True, check=True, timeout=30,
                               env={**os.environ, "PATH": f"{tmp}:{os.environ['PATH']}", "SCRUBD_SOCKET": f"{tmp}/sock"})
            return ops_status.parse(p.stdout)

    def test_answers(self):
        found = self.answers('{"version":"1","jobs":2,"jobs_done":7}')
        self.assertEqual([jobs for *_, jobs in found], [2, 2, 2])
        for ms, own_ms, _ in found:
            self.assertTrue(50 <= ms < 2000 and 20 <= own_ms < 2000, (ms, own_ms))
        self.assertEqual(self.answers("scrubctl 1.0")[0][2], 0)


if __name__ == "__main__":
    unittest.main()
