#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scrubctl hypervisor: status, load and unload on a pretended hypervisor, and what is refused.
TAP on standard output.

usage: test-hypervisor.py SCRUBCTL FAKE-LIBXL VERSION [sanitized]
"""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import tap
from case import Case, contains, equal
from scripted import reply

ID = "ab" * 20
READY = {"Probe": [reply({"state": "ready"})]}
GONE = {"LetGo": [reply({"state": "degraded", "reason": "x", "jobs": 0})],
        "Probe": [reply({"state": "degraded", "reason": "unpatched hypervisor"})]}


def payload(build_id=ID, section=b".livepatch.xen_depends"):
    """An ELF file with the one section that is looked at, and its name."""
    note = struct.pack("<III", 4, 20, 3) + b"GNU\0" + bytes.fromhex(build_id)
    names = b"\0" + section + b"\0"
    at = 64 + len(note) + len(names)
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, 3, 2)
    shdr = [struct.pack("<IIQQQQIIQQ", *f) for f in (
        (0,) * 10, (1, 7, 0, 0, 64, len(note), 0, 0, 0, 0), (0, 3, 0, 0, 64 + len(note), len(names), 0, 0, 0, 0))]
    return head + note + names + b"".join(shdr)


class Host(Case):
    def __init__(self, state="stock", fail="", **replies):
        super().__init__(**replies)
        self.hv = self.dir + "/hv"
        with open(self.hv, "w") as f:
            f.write(state)
        os.environ.update(FAKE_HV=self.hv, FAKE_HV_FAIL=fail)

    def state(self):
        with open(self.hv) as f:
            return f.read().strip()

    def calls(self):
        try:
            with open(self.hv + ".log") as f:
                return f.read().split()
        except FileNotFoundError:
            return []

    def file(self, data):
        with open(self.dir + "/p", "wb") as f:
            f.write(data)
        return self.dir + "/p"

    def load(self, data=None):
        return self.run("hypervisor", "load", self.file(payload() if data is None else data))


def test_status():
    for state, says in (("stock", "stock"), ("uploaded", "stock"), ("applied", "live-patched"), ("patched", "patched")):
        with Host(state) as h:
            code, out, _ = h.run("--json", "hypervisor", "status")
            equal((code, json.loads(out)["state"], json.loads(out)["build_id"]), (0, says, ID))
            contains(h.run("hypervisor", "status")[1], "hypervisor  " + says)


def test_load():
    with Host(**READY) as h:
        code, out, err = h.load()
        equal((code, err, h.state(), h.calls()), (0, "", "applied", ["upload", "apply"]))
        lines = out.splitlines()
        equal([l.split()[0].strip(",") for l in lines], ["read", "checked", "uploaded", "applied", "scrubd"])
        equal(lines[-1], "scrubd is ready now")
        # A second one is none.
        equal(h.load(), (0, "the live patch is loaded already\n", ""))
        equal(h.calls(), ["upload", "apply"])


def test_load_json():
    with Host(**READY) as h:
        code, out, _ = h.run("--json", "hypervisor", "load", h.file(payload()))
        equal((code, json.loads(out)["state"], len(json.loads(out)["steps"])), (0, "live-patched", 5))


def test_load_refused():
    """Before anything is uploaded."""
    whole = payload()
    for data, text in ((payload("cd" * 20), "cd" * 20 + ", but " + ID + " runs"), (whole[:len(whole) - 1], "is cut off"),
                       (whole[:200], "is cut off"), (b"", "empty"), (b"hello" * 30, "something else"),
                       (payload(section=b".other"), "has no section")):
        with Host() as h:
            code, _, err = h.load(data)
            contains(err, text)
            equal((code, h.calls()), (1, []))
    with Host() as h:
        code, _, err = h.run("hypervisor", "load")
        equal((code, err), (1, "scrubctl: there is no live patch for the hypervisor that runs: /var/lib/scrubd/" + ID +
                            ".livepatch is missing; hv-patch/livepatch/build makes it\n"))
        code, _, err = h.run("hypervisor", "load", h.dir + "/absent")
        equal((code, err), (1, "scrubctl: " + h.dir + "/absent: No such file or directory\n"))
    for state, fail, text in (("patched", "", "has the patch already"), ("stock", "get:38", "CONFIG_LIVEPATCH"),
                              ("stock", "open:13", "needs root")):
        with Host(state, fail) as h:
            code, _, err = h.load()
            contains(err, text)
            equal((code, h.calls()), (1, []))


def test_load_fails():
    """Nothing is left behind."""
    for fail, text in (("upload:22", "refuses the payload"), ("apply:22", "does not build upon"), ("apply:12", "xl dmesg")):
        with Host("stock", fail) as h:
            code, _, err = h.load()
            contains(err, text)
            equal((code, h.state()), (1, "stock"))


def test_fails_json():
    """With what had been done until then, beside the error as any verb has it."""
    def document(h, *operands):
        code, out, err = h.run("--json", "hypervisor", *operands)
        found = json.loads(out)
        equal((code, found["error"], err), (1, "refused", "scrubctl: " + found["message"] + "\n"))
        equal(sorted(found), ["error", "message", "steps"])
        return [step.split()[0].strip(",") for step in found["steps"]]

    with Host("stock", "apply:22") as h:
        equal(document(h, "load", h.file(payload())), ["read", "checked", "uploaded", "not"])
        equal(document(h, "load", h.file(payload("cd" * 20))), ["read"])
        equal(document(h, "load", h.file(b"")), [])
        equal(document(h, "load"), [])
    with Host("applied", "unload:16", **GONE) as h:
        equal(document(h, "unload"), ["scrubd", "reverted", "scrubd"])
    with Host("stock", "open:13") as h:
        equal(document(h, "load"), [])


def test_load_leftover():
    """One that was uploaded and not applied may be another: it makes way."""
    with Host("uploaded", **READY) as h:
        equal(h.load()[0], 0)
        equal(h.calls(), ["unload", "upload", "apply"])


def test_unload():
    with Host("applied", **GONE) as h:
        code, out, err = h.run("hypervisor", "unload")
        equal((code, err, h.state(), h.calls()), (0, "", "stock", ["revert", "unload"]))
        equal(out.splitlines(), ["scrubd has let go: scrubbing is as on stock Xen", "reverted", "scrubd is degraded now",
                                 "unloaded"])
        equal(h.run("hypervisor", "unload")[0], 0)
        equal(h.calls(), ["revert", "unload"])


def test_unload_fails():
    """Another payload is on top: scrubd goes on as before."""
    with Host("applied", "revert:16", **GONE) as h:
        code, _, err = h.run("hypervisor", "unload")
        contains(err, "on top of it")
        equal((code, h.state(), [c["method"] for c in h.scrubd.calls][-1]), (1, "applied", "org.scrubd.Probe"))


def test_without_scrubd():
    with Host("applied") as h:
        if os.path.exists(h.path):
            os.unlink(h.path)
        code, out, _ = h.run("hypervisor", "unload")
        equal((code, h.state()), (0, "stock"))
        contains(out, "scrubd was not told")


def test_usage():
    with Host() as h:
        equal(h.run("hypervisor", "lod")[0], 2)
        equal(h.run("hypervisor", "unload", "x")[0], 2)


sys.exit(tap.run(globals()))
