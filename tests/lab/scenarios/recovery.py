# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong around scrubd: kills at random instants, xenstore, socket, disk, clock, memory, a loop that hangs."""

import contextlib
import json
import os
import random
import time

from suite import SLOW, expect, scenario

KILLS = int(os.environ.get("SCRUBD_LAB_KILLS", "10"))  # the whole of it: 100
SEED = int(os.environ.get("SCRUBD_LAB_SEED", "0"))


@contextlib.contextmanager
def teardown(host, guest="pv", mem=512, config=SLOW):
    """A destroy under way, slow enough to look at; ended quickly afterwards, and checked."""
    with host.configured(config), host.unharmed() as figures:
        figures["domid"] = domid = host.victim(guest, mem=mem)
        xl = host.boot.start_command(f"hooked xl destroy {domid}")
        host.poll("a teardown under way", 30, lambda: [j for j in host.jobs() if j["steps"] > 3])
        yield figures
        host.boot.put("/etc/scrubd/scrubd.conf", "")
        host.sh("scrubctl config reload")
        rc, out, err = xl.wait(120)
        expect(rc == 0, f"xl destroy failed: {(out + err).decode(errors='replace')}")
        host.expect_gone(domid, 5)


def steps(host):
    jobs = host.jobs()
    expect(jobs, "the teardown is over: too early to look at it")
    return jobs[0]["steps"]


def go_on(host, what):
    before = steps(host)
    host.poll(f"steps go on {what}", 10, lambda: steps(host) > before + 5)


@scenario("reload")
def reload(host):
    """systemctl reload takes a good file at once, for a teardown under way too; a bad one names its line"""
    with teardown(host, config="step_us = 200\nduty_percent = 2\n") as figures:
        pid = host.main_pid()
        host.boot.put("/etc/scrubd/scrubd.conf", "step_us = 200\n\nstep_uss = 5\n")
        rc, _, _ = host.try_sh("systemctl reload scrubd")
        expect(rc != 0, "systemctl reload took a bad file")
        rc, _, err = host.try_sh("scrubctl config reload")
        expect(rc == 1 and "/etc/scrubd/scrubd.conf:3: no such option 'step_uss'" in err, f"it says: {err}")
        expect("scrubd.conf:3: no such option" in host.journal("stays as it was"), "nothing of it in the journal")
        host.boot.put("/etc/scrubd/scrubd.conf", 'step_us = 300\nduty_percent = 2\nscrub_cpus = "1"\n')
        host.sh("systemctl reload scrubd")
        expect(host.status()["mask"] == "1", "the mask is not in force")
        expect("step_us was 200, is now 300" in host.journal("configuration:"), "the journal does not say what changed")
        host.boot.put("/etc/scrubd/scrubd.conf", "step_us = 400\nduty_percent = 2\n")
        host.sh(f"kill -HUP {pid}")
        host.poll("SIGHUP is heeded", 5, lambda: "is now 400" in host.journal("step_us was"))
        expect(host.main_pid() == pid, "scrubd was restarted")
    return figures


@scenario("journal-fields")
def journal_fields(host):
    """Lines about a domain can be found by its number, its uuid, and the job"""
    with host.unharmed():
        domid = host.victim("pv")
        h = host.sh(f"labhv domain {domid}").split()[2]
        uuid = "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))
        host.sh(f"hooked xl destroy {domid}")
        host.expect_gone(domid, 5)
    lines = host.poll("lines with fields", 10, lambda: host.sh(
        f"journalctl -u scrubd -o json --no-pager SCRUBD_DOMID={domid} SCRUBD_UUID={uuid}").splitlines())
    entries = [json.loads(line) for line in lines]
    expect(any("dead after" in e["MESSAGE"] for e in entries), f"not the last one among {len(entries)}")
    expect(all(e["SCRUBD_JOB"] == entries[0]["SCRUBD_JOB"] and e["SYSLOG_IDENTIFIER"] == "scrubd" and
               e["_SYSTEMD_UNIT"] == "scrubd.service" for e in entries), f"{entries}")
    return {"lines": len(entries)}


