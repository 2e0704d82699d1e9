# SPDX-License-Identifier: GPL-2.0-or-later
"""The mask that scrubd finds by itself: what it protects, how it follows the host, what is said of it, and that
looking at a large host holds nothing up."""
import time
import unittest

from scrubdtest import GIB, ScrubdTest, poll


class Placement(ScrubdTest):
    """On a host of CPUs 0 to 3."""

    def start(self, *args):
        super().start(*args)
        self.status()  # it answers when it has had its first look

    def mask(self):
        """What the hypervisor has: a bitmap, None for all CPUs."""
        host = self.show()
        return host["mask"] if host["has_mask"] else None

    def follows(self, mask, deadline_s=2):
        poll(f"the mask is {mask}", lambda: self.mask() == mask, deadline_s)

    def listed(self, method, key):
        c = self.client()
        c.send("org.scrubd." + method, more=True)
        return [r["parameters"][key] for r in c.rest() if r["parameters"]]

    def cpus(self):
        return self.listed("ListCpus", "cpu")

    def whys(self):
        return [(c["why"], c.get("domid")) if "domid" in c else c["why"] for c in self.cpus()]

    def protected(self):
        return self.listed("ListProtected", "protected")

    def busy(self, domid=9):
        """A teardown that does not end."""
        self.add(domid, 64 * GIB, "dying")
        self.set(idle=0)
        c = self.client()
        c.destroy(domid)
        return c


