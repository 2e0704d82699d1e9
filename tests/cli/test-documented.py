#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command line of README.md and the manual pages is run by a test: see tests/lib/documented.py, which says where.
Those of the fake host are run here, as they stand, each on a new host. TAP on standard output.

usage: test-documented.py SCRUBCTL FAKE-LIBXL SCRUBD-FAKE FAKECTL [sanitized]
"""
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import documented
import fakehost
import tap
from documented import DEV, FAKE, IMAGE, LAB, NOT_YET
from fakehost import Host, equal, finish, poll

fakehost.use(*sys.argv[1:5], sanitized=len(sys.argv) > 5)


def test_each_is_run_somewhere():
    found = documented.commands()
    for command, places in found.items():
        assert command in documented.WHERE, "nobody runs this: %s (%s)" % (command, ", ".join(places))
    equal(sorted(set(documented.WHERE) - set(found)), [])


def verbs_of_dev():
    done = subprocess.run([documented.ROOT + "/dev", "help"], capture_output=True, text=True, check=True)
    return re.findall(r"^  (\S+)", done.stdout, re.M)


def test_verbs_of_dev():
    verbs = verbs_of_dev()
    for command, where in documented.WHERE.items():
        if where == DEV:
            program, verb = command.split()[:2]
            equal((program, verb in verbs), ("./dev", True))


def test_other_scenarios():
    """Of the lab those that other scenarios run are in their text."""
    for command, where in documented.WHERE.items():
        if where not in (FAKE, LAB, IMAGE, DEV, NOT_YET):
            with open("%s/tests/lab/scenarios/%s.py" % (documented.ROOT, where)) as f:
                assert command in f.read(), "the scenarios of %s do not run: %s" % (where, command)


def in_shell(host, command):
    return host.start("sh", "-c", command, preload="")


def run(host, command):
    if " web-3" in command and not re.search(r"destroy|plan", command):
        # About a teardown under way.
        destroy = host.start(fakehost.SCRUBCTL, "destroy", "web-3")
        poll(lambda: host.json("list")["jobs"])
        if "resume" in command:
            equal(host.run("pause", "web-3")[0], 0)
        rc, out, err = finish(in_shell(host, command))
        if "pause" in command:
            equal(host.run("resume", "web-3")[0], 0)
        equal(host.run("hurry", "web-3")[0], 0)
        equal(finish(destroy)[0], 0)
        return rc, out, err
    if command.startswith("scrubctl watch"):
        process = in_shell(host, "exec " + command)
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rc, out, err = finish(process)
        return rc, line + out, err
    return finish(in_shell(host, command))


def test_on_a_fake_host():
    for command, where in documented.WHERE.items():
        if where != FAKE:
            continue
        with Host("min_size_mib = 0\n", online=255, free_pages=16 << 18, free_pages_ms=500) as host:
            rc, out, err = run(host, command)
            equal((command, rc, err), (command, 0, ""))
            # Nobody documents what does nothing.
            assert out or "wait" in command or "jq" in command, command


sys.exit(tap.run(globals()))
