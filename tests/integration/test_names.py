# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of domains from a scripted xenstored: read, kept, and frozen while it hangs or is gone; nobody waits for it."""
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

NAMES = os.environ["NAMES"]
DEADLINE_S = 30
DIRECTORY, READ, WATCH, UNWATCH, GET_DOMAIN_PATH, WATCH_EVENT, ERROR = 1, 2, 4, 5, 10, 15, 16


def serve(path, store_path):
    """A xenstored for one client at a time; the store is the lines "PATH VALUE" of a file. Never returns."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(1)
    os.rename(path + ".new", path)
    while True:
        conn, _ = listener.accept()
        try:
            serve_one(conn, store_path)
        except (ConnectionError, struct.error):
            conn.close()


def serve_one(conn, store_path):
    watches, seen = [], None
    conn.settimeout(0.02)
    buf = b""
    while True:
        with open(store_path) as f:
            store = dict(line.split(" ", 1) for line in f.read().splitlines())
        if seen is not None:
            for key in set(store) | set(seen):
                if store.get(key) != seen.get(key):
                    for path, token in watches:
                        if key == path or key.startswith(path + "/"):
                            send(conn, WATCH_EVENT, 0, f"{key}\0{token}\0".encode())
        seen = store
        try:
            data = conn.recv(4096)
            if not data:
                raise ConnectionError
            buf += data
        except TimeoutError:
            continue
        while len(buf) >= 16:
            kind, req, _, length = struct.unpack("IIII", buf[:16])
            if len(buf) < 16 + length:
                break
            args, buf = buf[16:16 + length].rstrip(b"\0").decode().split("\0"), buf[16 + length:]
            if kind == WATCH:
                watches.append((args[0], args[1]))
                send(conn, WATCH, req, b"OK\0")
                send(conn, WATCH_EVENT, 0, f"{args[0]}\0{args[1]}\0".encode())
            elif kind == UNWATCH:
                watches.remove((args[0], args[1]))
                send(conn, UNWATCH, req, b"OK\0")
            elif kind == GET_DOMAIN_PATH:
                send(conn, kind, req, b"/local/domain/0\0")
            elif kind == READ and args[0] in store:
                send(conn, READ, req, store[args[0]].encode())
            elif kind == DIRECTORY:
                names = {p[len(args[0]) + 1:].split("/")[0] for p in store if p.startswith(args[0] + "/")}
                send(conn, DIRECTORY, req, "".join(n + "\0" for n in sorted(names)).encode())
            else:
                send(conn, ERROR, req, b"ENOENT\0")


def send(conn, kind, req, data):
    conn.sendall(struct.pack("IIII", kind, req, 0, len(data)) + data)


class Names(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="scrubd-names.")
        self.addCleanup(shutil.rmtree, self.dir)
        self.procs = []
        self.store, self.domains = {}, {0: 0}
        self.xenstored = None

    def tearDown(self):
        for p in self.procs:
            p.kill()
            p.communicate()

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, domains=None, **_):
        self.put("domains", "".join(f"{d} {g}\n" for d, g in sorted(self.domains.items())))
        self.put("store", "".join(f"{p} {v}\n" for p, v in self.store.items()))

    def put(self, name, text):
        with open(self.path("new"), "w") as f:
            f.write(text)
        os.rename(self.path("new"), self.path(name))

    def start_xenstored(self):
        if os.path.exists(self.path("socket")):
            os.unlink(self.path("socket"))
        self.xenstored = subprocess.Popen([sys.executable, __file__, "serve", self.path("socket"), self.path("store")])
        self.procs.append(self.xenstored)
        self.poll("xenstored", lambda: os.path.exists(self.path("socket")))

    def start(self):
        self.names = subprocess.Popen([NAMES, self.path("domains")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      bufsize=1, env={**os.environ, "XENSTORED_PATH": self.path("socket")})
        self.procs.append(self.names)

    def ask(self, question):
        began = time.monotonic()
        self.names.stdin.write(question + "\n")
        answer = self.names.stdout.readline().rstrip("\n")
        # It never waits for xenstore, but for the first names.
        self.assertLess(time.monotonic() - began, 1.9)
        return answer

    def poll(self, what, condition):
        end = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def wait(self, question, answer):
        self.poll(f"{question}: {answer}", lambda: self.ask(question) == answer)

    def introduce(self, domid, name, generation=1):
        self.domains[domid] = generation
        self.store[f"/local/domain/{domid}/name"] = name
        self.store["@introduceDomain"] = str(time.monotonic())
        self.write()

    def forget(self, domid):
        del self.store[f"/local/domain/{domid}/name"]
        self.write()

    def release(self, domid):
        del self.domains[domid]
        self.store["@releaseDomain"] = str(time.monotonic())
        self.write()

    def begin(self):
        self.introduce(5, "web")
        self.store["/local/pool/0/name"] = "Pool-0"
        self.write()
        self.start_xenstored()
        self.start()

    def test_first(self):
        """Names that are there at start are known at once: they are wanted for what is adopted."""
        self.begin()
        self.assertEqual(self.ask("name 5 1"), "web")
        self.assertEqual(self.ask("trouble"), "-")

    def test_changes(self):
        self.begin()
        self.introduce(6, "db")
        self.wait("name 6 1", "db")
        self.store["/local/domain/6/name"] = "db-2"
        self.write()
        self.wait("name 6 1", "db-2")
        self.store["/local/pool/3/name"] = "rt"
        self.write()
        self.wait("pool 3", "rt")
        self.assertEqual(self.ask("pool 0"), "Pool-0")
        self.assertEqual(self.ask("pool 7"), "-")

    def test_kept(self):
        """A toolstack deletes the name before the domain goes."""
        self.begin()
        self.wait("name 5 1", "web")
        self.forget(5)
        self.introduce(6, "marker")
        self.wait("name 6 1", "marker")
        self.assertEqual(self.ask("name 5 1"), "web")
        self.release(5)
        self.wait("name 5 1", "-")

    def test_reused(self):
        self.begin()
        self.wait("name 5 1", "web")
        self.release(5)
        self.wait("name 5 1", "-")
        self.introduce(5, "new", generation=2)
        self.wait("name 5 2", "new")
        self.assertEqual(self.ask("name 5 1"), "-")

    def test_hangs(self):
        self.begin()
        self.ask("name 5 1")
        self.xenstored.send_signal(signal.SIGSTOP)
        self.wait("trouble", "xenstored does not answer: names stay as they were")
        self.assertEqual(self.ask("name 5 1"), "web")
        self.xenstored.send_signal(signal.SIGCONT)
        self.wait("trouble", "-")
        self.introduce(6, "db")
        self.wait("name 6 1", "db")

    def test_hangs_at_start(self):
        """A start waits for it for a second at most, and so does an end."""
        self.introduce(5, "web")
        self.start_xenstored()
        self.xenstored.send_signal(signal.SIGSTOP)
        self.start()
        self.wait("trouble", "xenstored does not answer: names stay as they were")
        self.assertEqual(self.ask("name 5 1"), "-")
        began = time.monotonic()
        self.names.stdin.close()
        self.assertEqual(self.names.wait(10), 0)
        self.assertLess(time.monotonic() - began, 3)
        self.names.stdout.close()
        self.procs.remove(self.names)

    def test_gone(self):
        """It dies and comes back: names stay, and are read again."""
        self.begin()
        self.ask("name 5 1")
        self.xenstored.kill()
        self.wait("trouble", "xenstored cannot be reached: names stay as they were")
        self.assertEqual(self.ask("name 5 1"), "web")
        self.introduce(6, "db")
        self.start_xenstored()
        self.wait("name 6 1", "db")
        self.assertEqual(self.ask("trouble"), "-")
        self.assertEqual(self.ask("name 5 1"), "web")

    def test_many(self):
        for domid in range(1, 300):
            self.introduce(domid, f"guest-{domid}")
        self.start_xenstored()
        self.start()
        self.wait("name 299 1", "guest-299")
        self.domains = {0: 0, 299: 1}
        self.release(299)
        self.wait("name 150 1", "-")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    unittest.main(verbosity=2)
