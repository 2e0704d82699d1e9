#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scrubctl itself against a scripted scrubd, and against a libxl that only pretends: what it asks, what it
prints for people and for programs, its exit codes, and what it says when things are not as they should be.
TAP on standard output.

usage: test-scrubctl.py SCRUBCTL FAKE-LIBXL VERSION [sanitized]
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import tap
from case import FAKE_LIBXL, SCRUBCTL, VERSION, Case, Terminal, contains, equal
from scripted import error, reply

UUID_7 = "6f1b6d6e-0f53-4c1c-9d70-2b4b9b0c7a07"

JOB = {"id": 1, "domid": 7, "uuid": UUID_7, "name": "web-3", "state": "freeing", "adopted": False,
       "pages_total": 1048576, "pages_left": 524288, "steps": 100, "hypervisor_us": 450000, "elapsed_ms": 1300,
       "rate_kib_s": 1677722, "eta_ms": 1250, "priority": 0, "hurry": True, "purpose": "reboot", "toolstack_ms": 2500,
       "waiting_ms": 800, "freeing_ms": 500, "scrubbing_ms": 100}
LONG_JOB = dict(JOB, domid=32751, name="a-name-of-sixty-four-letters" * 2, state="scrubbing", pages_total=2**40, pages_left=2**40 - 1,
                rate_kib_s=2**30, eta_ms=10**8, purpose="soft-reset", toolstack_ms=10**8, waiting_ms=10**8, freeing_ms=10**8,
                scrubbing_ms=10**8)
DEAD_JOB = dict(JOB, state="dead", pages_left=0, elapsed_ms=2100, eta_ms=0)
STATUS = {"version": "0.1.0", "state": "ready", "xen": "4.17.5", "uptime_s": 7980, "jobs": 1, "jobs_done": 14,
          "backlog_pages": 12288, "baseline_pages": 256, "mask": "0",
          "nodes": [{"node": 0, "ceiling_kib": 204800, "floor_kib": 20480, "dirty_pages": 12544, "backlog_pages": 12288, "dirtied": 3000000, "idle": 2800000,
                     "alloc": 80000, "dropped": 0, "floor": 100000, "throttled_ms": 1500}],
          "cpus": [{"cpu": 0, "allowed": True, "scrubbed_pages": 2900000},
                   {"cpu": 1, "allowed": False, "scrubbed_pages": 0}],
          "zombies": []}
ZOMBIES = [{"domid": 4, "uuid": UUID_7, "name": "db", "pages": 3, "dead_ms": 125000},
           {"domid": 123, "uuid": UUID_7, "pages": 1, "dead_ms": 2100}]
ZOMBIES_TEXT = ("\nDOMID  ZOMBIE    KEEPS   DEAD FOR\n"
                "    4  db      3 pages  2 min 5 s\n"
                "  123  -       1 pages      2.1 s\n")
DEGRADED = {"version": "0.1.0", "state": "degraded", "reason": "unpatched hypervisor", "xen": "4.17.5",
            "uptime_s": 3, "jobs": 0, "jobs_done": 0, "nodes": [], "cpus": [], "zombies": []}


def explained(text, column, explanations):
    """Each is in the right column of the table, however long what is explained."""
    for explanation in explanations:
        lines = [line for line in text.splitlines() if line.endswith("  " + explanation)]
        equal([line.index(explanation) for line in lines], [column])


def test_help_and_version():
    with Case() as c:
        equal(c.run("--version"), (0, "scrubctl %s\n" % VERSION, ""))
        rc, out, err = c.run("help")
        equal((rc, err), (0, ""))
        for verb in ("destroy DOMAIN", "priority DOMAIN NUMBER", "wait", "limit", "config reload", "plan DOMAIN", "history [DOMAIN]", "doctor"):
            contains(out, "\n  " + verb)
        equal(c.run("--help"), (0, out, ""))
        equal(c.run(), (2, "", out))
        rc, table, err = c.run("help", "--json")
        equal((rc, err), (0, ""))
        table = json.loads(table)["commands"]
        assert len(table) >= 16, table
        explained(out, 26, [v["summary"] for v in table])
        for verb in (command["name"] for command in table):
            contains(out, "\n  " + verb)
            equal(json.loads(c.run("help", verb, "--json")[1]), {"commands": [v for v in table if v["name"] == verb]})
            rc, text, err = c.run("help", verb)
            equal((rc, err), (0, ""))
            contains(text, "usage: scrubctl ")
            if verb != "help":
                explained(text, 22, [o["help"] for v in table if v["name"] == verb for o in v["options"]])
            equal(c.run(verb, "--help"), (0, text, "") if verb != "help" else c.run(verb, "--help"))
            out += text
        long = [line for line in out.splitlines() if len(line) > 80]
        equal(long, [])


def test_loads_little():
    """libxl and libsystemd, with all that they need, only for a verb that calls them: it is most of the time of the others."""
    env = {k: v for k, v in Case().env(LD_TRACE_LOADED_OBJECTS="1").items() if k != "LD_PRELOAD"}
    loaded = subprocess.run([SCRUBCTL, "status"], env=env, capture_output=True, text=True, check=True).stdout
    contains(loaded, "libjson-c.so")
    equal(re.findall("libxen[a-z]*|libsystemd", loaded), [])


