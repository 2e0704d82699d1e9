#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command line of README.md and the manual pages is run by a test: see tests/lib/documented.py, which says where.
Those of the fake host are run here, as they stand, each on a new host. TAP on standard output.

usage: test-documented.py SCRUBCTL FAKE-LIBXL SCRUBD-FAKE FAKECTL [sanitized]
"""
import os
import re
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import documented
import fakehost
import tap
from documented import DEV, FAKE, LAB
from fakehost import Host, equal, finish, poll

fakehost.use(*sys.argv[1:5], sanitized=len(sys.argv) > 5)
SCENARIO = "tests/lab/scenarios/documented.py"


def text_of(path):
    with open(os.path.join(documented.ROOT, path)) as f:
        return f.read()


def test_each_is_run_somewhere():
    found = documented.commands()
    for command, places in found.items():
        assert command in documented.WHERE, "nobody runs this: %s (%s); see tests/lib/documented.py" % (command, ", ".join(places))
    equal(sorted(set(documented.WHERE) - set(found)), [])


def test_by_others():
    """That tests elsewhere run what they are said to run."""
    scenario = text_of(SCENARIO).replace("{UUID}", "1f0c3e9a-75d2-4d0b-9c1e-0d3a5b7c9e11")
    verbs = re.findall(r"^  (\S+)", subprocess.run([documented.ROOT + "/dev", "help"], capture_output=True, text=True,
                                                   check=True).stdout, re.M)
    for command, where in documented.WHERE.items():
        if where == LAB:
            assert '"%s"' % command in scenario, "not in %s: %s" % (SCENARIO, command)
        elif where == DEV:
            equal((command, command.split()[1] in verbs), (command, True))
        elif isinstance(where, tuple):
            path, text = where
            assert text in text_of(path), "no %r in %s, for: %s" % (text, path, command)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def in_shell(host, command):
    return host.start("bash", "-c", command, preload="")


def about_a_teardown(host, command):
    """One that is under way; paused, so that it lasts, unless it is to be paused."""
    destroy = host.start(fakehost.SCRUBCTL, "destroy", "web-3")
    poll(lambda: host.json("list")["jobs"])
    if "pause" not in command:
        equal(host.run("pause", "web-3")[0], 0)
    result = finish(in_shell(host, command))
    host.fakectl("set", "free_pages_ms", "100000")
    host.run("hurry", "web-3")  # unless the command was to do that
    equal(finish(destroy)[0], 0)
    return result


def watch(host, command):
    process = in_shell(host, "exec " + command)
    log = host.dir + "/teardowns"
    out = poll(lambda: os.path.exists(log) and os.path.getsize(log)) if ">>" in command else process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rc, rest, err = finish(process)
    return rc, str(out) + rest, err


def run(host, port, command):
    command = command.replace("/var/log/", host.dir + "/")
    command = command.replace("curl http://127.0.0.1:9719/", "curl --silent --show-error http://127.0.0.1:%d/" % port)
    if re.match(r"scrubctl (pause|resume|hurry|priority) ", command):
        return about_a_teardown(host, command)
    if command.startswith("scrubctl watch"):
        return watch(host, command)
    if "--off" in command:
        equal(host.run("protect", "rt-*")[0], 0)
    if "xl create" in command:
        with open(host.dir + "/bin/xl", "w") as f:
            f.write("#!/bin/sh\necho \"$@\"\n")
        os.chmod(host.dir + "/bin/xl", 0o755)
        rc, out, err = finish(in_shell(host, command))
        equal(out, "create web-4.cfg\n")
        return rc, out, err
    return finish(in_shell(host, command))


def test_on_a_fake_host():
    for command, where in documented.WHERE.items():
        if where != FAKE:
            continue
        port = free_port()
        with Host("min_size_mib = 0\nmetrics_listen = \"%d\"\n" % port, online=255, free_pages=16 << 18, free_pages_ms=50) as host:
            try:
                rc, out, err = run(host, port, command)
            except AssertionError as e:
                raise AssertionError("%s: %s" % (command, e)) from e
            equal((command, rc, err), (command, 0, ""))
            # Nobody documents what does nothing.
            assert out or re.search(r"wait|jq|source", command), command


def test_configurations():
    """The examples of scrubd.conf(5) and scrubd(8) are configurations that scrubd takes, and the page has each key."""
    keys = set(re.findall(r"^#(\w+) = ", text_of("conf/scrubd.conf"), re.M))
    page = text_of("conf/scrubd.conf.5.scd")
    equal(set(re.findall(r"^\*(\w+)\*$", page, re.M)), keys)
    examples = page[page.index("# EXAMPLES"):].split("\n\n") + text_of("daemon/scrubd.8.scd").split("\n\n")
    examples = [re.sub(r"\\(.)", r"\1", e.replace("++\n", "\n")).strip() for e in examples]
    examples = [e for e in examples if re.match(r"\w+ = ", e)]
    assert len(examples) >= 4, examples
    with Host() as host:
        for example in examples:
            with open(host.dir + "/example.conf", "w") as f:
                f.write(example)
            done = subprocess.run([fakehost.SCRUBD, "--check-config", "--config", host.dir + "/example.conf"], env=host.env,
                                  capture_output=True, text=True)
            equal((example, done.returncode, done.stderr), (example, 0, ""))


sys.exit(tap.run(globals()))
