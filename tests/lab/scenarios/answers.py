# SPDX-License-Identifier: GPL-2.0-or-later
"""What scrubctl answers about a real host: doctor, plan and history."""

import contextlib
import json

from suite import Failure, expect, scenario


def doctor(host):
    """(exit status, {check: [finding]})"""
    rc, out, err = host.try_sh("scrubctl doctor --json")
    expect(not err, f"doctor complains: {err}")
    found = {}
    for f in json.loads(out)["findings"]:
        found.setdefault(f["check"], []).append(f)
    return rc, found


def says(found, check, severity, *words):
    """There is such a finding, which is returned."""
    for f in found.get(check, []):
        if f["severity"] == severity and all(w in f["text"] for w in words):
            return f
    raise Failure(f"no {severity} of {check} with {words}: {found.get(check)}")


@scenario("doctor", boot="placement")
def of_host(host):
    """doctor on a host as the lab has it, then with each of several things wrong, which it finds"""
    rc, found = doctor(host)
    says(found, "host", "ok", "Xen 4.17")
    says(found, "hypervisor", "ok", "has the patch")
    says(found, "scrubd", "ok")
    says(found, "socket", "ok")
    says(found, "boot", "ok")
    says(found, "clock", "ok", "agree")
    says(found, "backlog", "ok")
    says(found, "zombies", "ok")
    # So the lab's hosts are: their findings are right.
    says(found, "dom0", "warning", "one vCPU")
    says(found, "kernel", "warning", "preempt=")
    expect(rc == 4, f"exit status {rc}: {found}")
    text = host.try_sh("scrubctl doctor")[1]
    expect(all(len(line) <= 80 for line in text.splitlines()), f"wider than 80 columns:\n{text}")

    # Its CPU is its own, until another one may run there.
    rt = host.victim("pv", mem=96, options="--cpus 3")
    other = host.victim("pv", mem=96, options="--cpus 1-2")
    host.sh(f"scrubctl protect {rt}")
    host.poll("scrubd keeps CPU 3 clear", 10, lambda: not host.scrub()["cpus"][3]["allowed"])
    shared = ("protected", "warning", f"({rt}) shares CPUs 3")
    bystander = says(doctor(host)[1], *shared)["command"]
    host.sh(bystander)
    says(doctor(host)[1], "protected", "ok")
    host.sh(f"xl vcpu-pin {other} all 1-3")
    mend = says(doctor(host)[1], *shared, f"domain {other}")["command"]
    host.sh(mend)
    says(doctor(host)[1], "protected", "ok")
    host.sh("scrubctl limit --cpus all")
    mend = says(doctor(host)[1], "protected", "warning", "scrub")["command"]
    host.sh(mend)
    says(doctor(host)[1], "protected", "ok")

    # Somebody puts the scrubber back behind scrubd, which renews its settings each 20 s.
    with host.configured("lease_s = 60\n"):
        says(doctor(host)[1], "lease", "ok")
        host.sh("labscrub reset")
        rc, found = doctor(host)
        mend = says(found, "settings", "error", "not in force")["command"]
        expect(rc == 1, f"exit status {rc}: {found}")
        host.sh(f"{mend}; poll 15 scrubctl status >/dev/null 2>&1")
        host.poll("the settings are in force", 5, lambda: doctor(host)[1]["settings"][0]["severity"] == "ok")

    host.sh("chmod 666 /run/scrubd/scrubd.sock")
    host.sh(says(doctor(host)[1], "socket", "warning", "everybody")["command"])
    host.sh("chmod 600 /run/scrubd/scrubd.sock")
    host.sh("systemctl disable scrubd.socket 2>/dev/null")
    host.sh(says(doctor(host)[1], "boot", "warning", "not enabled")["command"] + " 2>/dev/null")
    says(doctor(host)[1], "boot", "ok")

    host.sh("systemctl stop scrubd.socket scrubd.service")
    try:
        rc, found = doctor(host)
        mend = says(found, "scrubd", "error", "does not run")["command"]
        expect(rc == 1, f"exit status {rc}")
        host.sh(f"{mend}; systemctl start scrubd.service; poll 15 scrubctl status >/dev/null 2>&1")
    finally:
        host.sh("systemctl start scrubd.socket scrubd.service")
    for domid in (rt, other):
        host.sh(f"xl destroy {domid}")
    host.sh("xl vcpu-pin bystander all all all; scrubctl reset")
    return {"findings": sum(len(f) for f in found.values())}


