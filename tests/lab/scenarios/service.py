# SPDX-License-Identifier: GPL-2.0-or-later
"""scrubd as a service: bad input, bad configuration, stop, idleness, the backend's contract."""

import re

from scenarios.destroy import NO_RESTART, RESTART
from suite import SLOW, Failure, expect, scenario


def refused(host, command, status, *words):
    rc, out, err = host.try_sh(command)
    expect(rc == status, f"`{command}` ended with {rc}, not {status}: {out}{err}")
    for word in words:
        expect(word in err, f"`{command}` does not say '{word}': {err.strip()}")
    expect(len(err.strip().splitlines()) <= 2, f"`{command}` says more than an error and a hint: {err}")


@scenario("boot")
def boot(host):
    """systemd started scrubd through its socket, at the first try"""
    expect(host.restarts() == 0, f"{host.restarts()} restarts since boot:\n{host.journal()}")
    for unit in ("scrubd.socket", "scrubd.service"):
        state = host.sh(f"systemctl show -P ActiveState {unit}").strip()
        expect(state == "active", f"{unit} is {state}")
    status = host.status()
    expect(status["state"] == "ready", f"state is {status['state']}: {status.get('reason')}")
    text = host.sh("systemctl show -P StatusText scrubd.service").strip()
    expect(text.startswith("Idle"), f"systemctl status says '{text}'")
    mode = host.sh("stat -c '%a %U' /run/scrubd/scrubd.sock").strip()
    expect(mode == "600 root", f"the socket is {mode}")
    return {}


@scenario("scrubctl-errors")
def scrubctl_errors(host):
    """Unknown domain, domain 0, wrong use, bad limits, no scrubd: one clear line, right status"""
    pid, before = host.main_pid(), host.scrub()
    with host.unharmed():
        refused(host, "scrubctl destroy no-such-guest", 1, "no-such-guest")
        refused(host, "scrubctl destroy 4711", 1, "4711")
        refused(host, "scrubctl destroy 0", 1)
        refused(host, "scrubctl destroy Domain-0", 1)
        for words in ("limit --cpus 99", "limit --ceiling 99999999999G"):
            rc, _, err = host.try_sh("scrubctl " + words)
            expect(rc in (1, 2) and err.strip(), f"`scrubctl {words}` ended with {rc}: {err}")
        expect(host.try_sh("scrubctl frobnicate")[0] == 2, "an unknown verb is not status 2")
        after = host.scrub()
        for key in ("ceiling_set", "mask_set"):
            expect(after[key] == before[key], f"{key} changed")
        expect(host.main_pid() == pid, "scrubd was restarted")
    host.sh("systemctl stop scrubd.socket scrubd.service")
    try:
        refused(host, "scrubctl status", 3)
        refused(host, "scrubctl list", 3)
    finally:
        host.sh("systemctl start scrubd.socket scrubd.service")
    return {}


SEND = r"""
import socket, sys
def send(data, shut=False):
    s = socket.socket(socket.AF_UNIX); s.settimeout(10)
    s.connect("/run/scrubd/scrubd.sock")
    got = b""
    try:
        s.sendall(data)
        if shut: s.shutdown(socket.SHUT_WR)
        while True:
            part = s.recv(65536)
            if not part: break
            got += part
            if got.endswith(b"\0"): break
        how = "answered" if got else "closed"
    except socket.timeout: how = "silent"
    except OSError: how = "closed"
    s.close()
    return how, got.decode(errors="replace")
import random
random.seed(5)
cases = {
    "garbage": bytes(random.randrange(1, 256) for _ in range(3000)) + b"\0",
    "brackets": b"[" * 65536 + b"\0",
    "braces": b'{"a":' * 13000 + b"\0",
    "too-long": b'{"method":"org.scrubd.GetStatus","parameters":{"x":"' + b"y" * 200000 + b'"}}\0',
    "empty": b"\0",
    "not-utf8": b'{"method":"org.scrubd.Destroy","parameters":{"domid":1,"name":"\xff\xfe"},"more":true}\0',
    "wrong-type": b'{"method":"org.scrubd.Destroy","parameters":{"domid":"one"},"more":true}\0',
    "negative": b'{"method":"org.scrubd.Destroy","parameters":{"domid":-1},"more":true}\0',
    "huge": b'{"method":"org.scrubd.Destroy","parameters":{"domid":99999999999999999999},"more":true}\0',
    "unknown": b'{"method":"org.scrubd.Destroy","parameters":{"domid":30000},"more":true}\0',
    "domain0": b'{"method":"org.scrubd.Destroy","parameters":{"domid":0},"more":true}\0',
    "no-method": b'{"method":"org.scrubd.Nonsense"}\0',
}
for name, data in cases.items():
    how, got = send(data)
    print(name, how, got.rstrip("\0").replace("\n", " ")[:300])
how, got = send(b'{"method":"org.scrubd.GetStatus"', shut=True)
print("cut-off", how, got[:100])
"""


