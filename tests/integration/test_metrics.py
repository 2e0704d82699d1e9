# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics over HTTP: what is told, to whom, and that nothing a client does disturbs scrubd."""
import http.client
import os
import random
import re
import socket
import unittest

from scrubdtest import GIB, ScrubdTest, poll

CLIENTS_MAX = 8


def free_port():
    """Not one that the kernel gives to others, who may be running beside this."""
    while True:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", random.randrange(10000, 32000)))
                return s.getsockname()[1]
            except OSError:
                pass


class Metrics(ScrubdTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()

    def start_listening(self, conf="", **kwargs):
        self.start(f'metrics_listen = "{self.port}"\n' + conf, **kwargs)
        self.wait_log("metrics: ")  # scrubd serves others before

    def ask(self, method="GET", path="/metrics", body=None, headers=None, port=None):
        """(status, headers, text)"""
        c = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=30)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, r.headers, r.read().decode()
        finally:
            c.close()

    def metrics(self, port=None):
        """{series: value}"""
        status, _, text = self.ask(port=port)
        self.assertEqual(status, 200)
        return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")}

    def raw(self, data):
        """All that comes back until the connection is closed: by the answer, not as a silent one is after 10 s."""
        with socket.create_connection(("127.0.0.1", self.port), 8) as s:
            got = b""
            try:
                s.sendall(data)
                while part := s.recv(65536):
                    got += part
            except (ConnectionResetError, BrokenPipeError):
                pass
            return got

    def refused(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), 30).close()
            return False
        except ConnectionRefusedError:
            return True

    def test_off(self):
        self.start()
        with open(f"/proc/{self.proc.pid}/net/tcp") as f:
            inodes = {line.split()[9] for line in f if " 0A " in line}
        links = [os.readlink(f"/proc/{self.proc.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{self.proc.pid}/fd")]
        self.assertFalse([i for i in inodes if f"socket:[{i}]" in links], "a TCP socket is open by default")

    def test_form(self):
        self.start_listening()
        status, headers, text = self.ask()
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertEqual(int(headers["Content-Length"]), len(text))
        types = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:]
                self.assertNotIn(name, types)
                types[name] = kind
            elif not line.startswith("# HELP "):
                m = re.fullmatch(r'([a-z_]+?)(_bucket|_sum|_count)?(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? \S+', line)
                self.assertTrue(m, line)
                self.assertTrue(types.get(m[1]) == "histogram" if m[2] else m[1] in types, line)
                self.assertEqual(m[1].endswith("_total"), types[m[1]] == "counter", line)

    def test_figures(self):
        self.start_listening("min_size_mib = 32\n")
        self.add(5, GIB // 4)
        self.add(6, 100)
        with self.client() as c:
            c.destroy(5, wait_clean=True)
            self.assertEqual(c.rest()[-1]["parameters"]["event"], "clean")
        self.call("Destroy", {"domid": 6}, more=True)
        m = poll("both are counted", lambda: (m := self.metrics()) and
                 m['scrubd_declined_total{reason="small"}'] and m)
        self.assertEqual(m["scrubd_teardowns_total"], 1)
        self.assertEqual(m["scrubd_teardown_duration_seconds_count"], 1)
        self.assertEqual(m["scrubd_scrub_duration_seconds_count"], 1)
        self.assertEqual(m["scrubd_freed_bytes_total"], GIB // 4 * 4096)
        self.assertEqual(m["scrubd_step_duration_seconds_count"], self.show()["steps"])
        self.assertEqual(m["scrubd_host_free_bytes"], self.show()["free_pages"] * 4096)
        self.assertEqual(m['scrubd_node_scrubbed_bytes_total{node="0",by="idle"}'], self.show()["scrubbed"] * 4096)
        self.assertEqual(sum(v for k, v in m.items() if k.startswith("scrubd_cpu_scrubbed_bytes_total")),
                         m['scrubd_node_scrubbed_bytes_total{node="0",by="idle"}'])

    def test_jobs_under_way(self):
        self.start_listening()
        self.add(5, GIB)
        with self.client() as c:
            c.destroy(5)
            self.call("Pause", {"domid": 5})
            m = poll("it is paused", lambda: (m := self.metrics()) and m['scrubd_jobs{state="paused"}'] and m)
            self.assertEqual(m["scrubd_jobs_remaining_bytes"], self.pages(5) * 4096)
            self.assertGreater(m["scrubd_oldest_job_age_seconds"], 0)

    def test_creates(self):
        self.start_listening()
        with self.client() as c:
            self.assertEqual(c.call("org.scrubd.AwaitMemory", more=True)["parameters"]["event"], "hello")
            c.rest()
        poll("it is counted", lambda: self.metrics()["scrubd_create_wait_seconds_count"] == 1)

    def test_degraded(self):
        self.set(patched=0)
        self.start_listening()
        m = self.metrics()
        self.assertEqual(m["scrubd_degraded"], 1)
        self.assertFalse([k for k in m if k.startswith("scrubd_node_")])

    def test_only_get(self):
        self.start_listening()
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"):
            status, headers, _ = self.ask(method)
            self.assertEqual((status, headers["Allow"]), (405, "GET"), method)
        for path in ("/", "/metrics/", "/metricsx", "//metrics", "/../etc/passwd"):
            self.assertEqual(self.ask(path=path)[0], 404, path)
        self.assertEqual(self.ask(path="/metrics?name=x")[0], 200)
        self.assert_serving()

    def test_garbage(self):
        self.start_listening()
        for status, data in (
                (400, b"\0" * 100 + b"\r\n\r\n"), (400, b"GET\r\n\r\n"), (400, b"GET /metrics HTTP/9.9\r\n\r\n"),
                (400, b"\xff\xfe\r\n\r\n"),
                (400, b"GET /metrics HTTP/1.1\r\n" + b"x: " + b"y" * 10000 + b"\r\n\r\n"),
                (400, b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 3000 + b"\r\n"),
                (400, b"GET /" + b"m" * 20000),
                (413, b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"z" * 100000),
                (413, b"POST /metrics HTTP/1.1\r\nContent-Length: 10\r\n\r\n"),
                (413, b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n" + b"z" * 100000)):
            got = self.raw(data)
            # Where data is left unread the kernel may reset the connection, and the answer is lost.
            self.assertIn(got[:13], (b"HTTP/1.1 %d " % status, b""), data[:60])
        self.assertIn(b" 400 ", self.raw(b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 8192))
        self.assertIn(b"\nscrubd_backlog_bytes", self.raw(b"GET /metrics HTTP/1.1\r\n\r\n"))
        self.assert_serving()

    def test_too_many(self):
        """Those beyond the limit wait until another leaves; scrubctl's clients are not concerned."""
        self.start_listening()

        def send(data):
            s = socket.create_connection(("127.0.0.1", self.port), 30)
            self.addCleanup(s.close)
            s.sendall(data)
            return s

        held = [send(b"GET /metrics HTTP/1.1\r\n") for _ in range(CLIENTS_MAX)]
        waiting = send(b"GET /metrics HTTP/1.1\r\n\r\n")
        waiting.settimeout(0.3)
        self.assertRaises(socket.timeout, waiting.recv, 10)
        self.assertEqual(self.status()["state"], "ready")
        held[3].close()
        waiting.settimeout(30)
        self.assertTrue(waiting.recv(10).startswith(b"HTTP/1.1 2"))

    def test_silent(self):
        """Whoever says nothing is closed, and those who wait for his place get in."""
        self.start_listening()
        silent = [socket.create_connection(("127.0.0.1", self.port), 30) for _ in range(CLIENTS_MAX)]
        try:
            self.assertIn("scrubd_backlog_bytes", self.metrics())
        finally:
            for s in silent:
                s.close()
        self.assert_serving()

    def test_stop_with_clients(self):
        """A client that has not asked yet does not keep scrubd from leaving, and nothing is leaked."""
        self.start_listening()
        with socket.create_connection(("127.0.0.1", self.port), 30):
            self.metrics()
            self.assertEqual(self.stop(), 0)

    def test_reload(self):
        self.start_listening()
        self.metrics()
        second = free_port()
        for conf, old, new in ((f'metrics_listen = "127.0.0.1:{second}"\n', self.port, second), ("", second, None),
                               (f'metrics_listen = "{self.port}"\n', second, self.port)):
            with open(self.conf, "w") as f:
                f.write(conf)
            self.assertEqual(self.call("ReloadConfig")["parameters"]["changed"][0]["key"], "metrics_listen")
            self.assertTrue(self.refused(old))
            if new:
                self.assertEqual(self.metrics(new)["scrubd_config_last_reload_successful"], 1)
        with open(self.conf, "w") as f:
            f.write('metrics_listen = "everywhere"\n')
        self.assertEqual(self.call("ReloadConfig")["error"], "org.scrubd.InvalidConfig")
        poll("the failure shows", lambda: self.metrics()["scrubd_config_last_reload_successful"] == 0)

    def test_taken(self):
        """A port that somebody else has is no reason not to start; it is taken when it is free."""
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port))
            other.listen()
            self.start_listening()
            self.assert_serving()
            self.assertIn(f"metrics: cannot listen on 127.0.0.1 port {self.port}: Address already in use", self.log())
        poll("scrubd listens", lambda: not self.refused(self.port))
        self.metrics()

    def test_ipv6(self):
        try:
            with socket.socket(socket.AF_INET6) as s:
                s.bind(("::1", self.port))
        except OSError:
            self.skipTest("this machine has no IPv6")
        self.start(f'metrics_listen = "[::1]:{self.port}"\n')
        self.wait_log("metrics: listening")
        with socket.create_connection(("::1", self.port), 30) as s:
            s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            self.assertTrue(s.recv(10).startswith(b"HTTP/1."))


if __name__ == "__main__":
    unittest.main()
