# SPDX-License-Identifier: GPL-2.0-or-later
"""What a dead guest left in memory reaches nobody."""

import re

from suite import expect, scenario

GUESTS = ("pv", "pvh")
VICTIM_MIB = 512
OWN_MIB = 32  # what the searching guest fills and frees itself, to show that it finds it


def numbers(host, line):
    """{name: number} of the line of the guest's console that begins with this word."""
    text = host.sh(f"grep -a '{line} ' $(console_of {host.name})")
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", text)}


def since_boot(scrub):
    """Pages dirty since a guest died, and pages scrubbed when allocated; all nodes."""
    return (sum(n["dirty"] - n["boot"] for n in scrub["nodes"]), sum(n["alloc"] for n in scrub["nodes"]))


@scenario("leak", guests=GUESTS)
def leak(host, guest):
    """A guest as large as free memory searches all of it for what a dead one, hardly scrubbed, left"""
    with host.unharmed() as figures:
        with host.configured("step_us = 500\nceiling_mib_s = 1\n"):
            domid = host.victim(guest, mem=VICTIM_MIB, running=True)
            filled = int(host.sh(f"sed -n 's/.*LAB-FILLED //p' $(console_of {host.name})")) << 8
            host.sh(f"hooked xl destroy {domid}", 400)
            host.expect_gone(domid, 5)
            dirty, at_allocation = since_boot(host.scrub())
            expect(dirty > filled * 9 // 10, f"only {dirty} of {filled} pages are still dirty: nothing is tested")
            # The rest is for Xen's own structures, for page tables of a PVH guest.
            mem = host.free_kib() // 1024
            mem -= 16 + mem // (64 if guest == "pvh" else 128)
            host.victims += 1
            host.name = f"searcher{host.victims}"
            # Linux must not clean up before the search does its work.
            domid = int(host.sh(f"guest_start {host.name} --type {guest} --mem {mem} --run '/bin/search {OWN_MIB}' "
                                "--extra 'init_on_alloc=0 init_on_free=0'", 400))
            host.sh(f"guest_wait {host.name} 'LAB-OWN .*found' 120", 150)
            left, at_allocation_now = since_boot(host.scrub())
            search, own = numbers(host, "LAB-SEARCH"), numbers(host, "LAB-OWN")
        figures.update(filled=filled, dirty_at_death=dirty, scrubbed_at_allocation=at_allocation_now - at_allocation,
                       dirty_left=left, mem_mib=mem, searched=search["pages"], zero=search["zero"],
                       found=search["found"], own_found=own["found"])
        expect(search["pages"] >= mem * 256 * 97 // 100, f"only {search['pages']} pages of {mem} MiB were searched")
        expect(left < dirty // 10, f"{left} of {dirty} pages are still free and dirty: the guest never had them")
        expect(own["found"] >= own["filled"] * 9 // 10,
               f"the search finds only {own['found']} of {own['filled']} pages that are there")
        expect(search["found"] == 0, f"{search['found']} pages of the dead guest are in the new one")
        host.sh(f"hooked xl destroy {domid}", 400)
        host.expect_gone(domid, 5)
    return figures
