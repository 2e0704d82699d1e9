#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Every verb of scrubctl, by the table that `scrubctl help --json` shows: JSON for programs, text that fits 80 columns
whatever the figures are, and the same verbs and options in the manual page, in bash and in zsh.
TAP on standard output.

usage: test-verbs.py SCRUBCTL FAKE-LIBXL VERSION [sanitized]
"""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import tap
from case import SCRUBCTL, Case, Terminal, contains, equal
from scripted import error, reply

MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cli", "scrubctl.1.scd")

UUID = "6f1b6d6e-0f53-4c1c-9d70-2b4b9b0c7a07"
NAME = "a-name-of-sixty-four-letters-" * 2 + "gütig!"
LONG = 10**11  # ms: three years
PAGES = 2**40  # 4 PiB
REASON = "words that go on and on, " * 12 + "to their end"
CPUS = ",".join(str(n) for n in range(0, 200, 2))
JOB = {"id": 1, "domid": 32751, "uuid": UUID, "name": NAME, "state": "scrubbing", "adopted": False,
       "pages_total": PAGES, "pages_left": PAGES - 1, "steps": 10**12, "hypervisor_us": 10**15, "elapsed_ms": LONG,
       "rate_kib_s": 2**30 - 1, "eta_ms": LONG, "priority": -10, "hurry": True, "purpose": "soft-reset", "deadline_ms": LONG,
       "paused_ms": LONG, "toolstack_ms": LONG, "waiting_ms": LONG, "freeing_ms": LONG, "scrubbing_ms": LONG}
NODE = {"node": 63, "ceiling_kib": 2**30 - 1, "floor_kib": 2**30 - 1, "dirty_pages": PAGES, "backlog_pages": PAGES,
        "dirtied": PAGES, "idle": PAGES, "alloc": PAGES, "dropped": PAGES, "floor": PAGES, "throttled_ms": LONG}
STATUS = {"version": "0.1.0-a-long-one", "state": "ready", "reason": REASON, "xen": "4.17.5-of-some-distribution",
          "uptime_s": LONG // 1000, "jobs": 100000, "jobs_done": 10**12, "backlog_pages": PAGES, "baseline_pages": PAGES,
          "mask": CPUS, "nodes": [dict(NODE, node=n) for n in range(64)],
          "cpus": [{"cpu": 4095, "allowed": True, "scrubbed_pages": PAGES}],
          "zombies": [{"domid": 32751, "uuid": UUID, "name": NAME, "pages": PAGES, "dead_ms": LONG}]}
PLACED = {"online": True, "node": 63, "socket": 127, "core": 4095, "cpupool": 32751, "allowed": True, "domid": 32751,
          "uuid": UUID, "name": NAME, "sibling": 4095}
CPU_REPLIES = [reply({"cpu": dict(PLACED, cpu=4000 + n, why=why)}, more=True) for n, why in enumerate((
    "free", "everywhere", "node_needs_sibling", "node_needs_soft", "last", "offline", "hard", "soft", "sibling", "all",
    "listed", "not_listed"))] + [reply({"cpu": dict(PLACED, cpu=4095, why="not known to this scrubctl")})]
PROTECTED = [{"by": "pin", "domid": 32751, "uuid": UUID, "name": NAME, "cpus": CPUS},
             {"by": "request", "rule": NAME + "*"}]
LIMITS = {"ceiling_kib": 2**30 - 1, "ceiling_for_ms": LONG, "mask": CPUS, "mask_for_ms": LONG}
LIST = {"ListJobs": [reply({"job": JOB}, more=True), reply({"job": dict(JOB, state="waiting", eta_ms=None)})],
        "GetStatus": [reply(STATUS)]}
WAITS = {"event": "done", "free_mib": 2**30, "backlog_pages": PAGES, "eta_ms": LONG}

PLAN = {"steps": 10**9, "step_us": 99999, "hypervisor_ms": LONG, "duty_percent": 100, "quick": True, "dead_ms": LONG,
        "held": True, "jobs_before": 10**6, "pages": PAGES, "rate_kib_s": 2**30 - 1, "clean_ms": LONG,
        "scrub_kib_s": 2**30 - 1, "mask": CPUS, "measured": False, "purpose": "soft-reset"}

# Of each verb, command lines and what scrubd answers.
CASES = {
    "status": [(["status", "--cpus"], {"GetStatus": [reply(dict(STATUS, by_hand=LIMITS))]}),
               (["status"], {"GetStatus": [reply(dict(STATUS, state="degraded"))]})],
    "list": [(["list"], LIST), (["list", "--stages"], LIST)],
    "destroy": [(["destroy", "7", "--priority", "5"], {"Destroy": [reply({"event": "dead", "job": JOB})]})],
    "watch": [(["watch"], {"Watch": [reply({"status": STATUS, "jobs": [JOB]}, more=True),
                                     reply({"status": STATUS, "jobs": [dict(JOB, state="waiting")]}, more=True),
                                     reply({"status": STATUS, "jobs": []}, more=True)]})],
    "pause": [(["pause", "32751"], {**LIST, "Pause": [reply({"job": JOB})]})],
    "resume": [(["resume", "32751"], {**LIST, "Resume": [reply({"job": JOB})]})],
    "hurry": [(["hurry", "32751", "--deadline", "24h"], {**LIST, "Hurry": [reply({"job": JOB})]})],
    "priority": [(["priority", NAME, "10"], {**LIST, "SetPriority": [reply({"job": JOB})]})],
    "wait": [(["wait", "--free", "8G", "--clean"], {"Wait": [reply(WAITS)]})],
    "limit": [(["limit"], {"SetLimit": [reply(LIMITS)]})],
    "cpus": [(["cpus"], {"ListCpus": CPU_REPLIES})],
    "protect": [(["protect"], {"ListProtected": [reply({"protected": p}, more=p != PROTECTED[-1]) for p in PROTECTED]}),
                (["protect", NAME], {"Protect": [reply({"domains": 32751})]}),
                (["protect", NAME, "--off"], {"Protect": [reply({"domains": 0})]})],
    "reset": [(["reset"], {"Reset": [reply({})]})],
    "config": [(["config", "reload"],
                {"ReloadConfig": [reply({"changed": [{"key": "protect", "from": REASON, "to": CPUS}]})]})],
    "plan": [(["plan", "7"], {"Plan": [reply({"plan": dict(PLAN, way="steps")})]}),
             (["plan", "8"], {"Plan": [reply({"plan": dict(PLAN, way="running")})]}),
             (["plan", "8"], {"Plan": [reply({"plan": dict(PLAN, way="caller", reason=REASON)})]})],
    "history": [(["history"], {})],
    "doctor": [(["doctor"], {})],
    "hypervisor": [(["hypervisor", "status"], {}), (["hypervisor", "unload"], {})],
    "hook": [(["hook", "status"], {}), (["hook", "disable"], {})],
    "completion": [(["completion", "jobs"], LIST), (["completion", "domains"], {})],
    "help": [(["help"], {}), (["help", "limit"], {})],
}
# The root directory of a host, for the verbs that look at one.
ROOTED = {"hook", "history", "doctor"}
# Ends with the connection, as the scripted scrubd does.
UNREACHABLE = {"watch"}
# Scripts, names as they are.
AS_IT_IS = {"completion"}


def make_root(path):
    """A host with xl and libvirt, whose hook is in nobody."""
    for name in ("/usr/sbin", "/usr/local/sbin", "/usr/lib/systemd/system", "/var/log/journal", "/proc/self", "/proc/4194303"):
        os.makedirs(path + name)
    for name, text in (("/proc/self/stat", ""), ("/usr/sbin/xl", ""), ("/usr/lib/systemd/system/libvirtd.service", ""),
                       ("/proc/4194303/comm", "virtxend\n"), ("/proc/4194303/maps", "/usr/lib/libxenctrl.so.4.17\n"),
                       ("/proc/4194303/cmdline", "/usr/sbin/virtxend\0--daemon\0")):
        with open(path + name, "w") as f:
            f.write(text)
    fields = {"__REALTIME_TIMESTAMP": 1764500000000000, "__MONOTONIC_TIMESTAMP": 5000000, "_PID": 400,
              "_BOOT_ID": "5d0a3e4c8b2f4a6f9e1d7c3b5a798812", "_SYSTEMD_UNIT": "scrubd.service", "MESSAGE": "x",
              **{"SCRUBD_" + k.upper(): v for k, v in dict(
                  event="dead", domid=32751, uuid=UUID, job=1, name=NAME, pages=PAGES, steps=10**9, toolstack_ms=LONG,
                  waiting_ms=LONG, freeing_ms=LONG, hypervisor_ms=LONG).items()}}
    subprocess.run(["/lib/systemd/systemd-journal-remote", "--output=%s/var/log/journal/test.journal" % path, "-"],
                   input="".join("%s=%s\n" % f for f in fields.items()) + "\n", text=True, check=True, capture_output=True)


def run(case, verb, argv):
    if verb not in ROOTED:
        return case.run(*argv)
    if not os.path.exists(case.dir + "/root"):
        make_root(case.dir + "/root")
    return case.run(*argv, SCRUBD_ROOT=case.dir + "/root")


# doctor finds a lot on such a host.
EXIT = {"watch": 3, "doctor": 1}


def table():
    with Case() as c:
        return json.loads(c.run("help", "--json")[1])["commands"]


def each_case():
    for verb in (v["name"] for v in table()):
        assert verb in CASES, "no case here for the verb %s: give it one, with figures as long as they get" % verb
        for argv, replies in CASES[verb]:
            yield verb, argv, replies


def test_eighty_columns():
    for verb, argv, replies in each_case():
        with Case(**replies) as c:
            rc, out, err = run(c, verb, argv)
            assert verb != "history" or NAME[:12] in out, out
            equal((argv, rc, err if verb not in UNREACHABLE else ""), (argv, EXIT.get(verb, 0), ""))
            long = [line for line in out.splitlines() if len(line) > 80]
            if verb not in AS_IT_IS:
                equal((argv, long), (argv, []))
            for line in out.splitlines():
                equal(line, line.rstrip())


def test_json():
    for verb, argv, replies in each_case():
        with Case(**replies) as c:
            rc, out, err = run(c, verb, argv + ["--json"])
            equal((argv, rc), (argv, EXIT.get(verb, 0)))
            for document in out.splitlines() if verb in UNREACHABLE else [out]:
                assert isinstance(json.loads(document), dict), (argv, document)
        if not replies:
            continue
        # What goes wrong is JSON too, and the exit status tells.
        with Case(**{method: [error("org.scrubd.Refused", reason="no")] for method in replies}) as c:
            rc, out, err = c.run(*argv, "--json")
            if verb != "destroy":  # which then does without scrubd
                equal((argv, rc, json.loads(out)["error"]), (argv, 1, "org.scrubd.Refused"))


def test_terminal_that_is_wide():
    """Tables use the width that there is."""
    with Case(ListCpus=CPU_REPLIES) as c:
        t = Terminal(c, "cpus", columns=200)
        equal(t.finish(), 0)
        contains(t.output.decode(), "is protected, but may run on every CPU\r\n")


def test_manual():
    """The manual page has the verbs of the table, with their operands and options."""
    with open(MANUAL) as f:
        text = f.read()
    commands = text[text.index("\n# COMMANDS\n"):text.index("\n# OPTIONS\n")]
    found = {}
    for line in re.findall(r"^\*[a-z].*$", commands, re.M):
        for synopsis in line.split(", *"):
            m = re.match(r"\*?([a-z]+)", synopsis)
            options = sorted(re.findall(r"\*--([a-z-]+)\*(?: _([A-Z]+)_)?", synopsis))
            operands = re.sub(r"\[?\*--[a-z-]+\*(?: _[A-Z]+_)?\]?", "", synopsis[len(m.group(0)):])
            operands = " ".join(re.sub(r"[*_]", "", operands).split()).replace(" ]", "]")
            # A verb may have a section for each word that can follow it.
            if m.group(1) in found:
                operands = found[m.group(1)][1] + "|" + operands
            found[m.group(1)] = (options, operands)
    want = {v["name"]: (sorted((o["name"], o.get("arg", "")) for o in v["options"]), v["operands"]) for v in table()}
    for verb in sorted(set(want) | set(found)):
        equal((verb, found.get(verb)), (verb, want.get(verb)))


class Shell:
    """A place where `scrubctl` is the one under test."""

    def __init__(self, case, script):
        self.case, self.dir = case, case.dir
        with open(self.dir + "/scrubctl", "w") as f:
            f.write("#!/bin/sh\n")
            for name in ("LD_PRELOAD", "SCRUBD_SOCKET", "ASAN_OPTIONS"):
                if name in case.env():
                    f.write("export %s='%s'\n" % (name, case.env()[name]))
            f.write("exec %s \"$@\"\n" % SCRUBCTL)
        os.chmod(self.dir + "/scrubctl", 0o755)
        with open(self.dir + "/_scrubctl", "w") as f:
            f.write(case.run("completion", script)[1])
        self.env = dict(os.environ, PATH=self.dir + ":" + os.environ["PATH"], LC_ALL="C.UTF-8", TERM="xterm", HOME=self.dir)

    def bash(self, *words):
        """What bash offers for the last word."""
        script = ('source "$1"; shift; COMP_WORDS=(scrubctl "$@"); COMP_CWORD=$#; _scrubctl; '
                  '[ ${#COMPREPLY[@]} = 0 ] || printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", self.dir + "/_scrubctl", *words], env=self.env,
                              cwd=self.dir, capture_output=True, text=True, timeout=30)
        equal((words, done.returncode, done.stderr), (words, 0, ""))
        return done.stdout.splitlines()


EVIL = "$(touch pwned) `touch pwned`;x"
JOBS = {"ListJobs": [reply({"job": dict(JOB, name=n)}, more=n != "") for n in ("web-3", EVIL, "a\tb\nc", "")],
        "GetStatus": [reply(STATUS)]}


def test_bash():
    verbs = table()
    with Case(**JOBS) as c:
        shell = Shell(c, "bash")
        equal(shell.bash(""), [v["name"] for v in verbs])
        equal(shell.bash("h"), [v["name"] for v in verbs if v["name"][0] == "h"])
        equal(shell.bash("--json", "wat"), ["watch"])
        equal(shell.bash("--v"), ["--version"])
        for v in verbs:
            equal(shell.bash(v["name"], "--"), ["--" + o["name"] for o in v["options"]] + ["--json", "--help"])
        equal(shell.bash("limit", "--cpus", ""), ["all", "auto"])
        equal(shell.bash("limit", "--cpus", "=", "al"), ["all"])
        equal(shell.bash("limit", "--ceiling", "="), ["none"])
        equal(shell.bash("limit", "--ceiling", "1G", "--cpus", "au"), ["auto"])
        equal(shell.bash("limit", ""), [])
        equal(shell.bash("destroy", "w"), ["web-3"])
        equal(shell.bash("destroy", "--deadline", "w"), [])
        equal(shell.bash("destroy", "--deadline", "30s", "w"), ["web-3"])
        equal(shell.bash("destroy", "web-3", "w"), [])
        equal(shell.bash("help", "des"), ["destroy"])
        equal(shell.bash("config", ""), ["reload"])
        # Names of guests are never expanded, and come quoted.
        offered = shell.bash("pause", "")
        equal(len(offered), 2)
        equal(subprocess.run(["bash", "-c", "printf '%s\\n' " + " ".join(offered)], capture_output=True, text=True,
                             cwd=c.dir).stdout.splitlines(), ["web-3", EVIL])
        equal(shell.bash("pause", "web-3", ""), [])
        assert not os.path.exists(c.dir + "/pwned"), "a name was executed"
    with Case() as c:  # no scrubd: no names, and no messages
        equal(Shell(c, "bash").bash("pause", ""), [])


class Zsh(Terminal):
    def __init__(self, shell):
        super().__init__(shell.case, argv=["zsh", "-f", "-i"], env=shell.env, columns=200)
        self.say("cd %s; fpath=(%s $fpath); autoload -Uz compinit && compinit -u -D; unset zle_bracketed_paste; "
                 "bindkey '^I' complete-word; bindkey '^U' kill-whole-line; setopt no_beep list_rows_first; "
                 "zstyle ':completion:*' list-prompt ''; PS1='re''ady> '\n" % (shell.dir, shell.dir))
        self.read_until(b"ready> ")

    def say(self, text):
        os.write(self.fd, text.encode())

    def completes(self, line, want):
        """After a tab the line is that."""
        self.say("\x15" + line + "\t\x05#end")
        text = self.read_until(b"#end").decode(errors="replace")
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
        contains(text.replace("\r", "").replace("\b", ""), want)
        self.say("\x15")

    def lists(self, line, *want):
        """After a tab these are offered."""
        self.say("\x15" + line + "\t\t")
        for text in want:
            self.read_until(text.encode())
        self.say("\x15")


def test_zsh():
    assert shutil.which("zsh"), "zsh is not installed"
    verbs = table()
    with Case(**JOBS) as c:
        shell = Shell(c, "zsh")
        equal(subprocess.run(["zsh", "-f", "-n", c.dir + "/_scrubctl"], capture_output=True, text=True).stderr, "")
        with open(c.dir + "/_scrubctl") as f:
            script = f.read()
        for v in verbs:
            contains(script, "        '%s:" % v["name"])
            for o in v["options"]:
                contains(script, "'--%s%s[" % (o["name"], "=" if o.get("arg") else ""))
        zsh = Zsh(shell)
        zsh.completes("scrubctl destr", "scrubctl destroy")
        zsh.completes("scrubctl --json conf", "scrubctl --json config")
        zsh.completes("scrubctl config r", "scrubctl config reload")
        zsh.completes("scrubctl destroy w", "scrubctl destroy web-3")
        zsh.completes("scrubctl pause w", "scrubctl pause web-3")
        zsh.completes("scrubctl limit --cpus au", "scrubctl limit --cpus auto")
        zsh.completes("scrubctl destroy --dead", "scrubctl destroy --deadline")
        zsh.completes("scrubctl help cp", "scrubctl help cpus")
        zsh.say("exit\n")
        equal(zsh.finish(), 0)
        assert not os.path.exists(c.dir + "/pwned"), "a name was executed"


sys.exit(tap.run(globals()))
