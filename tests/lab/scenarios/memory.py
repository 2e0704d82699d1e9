# SPDX-License-Identifier: GPL-2.0-or-later
"""What becomes of a dead guest's memory: who waits for it to be clean, who holds it, who leaves in a hurry."""

import contextlib
import re

from suite import SLOW, expect, scenario

# What a guest leaves stays dirty: scrubbing is slow, and on dom0's CPU alone.
DIRTY = ('scrub_cpus = "0"\nceiling_mib_s = 2\nbacklog_high_mib = 4096\nduty_percent = 100\n'
         "create_wait_s = 4\n")


def soil(host, mem=128):
    """A guest dies, and leaves its memory dirty."""
    domid = host.victim("pv", mem=mem)
    host.sh(f"hooked xl destroy {domid}")
    dirty = host.scrub()["nodes"][0]["dirty"]
    expect(dirty > mem * 256 // 2, f"only {dirty} pages are dirty")


def create(host):
    """Builds a guest with the hook: (ms that it waited or None, MiB dirty then, pages scrubbed inside the create)."""
    before, seen = host.scrub()["nodes"][0]["alloc"], len(host.journal("creates its domain"))
    domid = host.victim("pv", mem=128, create="hooked xl")
    inside = host.scrub()["nodes"][0]["alloc"] - before
    m = re.search(r"creates its domain after (\d+) ms, (\d+) MiB are still dirty",
                  host.journal("creates its domain")[seen:])
    host.sh(f"/usr/sbin/xl destroy {domid}")
    return (int(m[1]), int(m[2]), inside) if m else (None, None, inside)


@contextlib.contextmanager
def busy(host):
    """dom0, and with it CPU 0, is never idle."""
    host.sh("nice -n 19 sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $! > /run/lab/busy.pid")
    try:
        yield
    finally:
        host.sh("kill $(cat /run/lab/busy.pid)")


@scenario("create-wait")
def create_wait(host):
    """A create waits until memory is clean; where nobody scrubs for create_wait_s; without scrubd not at all"""
    with host.unharmed() as figures, host.configured(DIRTY):
        soil(host)
        ms, dirty, inside = create(host)
        expect(ms is not None, "the create did not wait")
        expect(dirty <= 1, f"it went on with {dirty} MiB dirty")
        expect(inside < 4096, f"{inside} pages were scrubbed inside the create")
        figures.update(waited_ms=ms, scrubbed_inside=inside)
        soil(host)
        with busy(host):
            ms, dirty, inside = create(host)
        expect(ms is not None and 4000 <= ms < 5500, f"it waited for {ms} ms, not 4000")
        expect(dirty > 50, f"{dirty} MiB are dirty: CPU 0 is not busy")
        figures.update(busy_waited_ms=ms, busy_dirty_mib=dirty)
        host.sh("systemctl stop scrubd.socket scrubd.service")
        try:
            ms, _, _ = create(host)
            expect(ms is None, "a scrubd that is stopped was asked")
        finally:
            host.sh("systemctl start scrubd.socket scrubd.service; poll 15 scrubctl status >/dev/null 2>&1")
    return figures


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


@scenario("reboot", guests=("pv",))
def reboot(host, guest):
    """A guest reboots itself: its old domain goes at full speed, in steps, and it is back"""
    with host.configured(SLOW), host.unharmed() as figures:
        domid = host.victim(guest, mem=256, running=True, create="hooked xl")
        host.sh(f"xl reboot {domid}")
        again = int(host.poll("the guest is back", 40, lambda: host.try_sh(
            f"d=$(guest_domid {host.name}) && [ $d != {domid} ] && echo $d")[1].strip()))
        host.expect_gone(domid, 5)
        expect(host.journal(rf"dom={domid} .*teardown begins.*, reboot \(quick\)"),
               f"the journal does not speak of a reboot: {host.journal(f'dom={domid} ')}")
        job = host.end_of_job(domid)
        expect(job["how"] == "dead" and job["steps"] > 10, f"{job}")
        # At the pace of SLOW it would have taken 50 times as long as in the hypervisor.
        expect(job["ms"] < job["hypervisor_ms"] * 10 + 500, f"not quick: {job}")
        figures["teardown_ms"] = job["ms"]
        ready = f"grep -c LAB-READY /var/log/xen/console/guest-{host.name}.log"
        host.poll("the guest is ready again", 60, lambda: int(host.try_sh(ready)[1] or 0) == 2)
        host.sh(f"/usr/sbin/xl destroy {again}")
        host.expect_gone(again, 1)
    return figures