def test_libxl_is_found():
    """The real one; this is no Xen host."""
    env = {k: v for k, v in Case().env().items() if k != "LD_PRELOAD"}
    done = subprocess.run([SCRUBCTL, "destroy", "7"], env=env, capture_output=True, text=True, check=False)
    equal(done.returncode, 1)
    contains(done.stderr, "cannot speak to Xen")


def test_usage_errors():
    with Case(SetLimit=[reply({"ceiling_kib": 0, "mask": "0"})]) as c:
        for argv, message in (
                (["lst"], 'no command "lst"; did you mean "list"?'),
                (["help", "lst"], 'no command "lst"; did you mean "list"?'),
                (["frobnicate"], 'no command "frobnicate"; see scrubctl help'),
                (["destroy"], "destroy needs DOMAIN; see scrubctl help destroy"),
                (["destroy", "1", "2"], 'destroy: "2" is one argument too many'),
                (["status", "now"], 'status: "now" is one argument too many'),
                (["limit", "--ceiling", "fast"], "--ceiling: "),
                (["limit", "--ceiling", "200"], "--ceiling: "),
                (["limit", "--ceiling", "-3M"], "--ceiling: "),
                (["limit", "--cpus", "3-1"], "--cpus: "),
                (["limit", "--cpus", ""], "--cpus: "),
                (["limit", "--cpus"], "option '--cpus' requires an argument"),
                (["limit", "--cpu-list", "1"], "unrecognized option '--cpu-list'"),
                (["--jason", "status"], "unrecognized option '--jason'"),
                (["destroy", "7", "--deadline", "30"], '--deadline: "30" is not a time: expected one like 30s'),
                (["destroy", "7", "--deadline", "0s"], "--deadline: "),
                (["destroy", "7", "--priority", "11"], "--priority: not a number from -10 to 10"),
                (["destroy", "7", "--priority", ""], "--priority: "),
                (["hurry", "7", "--deadline", "25h"], '--deadline: "25h" is not between 1ms and 24h'),
                (["hurry", "7", "--deadline", "-1s"], "--deadline: "),
                (["hurry", "7", "--deadline", "1e9s"], "--deadline: "),
                (["pause"], "pause needs DOMAIN"),
                (["priority", "7"], "priority needs DOMAIN NUMBER"),
                (["priority", "7", "1x"], "NUMBER: not a number from -10 to 10"),
                (["priority", "7", "99999999999999999999"], "NUMBER: not a number from -10 to 10"),
                (["wait"], "wait needs --free SIZE or --clean"),
                (["wait", "--free", "8"], "--free: "),
                (["wait", "--free", "1K"], "--free: less than 1M is no amount to wait for"),
                (["wait", "--clean", "--timeout", "soon"], "--timeout: "),
                (["protect", "--off"], "--off: of which domain or pattern?"),
                (["protect", "a", "b"], 'protect: "b" is one argument too many'),
                (["limit", "--cpus", "1", "--for", "10"], '--for: "10" is not a time: expected one like 30s'),
                (["limit", "--for", "10m"], "--for: of what? Give --ceiling or --cpus too"),
                (["completion", "fish"], 'completion knows bash, zsh, domains and jobs, not "fish"'),
                (["watch", "--interval", "0.5"], '--interval: "0.5" is not a time: expected one like 30s'),
                (["watch", "--interval", "49ms"], '--interval: "49ms" is not between 50ms and 1m'),
                (["watch", "--interval", "61s"], '--interval: "61s" is not between 50ms and 1m')):
            rc, out, err = c.run(*argv)
            equal((rc, out), (2, ""))
            contains(err, message)
        rc, out, err = c.run("--json", "limit", "--cpus", "x")
        equal((rc, json.loads(out)["error"]), (2, "usage"))
        equal(c.scrubd.calls, [])


def test_scrubd_is_down():
    with Case() as c:
        want = ("scrubctl: scrubd is not running: cannot connect to %s: No such file or directory\n"
                "Start it with: systemctl start scrubd.socket\n" % c.path)
        for argv in (["status"], ["list"], ["watch"], ["limit"], ["limit", "--cpus", "all"], ["cpus"],
                     ["protect"], ["protect", "x"], ["reset"]):
            equal(c.run(*argv), (3, "", want))
        rc, out, err = c.run("status", "--json")
        equal((rc, err, json.loads(out)), (3, want, {"error": "unreachable", "message": want[10:-1]}))
        refuses = socket.socket(socket.AF_UNIX)
        refuses.bind(c.path)
        rc, out, err = c.run("list")
        equal((rc, out), (3, ""))
        contains(err, "scrubd is not running: cannot connect to %s: Connection refused" % c.path)


def test_scrubd_hangs_up():
    with Case(GetStatus=[], ListJobs=[reply({"job": JOB}, more=True)], Watch=[]) as c:
        for verb in ("status", "list", "watch"):
            rc, out, err = c.run(verb)
            equal((rc, out), (3, ""))
            contains(err, "scrubctl: scrubd has ended: ")


def test_scrubd_does_not_answer():
    with Case(GetStatus=["hang"]) as c:
        rc, out, err = c.run("status")
        equal((rc, out), (3, ""))
        contains(err, "scrubctl: scrubd does not answer: ")


