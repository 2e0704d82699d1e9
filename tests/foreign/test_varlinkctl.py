#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A Varlink client that is not ours: systemd's varlinkctl lists jobs, follows one, and hurries it."""
import json
import os
import subprocess
import unittest

from foreign import ROOT
import assets
from scrubdtest import GIB, ScrubdTest, poll

VARLINKCTL = assets.varlinkctl()
SLOW = "step_us = 100\nduty_percent = 1\n"


class Varlinkctl(ScrubdTest):
    def run_it(self, *args):
        """(exit status, stdout, stderr)"""
        p = subprocess.run([*VARLINKCTL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        return p.returncode, p.stdout, p.stderr

    def ok(self, *args):
        rc, out, err = self.run_it(*args)
        self.assertEqual(rc, 0, out + err)
        return out

    def call_it(self, method, params, *options):
        """The replies, as objects."""
        text = self.ok("call", "--json=short", *options, self.sock, "org.scrubd." + method, json.dumps(params))
        return [json.loads(line) for line in text.replace("\x1e", "").splitlines()]

    def test_info(self):
        self.start()
        out = self.ok("info", self.sock)
        self.assertIn("org.scrubd", out)
        self.assertEqual(self.ok("list-interfaces", self.sock).split(), ["org.scrubd", "org.varlink.service"])

    def test_description(self):
        """Its parser takes the description that is served, which is the file that is installed"""
        self.start()
        path = os.path.join(ROOT, "daemon", "org.scrubd.varlink")
        for interface in ("org.scrubd", "org.varlink.service"):
            self.assertIn(f"interface {interface}", self.ok("introspect", self.sock, interface))
        self.ok("validate-idl", path)
        with open(path) as f:
            self.assertEqual(f.read(), self.client().call(
                "org.varlink.service.GetInterfaceDescription", {"interface": "org.scrubd"})["parameters"]["description"])

    def test_a_job(self):
        """Listed, followed with --more, hurried to its end"""
        self.start(SLOW)
        self.add(5, GIB, "web")
        with subprocess.Popen([*VARLINKCTL, "call", "--more", "--json=short", self.sock, "org.scrubd.Destroy",
                               '{"domid":5,"wait_clean":true}'], stdout=subprocess.PIPE, text=True) as follower:
            jobs = poll("a job", lambda: [r["job"] for r in self.call_it("ListJobs", {}, "--more") if "job" in r])
            self.assertEqual([(j["domid"], j["name"]) for j in jobs], [(5, "web")])
            poll("it is under way", lambda: self.jobs()[0]["steps"] > 3)
            job = self.call_it("Hurry", {"domid": 5})[0]["job"]
            self.assertTrue(job["hurry"])
            events = [json.loads(line.replace("\x1e", "")) for line in follower.stdout]
            self.assertEqual(follower.wait(60), 0)
        names = [e["event"] for e in events]
        self.assertEqual((names[0], names[-2:]), ("hello", ["dead", "clean"]))
        self.assertEqual(events[-1]["job"]["pages_left"], 0)
        self.assertEqual(self.call_it("ListJobs", {}, "--more"), [{}])

    def test_errors(self):
        """Have names that it shows"""
        self.start()
        for method, params, options, name in (
                ("Hurry", {"domid": 9}, [], "org.scrubd.NoSuchJob"),
                ("Destroy", {"domid": 0}, ["--more"], "org.scrubd.NotAllowed"),
                ("Hurry", {"domid": "x"}, [], "org.varlink.service.InvalidParameter"),
                ("Nonsense", {}, [], "org.varlink.service.MethodNotFound"),
                ("ListJobs", {}, [], "org.varlink.service.ExpectedMore")):
            rc, out, err = self.run_it("call", *options, self.sock, "org.scrubd." + method, json.dumps(params))
            self.assertNotEqual(rc, 0)
            self.assertIn(name, out + err)


if __name__ == "__main__":
    unittest.main()
