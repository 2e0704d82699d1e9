# SPDX-License-Identifier: GPL-2.0-or-later
"""What bad input gets: a clear error, nothing changed, and a scrubd that serves on."""
import json
import os
import re
import socket
import subprocess
import time
import unittest

from scrubdtest import SCRUBD, Client, ScrubdTest, poll

INVALID = "org.varlink.service.InvalidParameter"


class Input(ScrubdTest):
    def setUp(self):
        super().setUp()
        self.add(5, 1000)
        self.start()

    def tearDown(self):
        self.assert_serving()
        self.assertEqual(self.pages(5), 1000)
        self.assertEqual(self.show()["steps"], 0)
        super().tearDown()

    def garbage(self, data):
        """Sent raw: an error, then the end of the connection."""
        c = self.client()
        c.sock.sendall(data)
        reply = c.recv()
        self.assertEqual(reply["error"], INVALID)
        self.assertTrue(reply["parameters"]["parameter"])
        self.assertIsNone(c.recv())
        return reply

    def test_garbage(self):
        for data in (b"garbage\0", b"\0", b"{\0", b"[]\0", b"\xff\xfe\0", b"null\0", b"{'a':1}\0",
                     b'{"method":"org.scrubd.GetStatus"}x\0', b"GET / HTTP/1.0\r\n\r\n\0"):
            with self.subTest(data=data):
                self.garbage(data)
        self.wait_log("bad message from pid")

    def test_log_is_limited(self):
        for _ in range(200):
            self.garbage(b"garbage\0")
        self.assertLess(self.log().count("bad message"), 4)

    def test_brackets(self):
        reply = self.garbage(b"[" * 65536 + b"\0")
        self.assertIn("nesting too deep", reply["parameters"]["parameter"])
        reply = self.garbage(b'{"method":"org.scrubd.GetStatus","parameters":' + b'{"a":' * 20 + b"1" +
                             b"}" * 21 + b"\0")
        self.assertIn("nesting too deep", reply["parameters"]["parameter"])

    def test_too_long(self):
        for data in (b"x" * 65537, b"x" * 65537 + b"\0", b" " * 200000 + b"\0"):
            with self.subTest(len=len(data)):
                c = self.client()
                try:
                    c.sock.sendall(data)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                reply = c.recv()
                self.assertIn("longer than 65536", reply["parameters"]["parameter"])
                self.assertIsNone(c.recv())

    def test_longest(self):
        """A request of exactly 64 KiB is served."""
        text = b'{"method":"org.scrubd.GetStatus"}'
        c = self.client()
        c.sock.sendall(text + b" " * (65536 - len(text)) + b"\0")
        self.assertEqual(c.recv()["parameters"]["state"], "ready")

    def test_byte_by_byte(self):
        c = self.client()
        for byte in b'{"method":"org.scrubd.GetStatus"}\0':
            c.sock.sendall(bytes([byte]))
        self.assertEqual(c.recv()["parameters"]["state"], "ready")

    def test_truncated(self):
        """A client that goes away in the middle of a message."""
        for end in (1, 10, 30):
            c = self.client()
            c.sock.sendall(b'{"method":"org.scrubd.GetStatus"}'[:end])
            c.close()

    def test_shut_down(self):
        """One that sends, shuts down its side, and then reads."""
        c = self.client()
        c.send("org.scrubd.GetStatus")
        c.send("org.scrubd.GetStatus")
        c.sock.shutdown(socket.SHUT_WR)
        self.assertEqual(c.recv()["parameters"]["state"], "ready")
        self.assertEqual(c.recv()["parameters"]["state"], "ready")
        self.assertIsNone(c.recv())

    def test_envelope(self):
        """JSON that is no call: answered, and the connection stays."""
        c = self.client()
        for msg, parameter in (({}, "method"), ({"method": 5}, "method"), ({"parameters": {}}, "method"),
                               ({"method": "org.scrubd.GetStatus", "parameters": []}, "parameters"),
                               ({"method": "org.scrubd.GetStatus", "parameters": "x"}, "parameters")):
            with self.subTest(msg=msg):
                c.sock.sendall(json.dumps(msg).encode() + b"\0")
                self.assertEqual(c.recv(), {"error": INVALID, "parameters": {"parameter": parameter}})
        self.assertEqual(c.call("org.scrubd.GetStatus")["parameters"]["state"], "ready")

    def test_unknown(self):
        c = self.client()
        for method, error, params in (
                ("org.scrubd.Nope", "MethodNotFound", {"method": "org.scrubd.Nope"}),
                ("org.varlink.service.Nope", "MethodNotFound", {"method": "org.varlink.service.Nope"}),
                ("org.other.Nope", "InterfaceNotFound", {"interface": "org.other"}),
                ("org.scrubdx.GetStatus", "InterfaceNotFound", {"interface": "org.scrubdx"}),
                ("nope", "InterfaceNotFound", {"interface": ""}),
                ("", "InterfaceNotFound", {"interface": ""}),
                ("a" * 5000 + ".b", "InterfaceNotFound", {"interface": "a" * 100})):
            with self.subTest(method=method[:40]):
                self.assertEqual(c.call(method), {"error": "org.varlink.service." + error,
                                                  "parameters": params})

    def test_parameters(self):
        c = self.client()
        for method, params, bad in (
                ("Destroy", {}, "domid"), ("Destroy", {"domid": "5"}, "domid"),
                ("Destroy", {"domid": 5.0}, "domid"), ("Destroy", {"domid": None}, "domid"),
                ("Destroy", {"domid": -1}, "domid"), ("Destroy", {"domid": 10**30}, "domid"),
                ("Destroy", {"domid": True}, "domid"),
                ("Destroy", {"domid": 5, "uuid": 7}, "uuid"),
                ("Destroy", {"domid": 5, "uuid": "nonsense"}, "uuid"),
                ("Destroy", {"domid": 5, "uuid": "00000005-a4a5-a6a7-a8a9-aaabacadaeaf\0"}, "uuid"),
                ("Destroy", {"domid": 5, "force": True}, "force"),
                ("Destroy", {"domid": 5, "name": ["x"]}, "name"),
                ("GetStatus", {"x": 1}, "x"), ("Reset", {"x": 1}, "x"), ("ListJobs", {"x": 1}, "x"),
                ("Watch", {"interval_ms": 49}, "interval_ms"),
                ("Watch", {"interval_ms": 60001}, "interval_ms"),
                ("Watch", {"interval_ms": "fast"}, "interval_ms"),
                ("SetLimit", {"ceiling_kib": "1M"}, "ceiling_kib"),
                ("SetLimit", {"mask": 3}, "mask"), ("SetLimit", {"mask": "0\0-1"}, "mask"),
                ("SetLimit", {"cpus": "0"}, "cpus")):
            with self.subTest(method=method, params=params):
                self.assertEqual(c.call("org.scrubd." + method, params, more=True),
                                 {"error": INVALID, "parameters": {"parameter": bad}})

    def test_more(self):
        c = self.client()
        for method, params in (("Destroy", {"domid": 5}), ("ListJobs", {}), ("Watch", {})):
            with self.subTest(method=method):
                self.assertEqual(c.call("org.scrubd." + method, params)["error"],
                                 "org.varlink.service.ExpectedMore")

    def test_domains(self):
        other = "11111111-2222-3333-4444-555555555555"
        c = self.client()
        for params, error in (({"domid": 6}, "NoSuchDomain"), ({"domid": 32752}, "NoSuchDomain"),
                              ({"domid": 65535}, "NoSuchDomain"), ({"domid": 4294967295}, "NoSuchDomain"),
                              ({"domid": 5, "uuid": other}, "NoSuchDomain"), ({"domid": 0}, "NotAllowed")):
            with self.subTest(params=params):
                reply = c.call("org.scrubd.Destroy", params, more=True)
                self.assertEqual(reply["error"], "org.scrubd." + error)
                self.assertEqual(reply["parameters"]["domid"], params["domid"])
        self.assertIn("control domain", reply["parameters"]["reason"])

    def test_oneway(self):
        c = self.client()
        for method in ("org.scrubd.GetStatus", "org.scrubd.Nope", "org.scrubd.Watch", "nope"):
            c.send(method, oneway=True)
        self.assertEqual(c.call("org.scrubd.GetStatus")["parameters"]["state"], "ready")

    def test_never_reads(self):
        """A flood of requests whose answers nobody reads: memory stays bounded, others are served."""
        c = self.client()
        c.sock.settimeout(1)
        request = b'{"method":"org.varlink.service.GetInterfaceDescription",' \
                  b'"parameters":{"interface":"org.scrubd"}}\0' * 500
        sent = 0
        try:
            while sent < 50 << 20:
                sent += c.sock.send(request)
        except (TimeoutError, socket.timeout):
            pass
        self.assertLess(sent, 50 << 20)
        self.assert_serving()
        with open(f"/proc/{self.proc.pid}/status") as f:
            rss = int([x for x in f if x.startswith("VmRSS")][0].split()[1])
        self.rss_limit(rss)

    def rss_limit(self, rss_kib):
        if "asan" not in subprocess.run(["ldd", SCRUBD], capture_output=True, text=True).stdout:
            self.assertLess(rss_kib, 16 << 10)

    def test_watch_unread(self):
        """A watcher that never reads misses turns, and is then served again."""
        c = self.client()
        c.send("org.scrubd.Watch", {"interval_ms": 50}, more=True)
        time.sleep(1)
        self.assert_serving()
        self.assertIn("status", c.recv()["parameters"])

    def test_many_watchers(self):
        """They cost little more than one: the host is looked at once for all that have their turn."""
        watchers = [self.client() for _ in range(40)]
        for c in watchers:
            c.send("org.scrubd.Watch", {"interval_ms": 50}, more=True)
            self.assertIn("status", c.recv()["parameters"])
        before = self.show()["gets"]
        for c in watchers:
            for _ in range(10):
                self.assertIn("status", c.recv()["parameters"])
        self.assertLess(self.show()["gets"] - before, 100)  # of 400 replies

    def test_many_connections(self):
        """More than there may be: the idle ones go, the newest is served, a watcher stays."""
        watcher = self.client()
        watcher.send("org.scrubd.Watch", {"interval_ms": 50}, more=True)
        self.assertIn("status", watcher.recv()["parameters"])
        idle = [self.client() for _ in range(300)]
        self.assert_serving()
        poll("an old idle connection is closed", lambda: self._closed(idle[0]))
        for _ in range(20):
            self.assertIn("status", watcher.recv()["parameters"])

    @staticmethod
    def _closed(c):
        try:
            return c.sock.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    def test_pipelined(self):
        """Requests that are sent at once are answered in order."""
        c = self.client()
        c.sock.sendall(b'{"method":"org.scrubd.GetStatus"}\0{"method":"org.scrubd.Nope"}\0'
                       b'{"method":"org.varlink.service.GetInfo"}\0')
        self.assertEqual(c.recv()["parameters"]["state"], "ready")
        self.assertIn("MethodNotFound", c.recv()["error"])
        self.assertEqual(c.recv()["parameters"]["product"], "scrubd")

    def test_limits(self):
        c = self.client()
        for params, field, reason in (
                ({"mask": "9"}, "mask", "no CPU of it is online: those are 0-3"),
                ({"mask": "0-"}, "mask", "a CPU number is missing at the end"),
                ({"mask": "3-1"}, "mask", "the range 3-1 runs backwards"),
                ({"mask": "x"}, "mask", "unexpected 'x' where a CPU number should be"),
                ({"ceiling_kib": -1}, "ceiling_kib", "must be between 0 (none) and 1073741824"),
                ({"ceiling_kib": 2**30 + 1}, "ceiling_kib", "must be between 0 (none) and 1073741824"),
                ({"ceiling_kib": 10**30}, "ceiling_kib", "must be between 0 (none) and 1073741824"),
                ({"ceiling_kib": 5, "mask": "9"}, "mask", "no CPU of it is online: those are 0-3"),
                ({"mask": "1", "for_ms": 0}, "for_ms", "must be between 1 and 86400000"),
                ({"for_ms": 1000}, "for_ms", "neither a ceiling nor a mask is given")):
            with self.subTest(params=params):
                self.assertEqual(c.call("org.scrubd.SetLimit", params),
                                 {"error": "org.scrubd.InvalidLimit",
                                  "parameters": {"field": field, "reason": reason}})
        self.assertEqual(c.call("org.scrubd.SetLimit"), {"parameters": {"ceiling_kib": 0, "mask": "auto"}})
        self.assertEqual(self.show()["sets"], 0)
        self.assertNotIn("limits set", self.log())


