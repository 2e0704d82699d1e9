# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenarios: how they are declared, grouped into boots, run and recorded.

A scenario is a function in scenarios/*.py:

    @scenario("xl-destroy", guests=("pv", "pvh"))
    def xl_destroy(host, guest):
        \"\"\"One line that --list shows.\"\"\"
        with host.unharmed():
            domid = host.victim(guest)
            host.sh(f"hooked xl destroy {domid}")
        return {"teardown_ms": 12}          # figures for results.jsonl

It passes unless it raises. All scenarios of one `boot` and hypervisor share a host; afterwards,
and between scenarios, the host is put back into its first state.
"""

import contextlib
import fcntl
import importlib
import json
import os
import re
import threading
import time
import traceback

import assets
import joblog
from assets import BUILD, HERE, PROGRESS, ROOT, LabError
from boot import LOGS, Boot

RESULTS = os.path.join(BUILD, "results.jsonl")

# Boot parameters by name. bootscrub=0 spares a host that only shows function the writing of all
# its memory; it changes nothing for what is freed later. SCRUB_DEBUG, on the other hand, checks
# pages only once the boot time scrubbing has been done at boot: the default, idle, would leave
# the check off and the scenario empty.
BOOTS = {
    "function": {"mem_mib": 3072, "prealloc": False, "xen_args": "bootscrub=0"},
    "debug": {"mem_mib": 2560, "prealloc": False, "xen_args": "bootscrub=1"},
}

BYSTANDER_IP = "10.99.250.2"
MIB = 1024  # KiB
PATIENCE = 3  # deadlines are for a machine of our own; this one may have other work
SLOW = "step_us = 200\nduty_percent = 2\n"  # a teardown of 512 MiB then takes 10 s and more


class Failure(Exception):
    """A scenario found the product wrong."""


class Scenario:
    def __init__(self, func, name, hypervisor, guest, boot, order, everyday=True):
        self.func, self.name, self.hypervisor, self.guest = func, name, hypervisor, guest
        self.boot, self.order, self.everyday = boot, order, everyday
        self.doc = (func.__doc__ or "").strip().splitlines()[0] if func.__doc__ else ""

    def label(self):
        return " ".join(x for x in (self.name, self.hypervisor, self.guest) if x)


REGISTRY = []


def scenario(name, hypervisors=("patched",), guests=(None,), boot="function", last=False, everyday=True):
    """Declares a scenario, once for each hypervisor and guest. last: wants the host to itself,
    after what disturbs (units stopped, timings). everyday: runs if nobody asks for it, too; or the guests with
    which it does."""
    def register(func):
        for h in hypervisors:
            for g in guests:
                daily = everyday if isinstance(everyday, bool) else g in everyday
                REGISTRY.append(Scenario(func, name, h, g, boot, (last, len(REGISTRY)), daily))
        return func
    return register


def load():
    for f in sorted(os.listdir(os.path.join(HERE, "scenarios"))):
        if f.endswith(".py"):
            importlib.import_module("scenarios." + f[:-3])
    return REGISTRY


def expect(condition, text):
    if not condition:
        raise Failure(text)


class Host:
    """What a scenario sees of a boot."""

    def __init__(self, boot):
        self.boot = boot
        self.hypervisor = boot.hypervisor
        self.victims = 0
        self.default_config = None

    # --- Scripts ---

    def sh(self, script, timeout_s=240):
        """stdout of a script in dom0 that must succeed."""
        rc, out, err = self.boot.start_command(script).wait(timeout_s)
        if rc != 0:
            raise Failure(f"exit status {rc} of: {' '.join(script.split())[:200]}\n"
                          + (out + err).decode(errors="replace"))
        return out.decode(errors="replace")

    def try_sh(self, script, timeout_s=240):
        """(exit status, stdout, stderr) as text."""
        rc, out, err = self.boot.start_command(script).wait(timeout_s)
        return rc, out.decode(errors="replace"), err.decode(errors="replace")

    def json(self, script):
        text = self.sh(script)
        try:
            return json.loads(text)
        except ValueError as e:
            raise Failure(f"no JSON from {script}: {e}\n{text[:400]}") from e

    def poll(self, what, timeout_s, question):
        """question() until it gives something true, which is returned."""
        timeout_s *= PATIENCE
        end = time.monotonic() + timeout_s
        while True:
            answer = question()
            if answer:
                return answer
            if time.monotonic() > end:
                raise Failure(f"not within {timeout_s} s: {what}")
            time.sleep(0.1)

    # --- scrubd ---

    def status(self):
        return self.json("scrubctl status --json")

    def jobs(self):
        return self.json("scrubctl list --json")["jobs"]

    def scrub(self):
        """The hypervisor's own counters and settings (labscrub)."""
        return self.json("labscrub get")

    def main_pid(self):
        return int(self.sh("systemctl show -P MainPID scrubd"))

    def restarts(self):
        return int(self.sh("systemctl show -P NRestarts scrubd"))

    def journal(self, grep=None):
        text = self.sh("journalctl -u scrubd -o cat --no-pager")
        return text if grep is None else "\n".join(l for l in text.splitlines() if re.search(grep, l))

    def end_of_job(self, domid):
        """{how, ms, steps, hypervisor_ms, left, total ..} of the job that scrubd has finished, by its journal."""
        return self.poll(f"the end of the job of domain {domid} in the journal", 15,
                         lambda: joblog.end_of_job(self.journal(), domid))

    def configure(self, text):
        """Restarts scrubd with this configuration file."""
        self.boot.put("/etc/scrubd/scrubd.conf", text)
        self.sh("systemctl reset-failed scrubd.service 2>/dev/null; systemctl restart scrubd.service && "
                "poll 15 scrubctl status >/dev/null 2>&1")

    @contextlib.contextmanager
    def configured(self, text):
        self.configure(text)
        try:
            yield
        finally:
            self.configure(self.default_config)

    # --- Guests ---

    def victim(self, guest, mem=256, running=False, options="", create="xl"):
        """Domid of a new guest to destroy. Unless running, it is built in full but never
        unpaused: all its memory is there, and it costs 3 s instead of 10."""
        self.victims += 1
        self.name = f"victim{self.victims}"
        if running:
            script = f"guest_start {self.name} --type {guest} --mem {mem} --fill all {options}"
        else:
            script = f"guest_build {self.name} --type {guest} --mem {mem} {options}"
        return int(self.sh(f"LAB_XL='{create}'; {script}", 400))

    def start_bystander(self):
        self.sh(f"guest_start bystander --type pv --mem 128 --ip {BYSTANDER_IP} --tick yes", 400)

    def bystander_alive(self):
        rc, out, err = self.try_sh(f"alive bystander && busybox ping -c 1 -W 10 {BYSTANDER_IP} && "
                                   "ticks_on bystander")
        expect(rc == 0, f"the bystander does not answer:\n{out}{err}")

    def free_kib(self):
        return int(self.sh("free_kib"))

    def expect_gone(self, domid, timeout_s=30):
        timeout_s *= PATIENCE
        expect(self.try_sh(f"gone {domid} {timeout_s}")[0] == 0,
               f"domain {domid} is still there: " + self.sh(f"labhv domain {domid}"))

    @contextlib.contextmanager
    def unharmed(self, clean=True):
        """What is inside creates and destroys domains; afterwards free memory is what it was,
        to the MiB, the bystander works, and no dirty memory lies about."""
        before = self.free_kib()
        figures = {}
        yield figures
        after = None
        end = time.monotonic() + 20 * PATIENCE
        while after is None or (abs(after - before) >= MIB and time.monotonic() < end):
            after = self.free_kib()
        figures["free_mib_before"], figures["free_mib_after"] = before // MIB, after // MIB
        expect(abs(after - before) < MIB, f"free memory was {before} KiB and is {after} KiB")
        self.bystander_alive()
        if clean and (self.hypervisor == "patched" or self.hypervisor in assets.LIVE):
            began = time.monotonic()
            self.poll("the backlog back at its baseline", 60,
                      lambda: self.status().get("backlog_pages") == 0)
            figures["clean_s"] = round(time.monotonic() - began, 1)

    # --- Between scenarios ---

    def prepare(self, needs_scrubd):
        if needs_scrubd:
            self.sh("systemctl is-active -q scrubd.socket && poll 20 scrubctl status >/dev/null 2>&1 || "
                    "{ systemctl status --no-pager scrubd.socket scrubd.service; "
                    "journalctl -u scrubd --no-pager | tail -20; exit 1; } >&2")
            self.default_config = self.sh("cat /etc/scrubd/scrubd.conf")
        self.start_bystander()

    def recover(self):
        """After a failure: the first state again."""
        script = ("for d in $(labhv domains | while read -r d _; do echo $d; done); do "
                  "[ $d = 0 ] || [ \"$(xenstore-read /local/domain/$d/name 2>/dev/null)\" = bystander ] || "
                  "{ timeout 20 xl destroy $d || labhv poke $d; } >/dev/null 2>&1; done; "
                  "rm -rf /run/systemd/system/scrubd.service.d; systemctl daemon-reload; "
                  "systemctl reset-failed 2>/dev/null; systemctl start scrubd.socket; true")
        if self.hypervisor in assets.LIVE:
            script += "; live_loaded || live_load"
        self.sh(script, 120)
        if self.default_config is not None:
            self.configure(self.default_config)


# --- Running --------------------------------------------------------------------------------

class Run:
    def __init__(self, scenarios):
        self.scenarios = scenarios
        self.lock = threading.Lock()
        self.passed = self.failed = 0
        os.makedirs(BUILD, exist_ok=True)
        # Results and logs are of one run.
        self.only_one = open(os.path.join(BUILD, "run.lock"), "w")
        try:
            fcntl.flock(self.only_one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            PROGRESS.say("lab: waiting for another run of scenarios to end")
            fcntl.flock(self.only_one, fcntl.LOCK_EX)
        open(RESULTS, "w").close()

    def record(self, s, error, figures, seconds, log=None):
        entry = {"scenario": s.name, "hypervisor": s.hypervisor, "guest": s.guest,
                 "pass": error is None, "figures": figures or {}, "seconds": round(seconds, 1)}
        if error is not None:
            entry["error"] = error
        with self.lock:
            with open(RESULTS, "a") as f:
                f.write(json.dumps(entry) + "\n")
            if error is None:
                self.passed += 1
            else:
                self.failed += 1
        shown = "".join(f"  {k}={v}" for k, v in (figures or {}).items())
        mark = "ok  " if error is None else "FAIL"
        print(f"{mark} {s.name:<22} {s.hypervisor:<8} {s.guest or '-':<4} {seconds:5.1f} s{shown}", flush=True)
        if error is not None:
            print("     " + error.strip().replace("\n", "\n     "), flush=True)
            if log:
                print(f"     logs: {log}", flush=True)

    def group(self, host_name, scenarios):
        """All scenarios of one boot. A host that dies is booted again for those left, once."""
        left = sorted(scenarios, key=lambda s: s.order)
        hypervisor, boot_name = left[0].hypervisor, left[0].boot
        for attempt in (1, 2):
            if not left:
                return
            name = host_name + (f"-{attempt}" if attempt > 1 else "")
            boot = Boot(hypervisor, name=name, boot_limit_s=300, time_limit_s=1800, **BOOTS[boot_name])
            began = time.monotonic()
            failed_before = self.failed
            try:
                with boot:
                    host = Host(boot)
                    host.prepare(needs_scrubd=boot.scrubd)
                    PROGRESS.say(f"lab: {name}: host up in {boot.boot_s:.0f} s, "
                                 f"bystander in {time.monotonic() - began - boot.boot_s:.0f} s, "
                                 f"{len(left)} scenarios")
                    try:
                        while left:
                            self.one(host, left[0])
                            left.pop(0)
                            if boot.channel.closed.is_set():
                                break
                    finally:
                        if self.failed > failed_before and not boot.channel.closed.is_set():
                            self.keep_journal(boot)
                    if not left:
                        if not boot.channel.closed.is_set():
                            boot.power_off()
                        continue
            except (LabError, Failure) as e:
                for n, s in enumerate(left):
                    self.record(s, f"the host did not come up: {e if n == 0 else 'see above'}", None,
                                time.monotonic() - began, boot.log_path)
                return
        for s in left:
            self.record(s, "not run: the host went down twice", None, 0)

    @staticmethod
    def keep_journal(boot):
        with contextlib.suppress(LabError, Failure):
            with open(os.path.join(LOGS, boot.name + ".journal"), "w") as f:
                f.write(boot.run("journalctl -b --no-pager -o short-monotonic; xl dmesg -T 2>/dev/null | tail -100; "
                                 "tail -n 50 /var/log/xen/*.log /var/log/xen/console/*.log")[1])

    def one(self, host, s):
        began = time.monotonic()
        error, figures = None, None
        try:
            figures = s.func(host, s.guest) if s.guest else s.func(host)
        except (Failure, LabError) as e:
            error = str(e) or repr(e)
        except Exception:  # a bug of the scenario must not end the others
            error = traceback.format_exc()
        log = None
        if error is not None:
            log = host.boot.log_path
            self.keep_journal(host.boot)
        self.record(s, error, figures, time.monotonic() - began, log)
        if error is not None and not host.boot.channel.closed.is_set():
            with contextlib.suppress(Failure, LabError):
                host.recover()

    def all(self, parallel):
        """Prepares what the boots share, then runs the groups, `parallel` at a time."""
        groups = {}
        for s in self.scenarios:
            groups.setdefault((s.hypervisor, s.boot), []).append(s)
        boots = []
        for (hypervisor, boot), members in groups.items():
            # Two hosts share what would keep one busy after all others have ended.
            parts = 2 if len(members) > 12 and parallel > 1 else 1
            boots += [(f"{hypervisor}-{boot}" + (f"{n + 1}" if parts > 1 else ""), members[n::parts])
                      for n in range(parts)]
        assets.base()
        assets.lab_overlay()
        with PROGRESS.step("lab: scrubd", 10):
            assets.scrubd_overlay()
        # Stock first: of the patched one only what the patches touch is compiled then.
        for h in sorted({h for h, _ in groups}, key=assets.HYPERVISORS.index):
            assets.hypervisor(h)
            if h in assets.LIVE:
                assets.livepatch(assets.LIVE[h])
        waiting = sorted(boots, key=lambda b: -len(b[1]))
        lock = threading.Lock()

        def work():
            while True:
                with lock:
                    if not waiting:
                        return
                    name, members = waiting.pop(0)
                try:
                    self.group(name, members)
                except Exception:
                    for s in members:
                        self.record(s, traceback.format_exc(), None, 0)

        threads = [threading.Thread(target=work) for _ in range(min(parallel, len(waiting)))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return self.failed == 0


__all__ = ["BUILD", "RESULTS", "ROOT", "SLOW", "BOOTS", "Failure", "Host", "Run", "expect", "load", "scenario"]
