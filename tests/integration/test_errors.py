# SPDX-License-Identifier: GPL-2.0-or-later
"""Every error has a name that the interface declares, with the members that it declares, and each is seen here."""
import glob
import json
import os
import re
import subprocess
import unittest

from scrubdtest import GIB, ScrubdTest

DAEMON = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "daemon")
EIO = 5

# Of scrubd's own errors: how to get it from a host with these knobs, and a domain 5.
TABLE = (
    ("NoSuchDomain", {}, "Destroy", {"domid": 99}),
    ("NoSuchDomain", {}, "Destroy", {"domid": 5, "uuid": "01234567-89ab-cdef-0123-456789abcdef"}),
    ("NoSuchDomain", {}, "Protect", {"domid": 99, "on": True}),
    ("NoSuchJob", {}, "Hurry", {"domid": 5}),
    ("NoSuchJob", {}, "Pause", {"domid": 5}),
    ("NoSuchJob", {}, "Resume", {"domid": 5}),
    ("NoSuchJob", {}, "SetPriority", {"domid": 5, "priority": 1}),
    ("NotAllowed", {}, "Destroy", {"domid": 0}),
    ("NotAllowed", {}, "Protect", {"domid": 0, "on": True}),
    ("InvalidLimit", {}, "SetLimit", {"ceiling_kib": -1}),
    ("InvalidLimit", {}, "SetLimit", {"mask": "9999"}),
    ("InvalidConfig", {}, "ReloadConfig", {}),
    ("Degraded", {"patched": 0}, "SetLimit", {"ceiling_kib": 1}),
    ("Degraded", {"patched": 0}, "Reset", {}),
    ("Degraded", {"patched": 0}, "Hurry", {"domid": 5}),
    ("Degraded", {"patched": 0}, "ListCpus", {}),
    ("Degraded", {"patched": 0}, "Wait", {"clean": True}),
    ("Refused", {"step_error": EIO}, "Destroy", {"domid": 5}),
    ("Refused", {"get_error": EIO}, "Wait", {"free_mib": 1}),
    ("Refused", {"set_error": EIO}, "SetLimit", {"mask": "0"}),
    ("Refused", {}, "Protect", {"pattern": "[", "on": True}),
    ("Refused", {}, "Protect", {"domid": 5, "on": False}),
)
# And of Varlink's.
SERVICE = (
    ("InterfaceNotFound", "org.other.Method", {}, False),
    ("InterfaceNotFound", "org.varlink.service.GetInterfaceDescription", {"interface": "org.other"}, False),
    ("MethodNotFound", "org.scrubd.Nonsense", {}, False),
    ("MethodNotFound", "org.varlink.service.Nonsense", {}, False),
    ("InvalidParameter", "org.scrubd.Hurry", {}, False),
    ("InvalidParameter", "org.scrubd.Hurry", {"domid": "5"}, False),
    ("InvalidParameter", "org.scrubd.Hurry", {"domid": 5, "extra": 1}, False),
    ("InvalidParameter", "org.scrubd.SetPriority", {"domid": 5, "priority": 11}, False),
    ("ExpectedMore", "org.scrubd.ListJobs", {}, False),
)
# Of the standard, and of no use to us: no method is without an implementation, and others than root get our own.
UNUSED = {"org.varlink.service.MethodNotImplemented", "org.varlink.service.PermissionDenied"}


def declared():
    """{name: {member: may be absent}} by the interface descriptions"""
    errors = {}
    for path in glob.glob(os.path.join(DAEMON, "*.varlink")):
        with open(path) as f:
            text = f.read()
        interface = re.search(r"^interface (\S+)", text, re.M)[1]
        for name, members in re.findall(r"^error (\w+) \(([^)]*)\)", text, re.M):
            errors[f"{interface}.{name}"] = dict(
                (m.split(":")[0].strip(), m.split(":")[1].strip().startswith("?")) for m in members.split(",") if m)
    return errors


class Errors(ScrubdTest):
    def check(self, reply, name, what):
        self.assertEqual(reply.get("error"), name, (what, reply))
        members, given = declared()[name], reply.get("parameters") or {}
        self.assertLessEqual(set(given), set(members), (what, reply))
        self.assertLessEqual({m for m, optional in members.items() if not optional}, set(given), (what, reply))
        self.assertNotIn("", given.values(), (what, reply))

    def test_own(self):
        knobs = None
        for name, host, method, params in sorted(TABLE, key=lambda row: str(row[1])):
            if host != knobs:
                if self.proc:
                    self.stop()
                self.fakectl("create")
                self.add(5, GIB)
                self.start()
                self.set(**host)
                if "patched" in host:
                    self.stop()
                    self.start()
                with open(self.conf, "w") as f:
                    f.write("nonsense = 1\n")
                knobs = host
            with self.client() as c:
                c.send("org.scrubd." + method, params, more=True)
                self.check(c.recv(), "org.scrubd." + name, (method, params, host))
        self.assertIsNone(self.proc.poll())

    def test_service(self):
        self.start()
        for name, method, params, more in SERVICE:
            with self.client() as c:
                c.send(method, params, more=more)
                self.check(c.recv(), "org.varlink.service." + name, (method, params))

    def test_garbage(self):
        """What is no message at all has a name, too"""
        self.start()
        for data in (b"\0", b"x\0", b"[]\0", b"{}\0", b'{"method":1}\0', b'{"method":"a.b","parameters":[]}\0',
                     b"{" * 70000):
            with self.client() as c:
                c.sock.sendall(data)
                self.check(c.recv(), "org.varlink.service.InvalidParameter", data[:40])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to be somebody else")
    def test_permission(self):
        self.start()
        os.chmod(self.dir, 0o755)
        os.chmod(self.sock, 0o666)
        script = ("import os, socket, sys\nos.setgid(65534); os.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\n"
                  "s.connect(sys.argv[1]); s.sendall(b'{\"method\":\"org.scrubd.Reset\"}\\0')\n"
                  "print(s.recv(65536)[:-1].decode())")
        out = subprocess.run(["python3", "-c", script, self.sock], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.check(json.loads(out), "org.scrubd.PermissionDenied", "Reset")

    def test_names_once(self):
        """A type, a method and an error cannot have the same name: Varlink's parsers refuse the whole interface"""
        with open(os.path.join(DAEMON, "org.scrubd.varlink")) as f:
            names = re.findall(r"^(?:type|method|error) (\w+)", f.read(), re.M)
        self.assertGreater(len(names), 20)
        self.assertEqual(sorted(names), sorted(set(names)))

    def test_complete(self):
        """Names in the source, names in the descriptions, and names that were seen here are the same"""
        used = set()
        prefixes = {"WIRE_INTERFACE": "org.scrubd", "WIRE_SERVICE": "org.varlink.service"}
        for path in glob.glob(os.path.join(DAEMON, "rpc*.c")):
            with open(path) as f:
                for before, prefix, name in re.findall(r'(.)(WIRE_\w+) "\.(\w+)"', f.read()):
                    if before != "{":  # else a method's
                        used.add(f"{prefixes[prefix]}.{name}")
        seen = ({f"org.scrubd.{row[0]}" for row in TABLE} | {f"org.varlink.service.{row[0]}" for row in SERVICE}
                | {"org.scrubd.PermissionDenied"})
        self.assertEqual(set(declared()), used | UNUSED)
        self.assertEqual(seen, used)


if __name__ == "__main__":
    unittest.main()