def test_error_replies():
    for name, params, message in (
            ("org.scrubd.PermissionDenied", {}, "only root may do that"),
            ("org.varlink.service.PermissionDenied", {}, "only root may do that"),
            ("org.scrubd.Degraded", {"reason": "unpatched hypervisor"},
             "scrubd runs degraded: unpatched hypervisor"),
            ("org.scrubd.InvalidLimit", {"field": "mask", "reason": "no online CPU in 9"}, "--cpus: no online CPU in 9"),
            ("org.scrubd.InvalidLimit", {"field": "ceiling_kib", "reason": "too large"}, "--ceiling: too large"),
            ("org.scrubd.InvalidLimit", {"field": "for_ms", "reason": "too long"}, "--for: too long"),
            ("org.scrubd.Refused", {"reason": "shutting down"}, "shutting down"),
            ("org.varlink.service.MethodNotFound", {"method": "org.scrubd.SetLimit"},
             "scrubd does not understand this request (org.varlink.service.MethodNotFound): is it another version?"),
            ("org.else.Strange", {}, "org.else.Strange")):
        with Case(SetLimit=[error(name, **params)]) as c:
            equal(c.run("limit", "--cpus", "9"), (1, "", "scrubctl: %s\n" % message))
            rc, out, err = c.run("limit", "--cpus", "9", "--json")
            equal((rc, json.loads(out)), (1, {"error": name, "message": message}))


def test_status():
    with Case(GetStatus=[reply(STATUS)]) as c:
        equal(c.run("status"), (
            0, "scrubd 0.1.0 is ready\n"
               "  Xen        4.17.5\n"
               "  up         2 h 13 min\n"
               "  jobs       1 now, 14 done\n"
               "  backlog    48.0M to scrub, baseline 1.00M\n"
               "  scrubbing  on CPUs 0\n"
               "\n"
               "NODE    FLOOR  CEILING  DIRTY  SCRUBBED  AT ALLOCATION  THROTTLED\n"
               "0     20.0M/s   200M/s  49.0M     11.1G           312M      1.5 s\n", ""))
        rc, out, err = c.run("status", "--cpus")
        contains(out, "\nCPU  MAY SCRUB  SCRUBBED\n0    yes           11.1G\n1    no               0K\n")
        equal(c.scrubd.calls, [{"method": "org.scrubd.GetStatus", "parameters": {}}] * 2)
        for argv in (["status", "--json"], ["--json", "status"]):
            rc, out, err = c.run(*argv)
            equal((rc, json.loads(out), err), (0, STATUS, ""))
    for by_hand, lines in (({"ceiling_kib": 204800, "ceiling_for_ms": 580000},
                            "  by hand    ceiling  200M/s on each node, for 9 min 40 s more\n"),
                           ({"ceiling_kib": 0, "mask": "auto", "mask_for_ms": 900},
                            "  by hand    ceiling  none\n  by hand    CPUs     auto, for 0.9 s more\n")):
        with Case(GetStatus=[reply(dict(STATUS, by_hand=by_hand))]) as c:
            contains(c.run("status")[1], "  scrubbing  on CPUs 0\n" + lines + "\nNODE")
    with Case(GetStatus=[reply(dict(STATUS, zombies=ZOMBIES))]) as c:
        rc, out, err = c.run("status")
        contains(out, "1.5 s\n" + ZOMBIES_TEXT)
    with Case(GetStatus=[reply(DEGRADED)]) as c:
        equal(c.run("status"), (0, "scrubd 0.1.0 is degraded: unpatched hypervisor\n"
                                   "  Xen        4.17.5\n"
                                   "  up         3.0 s\n"
                                   "  jobs       0 now, 0 done\n", ""))


def test_list():
    other = {"id": 2, "domid": 12, "uuid": UUID_7, "state": "queued", "adopted": True, "pages_total": 131072,
             "pages_left": 131072, "steps": 0, "hypervisor_us": 0, "elapsed_ms": 100, "rate_kib_s": 0, "priority": -3,
             "hurry": False, "waiting_ms": 100, "freeing_ms": 0}
    with Case(ListJobs=[reply({"job": JOB}, more=True), reply({"job": other})], GetStatus=[reply(STATUS)]) as c:
        equal(c.run("list"), (
            0, "DOMID  NAME    PRIO  STATE     LEFT     OF     RATE  TIME LEFT\n"
               "    7  web-3  hurry  freeing  2.00G  4.00G  1.60G/s      1.2 s\n"
               "   12  -         -3  queued    512M   512M     0K/s          -\n", ""))
        equal(c.scrubd.calls, [{"method": "org.scrubd.ListJobs", "parameters": {}, "more": True},
                               {"method": "org.scrubd.GetStatus", "parameters": {}}])
        equal(c.run("list", "--stages"), (
            0, "DOMID  NAME   FOR     TOOLSTACK  WAITING  FREEING  SCRUBBING\n"
               "    7  web-3  reboot      2.5 s    0.8 s    0.5 s      0.1 s\n"
               "   12  -      -               -    0.1 s    0.0 s          -\n", ""))
        rc, out, err = c.run("list", "--json")
        equal((rc, json.loads(out), err), (0, {"jobs": [JOB, other], "zombies": []}, ""))
    with Case(ListJobs=[reply({"job": LONG_JOB})], GetStatus=[reply(STATUS)]) as c:
        for argv in (["list"], ["list", "--stages"]):
            widest = max(len(line) for line in c.run(*argv)[1].splitlines())
            assert widest <= 80, widest
    with Case(ListJobs=[reply({})], GetStatus=[reply(dict(STATUS, zombies=ZOMBIES))]) as c:
        equal(c.run("list"), (0, "No domain is being destroyed.\n" + ZOMBIES_TEXT, ""))
        equal(json.loads(c.run("list", "--json")[1]), {"jobs": [], "zombies": ZOMBIES})
    with Case(ListJobs=[reply({"job": dict(JOB, name="e\033[2Jvil\n")})], GetStatus=[reply(STATUS)]) as c:
        contains(c.run("list")[1], "  e?[2Jvil?  ")