@scenario("xenstored-hangs", last=True)
def xenstored_hangs(host):
    """xenstored is stopped during a teardown: steps go on, scrubd answers, status and journal say so"""
    with teardown(host) as figures:
        host.sh("kill -STOP $(pgrep -x 'xenstored|oxenstored')")
        try:
            host.poll("the status says so", 15,
                      lambda: "xenstored does not answer" in (host.status().get("reason") or ""))
            go_on(host, "without xenstored")
            longest = max(float(host.sh("s=$(date +%s%N); scrubctl status >/dev/null; e=$(date +%s%N); "
                                        "echo $(((e - s) / 1000000))")) for _ in range(5))
            expect(longest < 1000, f"scrubctl status took {longest} ms")
            # A restart in the midst of it comes up all the same; the caller does the rest meanwhile.
            host.sh("systemctl kill -s KILL scrubd; poll 20 scrubctl status")
            host.poll("the new one says so too", 15,
                      lambda: "xenstored" in (host.status().get("reason") or ""))
            host.poll("the domain is dead but for its rings", 30,
                      lambda: int((host.sh(f"labhv domain {figures['domid']}").split() + ["0"])[1]) < 64)
        finally:
            host.sh("kill -CONT $(pgrep -x 'xenstored|oxenstored')")
        host.poll("it answers again", 20, lambda: not host.status().get("reason"))
        expect("xenstored answers again" in host.journal(), "the journal does not say so")
        figures["status_ms"] = longest
    return figures


@scenario("socket-removed")
def socket_removed(host):
    """The socket, then its whole directory is removed: scrubd can be reached again, a destroy goes through it"""
    with host.unharmed() as figures:
        for what in ("/run/scrubd/scrubd.sock", "/run/scrubd"):
            host.sh(f"rm -rf {what}")
            host.poll(f"scrubd serves after rm -rf {what}", 20, lambda: host.try_sh("scrubctl status")[0] == 0)
            domid = host.victim("pv")
            host.sh(f"hooked xl destroy {domid}")
            host.end_of_job(domid)
        expect("listening there anew" in host.journal(), "the journal does not say so")
        host.sh("systemctl restart scrubd.service; poll 15 scrubctl status")
    # The unit's own socket again, for who comes after.
    host.sh("systemctl stop scrubd.socket scrubd.service; systemctl start scrubd.socket scrubd.service; "
            "poll 15 scrubctl status")
    return figures


@scenario("config-removed")
def config_removed(host):
    """Without its configuration file scrubd starts and goes by the defaults"""
    with teardown(host) as figures:
        host.sh("mv /etc/scrubd /etc/scrubd.away; systemctl kill -s KILL scrubd; poll 20 scrubctl status")
        host.sh("mv /etc/scrubd.away /etc/scrubd")
        expect(host.status()["state"] == "ready", "not ready")
    return figures


@scenario("disk-full")
def disk_full(host):
    """/run has no room left: a teardown goes on, and a killed scrubd comes back"""
    with teardown(host) as figures:
        host.sh("mount -o remount,size=$(($(df --output=used /run | tail -1) * 1024)) /run; "
                "dd if=/dev/zero of=/run/lab-fill bs=4k count=100000 2>/dev/null; test $(df --output=avail /run | tail -1) = 0")
        try:
            go_on(host, "with a full /run")
            host.sh("systemctl kill -s KILL scrubd; poll 20 scrubctl status")
        finally:
            host.sh("rm -f /run/lab-fill; mount -o remount,size=20% /run")
    return figures


@scenario("clock-jump")
def clock_jump(host):
    """The wall clock jumps a day ahead and back during a teardown: its pace, the callers and the lease do not care"""
    with teardown(host, config=SLOW + 'scrub_cpus = "1"\nlease_s = 5\n') as figures:
        pid, restarts = host.main_pid(), host.restarts()
        for jump in ("+1 day", "-2 days", "+1 day"):
            host.sh(f"date -s '{jump}'")
            go_on(host, f"after {jump}")
            expect(host.scrub()["mask_set"], f"the mask is gone after {jump}")
            elapsed_ms = [j["elapsed_ms"] for j in host.jobs()]
            expect(elapsed_ms and elapsed_ms[0] < 600000, f"elapsed_ms jumped too, or the end was hurried: {elapsed_ms}")
        expect((host.main_pid(), host.restarts()) == (pid, restarts), "scrubd was restarted")
    return figures


