# SPDX-License-Identifier: GPL-2.0-or-later
"""Helpers of the integration tests: a fake host, a scrubd on it, and a Varlink client.

Each test has its own directory, host and socket. Waiting is polling with a deadline.
"""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

SCRUBD = os.environ["SCRUBD_FAKE"]
FAKECTL = os.environ["FAKECTL"]
DEADLINE_S = 30
GIB = 262144  # pages


def poll(what, condition, deadline_s=DEADLINE_S):
    """Returns the first true value of condition()."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.005)


class Client:
    """One connection."""

    def __init__(self, path, timeout_s=DEADLINE_S):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(timeout_s)
        try:
            self.sock.connect(path)
        except OSError:
            self.sock.close()
            raise
        self.buf = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, method, params=None, more=False, **extra):
        msg = {"method": method, "parameters": params or {}, **extra}
        if more:
            msg["more"] = True
        self.sock.sendall(json.dumps(msg).encode() + b"\0")

    def recv(self):
        """The next reply, or None at the end of the connection."""
        while b"\0" not in self.buf:
            try:
                data = self.sock.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self.buf += data
        text, self.buf = self.buf.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, params=None, **extra):
        self.send(method, params, **extra)
        return self.recv()

    def destroy(self, domid, **params):
        """Send Destroy, and return the first reply."""
        return self.call("org.scrubd.Destroy", {"domid": domid, **params}, more=True)

    def rest(self):
        """All replies up to the last one of the call."""
        replies = []
        while True:
            reply = self.recv()
            replies.append(reply)
            if reply is None or not reply.get("continues"):
                return replies


class ScrubdTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="scrubd-test.")
        self.addCleanup(shutil.rmtree, self.dir)
        self.host = os.path.join(self.dir, "host")
        self.sock = os.path.join(self.dir, "sock")
        self.conf = os.path.join(self.dir, "scrubd.conf")
        self.log_path = os.path.join(self.dir, "log")
        self.proc = None
        self.fakectl("create")
        self.addCleanup(self._end)

    def _end(self):
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()

    def tearDown(self):
        # Whatever a test does to scrubd, it may not crash, nor a sanitizer find anything.
        if os.path.exists(self.log_path):
            log = self.log()
            for word in ("AddressSanitizer", "runtime error", "LeakSanitizer", "Assertion"):
                self.assertNotIn(word, log)

    # --- The host ---

    def fakectl(self, *args):
        return subprocess.run([FAKECTL, self.host, *map(str, args)], check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def add(self, domid, pages, name="guest", held=0):
        self.fakectl("add", domid, pages, name, held)

    def set(self, **knobs):
        self.fakectl("set", *[x for k, v in knobs.items() for x in (k, int(v))])

    def dom(self, domid, **fields):
        """hard, soft: bitmaps of CPUs; cpupool; building; shutdown: Xen's code plus one"""
        self.fakectl("dom", domid, *[x for k, v in fields.items() for x in (k, int(v))])

    def show(self):
        return json.loads(self.fakectl("show"))

    def pages(self, domid):
        """None if the domain is gone."""
        dom = self.show()["domains"].get(str(domid))
        return dom and dom["pages"]

    # --- scrubd ---

    def start(self, conf="", args=(), wait=True):
        with open(self.conf, "w") as f:
            f.write(conf)
        with open(self.log_path, "a") as log:
            self.proc = subprocess.Popen(
                [SCRUBD, "--config", self.conf, "--socket", self.sock, *args],
                env={**os.environ, "SCRUBD_FAKE_HOST": self.host}, stderr=log, stdin=subprocess.DEVNULL)
        if wait:
            poll("scrubd serves", lambda: self.proc.poll() is not None or self._serves())
            self.assertIsNone(self.proc.poll(), self.log())

    def _serves(self):
        """It answers: by then its settings are made, which a connection alone does not tell."""
        try:
            with Client(self.sock) as c:
                return c.call("org.scrubd.GetStatus") is not None
        except OSError:
            return False

    def stop(self, sig=signal.SIGTERM):
        self.proc.send_signal(sig)
        return self.proc.wait(DEADLINE_S)

    def kill(self):
        self.stop(signal.SIGKILL)

    def client(self):
        c = Client(self.sock)
        self.addCleanup(c.close)
        return c

    def call(self, method, params=None, **extra):
        with Client(self.sock) as c:
            return c.call("org.scrubd." + method, params, **extra)

    def status(self):
        return self.call("GetStatus")["parameters"]

    def jobs(self):
        with Client(self.sock) as c:
            c.send("org.scrubd.ListJobs", more=True)
            return [r["parameters"]["job"] for r in c.rest() if r["parameters"]]

    def log(self):
        with open(self.log_path) as f:
            return f.read()

    def wait_log(self, text):
        poll(f"log says {text!r}", lambda: text in self.log())

    def assert_serving(self):
        self.assertIsNone(self.proc.poll(), self.log())
        self.assertEqual(self.status()["state"], "ready")


def ucred(sock):
    return struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
