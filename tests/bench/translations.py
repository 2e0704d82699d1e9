# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the emulator forget what it has translated.

QEMU keeps its translation of each piece of code until the memory that held the code is written to,
and drops them one by one: some ten microseconds each, during which both emulated CPUs crawl. A
guest that has booted leaves 80,000 of them, and all fall due while its memory is scrubbed. No real
CPU does anything of the kind, so the demo has them dropped at once, before its windows: stopping
at a breakpoint does that, through QEMU's gdb server. Nothing in the emulated machine notices more
than having been stopped for some milliseconds.
"""

import re
import socket
import time

import lab

TIMEOUT_S = 20


class GdbClient:
    """The few packets of gdb's remote protocol that are needed. The machine stops while connected."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, body):
        self.sock.sendall(b"$" + body + b"#%02x" % (sum(body) & 255))

    def reply(self, prefixes):
        """The next packet that begins with one of these. A stop may be reported at any time."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            m = re.search(rb"\$([^#]*)#..", self.data, re.DOTALL)
            if m:
                self.data = self.data[m.end():]
                self.sock.sendall(b"+")
                if m.group(1).startswith(prefixes):
                    return m.group(1)
                continue
            self.sock.settimeout(max(end - time.monotonic(), 0.001))
            try:
                part = self.sock.recv(4096)
            except TimeoutError:
                raise lab.LabError(f"the emulator's gdb server does not answer {prefixes}") from None
            if not part:
                raise lab.LabError("the emulator's gdb server hung up")
            self.data += part

    def ask(self, body, *prefixes):
        self.send(body)
        return self.reply(prefixes)

    def monitor(self, command):
        """What QEMU's monitor prints."""
        self.send(b"qRcmd," + command.encode().hex().encode())
        text = b""
        while (part := self.reply((b"O", b"E"))) != b"OK":
            if part.startswith(b"E"):
                raise lab.LabError(f"the emulator refuses '{command}'")
            text += bytes.fromhex(part[1:].decode())
        return text.decode(errors="replace")


def flush_count(info_jit):
    """How often all translations have been dropped, in the words of the monitor's `info jit`."""
    m = re.search(r"^TB flush count +(\d+)", info_jit, re.MULTILINE)
    if not m:
        raise lab.LabError("the emulator's `info jit` does not tell the number of flushes")
    return int(m.group(1))


class Translations:
    """path: socket of the emulator's gdb server; address: a function of the hypervisor that is
    called all the time."""

    def __init__(self, path, address):
        self.path, self.address = path, address
        self.flushes = None  # by the last drop()

    def drop(self):
        with GdbClient(self.path) as gdb:
            # It happens once the machine runs again, so each drop is checked by the next one.
            count = flush_count(gdb.monitor("info jit"))
            if self.flushes is not None and count <= self.flushes:
                raise lab.LabError("the emulator did not drop its translations")
            self.flushes = count
            gdb.ask(b"Z0,%x,1" % self.address, b"OK")
            gdb.ask(b"c", b"T05")
            gdb.ask(b"z0,%x,1" % self.address, b"OK")
            gdb.ask(b"D", b"OK")
