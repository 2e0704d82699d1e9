# SPDX-License-Identifier: GPL-2.0-or-later
"""Dropping the emulator's translations: the packets, stops reported in between, and what does not work."""

import os
import socket
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lab")]

import lab  # noqa: E402
import translations  # noqa: E402

ADDRESS = 0xffff82d040251f00


def packet(body):
    return b"$" + body + b"#%02x" % (sum(body) & 255)


class GdbServer(threading.Thread):
    """Answers as QEMU does; `flushes` is what `info jit` tells at each connection."""

    def __init__(self, path, flushes):
        super().__init__(daemon=True)
        self.flushes, self.seen = flushes, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()

    def run(self):
        for flushes in self.flushes:
            conn, _ = self.listener.accept()
            conn.sendall(packet(b"T02thread:01;"))  # connecting stops the machine
            data = b""
            while part := conn.recv(1):
                data += part
                if part == b"$":
                    data = b""
                elif data[-3:-2] == b"#":
                    self.seen.append(data[:-3])
                    self.answer(conn, data[:-3], flushes)
            conn.close()

    @staticmethod
    def answer(conn, body, flushes):
        if body.startswith(b"qRcmd,"):
            text = f"TB count 7\nTB flush count      {flushes}\n" if flushes is not None else "?\n"
            conn.sendall(b"+" + packet(b"O" + text.encode().hex().encode()) + packet(b"OK"))
        elif body == b"c":
            conn.sendall(b"+")
            conn.sendall(packet(b"T05thread:02;"))
        else:
            conn.sendall(b"+" + packet(b"OK"))


class Drop(unittest.TestCase):
    def serve(self, *flushes):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        path = os.path.join(self.dir.name, "gdb.sock")
        self.server = GdbServer(path, flushes)
        self.addCleanup(self.server.listener.close)
        self.server.start()
        return translations.Translations(path, ADDRESS)

    def test_stops_at_the_breakpoint_and_takes_it_out(self):
        self.serve(3).drop()
        self.assertEqual(self.server.seen, [
            b"qRcmd," + b"info jit".hex().encode(), b"Z0,ffff82d040251f00,1", b"c",
            b"z0,ffff82d040251f00,1", b"D"])

    def test_each_is_checked_by_the_next(self):
        t = self.serve(3, 4, 4)
        t.drop()
        t.drop()
        with self.assertRaisesRegex(lab.LabError, "did not drop"):
            t.drop()

    def test_an_emulator_that_does_not_tell(self):
        with self.assertRaisesRegex(lab.LabError, "info jit"):
            self.serve(None).drop()


if __name__ == "__main__":
    unittest.main()
