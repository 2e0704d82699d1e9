#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scrubctl doctor: each finding, on a made-up host: a directory that stands for its root, a scripted scrubd,
and domains that a pretended libxl tells of. TAP on standard output.

usage: test-doctor.py SCRUBCTL FAKE-LIBXL VERSION [sanitized]
"""
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import tap
from case import VERSION, Case, contains, equal
from scripted import error, reply

UUID = "6f1b6d6e-0f53-4c1c-9d70-2b4b9b0c7a07"
STATUS = {"version": VERSION, "state": "ready", "xen": "4.17.5", "uptime_s": 7980, "jobs": 0, "jobs_done": 14,
          "backlog_pages": 0, "baseline_pages": 256, "mask": "0-1,3", "nodes": [], "cpus": [], "zombies": []}
HEALTH = {"busy": False, "ceiling_kib": 0, "floor_kib": 0, "cpus": "auto", "mask": "0-1,3", "has_ceiling": False,
          "has_floor": False, "has_mask": True, "lease_ms": 8000, "lease_s": 10, "dirty_ms": 0, "max_dirty_age_s": 600}
RT = {"by": "pin", "domid": 7, "uuid": UUID, "name": "rt", "cpus": "2"}
CPUS = [{"cpu": n, "online": True, "node": 0, "socket": 0, "core": n, "cpupool": 0, "allowed": n != 2,
         "why": "hard" if n == 2 else "free"} for n in range(4)]
VCPUS = "0:0/1,7:2,8:0-1,9:3"  # of domains 0, 7, 8, 9
DEBIAN = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.170-1 (2026-05-01)"


class Host(Case):
    """A healthy host; what is given replaces parts of it. files: path -> content, None for no such file."""

    def __init__(self, status=STATUS, health=HEALTH, protected=(RT,), cpus=CPUS, files=(), clock=1.0, scrubd=True,
                 version=DEBIAN, cmdline="root=/dev/sda1 preempt=full", vcpus=VCPUS, mode=0o600):
        def health_now():
            if isinstance(health, dict) and "error" in health:
                return health
            return reply(dict(health, hypervisor_ms=int(time.monotonic() * 1000 * clock)))

        items = [reply({"protected": p}, more=n < len(protected) - 1) for n, p in enumerate(protected)] or [reply({})]
        lists = [reply({"cpu": c}, more=n < len(cpus) - 1) for n, c in enumerate(cpus)]
        replies = {"GetStatus": [reply(status)], "GetHealth": [health_now], "ListProtected": items, "ListCpus": lists}
        super().__init__(**(replies if scrubd else {}))
        if scrubd:
            os.chmod(self.path, mode)
        self.root, self.vcpus = self.dir + "/root", vcpus
        tree = {"proc/xen/capabilities": "control_d\n", "proc/cmdline": cmdline + "\n",
                "proc/sys/kernel/version": version + "\n", "proc/sys/kernel/osrelease": "6.1.0-44-amd64\n",
                "sys/hypervisor/version/major": "4\n", "sys/hypervisor/version/minor": "17\n",
                "sys/hypervisor/version/extra": ".5\n",
                "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
                "sys/devices/system/clocksource/clocksource0/available_clocksource": "xen tsc hpet\n",
                "etc/systemd/system/sockets.target.wants/scrubd.socket": "", **dict(files)}
        for path, content in tree.items():
            if content is not None:
                os.makedirs(os.path.dirname(self.root + "/" + path), exist_ok=True)
                with open(self.root + "/" + path, "w") as f:
                    f.write(content)

    def process(self, pid, comm, args, *maps):
        """A process that maps these files."""
        os.makedirs("%s/proc/%d" % (self.root, pid))
        lines = "".join("7f%06x000-7f%06x000 rw-s 00000000 00:05 123    %s\n" % (n, n + 1, m) for n, m in enumerate(maps))
        os.symlink("/usr/bin/" + comm, "%s/proc/%d/exe" % (self.root, pid))
        for name, text in (("comm", comm + "\n"), ("cmdline", "\0".join(args) + "\0"), ("maps", lines)):
            with open("%s/proc/%d/%s" % (self.root, pid, name), "w") as f:
                f.write(text)

    def doctor(self):
        """(exit status, {check: [(severity, text, command)]})"""
        rc, out, err = self.run("doctor", "--json", SCRUBD_ROOT=self.root, FAKE_VCPUS=self.vcpus)
        equal(err, "")
        document, found = json.loads(out), {}
        for f in document["findings"]:
            found.setdefault(f["check"], []).append((f["severity"], f["text"], f.get("command")))
        order = ["ok", "note", "warning", "error"]
        equal(document["worst"], max((f["severity"] for f in document["findings"]), key=order.index))
        equal(rc, {"ok": 0, "note": 0, "warning": 4, "error": 1}[document["worst"]])
        self.findings = document["findings"]
        return rc, found

    def text(self):
        return self.run("doctor", SCRUBD_ROOT=self.root, FAKE_VCPUS=self.vcpus)


def finds(check, severity, text, command=None, **host):
    """The host has this finding, and no other of that check or that is as bad."""
    with Host(**host) as h:
        rc, found = h.doctor()
        equal(found[check], [(severity, text, command)])
        worse = [f for f in h.findings if f["severity"] in ("warning", "error") and f["check"] != check]
        if severity in ("warning", "error"):
            equal(worse, [])
        equal(rc, {"ok": 0, "note": 0, "warning": 4, "error": 1}[severity])


def test_healthy():
    with Host() as h:
        rc, out, err = h.text()
        equal((rc, err), (0, ""))
        equal(out, "ok       host       control domain of Xen 4.17.5\n"
                   "ok       scrubd     version %s runs\n"
                   "ok       hypervisor Xen 4.17.5 has the patch, in the right version\n"
                   "ok       settings   CPUs 0-1,3 may scrub; ceiling none, floor none\n"
                   "ok       lease      8.0 s left, and renewed\n"
                   "ok       backlog    0K waits to be scrubbed\n"
                   "ok       zombies    none\n"
                   "ok       clock      that of Xen and that of dom0 agree\n"
                   "ok       socket     for root alone\n"
                   "ok       boot       scrubd is there again after a reboot\n"
                   "note     hook       nothing on this host destroys domains\n"
                   "ok       kernel     preempt=full: a long hypercall holds up one task, not a CPU\n"
                   "ok       clock      dom0's clock is tsc\n"
                   "ok       dom0       2 vCPUs on CPUs 0-1\n"
                   "ok       protected  1 domain, on CPUs of their own\n"
                   "ok       siblings   each CPU has a core of its own\n" % VERSION)
        asked = {call["method"].split(".")[-1] for call in h.scrubd.calls}
        equal(asked, {"GetStatus", "GetHealth", "ListProtected", "ListCpus"})


def test_not_a_xen_host():
    finds("host", "error", "this is not the control domain of a Xen host", files={"proc/xen/capabilities": ""})


def test_built_for_another_xen():
    finds("host", "error", "Xen 4.18.5: this scrubd is built for Xen 4.17, install the one for 4.18",
          files={"sys/hypervisor/version/minor": "18"})


def test_scrubd_is_down():
    with Host(scrubd=False) as h:
        rc, found = h.doctor()
        equal(found["scrubd"], [("error", "does not run, or does not answer", "systemctl start scrubd.socket")])
        equal(found["socket"], [("error", h.path + ": No such file or directory", "systemctl start scrubd.socket")])
        # What needs no scrubd is told all the same.
        equal(found["kernel"][0][0], "ok")
        equal(found["dom0"], [("ok", "2 vCPUs on CPUs 0-1", None)])
        equal(rc, 1)


def test_unpatched():
    degraded = {"version": VERSION, "state": "degraded", "reason": "unpatched hypervisor", "xen": "4.17.5", "uptime_s": 3,
                "jobs": 0, "jobs_done": 0, "nodes": [], "cpus": [], "zombies": []}
    with Host(status=degraded, health=error("org.scrubd.Degraded", reason="unpatched hypervisor")) as h:
        rc, found = h.doctor()
        equal(found["hypervisor"], [("error", "Xen 4.17.5: unpatched hypervisor, destroys are not divided",
                                     "scrubctl hypervisor load, or boot the patched Xen: see hv-patch/README.md")])
        equal([check for check in ("settings", "lease", "backlog") if check in found], [])
        equal(rc, 1)


def test_another_version_runs():
    finds("scrubd", "warning", "version 0.0.1 runs, but %s is installed" % VERSION,
          "systemctl restart scrubd.service", status=dict(STATUS, version="0.0.1"))


def test_trouble():
    finds("trouble", "warning", "xenstore does not answer", status=dict(STATUS, reason="xenstore does not answer"))


def test_settings():
    restart = "systemctl restart scrubd.service"
    finds("settings", "error", "the list of CPUs that may scrub is not in force in the hypervisor", restart,
          health=dict(HEALTH, has_mask=False))
    finds("settings", "error", "the ceiling is not in force in the hypervisor", restart,
          health=dict(HEALTH, busy=True, ceiling_kib=204800, floor_kib=1024, has_floor=True))
    finds("settings", "error", "the floor is in force in the hypervisor, though it should not be", restart,
          health=dict(HEALTH, has_floor=True))
    # Rates rest while there is nothing to do.
    finds("settings", "ok", "CPUs 0-1,3 may scrub; ceiling 200M/s, floor 1.00M/s",
          health=dict(HEALTH, ceiling_kib=204800, floor_kib=1024))
    with Host(health=dict(HEALTH, ceiling_kib=204800, max_dirty_age_s=0)) as h:
        equal(h.doctor()[1]["settings"][1],
              ("warning", "a ceiling, but no maximum age: memory may stay dirty for ever",
               "set max_dirty_age_s in /etc/scrubd/scrubd.conf"))


def test_lease():
    restart = "systemctl restart scrubd.service"
    finds("lease", "error", "none: the limits would outlive a scrubd that crashes", restart,
          health=dict(HEALTH, lease_ms=0))
    finds("lease", "warning", "2.0 s left: scrubd does not renew it in time", restart,
          health=dict(HEALTH, lease_ms=2000))
    with Host(health=dict(HEALTH, mask=None, has_mask=False, lease_ms=0)) as h:
        assert "lease" not in h.doctor()[1]


def test_clocks():
    # Far off, or a machine that is busy would make it pass.
    for clock in (0.01, 100):
        with Host(clock=clock) as h:
            severity, text, command = h.doctor()[1]["clock"][0]
            equal((severity, command), ("error", "set lease_s in /etc/scrubd/scrubd.conf to the maximum"))
            contains(text, "the lease is not to be relied on")
    source = "sys/devices/system/clocksource/clocksource0/"
    with Host(files={source + "current_clocksource": "hpet"}) as h:
        equal(h.doctor()[1]["clock"][1],
              ("warning", "dom0's clock is hpet: slow or coarse, so that pauses are long",
               "echo xen >/" + source + "current_clocksource"))


def test_kernel():
    at_boot = "add preempt=full to the command line of dom0's kernel"
    held = "preempt=%s: a destroy that goes past scrubd holds up a vCPU of dom0 to its end"
    debugfs = "/sys/kernel/debug/sched/preempt"
    finds("kernel", "ok", "built without preemption: it interrupts long hypercalls itself",
          version="#1 SMP Debian 5.10.1", cmdline="")
    finds("kernel", "ok", "preempt=full: a long hypercall holds up one task, not a CPU", version="#1 SMP PREEMPT_RT",
          cmdline="")
    finds("kernel", "note", held % "unknown", at_boot, cmdline="quiet")
    finds("kernel", "note", held % "voluntary", at_boot, cmdline="quiet",
          files={"boot/config-6.1.0-44-amd64": "CONFIG_SMP=y\nCONFIG_PREEMPT_VOLUNTARY=y\n# CONFIG_PREEMPT is not set\n"})
    finds("kernel", "note", held % "none", at_boot, cmdline="preempt=none quiet")
    # What it is now, whatever it was at boot.
    finds("kernel", "note", held % "voluntary", "echo full >" + debugfs,
          files={debugfs[1:]: "none (voluntary) full\n"})
    finds("kernel", "ok", "preempt=full: a long hypercall holds up one task, not a CPU", cmdline="preempt=none",
          files={debugfs[1:]: "none voluntary (full)\n"})
    with Host(cmdline="quiet", vcpus="0:0,7:2") as h:
        equal(h.doctor()[1]["kernel"],
              [("warning", "preempt=unknown: a destroy that goes past scrubd holds up all of dom0 to its end", at_boot)])


def test_dom0():
    one = ("warning", "it has one vCPU: each step holds up all backends", "boot Xen with dom0_max_vcpus=2 or more")
    with Host(vcpus="0:1,7:2") as h:
        equal(h.doctor()[1]["dom0"], [one, ("ok", "1 vCPU on CPUs 1", None)])
    with Host(vcpus="0:0-3/0-3,7:2", protected=()) as h:
        equal(h.doctor()[1]["dom0"],
              [("note", "2 vCPUs, not pinned: steps may run on every CPU", "xl vcpu-pin 0 all 0-1")])


def test_protected():
    finds("protected", "note", "no domain: pin those with deadlines, or see scrubctl protect", protected=())
    finds("protected", "warning", "rt (7) shares CPUs 2 with domain 8", "xl vcpu-pin 8 all 0-1,3", vcpus="0:0/1,7:2,8:1-3")
    # dom0 first: it works for all.
    finds("protected", "warning", "rt (7) shares CPUs 2 with domain 0 and 2 more", "xl vcpu-pin 0 all 0-1,3",
          vcpus="0:0-2/0-2,7:2,8:1-3,9:2")
    everywhere = dict(RT, by="name", rule="rt*", cpus="0-3")
    finds("protected", "warning", "rt (7) may run on every CPU: none is clear for it", "xl vcpu-pin 7 all 2-3",
          protected=(everywhere,), vcpus="0:0/1,7:0-3/0-3")
    finds("protected", "warning", "CPUs 2 of rt (7) scrub: scrub_cpus is not auto", "scrubctl limit --cpus auto",
          status=dict(STATUS, mask="0-3"), health=dict(HEALTH, cpus="0-3", mask="0-3"))
    finds("protected", "warning", "CPUs 2 of rt (7) scrub, for want of others", status=dict(STATUS, mask="2"))
    # A rule without a domain is nobody's trouble.
    finds("protected", "ok", "1 domain, on CPUs of their own", protected=(RT, {"by": "name", "rule": "later"}))


def test_siblings():
    threads = [dict(cpu, core=cpu["cpu"] // 2) for cpu in CPUS]
    finds("siblings", "ok", "none scrubs beside a protected domain", cpus=threads, status=dict(STATUS, mask="0-1"))
    finds("siblings", "warning", "CPUs 3 scrub on cores of protected domains", "scrubctl limit --cpus 0-1", cpus=threads)
    finds("siblings", "warning", "CPUs 3 scrub on cores of protected domains", "scrubctl limit --cpus auto", cpus=threads,
          health=dict(HEALTH, cpus="0-1,3"))
    # One that scrubs on its own CPUs is another matter.
    with Host(cpus=threads, protected=(dict(RT, cpus="2-3"),), status=dict(STATUS, mask="0-3"), vcpus="0:0/1,7:2-3") as h:
        found = h.doctor()[1]
        equal((found["siblings"][0][0], found["protected"][0][1]),
              ("ok", "CPUs 2-3 of rt (7) scrub, for want of others"))


def test_socket():
    finds("socket", "ok", "for root alone", mode=0o644)  # to connect takes the right to write
    finds("socket", "note", "group %d may read what scrubd does, root alone act" % os.getegid(), mode=0o660)
    with Host(mode=0o666) as h:
        equal(h.doctor()[1]["socket"], [("warning", "everybody may read what scrubd does: mode 666", "chmod o= " + h.path)])
    with Host(scrubd=False) as h:
        open(h.path, "w").close()
        equal(h.doctor()[1]["socket"],
              [("error", h.path + " is no socket", "rm %s; systemctl restart scrubd.socket" % h.path)])
    if os.geteuid() == 0:
        with Host() as h:
            os.chown(h.path, 12345, -1)
            equal(h.doctor()[1]["socket"], [("error", h.path + " belongs to uid 12345, not to root", "chown root " + h.path)])


def test_not_enabled():
    finds("boot", "warning", "scrubd is not enabled: it is gone after a reboot",
          "systemctl enable scrubd.socket scrubd.service",
          files={"etc/systemd/system/sockets.target.wants/scrubd.socket": None})


def test_hook():
    lib, hook = "/usr/lib/libxenlight.so.4.17", "/usr/lib/scrubd/libscrubhook.so"
    with Host() as h:
        h.process(800, "python3", ["python3", "x.py"], lib, hook)
        h.process(801, "xl", ["xl", "create", "a.cfg"], hook, lib)
        rc, found = h.doctor()
        equal((rc, found["hook"]), (0, [("ok", "the destroys of 2 tools and programs are caught", None)]))
        for pid in (802, 803, 804):
            h.process(pid, "xl", ["xl", "create", "b.cfg"], lib)
        h.process(805, "python3", ["python3", "y.py"], lib)
        rc, found = h.doctor()
        equal((rc, found["hook"]),
              (4, [("warning", "xl (pid 802 and 2 more): xl create b.cfg",
                    "it ends with its guest: shut that down, and create it again"),
                   ("warning", "python3 (pid 805): python3 y.py", "restart it with the hook preloaded, see scrubctl(1)")]))


def test_backlog():
    old = dict(HEALTH, dirty_ms=180000)
    finds("backlog", "warning", "2.00G dirty, some of it for 3 min 0 s: too few idle CPUs",
          "set floor_mib_s in /etc/scrubd/scrubd.conf", status=dict(STATUS, backlog_pages=524288), health=old)
    finds("backlog", "ok", "2.00G waits to be scrubbed", status=dict(STATUS, backlog_pages=524288))
    finds("baseline", "note", "1.00G not scrubbed since boot", status=dict(STATUS, baseline_pages=262144))


ZOMBIE = {"domid": 14, "uuid": UUID, "name": "web-3", "pages": 3, "dead_ms": 125000}


def zombie_host(**more):
    return Host(status=dict(STATUS, zombies=[dict(ZOMBIE, **more)]))


def test_zombie_of_nobody():
    with zombie_host(pages=1) as h:
        h.process(90, "cat", ["cat"], "/usr/bin/cat")
        rc, found = h.doctor()
        equal((rc, found["zombie"]), (4, [("warning", "web-3 (14) keeps 1 page; no process maps pages of domains", None)]))


def test_zombie_candidates():
    with zombie_host() as h:
        for pid, comm, args, maps in (
                (640, "xenconsoled", ["/usr/sbin/xenconsoled"], ["/dev/xen/gntdev"]),
                (600, "xenstored", ["/usr/sbin/xenstored"], ["/dev/xen/privcmd", "/dev/xen/gntdev"]),
                (700, "qemu-system-i38", ["qemu", "-xen-domid", "0", "-name", "dom0"], ["/dev/xen/privcmd"]),
                (710, "qemu-system-i38", ["qemu", "-xen-domid", "140", "-name", "web-3"], ["/dev/xen/privcmd"]),
                (720, "python3", ["python3", "dump.py"], ["/dev/xen/privcmd"]),
                (730, "vncproxy", ["vncproxy", "--guest=web-3"], ["/lib/x.so", "/dev/xen/gntdev"]),
                (740, "logger", ["web-3", "web-30", "my-web-3", "web-3-old"], ["/proc/xen/privcmd"]),
                (750, "qemu-system-i38", ["qemu", "-xen-domid", "14"], ["/dev/xen/privcmd"]),
                (760, "sshd", ["sshd: web-3"], ["/usr/lib/ssh"])):
            h.process(pid, comm, args, *maps)
        os.makedirs(h.root + "/sys/bus/xen-backend/devices/vif-14-0")
        os.makedirs(h.root + "/sys/bus/xen-backend/devices/vif-140-0")
        rc, found = h.doctor()
        candidates = [f for f in h.findings if f["check"] == "zombie"][0]["candidates"]
        equal([c.get("device") or c["pid"] for c in candidates], ["vif-14-0", 750, 730, 720, 740, 710, 600, 640, 700])
        equal([c["certainty"] for c in candidates], ["proven"] * 2 + ["likely"] * 7)
        equal([c["names_domain"] for c in candidates], [True] * 3 + [False] * 6)
        equal([c["system"] for c in candidates], [False] * 6 + [True] * 3)
        equal(candidates[1], {"certainty": "proven", "names_domain": True, "system": False, "pid": 750,
                              "command": "qemu-system-i38", "maps": ["privcmd"]})
        equal(candidates[6]["maps"], ["privcmd", "gntdev"])
        equal(found["zombie"], [("warning", "web-3 (14) keeps 3 pages, held by vif-14-0, or one of 8 more",
                                 "xenstore-rm /local/domain/0/backend/vif/14/0")])
        rc, out, err = h.text()
        contains(out, "warning  zombie     web-3 (14) keeps 3 pages, held by vif-14-0, or one of 8 more\n"
                      "    -> xenstore-rm /local/domain/0/backend/vif/14/0\n")


def test_zombie_likely():
    with zombie_host(name=None) as h:
        h.process(720, "python3", ["python3", "dump.py"], "/dev/xen/privcmd")
        h.process(640, "xenconsoled", ["/usr/sbin/xenconsoled"], "/dev/xen/gntdev")
        equal(h.doctor()[1]["zombie"], [("warning", "domain 14 keeps 3 pages, likely held by python3 (pid 720), or one of 1 more",
                                         "kill 720")])
    with zombie_host() as h:
        h.process(640, "xenconsoled", ["/usr/sbin/xenconsoled"], "/dev/xen/gntdev")
        equal(h.doctor()[1]["zombie"], [("warning", "web-3 (14) keeps 3 pages, likely held by xenconsoled (pid 640)", None)])


def test_hostile_names():
    with zombie_host(name="e\033[2Jvil" + "x" * 60) as h:
        h.process(720, "a\033b", ["x"], "/dev/xen/privcmd")
        rc, out, err = h.text()
        assert "\033" not in out, out


def test_fits_80_columns():
    threads = [dict(cpu, core=cpu["cpu"] // 2) for cpu in CPUS]
    with Host(status=dict(STATUS, version="0.0.1", zombies=[dict(ZOMBIE, name="x" * 60)], backlog_pages=524288,
                          baseline_pages=2**22),
              health=dict(HEALTH, has_mask=False, has_floor=True, has_ceiling=True, lease_ms=0, dirty_ms=10**7,
                          ceiling_kib=1, max_dirty_age_s=0),
              cpus=threads, vcpus="0:0-3,7:2,8:0-3", cmdline="") as h:
        h.process(720, "a-name-of-15-by", ["x"], "/dev/xen/privcmd")
        rc, out, err = h.text()
        long = [line for line in out.splitlines() if len(line) > 80]
        equal(long, [])


sys.exit(tap.run(globals()))
