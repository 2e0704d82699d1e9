# SPDX-License-Identifier: GPL-2.0-or-later
"""The hypervisor patch as a live patch: loaded and taken out again while the host works.

Each of these scenarios begins and ends with the patch loaded. Beside them, what shows the patch at work
also runs on a hypervisor that got it this way; every day only a few of those.
"""

import contextlib
import os
import re

import assets
from scenarios.destroy import by_scrubd, halfway
from suite import BOOTS, BYSTANDER_IP, REGISTRY, SLOW, Scenario, expect, scenario

# With one vCPU dom0 could do nothing else while stock Xen destroys a guest.
BOOTS["live"] = {"mem_mib": 3072, "dom0_vcpus": 2, "prealloc": False, "xen_args": "bootscrub=1"}
LIVE = tuple(assets.LIVE)
CYCLES = int(os.environ.get("SCRUBD_LAB_CYCLES", "4"))


def everyday(kind, guest):
    return kind == "livepatched" and guest != "pvh"


def live(name, guests=(None,), last=False):
    """As scenario(), on each hypervisor that can be patched so."""
    def register(func):
        for kind in LIVE:
            for guest in guests:
                scenario(name, hypervisors=(kind,), guests=(guest,), boot="live", last=last,
                         everyday=everyday(kind, guest))(func)
        return func
    return register


def has_patch(host):
    return host.try_sh("labscrub get")[0] == 0


def expect_stock(host):
    expect(not has_patch(host), "the patch still answers")
    expect(not host.sh("xen_livepatch list").count("scrubd"), "the payload is still there")
    host.poll("scrubd knows that the hypervisor is unpatched", 15, lambda: host.status()["state"] == "degraded")


def expect_live(host):
    expect(has_patch(host), "the patch does not answer")
    host.poll("scrubd knows that the hypervisor is patched", 15, lambda: host.status()["state"] == "ready")


@contextlib.contextmanager
def unpatched(host):
    """The hypervisor without the patch; what is inside may load it."""
    host.sh("live_unload")
    expect_stock(host)
    try:
        yield
    finally:
        host.sh("live_loaded || live_load")
    expect_live(host)


def domains(host):
    return host.sh("labhv domains | cut -d' ' -f1").split()


@contextlib.contextmanager
def pinged(host, figures):
    """The bystander is pinged 20 times a second throughout, and answers each time."""
    pings = host.boot.start_command(f"exec busybox ping -i 0.05 -w 900 {BYSTANDER_IP}")
    try:
        yield
    finally:
        host.sh("pkill -INT -f '[p]ing -i 0.05'")
        out = pings.wait(30)[1].decode()
    counts = re.search(r"(\d+) packets transmitted, (\d+) packets received", out)
    worst = re.search(r"= [\d.]+/[\d.]+/([\d.]+) ms", out)
    expect(counts and worst, f"the bystander never answered: {out[-300:]}")
    sent, answered = map(int, counts.groups())
    figures["pings"], figures["ping_max_ms"] = sent, round(float(worst.group(1)))
    # One may be under way at the end.
    expect(answered >= sent - 1 > 0, f"{sent - answered} of {sent} pings were lost")


# Loads the patch while guests are destroyed in one go each, one after the other; prints how many were
# before there was a patch, and how many in all.
LOAD = """
(before=0 all=0
 for d in %s; do
     labscrub get >/dev/null 2>&1 || before=$((before + 1))
     labhv poke $d || exit 1
     all=$((all + 1))
 done
 echo $before $all) & pokes=$!
live_load || exit 1
wait $pokes
"""


@live("live-load", guests=("pv", "pvh"))
def load(host, guest):
    """Loaded while stock Xen destroys guests, scrubs, and a neighbour pings: nothing is lost, the next dies in steps"""
    with host.unharmed() as figures:
        before = domains(host)
        with unpatched(host):
            victims = [host.victim(guest, mem=384) for _ in range(4)]
            with pinged(host, figures):
                stock, both = map(int, host.sh(LOAD % " ".join(map(str, victims))).split()[-2:])
                figures["destroyed_before"] = stock
                expect(stock > 0 and both == len(victims), f"{stock} and {both} were destroyed before and in all")
                for domid in victims:
                    host.expect_gone(domid)
                expect_live(host)
                domid = host.victim(guest, mem=256)
                host.sh(f"hooked xl destroy {domid}")
                host.expect_gone(domid, 1)
                figures.update(by_scrubd(host, domid))
        expect(domains(host) == before, f"domains were {before} and are {domains(host)}")
    return figures


@live("live-unload", guests=("pv", "pvh"))
def unload(host, guest):
    """Taken out in the middle of a teardown in steps, with ceiling, floor and mask set: the destroy ends, stock Xen scrubs"""
    with host.unharmed() as figures:
        before = domains(host)
        with host.configured(SLOW + 'ceiling_mib_s = 2\nfloor_mib_s = 1\nscrub_cpus = "1"\n'), pinged(host, figures):
            domid = host.victim(guest, mem=512)
            xl = host.boot.start_command(f"hooked xl destroy {domid}")
            figures["pages_left_at_unload"] = halfway(host, domid)["pages_left"]
            host.sh("live_unload")
            rc, out, err = xl.wait(120)
            expect(rc == 0, f"xl destroy failed: {(out + err).decode(errors='replace')}")
            host.expect_gone(domid, 10)
            expect_stock(host)
            host.poll("stock Xen scrubs all of it", 60, lambda: int(host.sh("dirty_pages")) == 0)
            domid = host.victim(guest, mem=128)
            host.sh(f"hooked xl destroy {domid}")
            host.expect_gone(domid, 10)
            expect(not host.journal(f"dom={domid} .*in [0-9]+ steps"), "steps without the patch")
            host.sh("live_load")
            expect_live(host)
        domid = host.victim(guest, mem=256)
        host.sh(f"hooked xl destroy {domid}")
        host.expect_gone(domid, 1)
        figures.update(by_scrubd(host, domid))
        expect(domains(host) == before, f"domains were {before} and are {domains(host)}")
    return figures


