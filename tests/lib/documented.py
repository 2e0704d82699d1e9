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

# In the lab, by a scenario of another file in tests/lab/scenarios: its name without .py.
# No test runs it so far.
NOT_YET = "not yet"
# By the lab itself, as it makes dom0's image: tests/lab/assets.py.
IMAGE = "image"

WHERE = {
    "meson setup build/release --prefix=/usr --buildtype=release -Dtests=false": IMAGE,
    "meson compile -C build/release": IMAGE,
    "meson install -C build/release": IMAGE,
    "systemctl daemon-reload": LAB,
    "systemctl enable --now scrubd.socket scrubd.service": LAB,
    "systemctl disable --now scrubd.socket scrubd.service": LAB,
    "ninja -C build/release uninstall": IMAGE,
    "journalctl -u scrubd SCRUBD_UUID=1f0c3e9a-75d2-4d0b-9c1e-0d3a5b7c9e11": LAB,
    "scrubctl hook enable": LAB,
    "scrubctl hook status": LAB,
    "scrubctl hook disable": LAB,
    "systemctl restart libvirtd": NOT_YET,
    "systemctl stop scrubd.socket scrubd.service": LAB,
    "systemctl disable scrubd.socket scrubd.service": LAB,
    "curl http://127.0.0.1:9719/metrics": NOT_YET,
    "varlinkctl introspect /run/scrubd/scrubd.sock org.scrubd": NOT_YET,
    "varlinkctl call --more /run/scrubd/scrubd.sock org.scrubd.ListJobs '{}'": NOT_YET,
    "varlinkctl call /run/scrubd/scrubd.sock org.scrubd.Hurry '{\"domid\":5}'": NOT_YET,
    "scrubctl config reload": FAKE,
    "scrubctl plan web-3": FAKE,
    "scrubctl history --last 5": LAB,
    "scrubctl doctor | grep -v ^ok": LAB,
    "./dev demo": DEV,
    "./dev test": DEV,
    "./dev deps": DEV,
    "scrubctl destroy web-3": FAKE,
    "scrubctl watch": FAKE,
    "scrubctl status --cpus": FAKE,
    "scrubctl hurry web-3": FAKE,
    "scrubctl wait --free 8G": FAKE,
    "scrubctl cpus": FAKE,
    "scrubctl protect 'rt-*'": FAKE,
    "scrubctl limit --cpus 4-7 --ceiling 500M": FAKE,
    "scrubctl limit --cpus 4-15 --ceiling 500M": FAKE,
    "scrubctl reset": FAKE,
    "scrubctl list --json | jq -r '.jobs[].name'": FAKE,
    "scrubctl wait --clean --timeout 5m": FAKE,
    "scrubctl status": FAKE,
    "xl destroy web-3": LAB,
    "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/scrubd/libscrubhook.so xl destroy web-3": LAB,
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
