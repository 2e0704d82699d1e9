# SPDX-License-Identifier: GPL-2.0-or-later
"""A scrubd that says what it is told to, for tests of those that talk to one."""
import json
import socket
import threading
import time


def reply(params, more=False):
    return {"parameters": params, "continues": True} if more else {"parameters": params}


def error(name, **params):
    return {"error": name, "parameters": params}


class Scrubd:
    """Answers each call of a method with the items that replies, a dict, has for the method's last word, and hangs up: replies
    are sent, bytes as they are. Numbers are pauses in seconds; "hang" waits for the client, an Event for the test; functions
    are called for the item."""

    def __init__(self, path, replies):
        self.replies, self.calls = replies, []
        self.hung_up = threading.Event()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        self.sock.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        request = b""
        while not request.endswith(b"\0"):
            data = conn.recv(4096)
            if not data:
                return
            request += data
        call = json.loads(request[:-1])
        self.calls.append(call)
        try:
            for item in self.replies.get(call["method"].split(".")[-1], []):
                self.act(conn, item() if callable(item) else item)
        except OSError:
            pass
        conn.close()

    def act(self, conn, item):
        if isinstance(item, (int, float)):
            time.sleep(item)
        elif isinstance(item, threading.Event):
            item.wait(20)
        elif item == "hang":
            while conn.recv(4096):
                pass
            self.hung_up.set()
        elif isinstance(item, bytes):
            conn.sendall(item)
        else:
            conn.sendall(json.dumps(item, separators=(",", ":"), ensure_ascii=False).encode() + b"\0")

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
