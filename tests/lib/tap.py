# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the test_* functions of a test program one after another, with TAP on standard output."""
import sys


def run(namespace):
    """namespace: globals() of the caller. Returns whether any test failed, for sys.exit()."""
    tests = [(name[5:], f) for name, f in sorted(namespace.items()) if name.startswith("test_")]
    failed = False
    print("1..%d" % len(tests))
    for n, (name, test) in enumerate(tests, 1):
        try:
            test()
            print("ok %d %s" % (n, name.replace("_", " ")))
        except Exception as e:  # a failed test is a result
            failed = True
            print("not ok %d %s" % (n, name.replace("_", " ")))
            print("# " + ("%s: %s" % (type(e).__name__, e)).replace("\n", "\n# "))
        sys.stdout.flush()
    return failed