UUID5 = "00000005-a4a5-a6a7-a8a9-aaabacadaeaf"
OTHER = "11111111-2222-3333-4444-555555555555"
# A good value for each field that is required, so that the others are looked at.
GOOD = {"domid": 5, "uuid": UUID5, "interface": "org.scrubd", "on": True, "priority": 3}
# What else it takes for a method to be looked at further.
ALSO = {"Wait": {"clean": True}, "SetLimit": {"mask": "1"}}
# What is out of range, by method and field: the other numbers have no range.
DOMID, DEADLINE, PRIORITY = (-1, 2**32), (-1, 0, 86400001), (-11, 11)
RANGES = {
    ("Destroy", "domid"): DOMID, ("Pause", "domid"): DOMID, ("Resume", "domid"): DOMID, ("Hurry", "domid"): DOMID,
    ("SetPriority", "domid"): DOMID, ("Protect", "domid"): DOMID, ("Destroy", "deadline_ms"): DEADLINE, ("Hurry", "deadline_ms"): DEADLINE,
    ("Destroy", "priority"): PRIORITY, ("SetPriority", "priority"): PRIORITY,
    ("Wait", "free_mib"): (-1, 2**40 + 1), ("Wait", "timeout_ms"): (-1, 86400001),
    ("Watch", "interval_ms"): (-1, 0, 49, 60001),
    ("SetLimit", "ceiling_kib"): (-1, 2**30 + 1), ("SetLimit", "for_ms"): (-1, 0, 86400001),
}
WRONG = {  # values of every type but the right one
    "int": ("5", 5.0, True, [5], {"x": 5}, None), "string": (5, 0.5, False, ["x"], {"x": "x"}),
    "bool": (0, 1, "true", [True], {"x": True}), "array": (5, "x", {"x": 1}), "object": (5, "x", [1])}


