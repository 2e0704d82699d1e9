# SPDX-License-Identifier: GPL-2.0-or-later
"""The list of figures that a bench writes: bars, and a figure that is missing."""

import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lab")]

import results  # noqa: E402


class Bars(unittest.TestCase):
    def test_at_most(self):
        self.assertTrue(results.met(1.2, "<=1.2"))
        self.assertFalse(results.met(1.21, "<=1.2"))

    def test_at_least(self):
        self.assertTrue(results.met(99.5, ">=99.5"))
        self.assertFalse(results.met(99.4, ">=99.5"))

    def test_no_value_meets_no_bar(self):
        self.assertFalse(results.met(None, "<=1.2"))
        self.assertFalse(results.met(None, ">=1.2"))

    def test_only_told(self):
        self.assertIsNone(results.met(7, ""))
        self.assertIsNone(results.met(None, ""))


class File(unittest.TestCase):
    def test_written_and_counted(self):
        r = results.Results("none.json")
        with tempfile.TemporaryDirectory() as d:
            r.path = os.path.join(d, "r.json")
            r.add("a", 1, "s", "<=2", [1, 0])
            r.add("b", None, "s", "<=2")
            r.add("c", 5, "s")
            r.write()
            with open(r.path) as f:
                read = json.load(f)
        self.assertEqual(read[0], {"name": "a", "value": 1, "unit": "s", "bar": "<=2", "met": True,
                                   "samples": [1, 0]})
        self.assertEqual([e["met"] for e in read], [True, False, None])
        self.assertEqual((r.count(True), r.count(False)), (1, 1))


if __name__ == "__main__":
    unittest.main()