def test_changes_of_a_job():
    paused = dict(JOB, state="paused", paused_ms=600000)
    infeasible = "the deadline in 1 ms cannot be met"
    jobs = [reply({"job": JOB}, more=True), reply({"job": dict(JOB, id=2, domid=8, name="db", uuid=UUID_7[::-1])})]
    with Case(ListJobs=jobs, Pause=[reply({"job": paused})], Resume=[reply({"job": JOB})],
              Hurry=[reply({"job": JOB, "reason": infeasible})], SetPriority=[reply({"job": JOB})]) as c:
        for argv, method, params, out, err in (
                (["pause", "web-3"], "Pause", {}, "web-3 (7): paused, for 10 min 0 s at most\n", ""),
                (["pause", UUID_7.upper()], "Pause", {}, "web-3 (7): paused, for 10 min 0 s at most\n", ""),
                (["resume", "7"], "Resume", {}, "web-3 (7): goes on\n", ""),
                (["hurry", "7"], "Hurry", {}, "web-3 (7): as fast as can be\n", "scrubctl: %s\n" % infeasible),
                (["hurry", "7", "--deadline", "1.5m"], "Hurry", {"deadline_ms": 90000},
                 "web-3 (7): to be dead in 1 min 30 s\n", "scrubctl: %s\n" % infeasible),
                (["priority", "7", "--", "-10"], "SetPriority", {"priority": -10}, "web-3 (7): priority -10\n", "")):
            equal(c.run(*argv), (0, out, err))
            equal(c.scrubd.calls[-1], {"method": "org.scrubd." + method,
                                       "parameters": {**params, "domid": 7, "uuid": UUID_7}})
        equal(json.loads(c.run("pause", "7", "--json")[1]), {"job": paused})
        before = len(c.scrubd.calls)
        for domain in ("nobody", "70", "", "a\033"):
            rc, out, err = c.run("pause", domain)
            equal((rc, out, err), (1, "", 'scrubctl: no domain "%s" is being destroyed\n' % domain.replace("\033", "?")))
        equal({call["method"] for call in c.scrubd.calls[before:]}, {"org.scrubd.ListJobs"})
    with Case(ListJobs=jobs, Pause=[error("org.scrubd.NoSuchJob", domid=7)]) as c:
        equal(c.run("pause", "7"), (1, "", "scrubctl: domain 7 is not being destroyed\n"))


def test_wait():
    waiting = {"event": "waiting", "free_mib": 1024, "backlog_pages": 12288, "eta_ms": 2000}
    done = {"event": "done", "free_mib": 8192, "backlog_pages": 0}
    with Case(Wait=[reply(waiting, more=True), reply(done)]) as c:
        equal(c.run("wait", "--free", "8G", "--timeout", "30s"), (0, "", ""))
        equal(c.scrubd.calls[-1], {"method": "org.scrubd.Wait", "more": True,
                                   "parameters": {"free_mib": 8192, "timeout_ms": 30000}})
        rc, out, err = c.run("wait", "--clean", "--json")
        equal((rc, json.loads(out), err), (0, done, ""))
        equal(c.scrubd.calls[-1]["parameters"], {"clean": True})
        t = Terminal(c, "wait", "--clean")
        equal(t.finish(), 0)
        contains(t.output, b"\r1.00G free, 48.0M to be scrubbed, 2.0 s")
    with Case(Wait=[reply(dict(waiting, event="timeout"))]) as c:
        equal(c.run("wait", "--clean"), (1, "", "scrubctl: in vain: 1.00G free, 48.0M to be scrubbed, 2.0 s\n"))
        equal(c.run("wait", "--clean", "--json")[0], 1)
    with Case(Wait=[error("org.scrubd.Degraded", reason="unpatched hypervisor")]) as c:
        equal(c.run("wait", "--clean"), (1, "", "scrubctl: scrubd runs degraded: unpatched hypervisor\n"))
    with Case(Wait=[reply(waiting, more=True)]) as c:
        equal(c.run("wait", "--clean")[0], 3)


def test_config_reload():
    with Case(ReloadConfig=[reply({"changed": [{"key": "step_us", "from": "2000", "to": "500"},
                                               {"key": "protect", "from": "{}", "to": "{web*}"}]})]) as c:
        equal(c.run("config", "reload"), (0, "step_us: 2000 -> 500\nprotect: {} -> {web*}\n", ""))
        equal(c.scrubd.calls.pop()["method"], "org.scrubd.ReloadConfig")
        equal(json.loads(c.run("config", "reload", "--json")[1])["changed"][0]["key"], "step_us")
        equal(c.run("config", "relaod"), (2, "", 'scrubctl: config knows reload, not "relaod"\n'))
        equal(c.run("config")[0], 2)
    with Case(ReloadConfig=[reply({"changed": []})]) as c:
        equal(c.run("config", "reload"), (0, "Nothing has changed.\n", ""))
    with Case(ReloadConfig=[error("org.scrubd.InvalidConfig", reason="/x.conf:3: no such option 'y'")]) as c:
        equal(c.run("config", "reload"), (1, "", "scrubctl: /x.conf:3: no such option 'y'\n"))


