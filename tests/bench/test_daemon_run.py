# SPDX-License-Identifier: GPL-2.0-or-later
"""`dev bench daemon` from end to end on a made-up host: each figure is there, a failed group does not end
the others, and the bars are those that were promised."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lab")]

import benchhost  # noqa: E402
import daemonhost  # noqa: E402
import lab  # noqa: E402
from groups import GROUPS  # noqa: E402
from results import Results  # noqa: E402


def load_driver():
    loader = importlib.machinery.SourceFileLoader("bench_daemon", os.path.join(HERE, "daemon"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_daemon", loader))
    loader.exec_module(module)
    return module


STATUS = json.dumps({"state": "ready", "jobs": 0, "jobs_done": 1, "backlog_pages": 0, "mask": "0"})
END = ("dom=5 uuid=00000005-a4a5-a6a7-a8a9-aaabacadaeaf name=victim: dead after 3603 ms: waiting 1000 ms, "
       "freeing 2603 ms in 777 steps, 1886 ms in the hypervisor, 0 of 1048576 pages left\n")


class FakeBoot:
    """A dom0 that has an answer to what the groups ask."""

    def __init__(self, hypervisor, dom0_vcpus, fail=None):
        self.hypervisor, self.dom0_vcpus, self.fail = hypervisor, dom0_vcpus, fail
        self.seconds = self.calls = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def gdb_path(self):
        return None

    def put(self, path, content, mode=0o644):
        pass

    def window(self, script):
        every, count, interval, at = (int(x) for x in re.search(
            r"-e (\d+) \S+ (\d+) (\d+) \d+ (\d+) ", script).groups())
        pings = [str(2000 + k % 7) if every and k % every == 0 else "-" for k in range(count)]
        lines = [f"{k} {100 + k % 5} {p}" for k, p in enumerate(pings)]
        return "\n".join(["clock 1000", f"command {at * 1000} {at * 1000 + 3000000} 0", "epoch 5000000000 9",
                          *lines, "end"]) + "\n"

    def use(self):
        """100 us of its own for each of 777 hypercalls."""
        self.calls += 777
        return f"{self.calls * 2500} {self.calls * 2400000} {self.calls}"

    def answer(self, script):
        if self.fail and self.fail in script:
            raise lab.LabError("as asked for")
        self.seconds += 30
        answers = (
            ("usr/lib/lab/window", lambda: self.window(script)), ("scrubctl status --json", lambda: STATUS),
            ("scrubctl list --json", lambda: '{"jobs": []}'),
            ("guest_build|guest_start", lambda: "5\n"), ("journalctl", lambda: END),
            ("labscrub get", lambda: json.dumps({"cpus": [{"idle": 9, "floor": 0}, {"idle": 0, "floor": 0}]})),
            ("/proc/uptime /proc/", lambda: f"{self.seconds} 7 4000"),
            ("schedstat", self.use),
            ("lab/turn", lambda: "380.0 31.5"), ("reboot-times", lambda: "4.5 15.0"), ("killer.py", lambda: "4 none"),
            ("read -r a", lambda: "10.00 21.50"), ("xl list", lambda: "Name\nDomain-0\nbystander\n"),
            ("free_kib|free_mib", lambda: "1000000"))
        return next((text() for form, text in answers if re.search(form, script)), "")

    def check(self, script, timeout_s=120):
        return self.answer(script)

    def run(self, script, timeout_s=120):
        return 0, self.answer(script)

    def start_command(self, script, on_output=None):
        out = self.answer(script).encode()
        err = b"began 6.5\n" if "create-after" in script else b""
        if on_output:
            on_output(b"O", out)
        return mock.Mock(wait=lambda timeout_s=0: (0, out, err))


class FakeRam:
    fd = None

    def __init__(self, fail=None):
        self.fail = fail

    def boot(self, kind, name, scrubd=True, dom0_vcpus=1):
        return FakeBoot(kind, dom0_vcpus, self.fail)

    def close(self):
        pass


class Run(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        series = mock.Mock(series=[(-1e9, 0), (0, 5), (1e9, 0)], longest_gap_s=lambda: 0.001)
        recorder = contextlib.nullcontext(series)
        for where, name, stand_in in (
                (benchhost, "symbols", lambda boot: {"do_sched_op": 1}),
                (benchhost.hvmem, "DirtyReader", lambda fd, found: mock.Mock(read=lambda: 0)),
                (benchhost.hvmem, "Recorder", lambda read: recorder),
                (benchhost.translations, "Translations", mock.Mock()),
                (benchhost.time, "sleep", lambda s: None), (daemonhost, "COUNT", 400),
                (lab.PROGRESS, "stream", io.StringIO())):
            patch = mock.patch.object(where, name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def run_bench(self, groups, fail=None):
        driver = load_driver()
        results = Results("none.json")
        results.path = os.path.join(self.dir.name, "daemon.json")
        options = driver.arguments(["--repeats", "1", *groups])
        with contextlib.redirect_stdout(io.StringIO()):
            driver.run(options, results, mock.Mock(), FakeRam(fail))
        with open(results.path) as f:
            return {e["name"]: e for e in json.load(f)}

    def test_every_figure(self):
        figures = self.run_bench([g for g in GROUPS if g != "fit"])
        bars = {n: (e["bar"], e["met"]) for n, e in figures.items() if e["bar"]}
        expected = {f"pings{v}-{kind}-{what}": (bar if what == "pings" else "<=1.2", True)
                    for v, bar in (("", "<=1.5"), ("-2", "<=1.2")) for kind in ("pv", "pvh", "four")
                    for what in ("wakes", "pings")}
        expected.update({
            "pings-four-at-once": ("<=1.2", True), "create-pv": ("<=1.5", True), "create-pvh": ("<=1.5", True),
            "reboot-again": ("<=1.25", True), "ends-paused": ("<=120", True), "ends-busy": ("<=120", True),
            "kills-failures": ("<=0", True), "kills-kills": (">=1", True), "idle-wakeups": ("<=1", True),
            "idle-rss": ("<=8192", True), "busy-pv-own-cpu": ("<=5", True), "busy-pvh-own-cpu": ("<=5", True)})
        self.assertEqual(bars, expected)

    def test_a_failed_group_is_told(self):
        figures = self.run_bench(["reboot", "idle"], fail="reboot-times")
        self.assertFalse(figures["reboot-patched-failed"]["met"])
        self.assertTrue(figures["idle-rss"]["met"])


if __name__ == "__main__":
    unittest.main()
