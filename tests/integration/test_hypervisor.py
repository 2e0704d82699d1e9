# SPDX-License-Identifier: GPL-2.0-or-later
"""The hypervisor's patch comes and goes while scrubd runs, as a live patch does."""
import time
import unittest

from scrubdtest import GIB, ScrubdTest, poll

SLOW = "duty_percent = 2\nmin_size_mib = 1\n"


class Hypervisor(ScrubdTest):
    def state(self):
        status = self.status()
        return status["state"], status.get("reason")

    def gone(self):
        self.set(patched=0)

    def started(self, domid, pages=GIB, conf=SLOW, **params):
        """A caller whose teardown is under way."""
        self.add(domid, pages)
        c = self.client()
        self.assertEqual(c.destroy(domid, **params)["parameters"]["event"], "hello")
        poll("steps", lambda: self.pages(domid) < pages)
        return c

    def events(self, c):
        return [r and r.get("error", r.get("parameters", {}).get("event")) for r in c.rest()]


class Goes(Hypervisor):
    def test_at_a_step(self):
        """Callers take turns to finish what is left; nothing is lost, and no step is tried meanwhile."""
        self.start(SLOW)
        a, joined = self.started(5), self.client()
        self.assertEqual(joined.destroy(5)["parameters"]["event"], "hello")
        self.gone()
        self.wait_log("degraded: unpatched hypervisor")
        last = a.rest()[-1]["parameters"]
        self.assertEqual((last["event"], last["reason"]), ("decline", "unpatched hypervisor"))
        # The other waits until the first is done.
        self.assertEqual([joined.recv()["parameters"]["event"] for _ in range(2)], ["heartbeat"] * 2)
        steps = self.show()["steps"]
        self.fakectl("destroy", 5)
        a.close()
        self.assertEqual(self.events(joined)[-1], "decline")
        joined.close()
        poll("no jobs", lambda: self.jobs() == [])
        self.assertEqual(self.status()["jobs_done"], 1)
        self.assertEqual(self.show()["steps"], steps)
        self.assertEqual(self.log().count("degraded:"), 1)
        self.assertNotIn("does not get on", self.log())

    def test_at_the_first_step(self):
        self.start(SLOW)
        self.add(5, GIB)
        self.gone()
        c = self.client()
        self.assertEqual(c.destroy(5)["parameters"]["event"], "hello")
        self.assertEqual(self.events(c)[-1], "decline")
        self.assertEqual(self.pages(5), GIB)
        self.assertEqual(self.state(), ("degraded", "unpatched hypervisor"))

    def test_at_a_setting(self):
        """As any method that is refused on a degraded scrubd."""
        for method, params in (("SetLimit", {"ceiling_kib": 4096}), ("Reset", {}), ("GetHealth", {}), ("GetStatus", {})):
            with self.subTest(method):
                self.set(patched=1)
                self.start('scrub_cpus = "1"\n')
                self.gone()
                reply = self.call(method, params)
                if method != "GetStatus":
                    self.assertEqual(reply, {"error": "org.scrubd.Degraded", "parameters": {"reason": "unpatched hypervisor"}})
                self.assertEqual(self.state(), ("degraded", "unpatched hypervisor"))
                self.assertEqual(self.stop(), 0)
                self.assertNotIn("cannot", self.log())

    def test_lease(self):
        """Without any request the next renewal of the lease finds out."""
        self.start('scrub_cpus = "1"\nlease_s = 3\n')
        self.gone()
        self.wait_log("degraded: unpatched hypervisor")

    def test_waiters(self):
        """Who waits for what nobody can tell any more is told so; creates go on."""
        self.set(idle=0)
        self.start(SLOW + "create_wait_s = 60\n")
        self.add(7, 1000)
        clean = self.client()
        self.assertEqual(clean.destroy(7, wait_clean=True)["parameters"]["event"], "hello")
        poll("dead", lambda: self.jobs()[0]["state"] == "scrubbing")
        self.set(dirty=GIB)
        create, wait = self.client(), self.client()
        self.assertEqual(create.call("org.scrubd.AwaitMemory", more=True)["parameters"]["event"], "hello")
        self.assertEqual(wait.call("org.scrubd.Wait", {"clean": True}, more=True)["parameters"]["event"], "waiting")
        self.gone()
        self.assertEqual(self.events(create)[-1], "go")
        self.assertEqual(self.events(wait)[-1], "org.scrubd.Degraded")
        self.assertEqual(self.events(clean)[-2:], ["dead", "org.scrubd.Degraded"])
        self.assertEqual(self.jobs(), [])

    def test_nobody_waits(self):
        """A domain half torn down without a caller: kept in mind, and gone on with when the patch is back."""
        self.start(SLOW)
        self.started(5).close()
        self.gone()
        self.wait_log("left half torn down, and nobody waits for it")
        self.assertEqual([j["domid"] for j in self.jobs()], [5])
        self.set(patched=1)
        self.assertEqual(self.call("Probe")["parameters"], {"state": "ready"})
        self.call("Hurry", {"domid": 5})
        poll("gone", lambda: self.pages(5) is None)

    def test_caller_dies(self):
        """One who goes before his turn is over leaves a domain half torn down, which is kept in mind."""
        self.start(SLOW)
        a, b = self.started(5), self.started(6)
        self.gone()
        self.wait_log("degraded")
        b.close()
        a.close()
        poll("nobody's", lambda: self.log().count("left half torn down") == 2)
        self.fakectl("destroy", 6)
        poll("one is left", lambda: [j["domid"] for j in self.jobs()] == [5])
        c = self.client()
        c.destroy(5)
        self.assertEqual(self.events(c)[-1], "decline")

    def test_nobody_waits_destroyed(self):
        """Somebody else destroys it: the job goes too."""
        self.start(SLOW)
        self.started(5).close()
        self.gone()
        self.wait_log("left half torn down")
        self.fakectl("destroy", 5)
        poll("no jobs", lambda: self.jobs() == [])

    def test_stop(self):
        self.start('scrub_cpus = "1"\n')
        self.gone()
        self.assertEqual(self.stop(), 0)
        self.assertNotIn("cannot", self.log())


