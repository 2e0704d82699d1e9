#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scrubctl history: what it makes of a journal, as scrubd's lines are in it. TAP on standard output.

usage: test-history.py SCRUBCTL FAKE-LIBXL VERSION [sanitized]
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import tap
from case import Case, contains, equal

JOURNAL_REMOTE = "/lib/systemd/systemd-journal-remote"
BOOT = "5d0a3e4c8b2f4a6f9e1d7c3b5a798812"
UUIDS = ["0000000%d-a4a5-a6a7-a8a9-aaabacadaeaf" % n for n in range(10)]
BEGAN = 1764500000  # 2025-11-30 10:53:20 UTC


def line(second, event, domid, job, pid=400, unit="scrubd.service", **fields):
    """An entry of scrubd's, in the journal's export format."""
    entry = {"__REALTIME_TIMESTAMP": (BEGAN + second) * 1000000, "__MONOTONIC_TIMESTAMP": second * 1000000, "_BOOT_ID": BOOT,
             "_PID": pid, "_SYSTEMD_UNIT": unit, "MESSAGE": "x", "SCRUBD_DOMID": domid, "SCRUBD_UUID": UUIDS[domid],
             "SCRUBD_JOB": job, "SCRUBD_EVENT": event, **{"SCRUBD_" + k.upper(): v for k, v in fields.items()}}
    return "".join("%s=%s\n" % (k, v) for k, v in entry.items() if v is not None) + "\n"


def dead(second, domid, job, name, pages=1048576, event="dead", **fields):
    figures = {"steps": 453, "waiting_ms": 800, "freeing_ms": 1300, "hypervisor_ms": 1250, **fields}
    return line(second, event, domid, job, name=name, pages=pages, **figures)


class History(Case):
    def __init__(self, *entries):
        super().__init__()
        self.root = self.dir + "/root"
        os.makedirs(self.root + "/var/log/journal")
        if entries:
            subprocess.run([JOURNAL_REMOTE, "--output=%s/var/log/journal/test.journal" % self.root, "-"],
                           input="".join(entries), text=True, check=True, capture_output=True)

    def history(self, *argv):
        return self.run("history", *argv, SCRUBD_ROOT=self.root)

    def jobs(self, *argv):
        rc, out, err = self.history("--json", *argv)
        equal((rc, err), (0, ""))
        return json.loads(out)["jobs"]


def test_nothing():
    with History() as h:
        equal(h.history(), (0, "The journal knows of no teardown by scrubd.\n", ""))
        equal(h.jobs(), [])


def test_stages():
    with History(dead(0, 5, 1, "web-3", toolstack_ms=2500, purpose="reboot"),
                 dead(10, 6, 2, None, event="gone", waiting_ms=200000),
                 line(11, "clean", 5, 1, scrubbing_ms=65000),
                 dead(12, 7, 1, "a-name-that-is-longer-than-most", pid=401),
                 dead(14, 8, 2, "left", event="caller", steps=0, pid=401)) as h:
        equal(h.history(), (
            0, "DIED            NAME                SIZE  TOOLSTACK  WAITING  FREEING  SCRUBBING\n"
               "11-30 10:53:20  web-3              4.00G       2.5s     0.8s     1.3s     1min5s\n"
               "11-30 10:53:30  domain 6           4.00G          -  3min20s     1.3s          -\n"
               "11-30 10:53:32  a-name-that-is-..  4.00G          -     0.8s     1.3s          -\n"
               "11-30 10:53:34  left               4.00G          -     0.8s        -          -\n", ""))
        jobs = h.jobs()
        equal([j["domid"] for j in jobs], [8, 7, 6, 5])
        equal(jobs[3], {"time": BEGAN, "uuid": UUIDS[5], "name": "web-3", "event": "dead", "purpose": "reboot", "domid": 5,
                        "pages": 1048576, "steps": 453, "toolstack_ms": 2500, "waiting_ms": 800, "freeing_ms": 1300,
                        "hypervisor_ms": 1250, "scrubbing_ms": 65000})
        assert "name" not in jobs[2] and "scrubbing_ms" not in jobs[2], jobs[2]


def test_jobs_of_the_same_number():
    """Each scrubd counts from 1, and a domain that is rebooted keeps its uuid."""
    with History(dead(0, 5, 1, "web-3", pid=400), dead(2, 5, 1, "web-3", pid=401),
                 line(3, "clean", 5, 1, pid=401, scrubbing_ms=222), dead(4, 5, 2, "web-3", pid=401),
                 line(5, "clean", 5, 2, pid=401, scrubbing_ms=333)) as h:
        equal([j.get("scrubbing_ms") for j in h.jobs()], [333, 222, None])


def test_which():
    with History(*[dead(n, n % 3 + 1, n + 1, "web-%d" % (n % 3)) for n in range(30)]) as h:
        equal(len(h.jobs()), 20)
        equal([j["time"] - BEGAN for j in h.jobs("--last", "3")], [29, 28, 27])
        equal([j["time"] - BEGAN for j in h.jobs("--last", "2", "web-1")], [28, 25])
        equal(len(h.jobs("--last", "100")), 30)
        equal({j["name"] for j in h.jobs(UUIDS[1].upper())}, {"web-0"})
        equal(h.jobs("web"), [])
        for bad in ("0", "-1", "x", "", "1e3", "99999999999999999999"):
            rc, out, err = h.history("--last", bad)
            equal((rc, out), (2, ""))
            contains(err, "--last: not a number from 1 to ")


def test_only_scrubd_is_believed():
    with History(dead(0, 5, 1, "web-3"), dead(1, 6, 2, "forged", unit="user@1000.service")) as h:
        equal([j["name"] for j in h.jobs()], ["web-3"])


def test_hostile():
    with History(dead(0, 5, 1, "e\033[2Jvil", pages="1e9", waiting_ms="99999999999999999999", freeing_ms=10**12)) as h:
        rc, out, err = h.history()
        equal((rc, err), (0, ""))
        contains(out, "  e?[2Jvil ")
        assert all(len(text) <= 80 for text in out.splitlines()), out
        job = h.jobs()[0]
        equal([key for key in ("pages", "waiting_ms") if key in job], [])


sys.exit(tap.run(globals()))
