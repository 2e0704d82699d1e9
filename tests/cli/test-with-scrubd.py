#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scrubctl and the preloaded hook with scrubd itself, on the fake host: a destroy in steps, what can be seen
of it meanwhile, limits, a degraded host where callers go one after another, and the end of scrubd half-way.
TAP on standard output.

usage: test-with-scrubd.py SCRUBCTL FAKE-LIBXL HOOK CALLER SCRUBD-FAKE FAKECTL [sanitized]
"""
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import fakehost
import tap
from fakehost import Host, equal, finish, poll

SCRUBCTL, _, HOOK, CALLER = (os.path.abspath(p) for p in sys.argv[1:5])
fakehost.use(sys.argv[1], sys.argv[2], sys.argv[5], sys.argv[6], sanitized=len(sys.argv) > 7)


def test_destroy_in_steps():
    with Host(free_pages_ms=200, scrub_pages_ms=400) as host:
        process = host.start(SCRUBCTL, "destroy", "web-3", "--json")
        job = poll(lambda: host.json("list")["jobs"])[0]
        equal((job["domid"], job["name"], job["pages_total"]), (7, "web-3", 131072))
        first = job["pages_left"]
        poll(lambda: host.json("list")["jobs"][0]["pages_left"] < first)
        equal(host.json("status")["jobs"], 1)
        rc, out, err = finish(process)
        result = json.loads(out)
        equal((rc, err, result["by"], result["job"]["state"]), (0, "", "scrubd", "scrubbing"))
        assert result["job"]["steps"] > 10, result
        equal(host.real(), [])
        status = host.json("status")
        equal((status["jobs"], status["jobs_done"]), (0, 1))


def test_hook_of_another_program():
    with Host(free_pages_ms=1000, scrub_pages_ms=1000) as host:
        equal(finish(host.start(CALLER, "fork", "7", preload=HOOK)), (0, "rc=0 errno=0\n", ""))
        equal(host.real(), [])
        equal(host.json("status")["jobs_done"], 1)


def test_placement():
    with Host() as host:
        host.fakectl("dom", "7", "soft", "2")
        equal(host.run("protect", "web-*"), (0, "web-* is protected: 1 domain; see scrubctl cpus\n", ""))
        equal([(c["why"], c["allowed"]) for c in host.json("cpus")["cpus"]][:3],
              [("free", True), ("soft", False), ("free", True)])
        assert "  1     0       0     1     0  no         kept clear for web-3 (domain 7), which\n" in host.run("cpus")[1], \
            host.run("cpus")
        equal(host.json("status")["mask"], "0,2-3")
        equal([p["rule"] for p in host.json("protect")["protected"]], ["web-*"])
        equal(host.run("protect", "web-*", "--off")[0], 0)
        equal(host.run("protect", "web-*", "--off"), (1, "", "scrubctl: that was not protected by request\n"))
        equal(host.run("protect"), (0, "No domain is protected.\n", ""))
        equal(host.json("status")["mask"], "0-3")


def test_watch_follows():
    with Host(free_pages_ms=200, scrub_pages_ms=400) as host:
        watch = host.start(SCRUBCTL, "watch", "--json", "--interval", "50ms")
        first = json.loads(watch.stdout.readline())
        equal(first["jobs"], [])
        destroy = host.start(SCRUBCTL, "destroy", "7")
        left = []
        for line in watch.stdout:
            jobs = json.loads(line)["jobs"]
            if jobs and jobs[0]["state"] != "scrubbing":
                left.append(jobs[0]["pages_left"])
            elif left:
                break
        watch.send_signal(signal.SIGINT)
        equal((watch.wait(20), watch.stderr.read()), (0, ""))
        assert len(set(left)) > 3 and left == sorted(left, reverse=True), left
        equal(finish(destroy)[0], 0)


def test_limits():
    with Host() as host:
        equal(host.json("limit", "--ceiling", "200M", "--cpus", "1-2"), {"ceiling_kib": 204800, "mask": "1-2"})
        status = host.json("status")
        equal(status["mask"], "1-2")
        equal([cpu["cpu"] for cpu in status["cpus"] if cpu["allowed"]], [1, 2])
        rc, out, err = host.run("limit", "--cpus", "77")
        equal((rc, out), (1, ""))
        assert err.startswith("scrubctl: --cpus: "), err
        rc, out, err = host.run("limit", "--ceiling", "9999T")
        equal((rc, out), (1, ""))
        assert err.startswith("scrubctl: --ceiling: "), err
        equal(host.json("limit"), {"ceiling_kib": 204800, "mask": "1-2"})
        equal(status["by_hand"], host.json("limit"))
        equal(host.json("limit", "--cpus", "3", "--for", "200ms")["mask"], "3")
        poll(lambda: host.json("limit") == {"ceiling_kib": 204800, "mask": "1-2"})
        equal(host.json("status")["by_hand"], {"ceiling_kib": 204800, "mask": "1-2"})
        equal(host.run("reset")[0], 0)
        status = host.json("status")
        equal((status["mask"], "by_hand" in status), ("0-3", False))


def test_degraded():
    with Host(patched=0) as host:
        rc, out, err = host.run("status")
        equal((rc, err), (0, ""))
        assert out.startswith("scrubd 0.1.0 is degraded: "), out
        rc, out, err = host.run("destroy", "web-3")
        equal((rc, out), (0, "destroyed web-3 (domain 7)\n"))
        assert err.startswith("scrubctl: scrubd leaves it to its caller"), err
        equal(host.real(), ["real 7"])
        rc, out, err = host.run("limit", "--cpus", "1")
        equal((rc, out), (1, ""))
        assert "degraded" in err, err


def test_degraded_callers_take_turns():
    with Host(patched=0) as host:
        for domid in range(10, 15):
            host.fakectl("add", str(domid), "10000")
        callers = [host.start(CALLER, "direct", str(domid), preload=HOOK, FAKE_XC_SLOW="1") for domid in range(10, 15)]
        for caller in callers:
            equal(finish(caller), (0, "rc=0 errno=0\n", ""))
        log = host.real()
        equal(sorted(log[::2]), ["begin %d" % domid for domid in range(10, 15)])
        for begin, end in zip(log[::2], log[1::2]):
            equal(end, begin.replace("begin", "end"))


def test_too_small_for_scrubd():
    with Host() as host:
        host.fakectl("add", "8", "8191", "small")
        equal(finish(host.start(CALLER, "direct", "8", preload=HOOK)), (0, "rc=0 errno=0\n", ""))
        equal(host.real(), ["real 8"])
        equal(host.json("status")["jobs_done"], 0)
        host.fakectl("add", "9", "8192", "large")
        equal(finish(host.start(CALLER, "direct", "9", preload=HOOK)), (0, "rc=0 errno=0\n", ""))
        equal(host.real(), ["real 8"])
        equal(host.json("status")["jobs_done"], 1)


def test_create_waits():
    """Through the hook, for a real scrubd's word."""
    with Host("create_wait_s = 2\n", idle=0) as host:
        host.fakectl("set", "dirty", "100000")
        began = time.monotonic()
        equal(finish(host.start(CALLER, "create", "7", preload=HOOK)), (0, "rc=6 errno=0\n", ""))
        assert 2 <= time.monotonic() - began < 4, time.monotonic() - began
        equal(host.real(), ["create"])


