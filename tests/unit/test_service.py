#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The service's sandbox: tight enough by systemd's own measure, and a reason in the unit for each line left open.

usage: test_service.py SCRUBD-SERVICE
"""
import json
import re
import subprocess
import sys
import unittest

UNIT = sys.argv.pop()
MOST = 2.0


class Sandbox(unittest.TestCase):
    def setUp(self):
        with open(UNIT) as f:
            self.text = f.read()

    def security(self, *args):
        p = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", *args, UNIT],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return p.stdout

    def test_exposure(self):
        level = re.search(r"Overall exposure level for scrubd\.service: ([0-9.]+)", self.security())
        self.assertLessEqual(float(level.group(1)), MOST)

    def test_reasons(self):
        checks = json.loads(self.security("--json=short"))
        opened = {c["name"] for c in checks if not c["set"] and c["exposure"]}
        self.assertIn("PrivateDevices=", opened)
        reasons = dict(re.findall(r"^#   (\S+) +(\S.*)$", self.text, re.M))
        self.assertEqual(set(reasons), opened)

    def test_metrics_can_be_served(self):
        """metrics_listen needs a TCP socket of the host's."""
        families = re.search(r"^RestrictAddressFamilies=(.*)$", self.text, re.M).group(1).split()
        self.assertEqual(families, ["AF_UNIX", "AF_INET", "AF_INET6"])
        self.assertNotIn("PrivateNetwork=yes", self.text)
        self.assertIn("IPAddressDeny=any\nIPAddressAllow=localhost\n", self.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
