# SPDX-License-Identifier: GPL-2.0-or-later
"""The hypervisor patch by itself: settings made by hand (labscrub), domains destroyed in one go.

All on the debug hypervisor, whose assertions are on and which checks each page it hands out.
Rates are checked loosely: this machine may be busy. `./dev bench hv` measures them.
"""

import contextlib
import os
import re

from suite import BOOTS, expect, scenario

# Two nodes of two CPUs each, which are siblings, and one of memory alone.
BOOTS["numa"] = {"smp": 4, "dom0_vcpus": 2, "smt": 2, "numa": [("0-1", 1408), ("2-3", 768), (None, 640)], "prealloc": False,
                 "xen_args": "bootscrub=1"}

BOOTS["hvm"] = {"mem_mib": 3072, "prealloc": False, "xen_args": "bootscrub=1", "extra": "hvm"}

PLAIN = "/usr/sbin/xl destroy"  # not through scrubd
SPIN = "--run '/bin/busybox dd if=/dev/zero of=/dev/null bs=64k'"


def total(counters, what, node=None):
    return sum(n[what] for i, n in enumerate(counters["nodes"]) if node in (None, i))


def rate_mib(a, b, what, node=None):
    """MiB/s between two readings of labscrub, by the hypervisor's clock."""
    return (total(b, what, node) - total(a, what, node)) / 256 / ((b["now_ns"] - a["now_ns"]) / 1e9)


def by_cpu(a, b, what):
    return [y[what] - x[what] for x, y in zip(a["cpus"], b["cpus"])]


def after(host, seconds, since):
    """The counters once the hypervisor's clock is that much further."""
    return host.poll(f"{seconds} s of the hypervisor's time", seconds * 4 + 10,
                     lambda: (now := host.scrub())["now_ns"] - since["now_ns"] >= seconds * 1e9 and now)


def wait_clean(host, seconds=60):
    return host.poll("all memory scrubbed", seconds,
                     lambda: total(now := host.scrub(), "dirty") == 0 and now)


@contextlib.contextmanager
def settings(host, words):
    host.sh("labscrub set " + words)
    try:
        yield
    finally:
        host.sh("labscrub reset")


@contextlib.contextmanager
def soiled(host, guest="pv", mem=512, options=""):
    """A guest's memory is freed and stays dirty; its number of pages, at least."""
    domid = host.victim(guest, mem=mem, options=options)
    host.sh("labscrub set ceiling=4")
    host.sh(f"{PLAIN} {domid}")
    host.expect_gone(domid)
    try:
        yield mem * 256
    finally:
        host.sh("labscrub reset")
        wait_clean(host)


@contextlib.contextmanager
def spinning(host, cpus=(0, 1)):
    """A guest for each CPU that never lets go of it."""
    names = [f"spin{c}" for c in cpus]
    host.sh("scrubctl limit --cpus all")  # scrubd would keep the CPUs of guests that are pinned clear
    try:
        for cpu, name in zip(cpus, names):
            host.sh(f"guest_start {name} --type pv --mem 96 --cpus {cpu} {SPIN}", 400)
        yield
    finally:
        for name in names:
            host.try_sh(f"{PLAIN} {name}", 400)
        host.sh("scrubctl reset")


@scenario("hv-ceiling", hypervisors=("debug",), boot="debug")
def ceiling(host):
    """A ceiling holds, for what is scrubbed by whichever CPU; without it all is clean at once"""
    figures = {}
    with soiled(host), settings(host, "ceiling=32768"):
        a = host.scrub()
        b = after(host, 3, a)
        got = rate_mib(a, b, "idle")
        figures["mib_s"] = round(got, 2)
        expect(got <= 32 * 1.05, f"{got:.1f} MiB/s under a ceiling of 32")
        expect(got >= 16, f"only {got:.1f} MiB/s under a ceiling of 32")
        waited = (total(b, "throttled_ns") - total(a, "throttled_ns")) / (b["now_ns"] - a["now_ns"])
        expect(0.1 < waited <= 1.05, f"throttled for {waited:.2f} of the time")
        host.sh("labscrub reset")
        wait_clean(host)
    return figures


