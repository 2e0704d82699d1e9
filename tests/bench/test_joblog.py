# SPDX-License-Identifier: GPL-2.0-or-later
"""The end of a job, out of scrubd's journal."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lab"))

import joblog  # noqa: E402

WHO = "dom={} uuid=00000005-a4a5-a6a7-a8a9-aaabacadaeaf name=victim: "
END = ("dead after 3603 ms: toolstack 1120 ms, waiting 1000 ms, freeing 2603 ms in 777 steps, "
       "1886 ms in the hypervisor, 2 of 1048576 pages left")


class End(unittest.TestCase):
    def test_figures(self):
        text = f"scrubd is ready\n{WHO.format(5)}freeing -> scrubbing\n{WHO.format(5)}{END}\nIdle\n"
        self.assertEqual(joblog.end_of_job(text, 5),
                         {"how": "dead", "ms": 3603, "steps": 777, "hypervisor_ms": 1886, "left": 2,
                          "total": 1048576, "waiting_ms": 1000, "freeing_ms": 2603})

    def test_another_domain(self):
        self.assertIsNone(joblog.end_of_job(WHO.format(55) + END, 5))

    def test_not_ended(self):
        self.assertIsNone(joblog.end_of_job(WHO.format(5) + "freeing -> waiting", 5))

    def test_other_lines(self):
        """That something took a while is no end."""
        text = WHO.format(5) + END + "\n" + WHO.format(5) + "a step took 120 ms: 3 of 7 pages freed after 40 ms: slow\n"
        self.assertEqual(joblog.end_of_job(text, 5)["ms"], 3603)

    def test_the_last_one_counts(self):
        text = WHO.format(5) + END + "\n" + WHO.format(5) + END.replace("dead after 3603", "gone after 12")
        self.assertEqual((joblog.end_of_job(text, 5)["how"], joblog.end_of_job(text, 5)["ms"]), ("gone", 12))


if __name__ == "__main__":
    unittest.main()