@scenario("oom-kill")
def oom_kill(host):
    """The kernel kills scrubd for its memory: it comes back and adopts"""
    with teardown(host) as figures:
        restarts = host.restarts()
        # Its cgroup is made too small for what it has: the kernel has nothing else to kill in there.
        host.sh("g=/sys/fs/cgroup$(systemctl show -P ControlGroup scrubd); echo +memory > /sys/fs/cgroup/cgroup.subtree_control; "
                "echo +memory > /sys/fs/cgroup/system.slice/cgroup.subtree_control; echo 64K > $g/memory.max; "
                "i=0; while [ $i -lt 20 ]; do scrubctl status >/dev/null; i=$((i + 1)); done; true")
        host.poll("killed and restarted", 20, lambda: host.restarts() > restarts)
        result = host.sh("journalctl -k --no-pager | grep -c 'Memory cgroup out of memory' || true").strip()
        expect(int(result) > 0, "it was not the kernel that killed it")
        host.sh("poll 20 scrubctl status")
    return figures


@scenario("watchdog")
def watchdog(host):
    """A scrubd that stands still is killed by the watchdog, and comes back; the destroy ends meanwhile"""
    host.sh("mkdir -p /run/systemd/system/scrubd.service.d; printf '[Service]\\nWatchdogSec=3\\n' "
            "> /run/systemd/system/scrubd.service.d/lab.conf; systemctl daemon-reload")
    try:
        with teardown(host) as figures:
            restarts = host.restarts()
            time.sleep(4)  # with a loop that turns nothing happens
            expect(host.restarts() == restarts, "killed without a reason")
            host.sh("kill -STOP $(systemctl show -P MainPID scrubd)")
            host.poll("killed and restarted", 20, lambda: host.restarts() == restarts + 1)
            host.sh("poll 20 scrubctl status")
    finally:
        host.sh("rm -rf /run/systemd/system/scrubd.service.d; systemctl daemon-reload")
    return figures


# In dom0: a destroy with kills at random instants, or, every other time, at random instants once it is under way. Prints
# how many found it half torn down.
KILLER = r"""
import os, random, signal, subprocess, sys, time
domid, kills, seed, wait = (int(a) for a in sys.argv[1:5])
rnd, hits = random.Random(seed), 0
def look():
    state, pages = (subprocess.run(["labhv", "domain", str(domid)], stdout=subprocess.PIPE, text=True).stdout.split() + ["0"])[:2]
    return state, int(pages)
full = look()[1]
def life():
    # Xen shows a domain that is half torn down as a paused one, with fewer pages.
    state, pages = look()
    return "dying" if state != "none" and pages < full - 64 else state
def scrubd(): return int(subprocess.run(["systemctl", "show", "-P", "MainPID", "scrubd"], stdout=subprocess.PIPE).stdout)
def call():
    return subprocess.Popen(["xl", "destroy", str(domid)], start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/scrubd/libscrubhook.so"})
caller = call()
end = time.monotonic() + 60
while wait and life() == "alive" and time.monotonic() < end: pass
for _ in range(kills):
    time.sleep(rnd.uniform(0, 1))
    victims = rnd.choice(("scrubd", "caller", "both"))
    hits += life() == "dying"
    pid = scrubd() if victims != "caller" else 0
    if pid: os.kill(pid, signal.SIGKILL)
    if victims != "scrubd":
        try: os.killpg(caller.pid, signal.SIGKILL)
        except ProcessLookupError: pass
        caller.wait()
        if life() == "alive": caller = call()
end = time.monotonic() + 120
while life() != "none" and time.monotonic() < end:
    if life() == "alive" and caller.poll() is not None: caller = call()
    time.sleep(0.1)
caller.wait(60)
print(hits, life())
"""


@scenario("kills", guests=("pv", "pvh"), last=True, everyday=("pv",))
def kills(host, guest):
    """SIGKILL at random instants of scrubd, the caller, or both: every domain goes, no memory is lost or dirty"""
    seed = SEED or random.randrange(1, 1 << 30)
    print(f"SCRUBD_LAB_SEED={seed}", flush=True)
    total = hits = 0
    host.boot.put("/root/killer.py", KILLER)
    with host.configured(SLOW), host.unharmed() as figures:
        while total < KILLS:
            domid = host.victim(guest, mem=192)
            found, life = host.sh(f"python3 /root/killer.py {domid} 5 {seed + total} {total // 5 % 2 ^ 1}", 300).split()
            expect(life == "none", f"domain {domid} is still there: {life}")
            total, hits = total + 5, hits + int(found)
        host.sh("poll 20 scrubctl status")
        expect(not host.jobs(), f"jobs are left: {host.jobs()}")
        domains = host.sh("xl list").strip().splitlines()
        expect(len(domains) == 3, "not just dom0 and the bystander:\n" + "\n".join(domains))
        figures.update(kills=total, half_way=hits)
    expect(hits >= total // 10, f"only {hits} of {total} kills found the domain half torn down")
    return figures
