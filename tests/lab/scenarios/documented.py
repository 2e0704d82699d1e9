# SPDX-License-Identifier: GPL-2.0-or-later
"""Command lines of README.md and the manual pages that want a whole host: see tests/lib/documented.py."""

import os
import sys

from suite import expect, scenario

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "lib"))
import documented  # noqa: E402

UUID = "1f0c3e9a-75d2-4d0b-9c1e-0d3a5b7c9e11"  # as the manual has it


class Shown:
    """Runs commands as they are shown, and knows which ones it has run."""

    def __init__(self, host):
        self.host, self.run = host, set()

    def __call__(self, command, codes=(0,), uuid=None):
        """Its output. uuid: to be asked for instead of the manual's."""
        actual = command.replace(UUID, uuid) if uuid else command
        if command.endswith(" -f"):  # to be ended by the user
            actual = "timeout 3 " + command
        rc, out, err = self.host.try_sh(actual)
        expect(rc in codes, f"exit status {rc} of: {actual}\n{out}{err}")
        self.run.add(command)
        return out


def guest(host):
    """web-3, in full but never unpaused; returns its uuid."""
    domid = host.sh("guest_build web-3 --type pv --mem 96").strip()
    return host.sh(f"xenstore-read /local/domain/{domid}/vm").strip()[len("/vm/"):]


def destroys(host, shown, command):
    """The command ends web-3 by way of scrubd."""
    uuid, before = guest(host), host.status()["jobs_done"]
    domid = int(host.sh("guest_domid web-3"))
    shown(command)
    host.expect_gone(domid)
    expect(host.status()["jobs_done"] == before + 1, f"scrubd did not see: {command}")
    return uuid


@scenario("documented", last=True)
def commands(host):
    """Each command line of README and the manual pages that wants a whole host does what it says"""
    shown = Shown(host)
    with host.unharmed():
        names = host.sh("scrubctl completion domains").split()
        expect(names == ["bystander"], f"the domains to complete are {names}")
        out = shown("scrubctl hook enable")
        expect("/usr/sbin/xl" in out, out)
        try:
            expect("xl" in shown("scrubctl hook status"), "no xl in the status of the hook")
            uuid = destroys(host, shown, "xl destroy web-3")
        finally:
            shown("scrubctl hook disable")
        destroys(host, shown, "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/scrubd/libscrubhook.so xl destroy web-3")
        log = shown(f"journalctl -u scrubd SCRUBD_UUID={UUID}", uuid=uuid)
        expect("name=web-3" in log, f"the journal of {uuid} says: {log}")
        expect("web-3" in shown("scrubctl history --last 5"), "history has no web-3")
        expect("web-3" in shown("scrubctl history"), "history has no web-3")
        # Whatever there is to find on this host, it is found.
        expect("hypervisor" in shown("scrubctl doctor", codes=(0, 1, 4)), "doctor does not speak of the hypervisor")
        shown("scrubctl doctor | grep -v ^ok", codes=(0, 1))
        shown("scrubd --check-config")
        shown("systemctl reload scrubd")
        expect("was read again" in shown("journalctl -u scrubd -f", codes=(124,)), "the log does not end with the reload")
        shown("systemctl stop scrubd.socket scrubd.service")
        expect(host.try_sh("scrubctl status")[0] == 3, "stopped, but scrubctl reaches it")
        shown("scrubd --reset")
        shown("systemctl disable scrubd.socket scrubd.service")
        shown("systemctl disable --now scrubd.socket scrubd.service")
        expect(host.try_sh("systemctl is-enabled scrubd.socket")[1].strip() == "disabled", "still enabled")
        shown("systemctl enable --now scrubd.socket scrubd.service")
        host.sh("poll 15 scrubctl status >/dev/null 2>&1")
    wanted = {c for c, where in documented.WHERE.items() if where == documented.LAB}
    expect(shown.run == wanted, f"run, or to be run, but not both: {sorted(shown.run ^ wanted)}")
    return {"commands": len(wanted)}
