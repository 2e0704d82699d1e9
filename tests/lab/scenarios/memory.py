# SPDX-License-Identifier: GPL-2.0-or-later
"""What becomes of a dead guest's memory: pages that somebody holds, and domains too small to care."""

import re

from suite import expect, scenario


@scenario("zombie", guests=("pvh",))
def zombie(host, guest):
    """Processes in dom0 hold pages of dead guests: named with how many, whoever destroyed them, until they end"""
    def held(pages):
        domid = host.victim(guest, mem=128)
        pid = f"/run/lab/hold{domid}"
        holder = host.boot.start_command(f"labhold {domid} 0x2000 {pages} > {pid}.out & echo $! > {pid}.pid; wait")
        host.sh(f"poll 20 grep -q held {pid}.out")
        return domid, host.name, holder, pid

    def zombies():
        return [(z["domid"], z["name"], z["pages"]) for z in host.status()["zombies"]]

    with host.unharmed() as figures:
        a, a_name, a_holder, a_pid = held(5)
        b, b_name, b_holder, b_pid = held(3)
        host.sh(f"hooked xl destroy {a}")
        job = host.end_of_job(a)
        # Two pages more are the rings of the console and of xenstore, until their daemons let go of them.
        expect(job["how"] == "dead" and 5 <= job["left"] <= 7, f"not all but the five pages were freed: {job}")
        host.sh(f"labhv poke {b}")  # past scrubd: only xenstore tells
        host.poll("two zombies", 10, lambda: zombies() == [(a, a_name, 5), (b, b_name, 3)])
        text = host.sh("scrubctl list")
        expect(re.search(rf"{a} +{a_name} +5 pages", text), f"scrubctl list does not name it:\n{text}")
        expect("(null)" in host.sh("xl list"), "xl list shows no (null) domain")
        for domid, name, holder, pid in ((a, a_name, a_holder, a_pid), (b, b_name, b_holder, b_pid)):
            expect(len(host.journal(f"name={name}: a zombie").splitlines()) == 1, f"{name}: not one line in the journal")
            host.sh(f"kill $(cat {pid}.pid)")
            holder.wait(20)
            host.expect_gone(domid, 2)
        host.poll("no zombies", 5, lambda: not zombies())
        expect(host.journal(f"name={a_name}: the zombie is gone"), "the journal does not say that it is gone")
        figures["steps"] = job["steps"]
    return figures


@scenario("min-size")
def min_size(host):
    """A domain of 16 MiB, made by the Python bindings with the hook, is destroyed by its caller"""
    with host.unharmed():
        # No toolstack: none of our kernels would fit.
        create = "import xen.lowlevel.xc as l; print(l.xc().domain_create(handle=list(range(16))))"
        domid = int(host.sh(f"export PYTHONPATH=$(echo /usr/lib/xen-*/lib/python); SCRUBHOOK_DEBUG=1 hooked "
                            f"python3 -c '{create}' 2>/run/lab/create.err"))
        said = host.sh("cat /run/lab/create.err")
        expect("create: scrubd says go" in said, f"the create did not ask scrubd: {said}")
        host.sh(f"labhv populate {domid} 16")
        pages = int(host.sh(f"labhv domain {domid}").split()[1])
        expect(4096 <= pages < 8192, f"it has {pages} pages")
        said = host.try_sh(f"SCRUBHOOK_DEBUG=1 hooked labhv poke {domid}")[2]
        expect("scrubd leaves it to its caller" in said, f"the hook says: {said}")
        host.expect_gone(domid, 1)
        expect(not host.journal(f"dom={domid} .*teardown begins"), "scrubd began with it")
    return {"pages": pages}