class Auto(Placement):
    def test_nothing_to_protect(self):
        """An idle scrubd then sets nothing, nor does a job."""
        self.add(5, 1000)
        self.start("min_size_mib = 0\n")
        self.assertEqual(self.whys(), ["free"] * 4 + ["offline"] * 4)
        self.assertEqual(self.client().destroy(5)["parameters"]["event"], "hello")
        poll("the job is done", lambda: self.status()["jobs_done"] == 1)
        self.assertEqual((self.mask(), self.show()["sets"]), (None, 0))
        self.assertNotIn("CPUs that may scrub", self.log())

    def test_pinned(self):
        """Without any configuration, and at once."""
        self.add(5, 1000, "rt")
        self.add(6, 1000, "web")
        self.dom(5, hard=0x4)
        self.start()
        self.assertEqual(self.mask(), 0xb)
        self.assertIn("CPUs that may scrub: 0-1,3; clear: 2 for dom=5 name=rt (by pin)", self.log())
        cpus = self.cpus()
        self.assertEqual([c["allowed"] for c in cpus], [True, True, False, True] + [False] * 4)
        self.assertEqual({k: cpus[2][k] for k in ("cpu", "why", "domid", "name", "core", "node", "cpupool")},
                         {"cpu": 2, "why": "hard", "domid": 5, "name": "rt", "core": 2, "node": 0, "cpupool": 0})
        self.assertNotIn("domid", cpus[0])
        self.assertEqual([(p["by"], p["domid"], p["name"], p["cpus"]) for p in self.protected()],
                         [("pin", 5, "rt", "2")])

    def test_follows_pin(self):
        self.add(5, 1000, "rt")
        self.start()
        self.busy()
        self.assertEqual(self.mask(), None)
        for cpu in (1, 3, 1):
            self.dom(5, hard=1 << cpu)
            self.follows(0xf & ~(1 << cpu))
        self.dom(5, hard=0xff)
        self.follows(None)
        self.assertIn("CPUs that may scrub: all, 0-3", self.log())

    def test_backlog_without_job(self):
        """It follows until all is clean, though the job is over."""
        self.add(5, 1000, "rt")
        self.add(9, 20000, "dying")
        self.set(idle=0)
        self.start("backlog_high_mib = 1000\nmin_size_mib = 0\n")
        self.client().destroy(9)
        poll("the job is done", lambda: self.status()["jobs_done"] == 1)
        self.dom(5, hard=0x2)
        self.follows(0xd)
        self.set(idle=1)
        poll("clean", lambda: self.show()["dirty"] == 0)
        self.assertEqual(self.mask(), 0xd)

    def test_set_only_on_change(self):
        """Looks go on, but the hypervisor hears nothing of them."""
        self.add(5, 1000, "rt")
        self.dom(5, hard=0x2)
        self.start("lease_s = 3600\n")
        self.busy()
        first = self.show()
        poll("three more looks", lambda: self.show()["affinities"] >= first["affinities"] + 9, 10)
        self.assertEqual(self.show()["sets"], first["sets"])

    def test_own_teardown(self):
        """The CPUs of a domain that is being destroyed are not kept clear for it."""
        self.add(9, 64 * GIB, "dying")
        self.dom(9, hard=0x2)
        self.set(idle=0)
        self.start()
        self.assertEqual(self.mask(), 0xd)
        self.client().destroy(9)
        self.assertEqual(self.mask(), None)

    def test_shut_down(self):
        self.add(5, 1000, "rt")
        self.dom(5, hard=0x2, shutdown=4)
        self.start()
        self.assertEqual(self.mask(), None)

    def test_siblings_nodes_offline(self):
        self.set(online=0xff, smt=1, cpu_nodes=2)
        self.add(5, 1000, "rt")
        self.dom(5, hard=0x8)
        self.start()
        self.assertEqual(self.mask(), 0xf3)
        self.assertEqual(self.whys()[2:5], [("sibling", 5), ("hard", 5), "free"])
        self.assertEqual(self.cpus()[2]["sibling"], 3)
        # ListCpus looks by itself, without a job.
        self.dom(5, hard=0xf0)
        self.assertEqual(self.whys(), ["free"] * 4 + [("hard", 5)] * 4)
        self.set(online=0xf3)
        self.assertEqual(self.whys()[1:4], ["free", "offline", "offline"])
        self.dom(5, hard=0x10)
        self.set(online=0x33)
        self.assertEqual(self.whys()[4:6], [("hard", 5), ("node_needs_sibling", 5)])
        self.assertEqual(self.mask(), 0x23)

    def test_everywhere(self):
        """What cannot be kept clear is said, once, and no mask comes of it."""
        self.add(5, 1000, "web1")
        self.start('protect = {"web*"}\n')
        self.assertEqual(self.mask(), None)
        self.assertEqual(self.whys()[:4], [("everywhere", 5)] * 4)
        said = "dom=5 name=web1: is protected, but may run on every CPU"
        self.assertEqual(self.log().count(said), 1)

    def test_last(self):
        """All pinned: the mask is never empty."""
        for domid in range(1, 5):
            self.add(domid, 1000)
            self.dom(domid, hard=1 << (domid - 1))
        self.start()
        self.assertEqual(self.mask(), None)
        self.assertEqual(self.whys()[:4], [("last", i) for i in range(1, 5)])
        self.call("Protect", {"domid": 2, "on": True})
        self.assertEqual(self.mask(), 0xd)

    def test_cpupool(self):
        self.set(pool1_cpus=0xc)
        self.add(5, 1000, "rt")
        self.start('protect = {"pool:rt"}\n')
        self.busy()
        self.assertEqual(self.mask(), None)
        self.dom(5, cpupool=1)
        self.follows(0x3)
        self.assertEqual(self.whys()[2], ("hard", 5))
        self.dom(5, cpupool=0)
        self.follows(None)

    def test_rules(self):
        self.add(5, 1000, "web1")
        self.add(6, 1000, "db")
        self.dom(5, soft=0x2)
        self.dom(6, soft=0x8)
        uuid = "00000006-a4a5-a6a7-a8a9-aaabacadaeaf"
        self.start('protect = {"web?", "uuid:%s", "nobody", "pool:none"}\n' % uuid)
        self.assertEqual(self.mask(), 0x5)
        self.assertEqual(self.whys()[:4], ["free", ("soft", 5), "free", ("soft", 6)])
        self.assertEqual([(p["by"], p["rule"], p.get("domid")) for p in self.protected()],
                         [("name", "web?", 5), ("uuid", "uuid:" + uuid, 6), ("name", "nobody", None),
                          ("pool", "pool:none", None)])

    def test_errors(self):
        """A host that cannot be read changes nothing, and that is said once."""
        self.add(5, 1000, "rt")
        self.dom(5, hard=0x2)
        self.start()
        self.busy()
        self.set(affinity_error=5)
        self.dom(5, hard=0x8)
        before = self.show()["affinities"]
        poll("two more looks", lambda: self.show()["affinities"] >= before + 2, 10)
        self.assertEqual(self.mask(), 0xd)
        self.assertEqual(self.log().count("cannot find out which CPUs to keep clear"), 1)
        self.assertEqual(self.whys()[1], ("hard", 5))
        self.set(affinity_error=0)
        self.follows(0x7)

    def test_reload(self):
        self.add(5, 1000, "web1")
        self.dom(5, soft=0x2)
        self.start()
        self.assertEqual(self.mask(), None)
        with open(self.conf, "w") as f:
            f.write('protect = {"web*"}\n')
        self.call("ReloadConfig")
        self.follows(0xd)

    def test_degraded(self):
        self.set(patched=0)
        self.start()
        for method, params in (("ListCpus", {}), ("ListProtected", {}), ("Protect", {"pattern": "x", "on": True})):
            self.assertEqual(self.call(method, params, more=True),
                             {"error": "org.scrubd.Degraded", "parameters": {"reason": "unpatched hypervisor"}})

    def test_large(self):
        """A look that takes a second is made in turns: others are served in between."""
        for domid in range(1, 201):
            self.add(domid, 1000)
        self.dom(200, hard=0x2)
        self.start()
        self.set(affinity_us=5000)
        looking = self.client()
        looking.send("org.scrubd.ListCpus", more=True)
        c, worst, calls = self.client(), 0, 0
        before = self.show()["affinities"]
        while self.show()["affinities"] < before + 100:
            began = time.monotonic()
            self.assertEqual(c.call("org.scrubd.GetStatus")["parameters"]["state"], "ready")
            worst = max(worst, time.monotonic() - began)
            calls += 1
        self.assertGreater(calls, 2)  # were it made in one, the first call would outlast it
        self.assertLess(worst, 0.4)  # the whole look takes more than 1 s
        replies = looking.rest()
        self.assertEqual([r["parameters"]["cpu"]["why"] for r in replies][:3], ["free", "hard", "free"])

    def test_gone_while_looking(self):
        """Who asked and went away leaves nothing behind."""
        for domid in range(1, 101):
            self.add(domid, 1000)
        self.start()
        self.set(affinity_us=2000)
        for _ in range(5):
            c = self.client()
            c.send("org.scrubd.ListCpus", more=True)
            before = self.show()["affinities"]
            poll("it looks", lambda: self.show()["affinities"] > before)
            c.close()
        self.set(affinity_us=0)
        self.assertEqual(self.whys()[0], "free")


