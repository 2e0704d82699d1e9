# SPDX-License-Identifier: GPL-2.0-or-later
"""The command lines that README.md and the manual pages show, and where each of them is run.

A command is an indented line of README.md, up to what two blanks or more set apart from it, or a line of a manual page
that stands behind a prompt. WHERE has every one of them; tests/cli/test-documented.py fails for one that it does not
have, and for one of its own that nobody documents.
"""
import os
import re

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGES = ("cli/scrubctl.1.scd", "daemon/scrubd.8.scd", "conf/scrubd.conf.5.scd")

# In test-documented.py, on a fake host with scrubd and a guest web-3 on it.
FAKE = "fake host"
# In the lab, by the scenario `documented`, on a host with a guest web-3.
LAB = "lab"
# A verb of ./dev; that there is such a verb is all that a test can ask.
DEV = "dev"

WHERE = {
    **dict.fromkeys((
        "curl http://127.0.0.1:9719/metrics",
        "scrubctl cpus",
        "scrubctl config reload",
        "scrubctl destroy --priority 5 --deadline 30s web-3",
        "scrubctl destroy web-3",
        "scrubctl hurry --deadline 1m30s web-3",
        "scrubctl hurry web-3",
        "scrubctl limit --cpus 4-15 --ceiling 500M --for 10m",
        "scrubctl limit --cpus 4-15 --ceiling 500M",
        "scrubctl limit --ceiling 500M --for 10m",
        "scrubctl list --json | jq -r '.jobs[].name'",
        "scrubctl list --stages",
        "scrubctl pause web-3",
        "scrubctl plan web-3",
        "scrubctl priority web-3 -- -5",
        "scrubctl protect 'rt-*' --off",
        "scrubctl protect 'rt-*'",
        "scrubctl reset",
        "scrubctl resume web-3",
        "scrubctl status --cpus",
        "scrubctl status --json | jq '.nodes[] | {node, backlog_pages}'",
        "scrubctl status",
        "scrubctl wait --free 8G --clean --timeout 1m && xl create web-4.cfg",
        "scrubctl wait --free 8G",
        "scrubctl watch --json --interval 1s >>/var/log/teardowns",
        "scrubctl watch",
        "source <(scrubctl completion bash)",
    ), FAKE),
    **dict.fromkeys((
        "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/scrubd/libscrubhook.so xl destroy web-3",
        "journalctl -u scrubd -f",
        "journalctl -u scrubd SCRUBD_UUID=1f0c3e9a-75d2-4d0b-9c1e-0d3a5b7c9e11",
        "scrubctl doctor | grep -v ^ok",
        "scrubctl doctor",
        "scrubctl history",
        "scrubctl history --last 5",
        "scrubctl hook disable",
        "scrubctl hook enable",
        "scrubctl hook status",
        "scrubd --check-config",
        "scrubd --reset",
        "systemctl disable --now scrubd.socket scrubd.service",
        "systemctl disable scrubd.socket scrubd.service",
        "systemctl enable --now scrubd.socket scrubd.service",
        "systemctl reload scrubd",
        "systemctl stop scrubd.socket scrubd.service",
        "xl destroy web-3",
    ), LAB),
    **dict.fromkeys(("./dev demo", "./dev demo --live", "./dev test", "./dev install"), DEV),
    # Elsewhere: the file of the test, and what of the command is in it.
    "apt purge scrubd": ("tests/lab/scenarios/package.py", "purge scrubd"),
    "systemctl restart libvirtd": ("tests/cli/test-hook.py", "systemctl restart libvirtd"),
    "varlinkctl introspect /run/scrubd/scrubd.sock org.scrubd": ("tests/foreign/test_varlinkctl.py", "introspect"),
    "varlinkctl call --more /run/scrubd/scrubd.sock org.scrubd.ListJobs '{}'":
        ("tests/foreign/test_varlinkctl.py", '"ListJobs"'),
    "varlinkctl call /run/scrubd/scrubd.sock org.scrubd.Hurry '{\"domid\":5}'":
        ("tests/foreign/test_varlinkctl.py", '"Hurry"'),
}


def readme():
    """(line number, command) of each in README.md."""
    with open(os.path.join(ROOT, "README.md")) as f:
        for number, line in enumerate(f, 1):
            if line.startswith("    ") and line.strip():
                yield "README.md:%d" % number, re.split(r"\s{2,}", line.strip())[0]


def page(path):
    """In scdoc a line of an example is indented by a tab, has its prompt escaped where it begins a line, and ends with ++
    where another one follows."""
    with open(os.path.join(ROOT, path)) as f:
        for number, line in enumerate(f, 1):
            m = re.match(r"\t?\\?# (.+?)(\+\+)?$", line) if line[0] in "\t\\" else None
            if m:
                yield "%s:%d" % (path, number), re.sub(r"\\(.)", r"\1", m.group(1))


def commands():
    """{command: [where it stands]}"""
    found = {}
    for source in [readme()] + [page(p) for p in PAGES]:
        for place, command in source:
            found.setdefault(command, []).append(place)
    return found
