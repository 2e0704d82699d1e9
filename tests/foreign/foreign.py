# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests with programs of others share: scrubd on a fake host, as `./dev test` has built it."""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILT = os.path.join(os.environ.get("SCRUBD_BUILD", os.path.join(ROOT, "build", "test-gcc")), "tests", "integration")
os.environ.setdefault("SCRUBD_FAKE", os.path.join(BUILT, "scrubd-fake"))
os.environ.setdefault("FAKECTL", os.path.join(BUILT, "fakectl"))
sys.path[:0] = [os.path.join(ROOT, "tests", "integration"), os.path.join(ROOT, "tests", "lab")]