# Guests come and go, through scrubd while the patch is there, until told to stop.
CHURN = """
n=0
until [ -e /run/lab/stop ]; do
    d=$(guest_build churn --type %s --mem 128) && hooked xl destroy "$d" && gone "$d" 20 || exit 1
    n=$((n + 1))
done
echo $n
"""

CYCLE = """
began=$(date +%s%N); live_unload || exit 1
! labscrub get >/dev/null 2>&1 || { echo "still patched" >&2; exit 1; }
mid=$(date +%s%N); live_load || exit 1
labscrub get >/dev/null || exit 1
echo $(((mid - began) / 1000000)) $((($(date +%s%N) - mid) / 1000000))
"""


@live("live-cycles")
def cycles(host):
    """Out and in again, again and again, while guests come and go and one pings: nothing lost, nothing left"""
    with host.unharmed() as figures:
        before, took = domains(host), []
        host.sh("rm -f /run/lab/stop")
        churn = [host.boot.start_command(CHURN.replace("churn", f"churn-{g}") % g) for g in ("pv", "pvh")]
        try:
            with pinged(host, figures):
                for n in range(CYCLES):
                    rc, out, err = host.try_sh(CYCLE, 300)
                    expect(rc == 0, f"cycle {n + 1}: {out}{err}")
                    took.append(tuple(map(int, out.split()[-2:])))
        finally:
            host.sh("touch /run/lab/stop")
            ends = [c.wait(300) for c in churn]
        for rc, out, err in ends:
            expect(rc == 0, f"a guest could not be built or destroyed: {(out + err).decode(errors='replace')[-600:]}")
        figures.update(cycles=CYCLES, guests=sum(int(out) for _, out, _ in ends),
                       unload_ms=max(t[0] for t in took), load_ms=max(t[1] for t in took))
        expect(figures["guests"] >= CYCLES, f"too little came and went: {figures}")
        expect_live(host)
        expect(domains(host) == before, f"domains were {before} and are {domains(host)}")
    return figures


# Payloads that must not get in, made of the one that fits.
BROKEN = """
python3 - /var/lib/scrubd/*.livepatch <<'EOF'
import os, sys
path, = sys.argv[1:]
good = open(path, "rb").read()
ident = bytes.fromhex(os.path.basename(path).split(".")[0])
assert ident in good
for name, data in (("other-build-id", good.replace(ident, bytes(b ^ 255 for b in ident))), ("half", good[:len(good) // 2]),
                   ("header", good[:64]), ("rubbish", os.urandom(8192)), ("empty", b"")):
    open("/run/lab/" + name, "wb").write(data)
EOF
"""


def refused(host, command):
    """It fails, says why, and leaves the hypervisor's payloads as they were."""
    there = host.sh("xen_livepatch list")
    rc, out, err = host.try_sh(command)
    expect(rc != 0, f"`{command}` succeeded: {out}{err}")
    expect((out + err).strip(), f"`{command}` does not say why")
    expect(host.sh("xen_livepatch list") == there, f"`{command}` left something behind")


@live("live-refused")
def refusals(host):
    """Another build-id, half a payload, rubbish, a second load, also during a teardown: refused, nothing left behind"""
    with host.configured(SLOW), host.unharmed() as figures:
        with unpatched(host):
            host.sh(BROKEN)
            for name in ("other-build-id", "half", "header", "rubbish", "empty"):
                refused(host, f"live_load /run/lab/{name}")
                expect(not has_patch(host), f"'{name}' was loaded")
            expect_stock(host)
        domid = host.victim("pv", mem=512)
        xl = host.boot.start_command(f"hooked xl destroy {domid}")
        halfway(host, domid)
        for _ in range(2):
            refused(host, "live_load")
        rc, out, err = xl.wait(240)
        expect(rc == 0, f"xl destroy failed: {(out + err).decode(errors='replace')}")
        host.expect_gone(domid, 1)
        figures.update(by_scrubd(host, domid))
    return figures


@live("live-log", last=True)
def log(host):
    """Nothing of this was worth a warning or a stack trace to the hypervisor"""
    bad = [line for line in host.boot.serial_log().splitlines()
           if re.search(r"BUG|ASSERT|Assertion|WARN|Xen call trace|panic|not scrubbed", line)]
    expect(not bad, "\n".join(bad[:20]))
    return {}


# What shows the patch at work, and which of it every day.
SAME = re.compile("hv-(?!log)|leak|fuzz|domu-denied")
SAME_EVERYDAY = ("hv-floor", "hv-lease")
for s in list(REGISTRY):
    if SAME.match(s.name) and s.hypervisor not in LIVE:
        for kind in LIVE:
            REGISTRY.append(Scenario(
                s.func, s.name, kind, s.guest, s.boot if s.boot in ("numa", "hvm") else "live", s.order,
                everyday(kind, s.guest) and s.name in SAME_EVERYDAY))