class Fields(ScrubdTest):
    """Each field of each method that the interface describes: of a wrong type, missing, twice, unknown, out of
    range, huge. The answer names the field, and nothing has changed."""

    def setUp(self):
        super().setUp()
        self.add(5, 1000)
        self.start('scrub_cpus = "0-2"\n')
        poll("the mask is in force", lambda: self.show()["has_mask"])
        self.before = self.state()
        self.c = self.client()
        self.methods = self.described("org.scrubd")

    def tearDown(self):
        self.unchanged()
        super().tearDown()

    def state(self):
        show = self.show()
        return {k: show[k] for k in ("domains", "steps", "resets", "mask", "ceiling_kib", "floor_kib", "dirtied")}

    def unchanged(self):
        self.assertEqual(self.state(), self.before)
        self.assertEqual(self.jobs(), [])
        self.assert_serving()
        for line in ("limits", "configuration:", "was read again"):
            self.assertNotIn(line, self.log())

    def described(self, interface):
        """{method: {field: (type, optional)}} of the interface, as it describes itself."""
        text = self.c.call("org.varlink.service.GetInterfaceDescription",
                           {"interface": interface})["parameters"]["description"]
        found = {}
        for name, params in re.findall(r"^method (\w+)\(([^)]*)\)", re.sub("#.*", "", text), re.M):
            fields = re.findall(r"(\w+): (\??)(\[\])?(\w+|\()", params)
            found[name] = {f: ("array" if a else "string" if t == "(" else t, bool(o)) for f, o, a, t in fields}
        return found

    def good(self, method):
        return {**ALSO.get(method, {}), **{f: GOOD[f] for f, (_, o) in self.methods[method].items() if not o}}

    def each_field(self):
        for method, fields in self.methods.items():
            for field, (kind, optional) in fields.items():
                yield method, field, kind, optional, self.good(method)

    def refused(self, method, params, field, error=INVALID):
        """By name of the field. In each way that errors name it."""
        with self.subTest(method=method, params=str(params)[:80]):
            if isinstance(params, bytes):
                self.c.sock.sendall(b'{"method":"org.scrubd.%s","more":true,"parameters":%s}\0'
                                    % (method.encode(), params))
                reply = self.c.recv()
            else:
                reply = self.c.call("org.scrubd." + method, params, more=True)
            self.assertEqual(reply.get("error"), error)
            self.assertIn(field, (reply["parameters"].get("parameter"), reply["parameters"].get("field")))

    def test_described(self):
        """What is tried here is all there is."""
        self.assertLessEqual({"GetStatus", "ListJobs", "Destroy", "Watch", "SetLimit", "Reset", "ReloadConfig",
                              "Pause", "Resume", "Hurry", "SetPriority", "Wait",
                              "AwaitMemory", "ListCpus", "Protect", "ListProtected"},
                             set(self.methods))
        self.assertEqual(self.methods["Destroy"]["domid"], ("int", False))
        for method, field in RANGES:
            self.assertIn(field, self.methods[method])

    def test_wrong_type(self):
        for method, field, kind, optional, good in self.each_field():
            for value in WRONG[kind]:
                if value is not None or not optional:
                    self.refused(method, {**good, field: value}, field)
            if kind == "string":
                self.refused(method, {**good, field: "a\0b"}, field)

    def test_missing(self):
        for method, field, _, optional, good in self.each_field():
            if not optional:
                self.refused(method, {k: v for k, v in good.items() if k != field}, field)

    def test_unknown(self):
        for method in self.methods:
            good = self.good(method)
            for field in ("nope", "Domid", "", "uuid ", "x" * 1000):
                self.refused(method, {**good, field: 1}, field)

    def test_twice(self):
        """Of the two values neither is taken; whoever sends that is not listened to any further."""
        for method, field, kind, _, good in self.each_field():
            value = {"int": b"5", "string": b'"x"', "bool": b"true", "array": b"[]", "object": b"{}"}[kind]
            rest = json.dumps({k: v for k, v in good.items() if k != field}).encode()[1:-1]
            text = b'{"%s":%s,"%s":%s%s}' % (field.encode(), value, field.encode(), value,
                                             b"," + rest if rest else b"")
            self.refused(method, text, "a member of an object is given twice")
            self.assertIsNone(self.c.recv())
            self.c = self.client()
        self.c.sock.sendall(b'{"method":"org.scrubd.GetStatus","method":"org.scrubd.Reset"}\0')
        self.assertIn("given twice", self.c.recv()["parameters"]["parameter"])

    def test_range(self):
        for (method, field), values in RANGES.items():
            for value in values + (10**30, -10**30):
                self.refused(method, {**self.good(method), field: value}, field,
                             "org.scrubd.InvalidLimit" if method == "SetLimit" else INVALID)

    def test_huge(self):
        """Texts and numbers as long as a request may be."""
        for method, field, kind, _, good in self.each_field():
            if kind == "string" and (method, field) != ("Destroy", "name"):
                reply = self.c.call("org.scrubd." + method, {**good, field: "x" * 60000}, more=True)
                self.assertIn("error", reply, (method, field))
            elif kind == "int" and (method, field) not in RANGES:
                reply = self.c.call("org.scrubd." + method, {**good, field: 10**30}, more=True)
                self.assertIn("error", reply, (method, field))

    def test_wait(self):
        """Wait has to be told for what."""
        for params in ({}, {"clean": False}, {"free_mib": 0}, {"timeout_ms": 5}, {"clean": False, "free_mib": 0}):
            self.refused("Wait", params, "free_mib")

    def test_protect(self):
        """A domain or a pattern, and one that can be."""
        self.refused("Protect", {"on": True}, "domid")
        self.refused("Protect", {"domid": 5, "pattern": "x", "on": True}, "pattern")
        for params, error, says in (
                ({"domid": 0}, "NotAllowed", {"domid": 0, "reason": "domain 0 cannot be protected"}),
                ({"domid": 6}, "NoSuchDomain", {"domid": 6}),
                ({"pattern": ""}, "Refused", {"reason": '"" names nothing'}),
                ({"pattern": "pool:"}, "Refused", {"reason": '"pool:" names nothing'}),
                ({"pattern": "uuid:" + UUID5[1:]}, "Refused", {"reason": f'"uuid:{UUID5[1:]}" is not a uuid'}),
                ({"pattern": "a[b"}, "Refused",
                 {"reason": '"a[b" is not a pattern: a bracket or an escape has no end'}),
                ({"pattern": "a\tb"}, "Refused", {"reason": "a control character is in a pattern"}),
                ({"pattern": "y" * 96}, "Refused", {"reason": f'"{"y" * 20}..." is longer than 95 bytes'})):
            with self.subTest(params=params):
                self.assertEqual(self.c.call("org.scrubd.Protect", {**params, "on": True}),
                                 {"error": "org.scrubd." + error, "parameters": says})
        self.assertEqual(self.c.call("org.scrubd.ListProtected", more=True), {"parameters": {}})

    def test_uuid(self):
        for value in ("", "x", UUID5[:-1], UUID5 + "0", UUID5.replace("-", "_"), "{" + UUID5 + "}", "g" + UUID5[1:]):
            for method, fields in self.methods.items():
                if "uuid" in fields:
                    self.refused(method, {**self.good(method), "uuid": value}, "uuid")

    def test_domain(self):
        """No such domain, another uuid, domain 0: for each method that has a domid."""
        for method, fields in self.methods.items():
            if "domid" not in fields or fields["domid"][1]:
                continue
            for params, error in (({"domid": 6}, "NoSuchDomain"), ({"domid": 32752}, "NoSuchDomain"),
                                  ({"domid": 2**32 - 1}, "NoSuchDomain"), ({"uuid": OTHER}, "NoSuchDomain"),
                                  ({"domid": 0}, "NotAllowed")):
                with self.subTest(method=method, params=params):
                    reply = self.c.call("org.scrubd." + method, {**self.good(method), **params}, more=True)
                    # What acts on jobs alone finds no job for any of them.
                    self.assertEqual(reply["error"], "org.scrubd." + (error if method in ("Destroy", "Plan") else "NoSuchJob"))
                    self.assertEqual(reply["parameters"]["domid"], params.get("domid", 5))