@scenario("hv-mask", hypervisors=("debug",), boot="debug")
def mask(host):
    """CPUs outside the mask scrub nothing, though they are idle and others are not"""
    figures = {}
    for words, allowed in (("mask=2", 1), ("mask=1", 0)):
        with soiled(host, mem=256) as pages, settings(host, "ceiling=4 " + words):
            a = host.scrub()
            with settings(host, words):
                b = wait_clean(host)
                idle = by_cpu(a, b, "idle")
                expect(idle[1 - allowed] == 0, f"CPU {1 - allowed} scrubbed {idle[1 - allowed]} pages")
                expect(idle[allowed] >= pages * 9 // 10, f"CPU {allowed} scrubbed only {idle[allowed]}")
                figures[f"cpu{allowed}"] = idle[allowed]
    return figures


@scenario("hv-floor", hypervisors=("debug",), boot="debug")
def floor(host):
    """Both CPUs spin: nothing gets scrubbed, with a floor all does, on the CPUs of the mask"""
    figures = {}
    with soiled(host), spinning(host):
        host.sh("labscrub reset")
        a = host.scrub()
        b = after(host, 2, a)
        figures["without"] = round(rate_mib(a, b, "idle"), 2)
        expect(total(b, "dirty") > 100000, f"{total(b, 'dirty')} pages dirty: the host is not busy")
        with settings(host, "floor=16384"):
            a = after(host, 0.3, host.scrub())
            b = after(host, 3, a)
            got, forced = rate_mib(a, b, "floor") + rate_mib(a, b, "idle"), by_cpu(a, b, "floor")
            figures["mib_s"] = round(got, 2)
            expect(8 <= got <= 16 * 1.1 + 1, f"{got:.1f} MiB/s with a floor of 16")
            expect(min(forced) > 0, f"the CPUs do not take turns: {forced}")
        with settings(host, "floor=16384 mask=2"):
            a = host.scrub()
            b = after(host, 2, a)
            forced = by_cpu(a, b, "floor")
            expect(forced[0] == 0 and by_cpu(a, b, "idle")[0] == 0, f"CPU 0 is outside the mask: {forced}")
            expect(forced[1] > 0, f"CPU 1 did nothing: {forced}")
    return figures


@scenario("hv-floor-quiet", hypervisors=("debug",), boot="debug")
def floor_quiet(host):
    """With idle CPUs about a floor takes none from anybody, and it does not beat a ceiling"""
    with soiled(host), settings(host, "floor=8192 ceiling=16384"):
        a = host.scrub()
        b = after(host, 2, a)
        got = rate_mib(a, b, "idle") + rate_mib(a, b, "floor")
        expect(got <= 16 * 1.05 + 1, f"{got:.1f} MiB/s above the ceiling of 16")
        expect(got >= 4, f"only {got:.1f} MiB/s")
    return {"mib_s": round(got, 2)}


@scenario("hv-lease", hypervisors=("debug",), boot="debug")
def hv_lease(host):
    """Settings end with their lease, which wakes a scrubber; renewed in time they do not"""
    with soiled(host, mem=256) as pages:
        host.sh("labscrub set ceiling=4 mask=1 lease=4000")
        a = host.scrub()
        host.sh("for i in $(seq 16); do sleep 0.3; labscrub set ceiling=4 mask=1 lease=4000; done")
        b = host.scrub()
        expect(b["mask_set"] and b["ceiling_set"], "a renewed lease ran out")
        expect(b["now_ns"] - a["now_ns"] > 4e9, "it was no test of that")
        expect(total(b, "idle") - total(a, "idle") < pages // 2, "the ceiling did not hold")
        c = wait_clean(host)
        expect(not (c["mask_set"] or c["ceiling_set"] or c["lease_set"]), f"the lease does not end: {c}")
    return {}


@scenario("hv-offline", hypervisors=("debug",), boot="debug")
def offline(host):
    """The only CPU of the mask goes offline: all scrub, the log says so; it comes back: it alone"""
    hptool = "$(ls /usr/lib/xen-*/bin/xen-hptool /usr/sbin/xen-hptool 2>/dev/null | head -n 1)"
    expect(host.sh(f"echo {hptool}").strip(), "there is no xen-hptool")
    with soiled(host):
        with settings(host, "mask=2 ceiling=8192"):
            host.sh("xl dmesg -c >/dev/null")
            host.sh(f"{hptool} cpu-offline 1")
            try:
                a = host.scrub()
                b = after(host, 1, a)
                expect(by_cpu(a, b, "idle")[0] > 0, "nobody scrubs")
                expect([c["allowed"] for c in b["cpus"][:2]] == [True, False], f"effective mask: {b['cpus']}")
                log = host.sh("xl dmesg")
                expect(log.count("No CPU that may scrub is online") == 1, f"the log does not say so once:\n{log}")
            finally:
                host.sh(f"{hptool} cpu-online 1")
            a = host.scrub()
            b = after(host, 1, a)
            expect(by_cpu(a, b, "idle")[0] == 0, "CPU 0 goes on, outside the mask")
            expect(by_cpu(a, b, "idle")[1] > 0, "CPU 1 does not scrub again")
    return {}


@scenario("hv-counters", hypervisors=("debug",), boot="debug")
def counters(host):
    """Each page of a dead guest is counted once, and ends scrubbed, while guests come and go"""
    keys = ("dirtied", "idle", "floor", "alloc", "dropped")
    first = before = wait_clean(host)
    pages = 0
    for guest, mem in (("pv", 256), ("pvh", 192), ("pv", 128)):
        domid = host.victim(guest, mem=mem)
        owned = int(host.sh(f"labhv domain {domid}").split()[1])
        xl = host.boot.start_command(f"{PLAIN} {domid}")
        pages += owned
        for _ in range(20):
            now = host.scrub()
            for n, m in zip(now["nodes"], before["nodes"]):
                expect(all(n[k] >= m[k] for k in keys), f"a counter fell: {m}, {n}")
                expect(n["dirty"] == n["dirtied"] - n["idle"] - n["floor"] - n["alloc"] - n["dropped"], f"{n}")
            before = now
        expect(xl.wait(120)[0] == 0, "xl destroy failed")
        host.expect_gone(domid)
    last = wait_clean(host)
    dirtied = total(last, "dirtied") - total(first, "dirtied")
    expect(pages <= dirtied <= pages * 1.1 + 4096, f"{pages} pages of guests, {dirtied} counted as dirtied")
    for what in ("idle", "floor"):
        cpus, nodes = sum(by_cpu(first, last, what)), total(last, what) - total(first, what)
        expect(cpus == nodes, f"{what}: CPUs counted {cpus} pages, nodes {nodes}")
    return {"pages": pages, "dirtied": dirtied}


# In one of these rounds the domain is destroyed as soon as it can be seen: with luck while xl still
# builds it, which then fails.
RACE = """
guest_config race --mem 128 >/dev/null
rounds=0 while_built=0 last=$(labhv domains | tail -n 1 | cut -d' ' -f1)
while [ $rounds -lt %d ]; do
    rounds=$((rounds + 1)) d=
    xl create -p -q /run/lab/race.cfg >/dev/null 2>&1 & xl=$!
    until [ -n "$d" ] || ! kill -0 $xl 2>/dev/null; do
        d=$(labhv domains | tail -n 1 | cut -d' ' -f1)
        [ "$d" -gt "$last" ] || d=
    done
    [ -n "$d" ] || { echo "no domain in round $rounds" >&2; exit 1; }
    hooked labhv poke "$d"
    wait $xl || while_built=$((while_built + 1))
    if ! gone "$d" 1; then hooked xl destroy "$d" >/dev/null 2>&1; fi
    gone "$d" 10 || { echo "domain $d stays: $(labhv domain "$d")" >&2; exit 1; }
    last=$d
done
echo "$while_built"
"""


@scenario("hv-create-race", hypervisors=("debug",), boot="debug")
def create_race(host):
    """Destroyed in steps while it is being built, again and again: always gone, nothing lost"""
    rounds = int(os.environ.get("SCRUBD_LAB_ROUNDS", "12"))
    with host.unharmed() as figures:
        figures["rounds"], figures["while_built"] = rounds, int(host.sh(RACE % rounds, 900))
        expect(figures["while_built"] > 0, "no creation was hit in the middle")
    return figures


@scenario("hv-step-race", hypervisors=("debug",), guests=("pv", "pvh"), boot="numa")
def step_race(host, guest):
    """A plain destroy comes in between the steps of another toolstack, on another CPU: it dies once"""
    with host.configured("step_us = 500\nduty_percent = 50\n"), host.unharmed() as figures:
        for left in (0.9, 0.5):
            domid = host.victim(guest, mem=512)
            xl = host.boot.start_command(f"hooked xl destroy {domid}")
            host.sh(f"while d=$(labhv domain {domid}) && set -- $d && [ $2 -gt {int(left * 512 * 256)} ]; do :; done; "
                    f"labhv poke {domid}; true")
            expect(xl.wait(120)[0] == 0, "the destroy in steps failed")
            host.expect_gone(domid)
            figures[f"steps_{left}"] = host.end_of_job(domid)["steps"]
    return figures


KINDS = {
    "many-vcpus": ("pv", "--vcpus 32", ""),
    "shadow": ("pvh", "", "hap=0"),
    "pod": ("pvh", "", "maxmem=768"),
    "many-vcpus-pvh": ("pvh", "--vcpus 16", ""),
}


@scenario("hv-kinds", hypervisors=("debug",), boot="debug")
def kinds(host):
    """Guests with many vCPUs, shadow paging, populate on demand: in steps, nothing left"""
    figures = {}
    for name, (guest, options, conf) in KINDS.items():
        with host.unharmed():
            domid = host.victim(guest, mem=256, options=options + (f" --conf '{conf}'" if conf else ""))
            host.sh(f"hooked xl destroy {domid}")
            host.expect_gone(domid)
            job = host.end_of_job(domid)
            expect(job["how"] == "dead" and job["steps"] > 1, f"{name}: {job}")
            figures[name + "_steps"] = job["steps"]
    return figures


@scenario("hv-hvm", hypervisors=("debug",), boot="hvm")
def hvm(host):
    """An HVM guest with its device model, by hardware and by shadow paging: in steps, nothing left"""
    figures = {}
    for name, conf in (("hap", ""), ("shadow", "hap=0"), ("pod", "maxmem=768")):
        with host.unharmed():
            domid = host.victim("hvm", mem=256, options=f"--conf '{conf}'")
            model = f"pgrep -f -- '[x]en-domid {domid} '"
            expect(host.try_sh(model)[0] == 0, "it has no device model")
            host.sh(f"hooked xl destroy {domid}")
            host.expect_gone(domid)
            job = host.end_of_job(domid)
            expect(job["how"] == "dead" and job["steps"] > 1, f"{name}: {job}")
            figures[name + "_steps"] = job["steps"]
            host.poll("the device model ends", 20, lambda: host.try_sh(model)[0] != 0)
    return figures


@scenario("hv-nodes", hypervisors=("debug",), boot="numa")
def nodes(host):
    """Nodes without an allowed CPU, and the one that has none, are scrubbed by the others"""
    first = host.scrub()
    expect(len(first["nodes"]) == 3, f"{len(first['nodes'])} nodes")
    # More than any one node has: it comes from all of them.
    with soiled(host, mem=1200):
        figures = {f"node{i}": n["dirty"] for i, n in enumerate(host.scrub()["nodes"])}
        expect(sum(n > 1000 for n in figures.values()) >= 2, f"all of it from one node: {figures}")
        with settings(host, "mask=3"):
            a = host.scrub()
            b = wait_clean(host)
            idle = by_cpu(a, b, "idle")
            expect(idle[2] == idle[3] == 0, f"CPUs of node 1 are outside the mask: {idle}")
            for i, n in enumerate(a["nodes"]):
                done = total(b, "idle", i) - total(a, "idle", i)
                expect(done >= n["dirty"] * 9 // 10, f"node {i}: {n['dirty']} pages dirty, {done} scrubbed")
    return figures


@scenario("hv-sibling", hypervisors=("debug",), boot="numa")
def sibling(host):
    """Of two sibling threads the one outside the mask scrubs nothing; ceilings are for each node"""
    with soiled(host, mem=1000):
        with settings(host, "mask=5 ceiling=8192"):
            a = host.scrub()
            b = after(host, 2, a)
            idle = by_cpu(a, b, "idle")
            expect(idle[1] == idle[3] == 0, f"CPUs 1 and 3 are outside the mask: {idle}")
            rates = [rate_mib(a, b, "idle", i) for i in range(3)]
            expect(max(rates) <= 8 * 1.05 + 1, f"above the ceiling of 8 MiB/s for each node: {rates}")
            expect(max(rates) >= 4, f"far below the ceiling of 8 MiB/s for each node: {rates}")
    return {f"node{i}_mib_s": round(r, 1) for i, r in enumerate(rates)}


@scenario("hv-pools", hypervisors=("debug",), boot="numa", guests=("pv",))
def pools(host, guest):
    """A guest of another cpupool, under the null scheduler, dies in steps; a floor serves that node"""
    host.sh("xl cpupool-cpu-remove Pool-0 2; xl cpupool-cpu-remove Pool-0 3; "
            "echo 'name=\"other\" sched=\"null\" cpus=[\"2\",\"3\"]' | tr ' ' '\\n' > /run/lab/pool.cfg; "
            "xl cpupool-create /run/lab/pool.cfg")
    try:
        with host.unharmed() as figures:
            domid = host.victim(guest, mem=256, options="--conf 'pool=\"other\"'")
            host.sh(f"hooked xl destroy {domid}")
            host.expect_gone(domid)
            figures["steps"] = host.end_of_job(domid)["steps"]
    finally:
        host.sh("xl cpupool-destroy other; xl cpupool-cpu-add Pool-0 2; xl cpupool-cpu-add Pool-0 3")
    return figures


@scenario("hv-log", hypervisors=("debug",), boot="debug", last=True)
def log(host):
    """Nothing above was worth a warning or a stack trace to the debug hypervisor"""
    bad = [line for line in host.boot.serial_log().splitlines()
           if re.search(r"BUG|ASSERT|Assertion|WARN|Xen call trace|panic", line)]
    expect(not bad, "\n".join(bad[:20]))
    return {}