class Comes(Hypervisor):
    def setUp(self):
        super().setUp()
        self.gone()

    def test_at_a_job(self):
        """The next destroy is in steps, and the settings are in force, without a restart."""
        self.start('scrub_cpus = "1"\nmin_size_mib = 1\n')
        self.add(5, 40000)
        self.set(patched=1)
        c = self.client()
        c.destroy(5)
        self.assertEqual(self.events(c)[-1], "dead")
        self.assertIn("the hypervisor has the patch now: ready", self.log())
        self.assertGreater(self.show()["steps"], 2)
        self.assertEqual((self.show()["has_mask"], self.show()["mask"]), (1, 2))
        self.assert_serving()

    def test_by_itself(self):
        self.start('scrub_cpus = "1"\n')
        self.set(patched=1)
        calls = self.show()["calls"]
        poll("ready", lambda: "the patch now: ready" in self.log(), 15)
        self.assertGreater(self.show()["sets"], 0)
        self.assertLess(self.show()["calls"] - calls, 40)

    def test_probe(self):
        self.start()
        self.assertEqual(self.call("Probe")["parameters"], {"state": "degraded", "reason": "unpatched hypervisor"})
        self.set(patched=1)
        self.assertEqual(self.call("Probe")["parameters"], {"state": "ready"})
        self.gone()
        self.assertEqual(self.call("Probe")["parameters"], {"state": "degraded", "reason": "unpatched hypervisor"})

    def test_unnoticed(self):
        """It was away for too short a time to be missed; asked to look, scrubd has its settings in force again."""
        self.set(patched=1)
        self.start('scrub_cpus = "1"\nlease_s = 3600\n')
        self.gone()
        poll("settings end with the patch", lambda: self.show()["has_mask"] == 0)
        self.set(patched=1)
        self.assertEqual(self.call("Probe")["parameters"], {"state": "ready"})
        self.assertEqual((self.show()["has_mask"], self.show()["mask"]), (1, 2))
        self.assertNotIn("degraded", self.log())

    def test_broken(self):
        """Another error than the patch's absence: degraded still, and why."""
        self.start()
        self.set(probe_error=13)
        reply = self.call("Probe")["parameters"]
        self.assertEqual(reply["state"], "degraded")
        self.assertIn("Permission denied", reply["reason"])

    def test_queue(self):
        """Whoever still waits for a turn gets steps; whoever has it destroys by himself."""
        self.start(SLOW)
        for domid in (5, 6, 7):
            self.add(domid, 20000)
        a, b, c = self.client(), self.client(), self.client()
        for x, domid in ((a, 5), (b, 6), (c, 7)):
            x.destroy(domid)
        self.assertEqual(self.events(a)[-1], "decline")
        self.fakectl("destroy", 7)  # by somebody else
        self.set(patched=1)
        self.call("Probe")
        self.assertEqual([(j["domid"], j["state"]) for j in self.jobs() if j["domid"] == 6], [(6, "freeing")])
        self.assertEqual(self.events(c)[-1], "decline")
        self.assertEqual(self.pages(5), 20000)
        self.fakectl("destroy", 5)
        self.assertEqual(self.events(b)[-1], "dead")
        a.close()
        b.close()
        self.assert_serving()
        self.assertIsNone(self.pages(6))

    def test_configured_meanwhile(self):
        self.start('scrub_cpus = "1"\n')
        with open(self.conf, "w") as f:
            f.write('scrub_cpus = "2"\n')
        self.assertIn("parameters", self.call("ReloadConfig"))
        self.set(patched=1)
        self.call("Probe")
        poll("mask", lambda: self.show()["mask"] == 4)

    def test_back_and_forth(self):
        """Again and again under load: every domain ends, and each caller is told."""
        self.set(patched=1)
        self.start("min_size_mib = 1\nduty_percent = 20\n")
        for i in range(1, 9):
            self.add(i, 20000)
        callers = {i: self.client() for i in range(1, 9)}
        for i, c in callers.items():
            c.destroy(i)
        for i in range(20):
            self.set(patched=i % 2)
            self.call("Probe")
            time.sleep(0.01)
        self.assertEqual(self.state()[0], "ready")
        for i, c in callers.items():
            last = self.events(c)[-1]
            self.assertIn(last, ("dead", "decline"))
            if last == "decline" and self.pages(i) is not None:
                self.fakectl("destroy", i)
            c.close()
        poll("all gone", lambda: list(self.show()["domains"]) == ["0"])
        poll("no jobs", lambda: self.jobs() == [])
        self.assert_serving()