@scenario("bad-input")
def bad_input(host):
    """Garbage, 64 KiB of brackets and the like on the socket: an error or the door, scrubd serves on"""
    pid = host.main_pid()
    with host.unharmed():
        host.boot.put("/root/send.py", SEND)
        answers = {}
        for line in host.sh("python3 /root/send.py", 400).splitlines():
            name, how, *rest = line.split(" ", 2)
            answers[name] = (how, rest[0] if rest else "")
        for name, (how, got) in answers.items():
            expect(how != "silent", f"{name}: neither answered nor closed")
            expect(how == "closed" or '"error"' in got, f"{name}: taken for good: {got}")
        for name, error in (("unknown", "NoSuchDomain"), ("domain0", "NotAllowed"),
                            ("no-method", "MethodNotFound"), ("wrong-type", "InvalidParameter"),
                            ("negative", "InvalidParameter"), ("huge", "InvalidParameter")):
            expect(error in answers[name][1], f"{name}: {answers[name]} instead of {error}")
        expect(host.main_pid() == pid, "scrubd was restarted")
        status = host.status()
        expect(status["state"] == "ready" and status["jobs"] == 0, f"status: {status}")
    return {"cases": len(answers)}


@scenario("bad-config")
def bad_config(host):
    """A configuration with a mistake is refused with file:line; the running scrubd is not disturbed"""
    pid = host.main_pid()
    cases = (("\nfrobnicate = 1\n", 2), ("step_us = 500\n\nstep_us = 5\n", 3), ('scrub_cpus = "0-"\n', 1),
             ('scrub_cpus = "3-1"\n', 1), ("duty_percent = banana\n", 1))
    for text, line in cases:
        host.boot.put("/root/bad.conf", text)
        rc, out, err = host.try_sh("scrubd --check-config --config /root/bad.conf")
        expect(rc != 0, f"accepted: {text!r}")
        expect(re.search(rf"/root/bad\.conf:{line}: \S", out + err), f"{text!r}: no file:line in: {out}{err}")
    expect(host.main_pid() == pid, "scrubd was restarted")
    host.status()
    host.boot.put("/etc/scrubd/scrubd.conf", 'step_us = 500\nscrub_cpus = "1,"\n')
    try:
        host.sh("! systemctl restart scrubd.service 2>/dev/null")
        expect("/etc/scrubd/scrubd.conf:2:" in host.journal(), "the journal does not name file and line")
    finally:
        host.configure(host.default_config)
    # No CPU of the list exists here: it has to serve, and say so.
    with host.configured('scrub_cpus = "77"\n'):
        status = host.status()
        expect(status["mask"] == "0-1", f"mask is {status['mask']}")
        expect("77" in (status.get("reason") or "") + host.journal("77"), "nothing says what is wrong")
    return {"cases": len(cases) + 2}


