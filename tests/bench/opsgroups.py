# SPDX-License-Identifier: GPL-2.0-or-later
"""The groups of `dev bench ops`: what is measured, on which host."""

from typing import Callable, NamedTuple

import ops_hook
import ops_install
import ops_status

# Arguments of lab.Boot, besides those that `ops` gives to each; always the patched hypervisor.
BOOTS = {
    "plain": {"mem_mib": 4096},
    "big": {"mem_mib": 6144},
    "libvirt": {"mem_mib": 4096, "dom0_mib": 1280, "extra": "libvirt"},
    "package": {"mem_mib": 3072, "extra": "apt", "scrubd": False},
}


class Group(NamedTuple):
    name: str
    seconds: int  # about
    doc: str
    boot: str  # a name of BOOTS
    run: Callable  # called with an OpsHost


GROUPS = {g.name: g for g in (
    Group("hook", 280, "what the hook costs a small guest's destroy", "plain", ops_hook.cost),
    Group("status", 120, "how fast scrubctl answers while a big guest is torn down and 50 watch", "big", ops_status.status),
    Group("mixed", 600, "50 destroys in all ways, mixed: none is missed, none reported too early", "libvirt", ops_hook.mixed),
    Group("install", 60, "commands from the package to the first destroy that is caught", "package", ops_install.install),
)}
