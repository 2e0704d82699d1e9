# SPDX-License-Identifier: GPL-2.0-or-later
"""scrubctl against a scripted scrubd and a pretended libxl: what the tests of its verbs share.

The programs that import this are called with SCRUBCTL FAKE-LIBXL VERSION [sanitized].
"""
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from scripted import Scrubd

SCRUBCTL, FAKE_LIBXL = (os.path.abspath(p) for p in sys.argv[1:3])
VERSION = sys.argv[3]
SANITIZED = len(sys.argv) > 4


class Case:
    def __init__(self, **replies):
        self.dir = tempfile.mkdtemp(prefix="scrubctl-")
        self.path, self.log = self.dir + "/sock", self.dir + "/real"
        self.scrubd = Scrubd(self.path, replies) if replies else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir, ignore_errors=True)

    def env(self, **more):
        env = dict(os.environ, LD_PRELOAD=FAKE_LIBXL, SCRUBD_SOCKET=self.path, FAKE_XC_LOG=self.log,
                   LC_ALL="C.UTF-8", TZ="UTC", TERM="xterm")
        env.pop("NO_COLOR", None)
        if SANITIZED:
            env["ASAN_OPTIONS"] = "verify_asan_link_order=0"
        env.update(more)
        return env

    def run(self, *argv, **more):
        done = subprocess.run((SCRUBCTL,) + argv, env=self.env(**more), stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=30)
        return done.returncode, done.stdout, done.stderr

    def real(self):
        try:
            with open(self.log) as f:
                return [int(line.split()[1]) for line in f]
        except FileNotFoundError:
            return []


ENDED = b"<the program has ended: "


class Terminal:
    """scrubctl, or another program, on a terminal of its own. As under a shell it does not lead the session: when a leader
    ends, the terminal throws away what nobody has read so far."""

    def __init__(self, case, *args, columns=80, lines=24, argv=None, env=None, **more):
        self.output = b""
        size = struct.pack("HHHH", lines, columns, 0, 0)
        release, self.keep = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.close(self.keep)
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            self.lead(release, argv or (SCRUBCTL,) + args, env or case.env(**more))
        os.close(release)

    @staticmethod
    def lead(release, argv, env):
        """Run it, say on the terminal how it ended, and stay until that is read."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execvpe(argv[0], argv, env)
        _, status = os.waitpid(pid, 0)
        os.write(1, ENDED + b"%d>" % os.waitstatus_to_exitcode(status))
        os.read(release, 1)
        os._exit(0)

    def resize(self, columns, lines):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, deadline):
        if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
            raise AssertionError("no more within the time: %r" % self.output)
        self.output += os.read(self.fd, 65536)

    def read_until(self, text, seconds=15):
        """Reads on until text (bytes) comes, after what was read before."""
        start, deadline = len(self.output), time.monotonic() + seconds
        while text not in self.output[start:]:
            if ENDED in self.output:
                raise AssertionError("ended without %r: %r" % (text, self.output[start:]))
            self.read(deadline)
        return self.output[start:]

    def finish(self, seconds=20):
        """The exit status, all output read."""
        deadline = time.monotonic() + seconds
        while not self.output.endswith(b">") or ENDED not in self.output:
            self.read(deadline)
        self.output, _, code = self.output.rpartition(ENDED)
        os.close(self.keep)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        return int(code[:-1])


def equal(got, want):
    if got != want:
        raise AssertionError("got  %r\nwant %r" % (got, want))


def contains(text, part):
    if part not in text:
        raise AssertionError("no %r in %r" % (part, text))