def test_cpus():
    def cpu(number, why, allowed, **more):
        place = {"node": number // 4, "socket": 0, "core": number // 2, "cpupool": 0} if why != "offline" else {}
        return {"cpu": number, "online": why != "offline", "allowed": allowed, "why": why, **place, **more}

    web = {"domid": 5, "uuid": UUID_7, "name": "web"}
    cpus = [cpu(0, "free", True), cpu(1, "everywhere", True, **web), cpu(2, "node_needs_sibling", True, sibling=3, **web),
            cpu(3, "node_needs_soft", True, **web), cpu(4, "last", True, domid=6, uuid=UUID_7),
            cpu(5, "offline", False), cpu(6, "hard", False, **dict(web, name="e\033[2Jvil" + "x" * 50)),
            cpu(7, "soft", False, **web), cpu(8, "sibling", False, sibling=9, **web), cpu(9, "all", True),
            cpu(10, "listed", True), cpu(11, "not_listed", False), cpu(12, "new", False)]
    del cpus[12]["cpupool"]
    with Case(ListCpus=[reply({"cpu": c}, more=c["cpu"] != 12) for c in cpus]) as c:
        equal(c.run("cpus"), (
            0, "CPU  NODE  SOCKET  CORE  POOL  MAY SCRUB  WHY\n"
               "  0     0       0     0     0  yes        nothing is against it\n"
               "  1     0       0     0     0  yes        web (domain 5) is protected, but may\n"
               "                                          run on every CPU\n"
               "  2     0       0     1     0  yes        shares its core with CPU 3 of web\n"
               "                                          (domain 5), but its node has no other\n"
               "  3     0       0     1     0  yes        web (domain 5) had better run here,\n"
               "                                          but its node has no other\n"
               "  4     1       0     2     0  yes        domain 6 may run here, but all CPUs\n"
               "                                          are taken by protected domains\n"
               "  5     -       -     -     -  no         offline\n"
               "  6     1       0     3     0  no         kept clear for\n"
               "                                          e?[2Jvilxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
               "                                          .. (domain 5)\n"
               "  7     1       0     3     0  no         kept clear for web (domain 5), which\n"
               "                                          had better run here\n"
               "  8     2       0     4     0  no         shares its core with CPU 9, kept clear\n"
               "                                          for web (domain 5)\n"
               "  9     2       0     4     0  yes        all CPUs are to scrub\n"
               " 10     2       0     5     0  yes        on the list that was set\n"
               " 11     2       0     5     0  no         not on the list that was set\n"
               " 12     3       0     6     -  no         new\n", ""))
        equal(c.scrubd.calls, [{"method": "org.scrubd.ListCpus", "parameters": {}, "more": True}])
        rc, out, err = c.run("cpus", "--json")
        equal((rc, json.loads(out), err), (0, {"cpus": cpus}, ""))
    with Case(ListCpus=[error("org.scrubd.Degraded", reason="unpatched hypervisor")]) as c:
        equal(c.run("cpus"), (1, "", "scrubctl: scrubd runs degraded: unpatched hypervisor\n"))


def test_protect():
    with Case(Protect=[reply({"domains": 2})]) as c:
        for argv, params, says in (
                (["web*"], {"pattern": "web*", "on": True}, "web* is protected: 2 domains; see scrubctl cpus\n"),
                (["7"], {"domid": 7, "on": True}, "domain 7 is protected; see scrubctl cpus\n"),
                (["uuid:" + UUID_7, "--off"], {"pattern": "uuid:" + UUID_7, "on": False},
                 "uuid:" + UUID_7 + " is no longer protected by scrubctl.\n"),
                (["1234567890123"], {"pattern": "1234567890123", "on": True},
                 "1234567890123 is protected: 2 domains; see scrubctl cpus\n")):
            equal(c.run("protect", *argv), (0, says, ""))
            equal(c.scrubd.calls.pop(), {"method": "org.scrubd.Protect", "parameters": params})
        equal(json.loads(c.run("protect", "x", "--json")[1]), {"domains": 2})
    with Case(Protect=[reply({"domains": 0})]) as c:
        equal(c.run("protect", "x\033")[1], "x? is protected, but there is no such domain at present\n")
    with Case(Protect=[error("org.scrubd.NoSuchDomain", domid=7)]) as c:
        equal(c.run("protect", "7"), (1, "", "scrubctl: there is no domain 7\n"))
    with Case(Protect=[error("org.scrubd.NotAllowed", domid=0, reason="domain 0 cannot be protected")]) as c:
        equal(c.run("protect", "0"), (1, "", "scrubctl: domain 0 cannot be protected\n"))
    items = [{"by": "pin", "domid": 5, "uuid": UUID_7, "name": "rt", "cpus": "2-3"},
             {"by": "name", "rule": "web*", "domid": 12, "uuid": UUID_7, "cpus": "0-7"},
             {"by": "request", "rule": "later"}]
    with Case(ListProtected=[reply({"protected": item}, more=item != items[-1]) for item in items]) as c:
        equal(c.run("protect"), (
            0, "DOMID  NAME  MAY RUN ON  PROTECTED BY               RULE\n"
               "    5  rt    2-3         pinned to CPUs of its own  -\n"
               "   12  -     0-7         configuration              web*\n"
               "    -  -     -           scrubctl protect           later\n", ""))
        equal(json.loads(c.run("protect", "--json")[1]), {"protected": items})
    with Case(ListProtected=[reply({})]) as c:
        equal(c.run("protect"), (0, "No domain is protected.\n", ""))


def test_limit_and_reset():
    with Case(SetLimit=[reply({"ceiling_kib": 204800, "mask": "0-3,6"})], Reset=[reply({})]) as c:
        want = (0, "ceiling  200M/s on each node\nCPUs     0-3,6\n", "")
        for argv, params in (
                (["limit"], {}),
                (["limit", "--ceiling", "200M"], {"ceiling_kib": 204800}),
                (["limit", "--ceiling=1.5G"], {"ceiling_kib": 1572864}),
                (["limit", "--ceiling", "none"], {"ceiling_kib": 0}),
                (["limit", "--ceiling", "0"], {"ceiling_kib": 0}),
                (["limit", "--cpus", "0-3,6"], {"mask": "0-3,6"}),
                (["limit", "--cpus", "auto"], {"mask": "auto"}),
                (["limit", "--cpus", "1", "--for", "1m30s"], {"mask": "1", "for_ms": 90000}),
                (["limit", "--ceiling", "none", "--for=10 min"], {"ceiling_kib": 0, "for_ms": 600000}),
                (["limit", "--cpus", "all", "--ceiling", "64M/s"], {"mask": "all", "ceiling_kib": 65536})):
            equal(c.run(*argv), want)
            call = c.scrubd.calls.pop()
            equal((call["method"], call.get("parameters", {})), ("org.scrubd.SetLimit", params))
        equal(json.loads(c.run("limit", "--json")[1]), {"ceiling_kib": 204800, "mask": "0-3,6"})
        equal(c.run("reset"), (0, "Limits are as the configuration file says.\n", ""))
        equal(c.scrubd.calls.pop()["method"], "org.scrubd.Reset")
        rc, out, err = c.run("reset", "--json")
        equal((rc, json.loads(out), err), (0, {}, ""))
    with Case(SetLimit=[reply({"ceiling_kib": 0, "mask": "0-7"})]) as c:
        equal(c.run("limit"), (0, "ceiling  none\nCPUs     0-7\n", ""))
    with Case(SetLimit=[reply({"ceiling_kib": 204800, "ceiling_for_ms": 600000, "mask": "0-7", "mask_for_ms": 0})]) as c:
        equal(c.run("limit"), (0, "ceiling  200M/s on each node, for 10 min 0 s more\nCPUs     0-7, for 0.0 s more\n", ""))


def destroys(domain, domid, label):
    with Case(Destroy=[reply({"event": "hello", "job": JOB}, more=True),
                       reply({"event": "heartbeat", "job": JOB}, more=True),
                       reply({"event": "dead", "job": DEAD_JOB})]) as c:
        equal(c.run("destroy", domain), (0, "destroyed %s: 4.00G in 2.1 s\n" % label, ""))
        equal(c.scrubd.calls, [{"method": "org.scrubd.Destroy", "parameters": {"domid": domid}, "more": True}])
        equal(c.real(), [])
        rc, out, err = c.run("destroy", domain, "--json")
        document = json.loads(out)
        equal((rc, err, document["destroyed"], document["by"], document["domid"]), (0, "", True, "scrubd", domid))
        equal(document["job"], DEAD_JOB)


def test_destroy():
    destroys("web-3", 7, "web-3 (domain 7)")
    destroys("7", 7, "web-3 (domain 7)")
    destroys(UUID_7, 7, "web-3 (domain 7)")
    destroys(UUID_7.upper(), 7, "web-3 (domain 7)")
    destroys("8", 8, "domain 8")
    destroys("9", 9, "evil?[2J? (domain 9)")


def test_destroy_options():
    hello = reply({"event": "hello", "job": JOB, "reason": "the deadline cannot be met"}, more=True)
    with Case(Destroy=[hello, reply({"event": "dead", "job": DEAD_JOB})]) as c:
        equal(c.run("destroy", "7", "--deadline", "2s", "--priority", "5"),
              (0, "destroyed web-3 (domain 7): 4.00G in 2.1 s\n", "scrubctl: the deadline cannot be met\n"))
        equal([call["parameters"] for call in c.scrubd.calls], [{"domid": 7, "deadline_ms": 2000, "priority": 5}])
        equal(c.run("destroy", "7", "--clean")[0], 0)
        equal([call["parameters"] for call in c.scrubd.calls[1:]],
              [{"domid": 7}, {"domid": 7, "uuid": UUID_7, "wait_clean": True}])
    with Case() as c:
        rc, out, err = c.run("destroy", "7", "--clean")
        equal((rc, c.real()), (1, [7]))
        contains(err, "when its memory is clean is not known: scrubd did not destroy it")


def test_destroy_without_scrubd():
    with Case() as c:
        equal(c.run("destroy", "web-3"), (0, "destroyed web-3 (domain 7)\n",
              "scrubctl: scrubd is not running. The domain was destroyed at full speed.\n"))
        equal(c.real(), [7])
        rc, out, err = c.run("destroy", "web-3", "--json")
        equal((rc, json.loads(out)), (0, {"domid": 7, "name": "web-3", "destroyed": True, "by": "libxl",
                                          "reason": "scrubd is not running"}))


def test_destroy_that_scrubd_does_not_want():
    for replies, why in (
            ([reply({"event": "decline", "reason": "unpatched hypervisor"})],
             "scrubd leaves it to its caller: unpatched hypervisor"),
            ([error("org.scrubd.Refused", reason="shutting down")], "scrubd refuses: shutting down"),
            ([error("org.scrubd.NoSuchDomain", domid=7)], "scrubd refuses: NoSuchDomain"),
            ([error("Strange")], "scrubd refuses: Strange"),
            ([reply({"event": "hello", "job": JOB}, more=True)], "scrubd hung up half-way"),
            ([{"nonsense": 1}], "scrubd's answer makes no sense")):
        with Case(Destroy=replies) as c:
            equal(c.run("destroy", "web-3"), (0, "destroyed web-3 (domain 7)\n",
                  "scrubctl: %s. The domain was destroyed at full speed.\n" % why))
            equal(c.real(), [7])


def test_destroy_refused():
    with Case(Destroy=[reply({"event": "dead", "job": DEAD_JOB})], ListJobs=[reply({})]) as c:
        for domain, kind, message in (
                ("0", "NotAllowed", "domain 0 runs this host: it cannot be destroyed"),
                ("Domain-0", "NotAllowed", "domain 0 runs this host: it cannot be destroyed"),
                ("00", "NotAllowed", "domain 0 runs this host: it cannot be destroyed"),
                ("4711", "NoSuchDomain", "there is no domain 4711"),
                ("32752", "NoSuchDomain", "there is no domain 32752"),
                ("4294967303", "NoSuchDomain", "there is no domain 4294967303"),
                ("99999999999999999999999", "NoSuchDomain", "there is no domain 99999999999999999999999"),
                ("nobody", "NoSuchDomain", 'there is no domain "nobody"; see xl list'),
                ("", "NoSuchDomain", 'there is no domain ""; see xl list'),
                ("a\033[2J", "NoSuchDomain", 'there is no domain "a?[2J"; see xl list'),
                ("-1", None, "")):
            rc, out, err = c.run("destroy", domain)
            if kind is None:
                equal((rc, out), (2, ""))
                continue
            equal((rc, out, err), (1, "", "scrubctl: %s\n" % message))
            rc, out, err = c.run("destroy", "--json", domain)
            equal((rc, json.loads(out)), (1, {"error": kind, "message": message}))
        equal(c.real(), [])
        equal([call for call in c.scrubd.calls if "Destroy" in call["method"]], [])
        rc, out, err = c.run("destroy", "7", FAKE_LIBXL_FAIL="1")
        equal((rc, out, err), (1, "", "scrubctl: cannot destroy web-3 (domain 7): libxl error -3\n"))
        rc, out, err = c.run("destroy", "7", FAKE_NO_XEN="1")
        equal((rc, out), (1, ""))
        contains(err, "scrubctl: cannot speak to Xen: ")


def test_destroy_by_the_name_of_a_job():
    """A domain that is being destroyed has lost its name; scrubd still knows it."""
    job = dict(JOB, domid=8, name="old-name")
    with Case(ListJobs=[reply({"job": JOB}, more=True), reply({"job": job})],
              Destroy=[reply({"event": "dead", "job": DEAD_JOB})]) as c:
        equal(c.run("destroy", "old-name"), (0, "destroyed old-name (domain 8): 4.00G in 2.1 s\n", ""))
        equal(c.scrubd.calls[-1]["parameters"], {"domid": 8})


def test_destroy_on_a_terminal():
    go_on = threading.Event()
    with Case(Destroy=[reply({"event": "hello", "job": JOB}, more=True), go_on,
                       reply({"event": "dead", "job": DEAD_JOB})]) as c:
        t = Terminal(c, "destroy", "web-3")
        t.read_until("50% freeing, 2.00G left, 1.60G/s, 1.2 s".encode())
        go_on.set()
        equal(t.finish(), 0)
        contains(t.output, b"destroying web-3 (domain 7)\r\n")
        contains(t.output, "█".encode())
        contains(t.output, b"\r\033[Kdestroyed web-3 (domain 7): 4.00G in 2.1 s\r\n")
        for piece in re.split(r"[\r\n]+", t.output.decode().replace("\033[K", "")):
            assert len(piece) < 80, piece


def test_destroy_interrupted():
    with Case(Destroy=[reply({"event": "hello", "job": JOB}, more=True), "hang"]) as c:
        t = Terminal(c, "destroy", "web-3")
        t.read_until(b"50% freeing")
        os.write(t.fd, b"\x03")
        equal(t.finish(), -signal.SIGINT)
        equal(t.output.count(b"scrubd goes on destroying the domain; see scrubctl list"), 1)
        assert c.scrubd.hung_up.wait(10), "the child outlives scrubctl"
        equal(c.real(), [])


def test_watch_lines():
    idle = dict(STATUS, jobs=0, backlog_pages=0)
    with Case(Watch=[reply({"status": idle, "jobs": []}, more=True)] * 3 +
                    [reply({"status": STATUS, "jobs": [JOB, dict(JOB, id=2, domid=9, name=None)]}, more=True)] +
                    [reply({"status": idle, "jobs": []}, more=True)] * 3) as c:
        rc, out, err = c.run("watch")
        equal(rc, 3)
        contains(err, "scrubd has ended")
        equal(re.sub(r"(?m)^\d\d:\d\d:\d\d ", "", out),
              "no domain is being destroyed, 0K to be scrubbed\n"
              "48.0M to be scrubbed\n"
              "web-3 (7): freeing, 2.00G left, 1.60G/s, 1.2 s to go\n"
              "domain 9: freeing, 2.00G left, 1.60G/s, 1.2 s to go\n"
              "web-3 (7): destroyed\n"
              "domain 9: destroyed\n"
              "no domain is being destroyed, 0K to be scrubbed\n")
        equal(c.scrubd.calls, [{"method": "org.scrubd.Watch", "parameters": {"interval_ms": 1000}, "more": True}])
        rc, out, err = c.run("watch", "--json", "--interval", "100ms")
        documents = [json.loads(line) for line in out.splitlines()]
        equal(len(documents), 8)
        equal(documents[3]["jobs"][0], JOB)
        equal(documents[7]["error"], "unreachable")
        equal(c.scrubd.calls[-1]["parameters"], {"interval_ms": 100})


def test_watch_ends_on_signals():
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with Case(Watch=[reply({"status": STATUS, "jobs": [JOB]}, more=True), "hang"]) as c:
            p = subprocess.Popen([SCRUBCTL, "watch"], env=c.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            contains(p.stdout.readline(), b"to be scrubbed")
            contains(p.stdout.readline(), b"web-3 (7)")
            p.send_signal(sig)
            equal(p.communicate(timeout=20), (b"", b""))
            equal(p.returncode, 0)


def test_watch_refused():
    with Case(Watch=[error("org.scrubd.PermissionDenied")]) as c:
        equal(c.run("watch"), (1, "", "scrubctl: only root may do that\n"))
        t = Terminal(c, "watch")
        equal(t.finish(), 1)
        equal(t.output, b"scrubctl: only root may do that\r\n")


def screen(data):
    """The lines of the last whole screen in what came."""
    frame = data.split(b"\033[H")[-1].split(b"\033[J")[0]
    return frame.replace(b"\033[K", b"").decode().split("\r\n")


def test_watch_on_a_terminal():
    with Case(Watch=[reply({"status": STATUS, "jobs": [JOB]}, more=True), 0.1,
                     reply({"status": STATUS, "jobs": [DEAD_JOB]}, more=True), "hang"]) as c:
        t = Terminal(c, "watch", NO_COLOR="1")
        t.read_until(b"100% dead")
        assert t.output.startswith(b"\033[?1049h\033[?25l"), t.output
        lines = screen(t.output)
        equal(lines[0], "scrubd 0.1.0 on Xen 4.17.5 is ready; 1 being destroyed, 14 done")
        assert lines[3].startswith("web-3 (7)         ████"), lines
        contains(lines[-4], "48.0M       K/s      200M/s".replace("     K/s", "    0K/s"))
        equal(lines[-3], "scrubbing on CPUs 0")
        for columns, n, least in ((50, 12, 41), (132, 40, 101), (20, 3, 1)):
            t.resize(columns, n)
            # What comes first may be the end of the screen before. Where none comes that is right, reading fails.
            lines = [""] * (n + 1)
            while len(lines) > n or not least <= max(len(line) for line in lines) <= columns:
                lines = screen(t.read_until(b"\033[J"))
        os.write(t.fd, b"\x03")
        equal(t.finish(), 0)
        # No cursor, no screen left behind; the terminal echoes what was typed.
        assert t.output.replace(b"^C", b"").endswith(b"\033[?25h\033[?1049l"), t.output[-80:]
        equal(c.scrubd.calls[0]["parameters"], {"interval_ms": 250})


def test_watch_colours():
    """On a terminal, unless the user wants none; a terminal that cannot do anything gets lines."""
    def output(**env):
        with Case(Watch=[reply({"status": STATUS, "jobs": [dict(JOB, hurry=False)]}, more=True), "hang"]) as c:
            t = Terminal(c, "watch", **env)
            t.read_until(b"2.00G")
            os.write(t.fd, b"\x03")
            equal(t.finish(), 0)
            return t.output

    contains(output(), b"\033[32mweb-3 (7)")
    contains(output(NO_COLOR=""), b"\033[32mweb-3 (7)")
    plain = output(NO_COLOR="1")
    assert b"\033[32m" not in plain and b"\033[H" in plain, plain
    dumb = output(TERM="dumb")
    assert b"\033" not in dumb, dumb
    contains(dumb, b"web-3 (7): freeing, 2.00G left")


def test_watch_when_scrubd_ends():
    with Case(Watch=[reply({"status": STATUS, "jobs": [JOB]}, more=True)]) as c:
        t = Terminal(c, "watch")
        equal(t.finish(), 3)
        contains(t.output.split(b"\033[?1049l")[1], b"scrubctl: scrubd has ended")


def test_closed_output():
    """Whoever reads goes away: scrubctl ends, also where SIGPIPE is ignored, as under systemd."""
    with Case(Watch=[reply({"status": STATUS, "jobs": [JOB]}, more=True), 0.05] * 400,
              GetStatus=[reply(STATUS)]) as c:
        for restore_signals, codes in ((True, (-signal.SIGPIPE,)), (False, (1,))):
            for argv in (["watch"], ["watch", "--json"]):
                p = subprocess.Popen([SCRUBCTL] + argv, env=c.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     restore_signals=restore_signals)
                p.stdout.readline()
                p.stdout.close()
                equal(p.stderr.read(), b"")
                assert p.wait(15) in codes, p.returncode
        with open("/dev/full", "w") as full:
            done = subprocess.run([SCRUBCTL, "status"], env=c.env(), stdout=full, stderr=subprocess.PIPE, text=True)
        equal((done.returncode, done.stderr), (1, "scrubctl: cannot write the output: No space left on device\n"))


sys.exit(tap.run(globals()))