class Domains(ScrubdTest):
    """Domains that are not simply alive."""

    def test_reused(self):
        """The number has a new owner: who names the old one by uuid does not hit the new one."""
        self.add(5, 1000)
        self.start()
        self.fakectl("destroy", 5)
        self.set(generation=1)
        self.add(5, 2000)
        reply = self.call("Destroy", {"domid": 5, "uuid": UUID5}, more=True)
        self.assertEqual(reply, {"error": "org.scrubd.NoSuchDomain", "parameters": {"domid": 5}})
        self.assertEqual(self.pages(5), 2000)
        self.assertEqual(self.jobs(), [])

    def test_reused_meanwhile(self):
        """It gets one in the midst of the teardown, which somebody else has finished."""
        self.add(5, 400000)
        self.start("step_us = 200\nduty_percent = 2\n")
        c = self.client()
        c.destroy(5, uuid=UUID5)
        poll("some steps", lambda: self.show()["steps"] > 2)
        self.fakectl("destroy", 5)
        self.set(generation=1)
        self.add(5, 2000)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertEqual(self.show()["domains"]["5"], {**self.show()["domains"]["5"], "life": "alive", "pages": 2000})

    def test_dying(self):
        """Somebody else has begun: it is gone on with, and another uuid is none of its business."""
        self.add(5, 100000)
        self.start()
        self.fakectl("life", 5, "dying")
        reply = self.call("Destroy", {"domid": 5, "uuid": OTHER}, more=True)
        self.assertEqual(reply["error"], "org.scrubd.NoSuchDomain")
        self.assertEqual(self.pages(5), 100000)
        c = self.client()
        self.assertEqual(c.destroy(5, uuid=UUID5)["parameters"]["event"], "hello")
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")

    def test_in_creation(self):
        """Paused, nameless, and never run: a creation that failed ends so. The uuid decides as ever."""
        self.add(5, 10000, name="")
        self.dom(5, building=1)
        self.start()
        reply = self.call("Destroy", {"domid": 5, "uuid": OTHER}, more=True)
        self.assertEqual(reply, {"error": "org.scrubd.NoSuchDomain", "parameters": {"domid": 5}})
        reply = self.call("Hurry", {"domid": 5})
        self.assertEqual(reply["error"], "org.scrubd.NoSuchJob")
        self.assertEqual(self.pages(5), 10000)
        c = self.client()
        self.assertEqual(c.destroy(5, uuid=UUID5)["parameters"]["event"], "hello")
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.wait_log("still in creation")

    def test_dead(self):
        """Dead but for pages that somebody holds: nothing to do, and said so."""
        self.add(5, 10000, held=10000)
        self.fakectl("life", 5, "dead")
        self.start()
        c = self.client()
        self.assertEqual(c.destroy(5)["parameters"]["event"], "hello")
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertEqual(self.pages(5), 10000)