@scenario("stop-resets", guests=("pv",))
def stop_resets(host, guest):
    """systemctl stop in the middle of a teardown: limits gone from Xen, nothing left half dead"""
    with host.configured(SLOW + 'scrub_cpus = "1"\nceiling_mib_s = 200\n'), host.unharmed() as figures:
        domid = host.victim(guest, mem=256)
        # Its caller dies, so that the job has no listener: scrubd has to drain it on stop.
        xl = host.boot.start_command(f"echo $$ > /run/lab/xl.pid; hooked xl destroy {domid}")
        host.poll("a teardown under way", 20, lambda: [j for j in host.jobs() if j["steps"] > 3])
        host.sh("kill -KILL -$(cat /run/lab/xl.pid)")
        xl.wait(60)
        limits = host.scrub()
        expect(limits["ceiling_set"] and limits["mask_set"] and limits["nodes"][0]["ceiling_kib"] == 200 * 1024,
               f"the limits are not in force: {limits}")
        expect([c["allowed"] for c in limits["cpus"][:2]] == [False, True], f"the mask is not in force: {limits}")
        host.sh("systemctl stop scrubd.socket scrubd.service", 120)
        limits = host.scrub()
        for key in ("ceiling_set", "mask_set", "lease_set"):
            expect(not limits[key], f"{key} survived the stop: {limits}")
        expect(all(c["allowed"] for c in limits["cpus"][:2]), f"a mask survived the stop: {limits}")
        host.expect_gone(domid, 1)
        host.sh("systemctl start scrubd.socket scrubd.service; poll 15 scrubctl status >/dev/null 2>&1")
    return figures


def limits_end(host, guest, config, no_reset):
    """scrubd is killed in the middle of a teardown, and stays dead: Xen's settings end all the same."""
    with host.configured(SLOW + 'scrub_cpus = "1"\n' + config), host.unharmed() as figures:
        domid = host.victim(guest, mem=256)
        host.sh(NO_RESTART + ("\nprintf 'ExecStopPost=\\n' >> /run/systemd/system/scrubd.service.d/lab.conf; "
                              "systemctl daemon-reload" if no_reset else ""))
        try:
            xl = host.boot.start_command(f"hooked xl destroy {domid}")
            host.poll("a teardown under way", 20, lambda: [j for j in host.jobs() if j["steps"] > 3])
            expect(host.scrub()["mask_set"], "no mask in force")
            host.sh("systemctl kill -s KILL scrubd.service")
            host.poll("the limits end", 15, lambda: not host.scrub()["mask_set"])
            xl.wait(60)
            host.expect_gone(domid, 1)
        finally:
            host.sh(RESTART)
    return figures


@scenario("lease", guests=("pv",))
def lease(host, guest):
    """scrubd is killed and stays dead, and nobody resets Xen for it: its limits end by themselves"""
    return limits_end(host, guest, "lease_s = 3\n", no_reset=True)


@scenario("stop-post", guests=("pv",))
def stop_post(host, guest):
    """scrubd is killed and stays dead: the service resets Xen, long before the lease would end"""
    return limits_end(host, guest, "lease_s = 3600\n", no_reset=False)


@scenario("contract", last=True)
def contract(host):
    """The contract test of the backend, on the real Xen"""
    if host.try_sh("test -x /usr/lib/lab/contract-xen")[0] != 0:
        raise Failure("contract-xen was not built")
    host.sh("systemctl stop scrubd.socket scrubd.service")
    try:
        with host.unharmed(clean=False):
            rc, out, err = host.try_sh("/usr/lib/lab/contract-xen", 120)
            wrong = "".join(l + "\n" for l in out.splitlines() if l.startswith(("not ok", "#")))
            expect(rc == 0, f"exit status {rc}\n{wrong}{err}")
            passed = len(re.findall(r"^ok ", out, re.M))
            expect(passed > 0 and not re.search(r"^not ok ", out, re.M), f"no checks ran:\n{out}{err}")
    finally:
        host.sh("systemctl start scrubd.socket scrubd.service")
    return {"checks": passed}


WAKEUPS = """
pid=$(systemctl show -P MainPID scrubd)
count() { cat /proc/$pid/task/*/status | sed -n 's/^voluntary_ctxt_switches:[^0-9]*//p' | { n=0; while read -r v; do n=$((n + v)); done; echo $n; }; }
a=$(count); sleep 20; b=$(count)
rss=$(sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$pid/status)
echo $((b - a)) $rss
"""


@scenario("idle", last=True)
def idle(host):
    """Idle for 20 s: at most one wake-up a second, resident memory under 10 MiB"""
    host.sh("systemctl is-active -q scrubd && scrubctl status >/dev/null")
    wakeups, rss_kib = (int(x) for x in host.sh(WAKEUPS, 60).split())
    expect(wakeups <= 20, f"{wakeups} wake-ups in 20 s")
    expect(rss_kib < 10 * 1024, f"resident memory is {rss_kib} KiB")
    return {"wakeups_20s": wakeups, "rss_kib": rss_kib}
