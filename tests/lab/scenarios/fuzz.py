# SPDX-License-Identifier: GPL-2.0-or-later
"""The two hypercalls, from callers that mean no good."""

import os
import re
import sys

from scenarios.destroy import by_scrubd
from suite import Failure, expect, scenario

COUNT = 200000  # half a minute under emulation; `./dev fuzz` makes a million
HARM = ("Assertion", "BUG at", "BUG:", "FATAL", "WARN at", "Oops", "not scrubbed", "Xen call trace",
        "Watchdog", "general protection")


def show(kind, data):
    if kind == b"E":
        sys.stderr.buffer.write(data)
        sys.stderr.flush()


@scenario("fuzz", hypervisors=("debug",), boot="debug")
def fuzz(host):
    """Random arguments for scrub_control and teardown_step from dom0: judged, and nothing changes on an error"""
    count = int(os.environ.get("SCRUBD_LAB_FUZZ", COUNT))
    seed = os.environ.get("SCRUBD_LAB_FUZZ_SEED")
    begin = len(host.boot.serial_log())
    with host.unharmed() as figures:
        domid = host.victim("pv", mem=128)
        host.sh("systemctl stop scrubd.socket scrubd.service")
        try:
            run = host.boot.start_command(f"labfuzz {count} domain={domid}" + (f" seed={seed}" if seed else ""),
                                          on_output=show if count > COUNT else None)
            rc, out, err = run.wait(120 + count // 500)
            if rc != 0:
                raise Failure(f"exit status {rc}: {(out + err).decode(errors='replace')[-1500:]}")
            host.boot.put("/run/lab/fuzz.json", out)
            figures.update(host.json("tail -n 1 /run/lab/fuzz.json"))
            expect(figures["calls"] == count and figures["begun"] > 0, f"too little was done: {figures}")
            settings = host.scrub()
            for key in ("ceiling_set", "floor_set", "mask_set", "lease_set"):
                expect(not settings[key], f"{key} was left behind: {settings}")
            # A short run may not have begun with it.
            host.try_sh(f"xl destroy {domid}")
            host.expect_gone(domid, 20)
        finally:
            host.sh("systemctl start scrubd.socket scrubd.service; poll 20 scrubctl status >/dev/null 2>&1")
        host.bystander_alive()
        domid = host.victim("pv", mem=192)
        host.sh(f"hooked xl destroy {domid}")
        by_scrubd(host, domid)
    serial = host.boot.serial_log()[begin:]
    for harm in HARM:
        expect(harm not in serial, f"'{harm}' on the serial console: see {host.boot.log_path}")
    ended = len(re.findall("Scrub settings not renewed", serial))
    expect(ended == figures["leases_ended"], f"{ended} leases ended by Xen's word, {figures['leases_ended']} by GET")
    return figures


@scenario("domu-denied", guests=("pv", "pvh"))
def domu_denied(host, guest):
    """The same calls from an unprivileged guest, well formed: EPERM, and nothing happens

    On an XSM build (SCRUBD_LAB_XEN_DEBUG=build/hv/xen-xsm) Flask may say EACCES instead."""
    def what_is_set(scrub):
        return [(n["ceiling_kib"], n["floor_kib"]) for n in scrub["nodes"]] + [c["allowed"] for c in scrub["cpus"]]

    with host.unharmed() as figures:
        before = what_is_set(host.scrub())
        bystander = int(host.sh("guest_domid bystander"))
        handle = host.sh(f"labhv domain {bystander}").split()[2]
        domid = int(host.sh(f"guest_start asker --type {guest} --mem 128 --run '/bin/denied {bystander} {handle}'", 400))
        host.sh("guest_wait asker 'LAB-DENIED .*version' 60", 90)
        text = host.sh("grep -a LAB-DENIED $(console_of asker)")
        figures.update((k, int(v)) for k, v in re.findall(r"(sysctl|domctl|eacces)=(\d+)", text))
        # The bystander, dom0 and the guest itself at least.
        expect(figures["sysctl"] == 8 and figures["domctl"] >= 10, f"too few refusals: {text}")
        flask = "Enforcing" in host.try_sh("xl getenforce")[1]
        expect(flask or figures["eacces"] == 0, f"EACCES instead of EPERM: {text}")
        expect(what_is_set(host.scrub()) == before, "an unprivileged guest changed the settings")
        for d in (bystander, domid):
            expect(host.sh(f"labhv domain {d}").startswith("alive"), f"domain {d} is not alive any more")
        host.sh(f"hooked xl destroy {domid}")
        host.expect_gone(domid, 5)
    return figures