def test_create_whose_scrubd_is_killed():
    with Host("create_wait_s = 60\n", idle=0) as host:
        host.fakectl("set", "dirty", "100000")
        create = host.start(CALLER, "create", "7", preload=HOOK)
        poll(lambda: "wants to create a domain" in open(host.dir + "/log").read())
        equal(host.real(), [])
        host.scrubd.kill()
        equal(finish(create), (0, "rc=6 errno=0\n", ""))
        equal(host.real(), ["create"])


def test_create_whose_scrubd_stands_still():
    """It has said how long it takes at most: that and a second."""
    with Host("create_wait_s = 1\n", idle=0) as host:
        host.fakectl("set", "dirty", "100000")
        began = time.monotonic()
        create = host.start(CALLER, "create", "7", preload=HOOK)
        poll(lambda: "wants to create a domain" in open(host.dir + "/log").read())
        host.scrubd.send_signal(signal.SIGSTOP)
        equal(finish(create), (0, "rc=6 errno=0\n", ""))
        assert 2 <= time.monotonic() - began < 4, time.monotonic() - began


def test_scrubd_killed_half_way():
    with Host(free_pages_ms=20, scrub_pages_ms=400) as host:
        process = host.start(SCRUBCTL, "destroy", "web-3")
        poll(lambda: host.json("list")["jobs"])
        host.scrubd.kill()
        equal(finish(process), (0, "destroyed web-3 (domain 7)\n",
              "scrubctl: scrubd hung up half-way. The domain was destroyed at full speed.\n"))
        equal(host.real(), ["real 7"])


sys.exit(tap.run(globals()))
