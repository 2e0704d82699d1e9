# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture: gnuplot accepts the script for what can be measured, and every ping of every repeat
is in what it draws, a lost one at the upper edge."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import picture  # noqa: E402


def record(hypervisor, guest, repeat, rtts):
    return ({"hypervisor": hypervisor, "guest": guest, "repeat": repeat},
            {"during": {"samples": [(k, 0, r) for k, r in enumerate(rtts)],
                        "sends": [k * 0.005 - 1 for k in range(len(rtts))]}})


class Draw(unittest.TestCase):
    def drawn(self, records, draw=picture.draw):
        """({file: its lines}, size of the picture) of a drawing."""
        with tempfile.TemporaryDirectory() as d:
            draw(d, records)
            files = {}
            for name in os.listdir(f"{d}/cache"):
                with open(f"{d}/cache/{name}") as f:
                    files[name] = f.read().splitlines()
            with open(f"{d}/latency.png", "rb") as f:
                head = f.read(24)
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        return files, (int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"))

    def test_all_four(self):
        files, size = self.drawn([record(h, g, k, [500, 700000, None])
                                  for h in ("stock", "patched") for g in ("pv", "pvh")
                                  for k in (1, 2)])
        self.assertEqual(size, (1500, 640))
        for name in ("pv-stock.dat", "pv-patched.dat", "pvh-stock.dat", "pvh-patched.dat"):
            self.assertEqual(files[name], ["-1.0000 0.5000", "-0.9950 700.0000",
                                           f"-0.9900 {picture.LOST_MS:.4f}"] * 2)
        self.assertIn("worst 700 ms", "\n".join(files["latency.gp"]))

    def test_only_one_kind(self):
        files, size = self.drawn([record("patched", "pvh", 1, [None, None])])
        self.assertEqual(size, (800, 640))
        self.assertEqual(set(files), {"pvh-patched.dat", "latency.gp"})

    def test_phases(self):
        files, size = self.drawn([record(h, "pv", 1, [500, ms * 1000, None]) for h, ms in
                                  (("stock", 700), ("livepatched", 12), ("unloaded", 710))], picture.draw_phases)
        self.assertEqual(size, (1780, 640))
        script = "\n".join(files["latency.gp"])
        places = [script.index(text) for text in ("before", "worst 700 ms", "live-patched", "worst 12 ms", "taken out",
                                                  "worst 710 ms")]
        self.assertEqual(places, sorted(places))


if __name__ == "__main__":
    unittest.main()