class Requests(Placement):
    def setUp(self):
        super().setUp()
        self.add(5, 1000, "web1")
        self.add(6, 1000, "db")
        self.dom(5, soft=0x2)
        self.dom(6, soft=0x8)

    def test_protect(self):
        self.start()
        self.assertEqual(self.call("Protect", {"domid": 5, "on": True}), {"parameters": {"domains": 1}})
        self.assertEqual(self.mask(), 0xd)
        self.assertEqual(self.call("Protect", {"pattern": "d*", "on": True}), {"parameters": {"domains": 1}})
        self.assertEqual(self.mask(), 0x5)
        self.assertEqual(self.call("Protect", {"pattern": "later", "on": True}), {"parameters": {"domains": 0}})
        self.assertEqual(self.call("Protect", {"pattern": "later", "on": True}), {"parameters": {"domains": 0}})
        self.assertEqual([(p["by"], p.get("rule"), p.get("domid")) for p in self.protected()],
                         [("request", None, 5), ("request", "d*", 6), ("request", "later", None)])
        self.assertEqual(self.call("Protect", {"domid": 5, "on": False}), {"parameters": {"domains": 0}})
        self.assertEqual(self.mask(), 0x7)
        self.assertEqual(self.call("Protect", {"domid": 5, "on": False}),
                         {"error": "org.scrubd.Refused", "parameters": {"reason": "that was not protected by request"}})
        self.assertEqual(self.call("Reset"), {"parameters": {}})
        self.follows(None)
        self.assertEqual(self.protected(), [])
        for line in ("dom=5 name=web1: protected from now on", '"d*": protected from now on',
                     "dom=5 name=web1: no longer protected by request"):
            self.assertIn(line, self.log())

    def test_number_used_again(self):
        """A domain is protected, not its number."""
        self.start()
        self.call("Protect", {"domid": 5, "on": True})
        self.fakectl("destroy", 5)
        self.set(generation=1)
        self.add(5, 1000, "web1")
        self.dom(5, soft=0x2)
        self.assertEqual(self.whys()[1], "free")
        for i in range(64):  # nor does the one that is gone take room
            self.assertEqual(self.call("Protect", {"pattern": f"p{i}", "on": True}), {"parameters": {"domains": 0}})

    def test_bad(self):
        self.start()
        bad = "org.varlink.service.InvalidParameter"
        for params, error, says in (
                ({"on": True}, bad, {"parameter": "domid"}),
                ({"domid": 5, "pattern": "x", "on": True}, bad, {"parameter": "pattern"}),
                ({"domid": 5}, bad, {"parameter": "on"}),
                ({"domid": 5, "on": 1}, bad, {"parameter": "on"}),
                ({"domid": "5", "on": True}, bad, {"parameter": "domid"}),
                ({"domid": -1, "on": True}, bad, {"parameter": "domid"}),
                ({"domid": 2**32, "on": True}, bad, {"parameter": "domid"}),
                ({"pattern": 5, "on": True}, bad, {"parameter": "pattern"}),
                ({"pattern": "a\0b", "on": True}, bad, {"parameter": "pattern"}),
                ({"domid": 5, "on": True, "x": 1}, bad, {"parameter": "x"}),
                ({"domid": 0, "on": True}, "org.scrubd.NotAllowed",
                 {"domid": 0, "reason": "domain 0 cannot be protected"}),
                ({"domid": 77, "on": True}, "org.scrubd.NoSuchDomain", {"domid": 77}),
                ({"domid": 0x7ff0, "on": True}, "org.scrubd.NoSuchDomain", {"domid": 0x7ff0}),
                ({"pattern": "", "on": True}, "org.scrubd.Refused", {"reason": '"" names nothing'}),
                ({"pattern": "uuid:5", "on": True}, "org.scrubd.Refused", {"reason": '"uuid:5" is not a uuid'}),
                ({"pattern": "x" * 96, "on": True}, "org.scrubd.Refused",
                 {"reason": '"%s..." is longer than 95 bytes' % ("x" * 20)}),
                ({"pattern": "web[", "on": True}, "org.scrubd.Refused",
                 {"reason": '"web[" is not a pattern: a bracket or an escape has no end'})):
            with self.subTest(params=params):
                self.assertEqual(self.call("Protect", params), {"error": error, "parameters": says})
        self.assertEqual((self.protected(), self.mask()), ([], None))
        for i in range(64):
            self.call("Protect", {"pattern": f"p{i}", "on": True})
        self.assertEqual(self.call("Protect", {"pattern": "p64", "on": True})["parameters"],
                         {"reason": "there are 64 of these already"})

    def test_limit_overrides(self):
        """A list or all replace what was found; auto brings it back."""
        self.dom(5, hard=0x2)
        self.start()
        self.assertEqual(self.mask(), 0xd)
        for text, mask, why in (("1-2", 6, ["not_listed", "listed", "listed", "not_listed"]),
                                ("all", None, ["all"] * 4),
                                ("auto", 0xd, ["free", ("hard", 5), "free", "free"])):
            self.assertEqual(self.call("SetLimit", {"mask": text})["parameters"]["mask"], text)
            self.assertEqual((self.mask(), self.whys()[:4]), (mask, why))
        self.call("SetLimit", {"mask": "0"})
        self.dom(5, hard=0x4)
        self.assertEqual(self.cpus()[2]["allowed"], False)
        self.assertEqual(self.mask(), 1)
        self.call("Reset")
        self.follows(0xb)

    def test_conf_all(self):
        self.dom(5, hard=0x2)
        self.start('scrub_cpus = "all"\n')
        self.busy()
        self.assertEqual((self.mask(), self.whys()[1]), (None, "all"))


if __name__ == "__main__":
    unittest.main()