@contextlib.contextmanager
def holder(host, domid, pages=3):
    """A process that holds pages of a domain; its pid."""
    pid = f"/run/lab/held{domid}"
    command = host.boot.start_command(f"labhold {domid} 0x2000 {pages} > {pid}.out & echo $! > {pid}.pid; wait")
    try:
        host.sh(f"poll 20 grep -q held {pid}.out")
        yield int(host.sh(f"cat {pid}.pid"))
    finally:
        host.sh(f"kill $(cat {pid}.pid); true")
        command.wait(30)


@scenario("doctor-zombie", guests=("pvh",))
def of_zombie(host, guest):
    """Somebody holds pages of a dead guest: doctor names the process, and what it advises frees them"""
    with host.unharmed():
        domid = host.victim(guest)
        with holder(host, domid) as pid:
            host.sh(f"hooked xl destroy {domid}")
            host.poll("a zombie", 20, lambda: host.status()["zombies"])
            rc, found = doctor(host)
            f = says(found, "zombie", "warning", f"({domid}) keeps")
            pids = [c.get("pid") for c in f["candidates"]]
            expect(pids and pids[0] == pid, f"the holder is {pid}: {f}")
            expect(f["candidates"][0]["certainty"] == "likely", f"{f}")
            systems = [c["system"] for c in f["candidates"]]
            expect(systems == sorted(systems), f"daemons of the system are not last: {f}")
            expect(f["command"] == f"kill {pid}", f"{f}")
            expect(rc == 4, f"exit status {rc}")
            host.sh(f["command"])
        host.expect_gone(domid)
        host.poll("no zombie", 20, lambda: not host.status()["zombies"])
        says(doctor(host)[1], "zombies", "ok")
    return {"candidates": len(pids)}


def foretold(host, guest):
    """One teardown: what plan says of it, and what the history says after it."""
    domid = host.victim(guest, mem=512)
    before = host.sh(f"labhv domain {domid}")
    plan = host.json(f"scrubctl plan {host.name} --json")["plan"]
    expect(host.sh(f"labhv domain {domid}") == before, "plan has changed the domain")
    expect(plan["way"] == "steps" and plan["measured"], f"plan: {plan}")
    host.sh(f"hooked xl destroy {domid}")
    job = host.poll("its end in the history", 30, lambda: [
        j for j in host.json(f"scrubctl history --json {host.name}")["jobs"] if j["domid"] == domid and "scrubbing_ms" in j])[0]
    expect(job["name"] == host.name and job["event"] == "dead" and job["pages"] >= plan["pages"] - 256, f"{job}")
    return plan, job


@scenario("plan-history", guests=("pv", "pvh"), last=True, everyday=("pv",))
def plan_history(host, guest):
    """plan changes nothing and foretells what comes, within a factor of two; history has the stages"""
    with host.unharmed() as figures:
        # The first one touches memory that the emulator is yet to get, and says nothing of the next ones.
        host.sh(f"hooked xl destroy {host.victim(guest, mem=512)}")
        host.configure(host.default_config)
        host.sh(f"hooked xl destroy {host.victim(guest, mem=512)}")
        # The machine has its moments: it is the second of three that counts.
        pairs = [foretold(host, guest) for _ in range(3)]
        ratios = sorted(plan["dead_ms"] / (job["waiting_ms"] + job["freeing_ms"]) for plan, job in pairs)
        plan, job = pairs[-1]
        figures.update(foretold_to_came=[round(r, 2) for r in ratios], foretold_steps=plan["steps"], steps=job["steps"],
                       scrubbing_ms=job["scrubbing_ms"])
        expect(0.5 <= ratios[1] <= 2, f"foretold, came: {pairs}")
        text = host.sh("scrubctl plan bystander")
        expect(all(len(line) <= 80 for line in text.splitlines()), f"wider than 80 columns:\n{text}")
        expect(host.name in host.sh("scrubctl history --last 1"), "history does not show it last")
        host.sh("systemctl stop scrubd.socket scrubd.service")
        try:
            expect(host.name in host.sh("scrubctl history"), "history needs scrubd")
        finally:
            host.sh("systemctl start scrubd.socket scrubd.service; poll 15 scrubctl status >/dev/null 2>&1")
    return figures
