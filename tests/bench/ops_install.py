# SPDX-License-Identifier: GPL-2.0-or-later
"""Group install: how much an operator types between the package and the first destroy that scrubd does."""

import time

import assets
from scenarios import package
from scenarios.destroy import by_scrubd


def install(host):
    with open(assets.deb(), "rb") as f:
        host.boot.put("/root/scrubd.deb", f.read())
    began = time.monotonic()
    typed = ["apt install ./scrubd_*.deb"]
    text = host.sh(package.INSTALL.format("install /root/scrubd.deb"))
    for command in package.printed_commands(text):
        host.sh(command)
        typed.append(command)
    took_s = time.monotonic() - began
    domid = host.victim("pv")
    host.sh(f"xl destroy {domid}")
    host.expect_gone(domid, 1)
    by_scrubd(host, domid)
    host.add("commands", len(typed), "commands", "<=3", typed)
    host.add("time", round(took_s, 1), "s")
