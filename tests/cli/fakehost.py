# SPDX-License-Identifier: GPL-2.0-or-later
"""A fake host with a scrubd on it, and scrubctl."""
import json
import os
import shutil
import subprocess
import tempfile
import time

SCRUBCTL = FAKE_LIBXL = SCRUBD = FAKECTL = None  # paths, set by use()
SANITIZED = False


def use(scrubctl, fake_libxl, scrubd, fakectl, sanitized):
    global SCRUBCTL, FAKE_LIBXL, SCRUBD, FAKECTL, SANITIZED
    SCRUBCTL, FAKE_LIBXL, SCRUBD, FAKECTL = (os.path.abspath(p) for p in (scrubctl, fake_libxl, scrubd, fakectl))
    SANITIZED = sanitized


def equal(got, want):
    if got != want:
        raise AssertionError("got  %r\nwant %r" % (got, want))


def poll(what, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        result = what()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError("in vain: waited %d s" % seconds)
        time.sleep(0.02)


class Host:
    """A fake host with scrubd on it. Knobs are those of fakectl; a domain of 512 MiB is there as 7, web-3."""

    def __init__(self, config="", **knobs):
        self.dir = tempfile.mkdtemp(prefix="scrubctl-")
        self.file, self.socket, self.real_log = (self.dir + name for name in ("/host", "/sock", "/real"))
        with open(self.dir + "/conf", "w") as f:
            f.write(config)
        self.env = dict(os.environ, SCRUBD_FAKE_HOST=self.file, SCRUBD_SOCKET=self.socket, LC_ALL="C.UTF-8",
                        FAKE_XC_LOG=self.real_log)
        # Of meson's: it leads to the library that stands for libxenctrl, which is meant for CALLER alone.
        self.env.pop("LD_LIBRARY_PATH", None)
        if SANITIZED:
            self.env["ASAN_OPTIONS"] = "verify_asan_link_order=0"
        # In shells `scrubctl` is the one under test.
        os.mkdir(self.dir + "/bin")
        with open(self.dir + "/bin/scrubctl", "w") as f:
            f.write('#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' % (FAKE_LIBXL, SCRUBCTL))
        os.chmod(self.dir + "/bin/scrubctl", 0o755)
        self.env["PATH"] = self.dir + "/bin:" + self.env["PATH"]
        self.fakectl("create")
        for knob, value in knobs.items():
            self.fakectl("set", knob, str(value))
        self.fakectl("add", "7", "131072", "web-3")
        self.log = open(self.dir + "/log", "w")
        self.scrubd = subprocess.Popen([SCRUBD, "--config", self.dir + "/conf", "--socket", self.socket],
                                       env=self.env, stderr=self.log)
        poll(lambda: os.path.exists(self.socket))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.scrubd.kill()
        self.scrubd.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def fakectl(self, *argv):
        return subprocess.run((FAKECTL, self.file) + argv, env=self.env, check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def start(self, *argv, preload=None, **more):
        """A program, in a process group of its own. preload: instead of the library that stands for libxl."""
        preload = FAKE_LIBXL if preload is None else preload
        return subprocess.Popen(argv, env=dict(self.env, LD_PRELOAD=preload, **more), stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def run(self, *argv):
        return finish(self.start(SCRUBCTL, *argv))

    def json(self, *argv):
        rc, out, err = self.run("--json", *argv)
        equal((rc, err), (0, ""))
        return json.loads(out)

    def real(self):
        try:
            with open(self.real_log) as f:
                return f.read().split("\n")[:-1]
        except FileNotFoundError:
            return []


def finish(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err
