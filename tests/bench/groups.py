# SPDX-License-Identifier: GPL-2.0-or-later
"""The groups of `dev bench daemon`: what is measured, on which hosts."""

from typing import Callable, NamedTuple, Optional

import bench_fit
import bench_life
import bench_pings
import bench_use

HOST_MIB = 8192


class HostKind(NamedTuple):
    name: str
    hypervisor: str
    dom0_vcpus: int


class Group(NamedTuple):
    name: str
    seconds: int  # about
    doc: str
    parts: dict  # name of a host: what is done there, in the order of HOSTS
    alone: Optional[Callable] = None  # what boots by itself: called with the Results and --repeats


HOSTS = (HostKind("patched", "patched", 1), HostKind("patched-2", "patched", 2), HostKind("stock", "stock", 1))

GROUPS = {g.name: g for g in (
    Group("pings", 280, "a neighbour's wake-ups and pings during destroys, dom0 with one vCPU",
          {"patched": bench_pings.pings}),
    Group("pings-2", 280, "the same, dom0 with two vCPUs", {"patched-2": bench_pings.pings}),
    Group("pings-stock", 60, "the same on stock Xen, dom0 with one vCPU", {"stock": bench_pings.stock}),
    Group("create", 220, "a neighbour's ping while a guest is created right after a destroy",
          {"patched": bench_pings.create, "stock": bench_pings.create}),
    Group("reboot", 200, "how long a guest is away when it reboots, against stock Xen",
          {"patched": bench_life.reboot, "stock": bench_life.reboot}),
    Group("ends", 150, "a paused destroy ends, and one on a host without idle time or floor",
          {"patched": bench_life.ends}),
    Group("kills", 200, "SIGKILLs of scrubd, of the caller, of both, at random instants over destroys",
          {"patched": bench_life.kills}),
    Group("idle", 40, "scrubd without a job", {"patched": bench_use.idle}),
    Group("busy", 60, "scrubd's own CPU time during destroys", {"patched": bench_use.busy}),
    Group("fit", 150, "what the simulator's model is made of", {}, bench_fit.fit),
)}