class Introspection(ScrubdTest):
    def test_service(self):
        self.start()
        c = self.client()
        info = c.call("org.varlink.service.GetInfo")["parameters"]
        self.assertEqual(info["interfaces"], ["org.varlink.service", "org.scrubd"])
        for name in info["interfaces"]:
            text = c.call("org.varlink.service.GetInterfaceDescription", {"interface": name})
            self.assertIn("interface " + name, text["parameters"]["description"])
        self.assertEqual(c.call("org.varlink.service.GetInterfaceDescription", {"interface": "x.y"}),
                         {"error": "org.varlink.service.InterfaceNotFound", "parameters": {"interface": "x.y"}})

    def test_description_is_true(self):
        """What GetStatus and Destroy reply is what the description says, no more and no less."""
        self.add(5, 100000)
        self.start()
        c = self.client()
        text = c.call("org.varlink.service.GetInterfaceDescription",
                      {"interface": "org.scrubd"})["parameters"]["description"]
        lines = [x.split("#")[0] for x in text.splitlines()]
        flat = " ".join(" ".join(lines).split())

        def fields(kind):
            body = flat.split(kind + " (", 1)[1]
            depth, end = 1, 0
            while depth:
                depth += {"(": 1, ")": -1}.get(body[end], 0)
                end += 1
            body, found = body[:end - 1], {}
            while ":" in body:
                name, rest = body.split(":", 1)
                rest = rest.strip()
                if rest.startswith("("):
                    rest = rest.split(")", 1)[1]
                    optional = False
                else:
                    optional = rest.startswith("?")
                found[name.strip(" ,")] = optional
                body = rest.split(",", 1)[1] if "," in rest else ""
            return found

        def check(obj, kind):
            spec = fields(kind)
            self.assertLessEqual(set(obj), set(spec))
            self.assertLessEqual({k for k, optional in spec.items() if not optional}, set(obj))

        status = self.status()
        check(status, "type Status")
        check(status["nodes"][0], "type Node")
        check(status["cpus"][0], "type Cpu")
        self.add(6, 1000)
        self.dom(6, hard=0x2)
        c.send("org.scrubd.ListCpus", more=True)
        cpus = [r["parameters"]["cpu"] for r in c.rest()]
        check(cpus[0], "type PlacedCpu")
        check(cpus[1], "type PlacedCpu")
        self.assertEqual(cpus[1]["domid"], 6)
        c.send("org.scrubd.ListProtected", more=True)
        check(c.rest()[0]["parameters"]["protected"], "type Protected")
        check(c.destroy(5)["parameters"]["job"], "type Job")


