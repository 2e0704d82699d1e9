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
    expect_degraded(host)


def expect_degraded(host):
    """scrubd finds out by itself, if nobody has told it."""
    host.poll("scrubd knows that the hypervisor is unpatched", 15, lambda: host.status()["state"] == "degraded")
    reason = host.status()["reason"]
    expect(reason == "unpatched hypervisor", f"scrubd is degraded because of: {reason}")


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
def undisturbed(host):
    """host.unharmed(), with the same domains before and after."""
    with host.unharmed() as figures:
        before = domains(host)
        yield figures
        expect(domains(host) == before, f"domains were {before} and are {domains(host)}")


@contextlib.contextmanager
def same_scrubd(host):
    """Throughout. Gives a function: what scrubd has logged since."""
    pid, logged = host.main_pid(), len(host.journal())
    yield lambda: host.journal()[logged:]
    expect(host.main_pid() == pid, "scrubd was restarted")


def dies_in_steps(host, guest):
    """The next guest does, by scrubd. Figures of it."""
    domid = host.victim(guest, mem=256)
    host.sh(f"hooked xl destroy {domid}")
    host.expect_gone(domid, 1)
    return by_scrubd(host, domid)


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
live_load >&2 || exit 1
wait $pokes
"""


@live("live-load", guests=("pv", "pvh"))
def load(host, guest):
    """Loaded while stock Xen destroys guests, scrubs, and a neighbour pings: nothing is lost, the next dies in steps"""
    with undisturbed(host) as figures, same_scrubd(host):
        with unpatched(host):
            victims = [host.victim(guest, mem=384) for _ in range(4)]
            with pinged(host, figures):
                stock, both = map(int, host.sh(LOAD % " ".join(map(str, victims))).split()[-2:])
                figures["destroyed_before"] = stock
                expect(stock > 0 and both == len(victims), f"{stock} and {both} were destroyed before and in all")
                for domid in victims:
                    host.expect_gone(domid)
                expect_live(host)
                figures.update(dies_in_steps(host, guest))
    return figures


@live("live-unload", guests=("pv", "pvh"))
def unload(host, guest):
    """Taken out in the middle of a teardown in steps, with ceiling, floor and mask set: the destroy ends, stock Xen scrubs"""
    with undisturbed(host) as figures:
        with (host.configured(SLOW + 'ceiling_mib_s = 2\nfloor_mib_s = 1\nscrub_cpus = "1"\n'), same_scrubd(host) as logged,
              pinged(host, figures)):
            domid = host.victim(guest, mem=512)
            xl = host.boot.start_command(f"hooked xl destroy {domid}")
            figures["pages_left_at_unload"] = halfway(host, domid)["pages_left"]
            steps = host.sh("live_unload").splitlines()
            expect(steps == ["scrubd has let go: scrubbing is as on stock Xen", "reverted", "scrubd is degraded now", "unloaded"],
                   f"not what unload has to show: {steps}")
            # Finished first, in steps.
            rc, out, err = xl.wait(120)
            expect(rc == 0, f"xl destroy failed: {(out + err).decode(errors='replace')}")
            host.expect_gone(domid, 10)
            by_scrubd(host, domid)
            expect_stock(host)
            for text in ("the patch is to be taken out: first the teardowns under way (1)",
                         "degraded: the hypervisor's patch is being taken out"):
                expect(text in logged(), f"scrubd did not log '{text}': {logged()}")
            text = host.sh("scrubctl status")
            expect("is degraded: unpatched hypervisor" in text, f"scrubctl status says: {text}")
            host.poll("stock Xen scrubs all of it", 60, lambda: int(host.sh("dirty_pages")) == 0)
            domid = host.victim(guest, mem=128)
            host.sh(f"hooked xl destroy {domid}")
            host.expect_gone(domid, 10)
            expect(not host.journal(f"dom={domid} .*in [0-9]+ steps"), "steps without the patch")
            host.sh("live_load")
            expect_live(host)
            expect("the hypervisor has the patch now: ready" in logged(), "scrubd did not log that the patch is back")
            expect(host.scrub()["mask_set"], "the mask did not come back with the patch")
        figures.update(dies_in_steps(host, guest))
    return figures


@live("live-revert", guests=("pv", "pvh"))
def revert(host, guest):
    """Reverted past scrubctl in the middle of a teardown: the caller finishes it, scrubd finds out, and a load puts it back"""
    with undisturbed(host) as figures:
        with host.configured(SLOW), same_scrubd(host) as logged:
            domid = host.victim(guest, mem=512)
            xl = host.boot.start_command(f"hooked xl destroy {domid}")
            figures["pages_left_at_revert"] = halfway(host, domid)["pages_left"]
            host.sh("xen_livepatch revert scrubd")
            rc, out, err = xl.wait(120)
            expect(rc == 0, f"xl destroy failed: {(out + err).decode(errors='replace')}")
            host.expect_gone(domid, 10)
            expect(not has_patch(host), "the patch still answers")
            expect_degraded(host)
            expect("degraded: unpatched hypervisor" in logged(), f"scrubd did not log it: {logged()}")
            expect(not host.journal(f"dom={domid} .*: dead after"), "scrubd finished it without the patch")
            text = host.sh("scrubctl hypervisor status")
            expect(re.search("^live patch +uploaded, not applied$", text, re.M), f"status says: {text}")
            host.sh("live_load")
            expect_live(host)
        figures.update(dies_in_steps(host, guest))
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
    with undisturbed(host) as figures, same_scrubd(host):
        took = []
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
        expect(all(int(out) > 0 for _, out, _ in ends), f"no guest came and went meanwhile: {ends}")
        expect_live(host)
    return figures


# Payloads that must not get in, made of the one that fits; and on-top, which is of somebody else and builds upon ours.
PAYLOADS = r"""
python3 - /var/lib/scrubd/*.livepatch <<'EOF'
import os, struct, sys
path, = sys.argv[1:]
good = open(path, "rb").read()
ident = bytes.fromhex(os.path.basename(path).split(".")[0])
table, = struct.unpack_from("<Q", good, 40)
count, names = struct.unpack_from("<HH", good, 60)

def flip(data):
    return bytes(b ^ 255 for b in data)

def section(n):
    "Of its name: where it is. Of its content: where, and how long."
    return struct.unpack_from("<I20xQQ", good, table + 64 * n)

def place(name):
    for at_name, at, size in map(section, range(count)):
        if good[section(names)[1] + at_name:].startswith(name + b"\0"):
            return at, size

def note(name):
    "The build-id at its end."
    at, size = place(name)
    return slice(at + size - len(ident), at + size)

def rename(data):
    "All that the payload defines, as Xen wants each name once; but nothing that it wants of Xen."
    (symbols, size), (strings, _) = place(b".symtab"), place(b".strtab")
    entries = list(struct.iter_unpack("<IBBHQQ", good[symbols:symbols + size]))
    kept = set()
    for name, _, _, where, _, _ in entries:
        if where == 0:
            kept.update(range(name, good.index(b"\0", strings + name) - strings))
    for name, kind, _, where, _, _ in entries:
        if 0 < where < 0xff00 and kind % 16 in (1, 2) and name not in kept:
            data[strings + name] = ord("~")

own, depends = note(b".note.gnu.build-id"), note(b".livepatch.depends")
assert good[depends] == ident
on_top = bytearray(good)
on_top[depends], on_top[own] = good[own], flip(good[own])
rename(on_top)
os.makedirs("/run/lab", exist_ok=True)
for name, data in (("other-build-id", good.replace(ident, flip(ident))), ("half", good[:len(good) // 2]),
                   ("header", good[:64]), ("rubbish", os.urandom(8192)), ("empty", b""), ("on-top", on_top)):
    open("/run/lab/" + name, "wb").write(data)
print(ident.hex(), flip(ident).hex(), len(good) // 2)
EOF
"""

ON_TOP = ("the hypervisor does not revert the payload: either another one was applied on top of it, which has to go first "
          "(see xen-livepatch list), or the CPUs are too busy")


def refused(host, command, text):
    """It fails, says just this, and leaves the hypervisor's payloads as they were."""
    there = host.sh("xen_livepatch list")
    rc, out, err = host.try_sh(command)
    expect(rc == 1, f"`{command}` ended with {rc}: {out}{err}")
    expect(err == f"scrubctl: {text}\n", f"`{command}` says '{err.strip()}' instead of '{text}'")
    expect(host.sh("xen_livepatch list") == there, f"`{command}` left something behind")


def second_load(host):
    there = host.sh("xen_livepatch list")
    said = host.sh("live_load")
    expect(said == "the live patch is loaded already\n", f"a second load says: {said}")
    expect(host.sh("xen_livepatch list") == there, "a second load changed something")


@live("live-refused")
def refusals(host):
    """Another build-id, half a payload, rubbish, none at all, a second load also during a teardown: told, nothing changed"""
    with host.configured(SLOW), host.unharmed() as figures, same_scrubd(host):
        ident, other, half = host.sh(PAYLOADS).split()
        with unpatched(host):
            for name, text in (
                    ("other-build-id", f"the payload is for another hypervisor: of build-id {other}, but {ident} runs"),
                    ("half", f"/run/lab/half: is cut off, only {half} bytes of it are there"),
                    ("header", "/run/lab/header: is cut off, only 64 bytes of it are there"),
                    ("rubbish", "/run/lab/rubbish: is no payload of a live patch, but something else"),
                    ("empty", "/run/lab/empty: is no payload of a live patch, but empty"),
                    ("absent", "/run/lab/absent: No such file or directory")):
                refused(host, f"live_load /run/lab/{name}", text)
                expect(not has_patch(host), f"'{name}' was loaded")
            default = f"/var/lib/scrubd/{ident}.livepatch"
            host.sh(f"mv {default} /run/lab/away")
            try:
                refused(host, "live_load", f"there is no live patch for the hypervisor that runs: {default} is missing; "
                                           "hv-patch/livepatch/build makes it")
            finally:
                host.sh(f"mv /run/lab/away {default}")
            expect_stock(host)
        second_load(host)
        domid = host.victim("pv", mem=512)
        xl = host.boot.start_command(f"hooked xl destroy {domid}")
        halfway(host, domid)
        for _ in range(2):
            second_load(host)
        rc, out, err = xl.wait(240)
        expect(rc == 0, f"xl destroy failed: {(out + err).decode(errors='replace')}")
        host.expect_gone(domid, 1)
        figures.update(by_scrubd(host, domid))
    return figures


@live("live-others")
def others(host):
    """Past scrubctl: ours by another name, somebody else's on top of ours: refused or told, and all is well once that is gone"""
    ours = "/var/lib/scrubd/*.livepatch"
    with undisturbed(host) as figures, same_scrubd(host):
        host.sh(PAYLOADS)
        there = host.sh("xen_livepatch list")
        expect(host.try_sh(f"xen_livepatch upload same {ours}")[0] != 0, "ours was uploaded twice")
        expect(host.sh("xen_livepatch list") == there, "an upload that is refused left something behind")
        expect_live(host)
        host.sh("xen_livepatch upload on-top /run/lab/on-top && xen_livepatch apply on-top")
        try:
            refused(host, "live_unload", ON_TOP)
            expect_live(host)
        finally:
            host.sh("xen_livepatch revert on-top; xen_livepatch unload on-top")
        dies_in_steps(host, "pv")
        with unpatched(host):
            host.sh(f"xen_livepatch upload same {ours} && xen_livepatch apply same")
            try:
                expect_live(host)
                refused(host, "live_load", "this hypervisor has the patch already, not by our live patch")
                dies_in_steps(host, "pv")
                said = host.sh("live_unload")
                expect(said == "there is no live patch of scrubd in the hypervisor\n", f"unload says: {said}")
                expect(has_patch(host), "unload took out what is not ours")
            finally:
                host.sh("xen_livepatch revert same; xen_livepatch unload same")
            expect_stock(host)
        figures.update(dies_in_steps(host, "pv"))
    return figures


# What the unit's sandbox keeps from it, one a line, where it does not.
INSIDE = """
for d in /usr /etc /run /var/lib/scrubd /root; do touch $d/lab-probe 2>/dev/null && echo "may write $d"; done
rm -f /usr/lab-probe /etc/lab-probe /run/lab-probe /var/lib/scrubd/lab-probe /root/lab-probe 2>/dev/null
[ -e /run/scrubd/scrubd.sock ] && echo "sees scrubd's socket"
grep -q vif /proc/net/dev && echo "has the network"
grep -q '^NoNewPrivs:.*0' /proc/self/status && echo "may gain privileges"
echo probed
"""
UNIT = "scrubd-livepatch.service"


def unit_log(host):
    return host.sh(f"journalctl -b -u {UNIT} -o cat --no-pager")


@live("live-boot")
def at_boot(host):
    """The unit loaded the patch at boot, and scrubd was ready without hands; its sandbox; without a payload it fails"""
    expect(host.sh(f"systemctl is-enabled {UNIT}").strip() == "enabled", "the unit is not enabled")
    steps = re.findall("^(read|checked|uploaded|applied|scrubd was not told)", unit_log(host), re.M)
    expect(steps[:5] == ["read", "checked", "uploaded", "applied", "scrubd was not told"],
           f"not what a load has to show: {unit_log(host)}")
    # The scrubd that systemd started at boot: others may have taken the patch out since.
    first = host.journal("serves, Xen").splitlines()[0]
    expect("degraded" not in first, f"scrubd was degraded at first: {first}")
    drop_in = f"/run/systemd/system/{UNIT}.d"
    host.boot.put("/run/lab/inside", INSIDE)
    host.boot.put(f"{drop_in}/lab.conf", "[Service]\nExecStartPost=/bin/sh /run/lab/inside\n")
    try:
        before = len(unit_log(host))
        host.sh(f"systemctl daemon-reload; systemctl restart {UNIT}")
        host.poll("what the sandbox keeps away", 5, lambda: "probed" in unit_log(host)[before:])
        said = unit_log(host)[before:]
        expect("the live patch is loaded already" in said, f"the unit, started again, logs: {said}")
        inside = re.findall("^(?:may|sees|has|probed).*", said, re.M)
        expect(inside == ["probed"], f"the unit {', '.join(inside)}")
        outside = host.sh("sh /run/lab/inside").splitlines()
        expect(len(outside) == 9, f"the probe itself finds too little: {outside}")
    finally:
        host.sh(f"rm -r {drop_in}; systemctl daemon-reload")
    with same_scrubd(host), unpatched(host):
        host.sh("mv /var/lib/scrubd/*.livepatch /run/lab/")
        try:
            expect(host.try_sh(f"systemctl restart {UNIT}")[0] != 0, "it succeeds without a payload")
        finally:
            host.sh("mv /run/lab/*.livepatch /var/lib/scrubd/")
        expect("there is no live patch for the hypervisor that runs: " in unit_log(host), f"it logs {unit_log(host)}")
        expect_stock(host)
        host.sh(f"systemctl restart {UNIT}")
        expect_live(host)
    return {}


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
            if s.name == "hv-pools" and kind == "livepatched":
                continue  # only Xen's debug builds have the null scheduler
            REGISTRY.append(Scenario(
                s.func, s.name, kind, s.guest, s.boot if s.boot in ("numa", "hvm") else "live", s.order,
                everyday(kind, s.guest) and s.name in SAME_EVERYDAY))