class LetGo(Hypervisor):
    def test_idle(self):
        """Scrubbing is stock at once, and scrubd does not come back before it is asked to."""
        self.start('scrub_cpus = "1"\nmin_size_mib = 1\n')
        reply = self.call("LetGo")["parameters"]
        self.assertEqual((reply["state"], reply["jobs"]), ("degraded", 0))
        self.assertIn("taken out", reply["reason"])
        self.assertEqual((self.show()["has_mask"], self.show()["resets"]), (0, 1))
        self.add(5, 40000)
        c = self.client()
        c.destroy(5)
        self.assertEqual(self.events(c)[-1], "decline")
        c.close()
        self.assertEqual(self.show()["steps"], 0)
        self.assertEqual(self.call("Probe")["parameters"], {"state": "ready"})
        self.assertEqual(self.show()["mask"], 2)

    def test_finishes(self):
        """What is under way is finished first, paused or not, without pauses."""
        self.start(SLOW)
        a, b = self.started(5), self.started(6)
        self.call("Pause", {"domid": 6})
        began = time.monotonic()
        self.assertEqual(self.call("LetGo")["parameters"]["jobs"], 2)
        self.assertEqual(self.state()[0], "ready")
        poll("let go", lambda: self.call("LetGo")["parameters"]["jobs"] == 0)
        self.assertLess(time.monotonic() - began, 10)  # with pauses it takes 24 s
        self.assertEqual((self.events(a)[-1], self.events(b)[-1]), ("dead", "dead"))
        self.assertEqual(self.state()[0], "degraded")

    def test_forgotten(self):
        """Whoever asked does not come back: the pace is as before."""
        self.set(free_pages_ms=10)
        self.start("min_size_mib = 1\nduty_percent = 2\n")
        self.started(5)
        self.call("LetGo")
        self.wait_log("pace is now for memory that is wanted")
        self.wait_log("pace is now for a deadline")  # the comfortable limit of each teardown
        self.assertEqual(self.state()[0], "ready")

    def test_now(self):
        """What cannot be finished is left to its callers."""
        self.set(inner_error=16)
        self.start(SLOW)
        self.add(5, GIB)
        c = self.client()
        c.destroy(5)
        self.assertEqual(self.call("LetGo")["parameters"]["jobs"], 1)
        reply = self.call("LetGo", {"now": True})["parameters"]
        self.assertEqual((reply["state"], reply["jobs"]), ("degraded", 1))
        self.assertEqual(self.events(c)[-1], "decline")

    def test_unpatched(self):
        self.gone()
        self.start()
        reply = self.call("LetGo")["parameters"]
        self.assertEqual((reply["state"], reply["reason"], reply["jobs"]), ("degraded", "unpatched hypervisor", 0))


if __name__ == "__main__":
    unittest.main()