class Permission(ScrubdTest):
    @unittest.skipUnless(os.geteuid() == 0, "needs root to be somebody else")
    def test_others(self):
        """Another user, on a socket that lets it in, is told so; the socket does not by itself."""
        self.add(5, 1000)
        self.start()
        os.chmod(self.dir, 0o755)
        script = ("import json,os,socket,sys\nos.setgid(65534); os.setuid(65534)\n"
                  "s = socket.socket(socket.AF_UNIX)\n"
                  "try: s.connect(sys.argv[1])\n"
                  "except PermissionError: print('kept out'); sys.exit()\n"
                  "s.sendall(json.dumps({'method': sys.argv[2], 'parameters': json.loads(sys.argv[3]),"
                  "'more': True}).encode() + b'\\0')\nprint(s.recv(65536)[:-1].decode())")

        def nobody(method, params="{}"):
            return subprocess.run(["python3", "-c", script, self.sock, method, params], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout.strip()

        self.assertEqual(os.stat(self.sock).st_mode & 0o777, 0o600)
        self.assertEqual(nobody("org.scrubd.GetStatus"), "kept out")
        os.chmod(self.sock, 0o666)
        for method, params in (("GetStatus", "{}"), ("Destroy", '{"domid":5}'), ("SetLimit", '{"mask":"0"}'),
                               ("Reset", "{}"), ("Watch", "{}"), ("ListJobs", "{}"), ("Pause", '{"domid":5}'),
                               ("Resume", '{"domid":5}'), ("Hurry", '{"domid":5}'),
                               ("SetPriority", '{"domid":5,"priority":1}'), ("Wait", '{"clean":true}'), ("ListCpus", "{}"),
                               ("ListProtected", "{}"), ("Protect", '{"domid":5,"on":true}')):
            self.assertEqual(json.loads(nobody("org.scrubd." + method, params)),
                             {"error": "org.scrubd.PermissionDenied", "parameters": {}})
        self.assertIn("interfaces", nobody("org.varlink.service.GetInfo"))
        self.assertEqual(self.pages(5), 1000)


class Start(ScrubdTest):
    """Starts that have to fail, and say why."""

    def fails(self, conf="", args=(), code=1):
        self.start(conf, args, wait=False)
        self.assertEqual(self.proc.wait(30), code)
        return self.log()

    def test_config(self):
        log = self.fails("# fine\nstep_us = 500\nstep_uss = 5\n")
        self.assertIn(f"{self.conf}:3: no such option 'step_uss'", log)
        self.assertIn(f'{self.conf}:1: scrub_cpus: "0-": a CPU number is missing at the end',
                      self.fails('scrub_cpus = "0-"\n'))
        self.assertIn(":2: duty_percent: 0 is not between 1 and 100", self.fails("\nduty_percent = 0\n"))
        self.assertEqual(self.show()["calls"], 0)

    def test_check_config(self):
        self.assertIn(":1: lease_s", self.fails("lease_s = 0\n", ["--check-config"]))
        self.start("lease_s = 5\n", ["--check-config"], wait=False)
        self.assertEqual(self.proc.wait(30), 0)
        self.assertEqual(self.show()["calls"], 0)

    def test_reset(self):
        """What the service runs after scrubd's end, however that came."""
        self.start('ceiling_mib_s = 100\n')
        self.call("SetLimit", {"mask": "1"})
        self.add(5, 10 ** 6)
        with Client(self.sock) as c:
            c.destroy(5)
            poll("limits in force", lambda: self.show()["has_ceiling"])
            self.kill()
        self.assertTrue(self.show()["has_ceiling"])
        self.start(args=["--reset"], wait=False)
        self.assertEqual(self.proc.wait(30), 0)
        self.assertFalse(self.show()["has_ceiling"] or self.show()["has_mask"])
        self.set(probe_error=13)
        self.assertIn("fake host: Permission denied", self.fails(args=["--reset"]))
        self.set(probe_error=0, patched=0)
        self.start(args=["--reset"], wait=False)
        self.assertEqual(self.proc.wait(30), 0)

    def test_arguments(self):
        self.fails(args=["--nope"], code=2)
        self.fails(args=["extra"], code=2)

    def test_socket(self):
        self.start()
        first = self.proc
        self.assertIn("somebody serves there already", self.fails())
        self.proc = first
        self.assert_serving()

    def test_stale_socket(self):
        """One that a killed scrubd left behind is replaced."""
        self.start()
        self.kill()
        self.assertTrue(os.path.exists(self.sock))
        self.start()
        self.assert_serving()
        self.stop()
        self.assertFalse(os.path.exists(self.sock))

    def test_socket_path(self):
        with open(self.sock, "w"):
            pass
        self.assertIn("cannot listen on", self.fails())

    def test_hypervisor(self):
        self.set(probe_error=13)
        self.assertIn("fake host: Permission denied", self.fails())


if __name__ == "__main__":
    unittest.main(verbosity=2)
