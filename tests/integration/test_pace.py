# SPDX-License-Identifier: GPL-2.0-or-later
"""What decides about the pace of a teardown: priorities, pauses, hurry, deadlines, what the domain ends for, who
waits for memory; and what is said of a domain after its death."""
import time
import unittest

from scrubdtest import GIB, ScrubdTest, poll

SLOW = "duty_percent = 5\n"  # 1 GiB takes some 5 s at that
REBOOT, POWEROFF = 2, 1


class Pace(ScrubdTest):
    def events(self, c):
        return [r["parameters"]["event"] for r in c.rest() if r["parameters"]["event"] != "heartbeat"]

    def job(self, domid):
        return next((j for j in self.jobs() if j["domid"] == domid), None)

    def timed(self, c):
        began = time.monotonic()
        self.assertEqual(self.events(c)[-1], "dead")
        return time.monotonic() - began


class Jobs(Pace):
    def test_priority(self):
        """The higher one ends first though it came last; a lower one has its step a second all the same."""
        for domid, priority in ((1, None), (2, -3), (3, 7)):
            self.add(domid, GIB)
            self.start("duty_percent = 20\n") if domid == 1 else None
            params = {} if priority is None else {"priority": priority}
            self.assertEqual(self.client().destroy(domid, **params)["parameters"]["job"]["priority"], priority or 0)
        first = poll("one is dead", lambda: [j["domid"] for j in self.jobs() if j["state"] == "scrubbing"] or
                     [d for d in (1, 2, 3) if self.pages(d) is None])
        self.assertEqual(first, [3])
        self.assertEqual(self.call("SetPriority", {"domid": 2, "priority": 10})["parameters"]["job"]["priority"], 10)
        poll("domain 2 is gone", lambda: self.pages(2) is None)
        self.assertIsNotNone(self.pages(1))
        self.assertGreaterEqual(self.job(1)["steps"], 2)

    def test_pause_and_resume(self):
        self.add(5, GIB)
        self.start(SLOW)
        c = self.client()
        uuid = c.destroy(5)["parameters"]["job"]["uuid"]
        job = self.call("Pause", {"domid": 5, "uuid": uuid})["parameters"]["job"]
        self.assertEqual(job["state"], "paused")
        self.assertTrue(599000 < job["paused_ms"] <= 600000, job)
        steps = self.show()["steps"]
        self.assertEqual(c.recv()["parameters"]["event"], "heartbeat")  # its caller must not give up
        self.assertEqual(self.show()["steps"], steps)
        self.assertNotIn("eta_ms", self.job(5))
        job = self.call("Resume", {"domid": 5})["parameters"]["job"]
        self.assertEqual(job["state"], "freeing")
        self.assertNotIn("paused_ms", job)
        self.assertEqual(self.timed(c) > 0, True)

    def test_pause_ends_by_itself(self):
        self.add(5, GIB)
        self.start("max_pause_s = 1\n")
        c = self.client()
        c.destroy(5)
        self.call("Pause", {"domid": 5})
        steps = self.show()["steps"]
        self.assertGreater(self.timed(c), 0.8)
        self.assertGreater(self.show()["steps"], steps)
        self.assertIn("paused, for 1 s at most", self.log())

    def test_hurry(self):
        """It ends a pause, and what would take seconds takes a moment, in steps that are as short as before."""
        self.add(5, GIB)
        self.start(SLOW + "backlog_high_mib = 16\n")
        self.set(scrub_pages_ms=1)
        c = self.client()
        c.destroy(5)
        self.call("Pause", {"domid": 5})
        job = self.call("Hurry", {"domid": 5})["parameters"]["job"]
        self.assertEqual((job["hurry"], "paused_ms" in job), (True, False))
        self.assertLess(self.timed(c), 2.5)
        self.assertLessEqual(self.show()["longest_step_us"], 2000)
        self.assertIn("pace is now for hurry", self.log())

    def test_deadline(self):
        """At 5 % it would take 5 s: it takes the 2 s that are given, and not much less."""
        self.add(5, GIB)
        self.start(SLOW)
        c = self.client()
        hello = c.destroy(5, deadline_ms=2000)["parameters"]
        self.assertNotIn("reason", hello)
        self.assertTrue(1900 < hello["job"]["deadline_ms"] <= 2000)
        took = self.timed(c)
        self.assertLess(took, 2.1)
        self.assertGreater(took, 0.5)

    def test_deadline_of_a_running_job(self):
        self.add(5, GIB)
        self.start(SLOW)
        c = self.client()
        c.destroy(5)
        self.call("Hurry", {"domid": 5, "deadline_ms": 1500})
        self.assertLess(self.timed(c), 1.6)

    def test_infeasible(self):
        """Said at once, in the answer and in the log; and it is as fast as can be."""
        self.add(5, 8 * GIB)
        self.start(SLOW)
        c = self.client()
        hello = c.destroy(5, deadline_ms=50)["parameters"]
        self.assertIn("cannot be met", hello["reason"])
        self.assertIn("cannot be met", self.log())
        self.assertLess(self.timed(c), 6)
        self.assertIn("ms after its deadline", self.log())
        self.add(6, GIB)
        c.destroy(6)
        self.assertIn("cannot be met", self.call("Hurry", {"domid": 6, "deadline_ms": 1})["parameters"]["reason"])

    def test_max_teardown(self):
        """Comfort ends in time."""
        self.add(5, GIB)
        self.start("duty_percent = 1\nmax_teardown_s = 2\n")
        c = self.client()
        c.destroy(5)
        self.assertLess(self.timed(c), 2.5)

    def test_reboot_is_quick(self):
        """For as long as it is not configured otherwise; a poweroff is not."""
        for conf, shutdown, quick in (("", REBOOT, True), ("quick = {}\n", REBOOT, False), ("", POWEROFF, False),
                                      ('quick = {"poweroff"}\n', POWEROFF, True)):
            with self.subTest(conf=conf, shutdown=shutdown):
                self.add(5, GIB)
                self.dom(5, shutdown=shutdown)
                self.start(SLOW + conf)
                c = self.client()
                job = c.destroy(5)["parameters"]["job"]
                self.assertEqual((job["purpose"], job["hurry"]),
                                 ("reboot" if shutdown == REBOOT else "poweroff", quick))
                if quick:
                    self.assertLess(self.timed(c), 2.5)
                else:
                    self.assertEqual(c.recv()["parameters"]["event"], "heartbeat")
                    self.assertGreater(self.pages(5), GIB // 2)
                    self.fakectl("destroy", 5)
                self.kill()
                self.set(generation=1)

    def test_toolstack(self):
        """How long a guest was shut down before somebody asked for its end, if that was seen; a slow disk, say."""
        self.add(4, 16 * GIB)
        self.add(5, GIB)
        self.start(SLOW)
        self.assertNotIn("toolstack_ms", self.client().destroy(4)["parameters"]["job"])
        self.dom(5, shutdown=POWEROFF)
        c = self.client()
        time.sleep(2.2)  # it is looked at once a second, and then time passes
        job = c.destroy(5)["parameters"]["job"]
        self.assertTrue(1000 < job["toolstack_ms"] < 2300, job)
        self.assertLess(job["waiting_ms"], 500)

    def test_eta_comes_true(self):
        self.add(4, GIB)
        self.add(5, GIB)
        self.start("duty_percent = 20\n")
        c = self.client()
        c.destroy(4)  # the first one, to measure by
        c.rest()
        began = time.monotonic()
        self.assertNotIn("eta_ms", c.destroy(5)["parameters"]["job"])
        eta = poll("there is an estimate", lambda: (self.job(5) or {}).get("eta_ms")) / 1000
        seen = time.monotonic()
        self.assertEqual(self.events(c), ["dead"])
        self.assertLess(seen - began, 0.8)
        took = time.monotonic() - seen
        # How busy this machine will be nobody can know.
        self.assertTrue(took * 0.5 < eta < took * 2, (eta, took))


class Ends(Pace):
    def test_clean(self):
        """dead, and when all is scrubbed clean; the stages add up."""
        self.add(5, GIB // 4)
        self.set(idle=0)
        self.start("backlog_high_mib = 1024\n")
        c, other = self.client(), self.client()
        c.destroy(5, wait_clean=True)
        other.destroy(5)
        self.assertEqual(self.events(other), ["dead"])
        while (reply := c.recv())["parameters"]["event"] != "dead":
            pass
        died = time.monotonic()
        self.assertTrue(reply["continues"])
        self.assertEqual(c.recv()["parameters"]["event"], "heartbeat")
        self.assertEqual(self.job(5)["state"], "scrubbing")
        self.set(idle=1)
        last = c.rest()[-1]["parameters"]
        scrubbing_ms = (time.monotonic() - died) * 1000
        self.assertEqual((last["event"], last["job"]["state"]), ("clean", "clean"))
        self.assertEqual(self.show()["dirty"], 0)
        job = last["job"]
        self.assertTrue(abs(job["scrubbing_ms"] - scrubbing_ms) < 300, (job, scrubbing_ms))
        total = job["waiting_ms"] + job["freeing_ms"] + job["scrubbing_ms"]
        self.assertTrue(abs(total - job["elapsed_ms"]) < 50, job)
        self.assertEqual(self.jobs(), [])

    def test_clean_of_one_that_is_gone(self):
        """Its uuid finds it, as long as it is not clean; the number alone does not."""
        self.add(5, GIB // 4)
        self.set(idle=0)
        self.start()
        c = self.client()
        uuid = c.destroy(5)["parameters"]["job"]["uuid"]
        c.rest()
        poll("domain 5 is gone", lambda: self.pages(5) is None)
        self.assertEqual(c.destroy(5, wait_clean=True)["error"], "org.scrubd.NoSuchDomain")
        self.assertEqual(c.destroy(5, uuid=uuid)["parameters"]["event"], "hello")
        self.assertEqual(self.events(c), ["dead"])
        c.destroy(5, uuid=uuid, wait_clean=True)
        self.assertEqual(c.recv()["parameters"]["event"], "dead")
        self.set(idle=1)
        self.assertEqual(self.events(c), ["clean"])
        self.assertEqual(c.destroy(5, uuid=uuid)["error"], "org.scrubd.NoSuchDomain")

    def test_not_clean_while_held(self):
        """A page that somebody holds is not scrubbed, however clean all others are."""
        self.add(5, GIB // 4, "guest", 2)
        self.start()
        c = self.client()
        c.destroy(5, wait_clean=True)
        while c.recv()["parameters"]["event"] != "dead":
            pass
        poll("all that is free is clean", lambda: self.show()["dirty"] == 0)
        self.assertEqual(c.recv()["parameters"]["event"], "heartbeat")
        self.assertEqual(self.job(5)["state"], "scrubbing")

    def test_small(self):
        """It is left to its caller, untouched; one page more is not."""
        self.add(5, 32 * 256 - 1)
        self.add(6, 32 * 256)
        self.start()
        c = self.client()
        hello = c.destroy(5)
        self.assertEqual((hello["parameters"], hello["continues"]), ({"event": "hello"}, True))
        last = c.recv()
        self.assertEqual(last["parameters"], {"event": "decline", "reason": "smaller than min_size_mib"})
        self.assertEqual((self.show()["steps"], self.jobs()), (0, []))
        c.destroy(6)
        self.assertEqual(self.events(c), ["dead"])


class Waiting(Pace):
    def wait(self, c, **params):
        return c.call("org.scrubd.Wait", params, more=True)["parameters"]

    def test_free(self):
        """The job goes as fast as it can, until there is so much."""
        self.add(5, 4 * GIB)
        self.start(SLOW)
        self.client().destroy(5)
        free = self.show()["free_pages"]
        c = self.client()
        first = self.wait(c, free_mib=free // 256 + 2048)
        self.assertEqual(first["event"], "waiting")
        began = time.monotonic()
        last = c.rest()[-1]["parameters"]
        self.assertEqual(last["event"], "done")
        self.assertGreaterEqual(last["free_mib"], free // 256 + 2048)
        self.assertLess(time.monotonic() - began, 3)
        self.assertIsNotNone(self.pages(5))
        self.assertIn("pace is now for memory that is wanted", self.log())
        self.assertEqual(self.wait(c, free_mib=1)["event"], "done")  # at once

    def test_clean(self):
        """No ceiling holds meanwhile, and it is back afterwards."""
        self.add(5, GIB // 2)
        self.start("ceiling_mib_s = 16\n" + SLOW)
        self.client().destroy(5)
        self.assertEqual(self.status()["nodes"][0]["ceiling_kib"], 16384)
        c = self.client()
        self.assertEqual(self.wait(c, clean=True)["event"], "waiting")
        self.assertEqual(self.status()["nodes"][0]["ceiling_kib"], 0)
        self.set(idle=0)
        poll("domain 5 is gone", lambda: self.pages(5) is None)
        self.add(6, GIB // 2)
        self.client().destroy(6)
        self.call("Pause", {"domid": 6})
        self.set(idle=1)
        self.assertEqual(c.recv()["parameters"]["event"], "waiting")  # domain 6 is not clean
        self.call("Resume", {"domid": 6})
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "done")
        self.assertEqual(self.show()["dirty"], 0)

    def test_ceiling_is_back(self):
        self.add(5, 8 * GIB)
        self.start("ceiling_mib_s = 16\n" + SLOW)
        self.client().destroy(5)
        c = self.client()
        self.wait(c, clean=True)
        self.assertEqual(self.status()["nodes"][0]["ceiling_kib"], 0)
        c.close()
        poll("the ceiling is back", lambda: self.status()["nodes"][0]["ceiling_kib"] == 16384)

    def test_timeout(self):
        self.start()
        c = self.client()
        self.set(dirty=GIB, dirtied=GIB, idle=0)
        self.assertEqual(self.wait(c, clean=True, timeout_ms=300)["event"], "waiting")
        began = time.monotonic()
        last = c.rest()[-1]
        self.assertEqual(last["parameters"]["event"], "timeout")
        self.assertNotIn("continues", last)
        self.assertLess(time.monotonic() - began, 2)
        self.assertEqual(c.call("org.scrubd.GetStatus")["parameters"]["state"], "ready")

    def test_dirty_age(self):
        """A ceiling that would keep memory dirty for longer than it may be is raised."""
        self.add(5, GIB)
        self.start("ceiling_mib_s = 4\nmax_dirty_age_s = 4\nbacklog_high_mib = 2048\n")
        c = self.client()
        c.destroy(5, wait_clean=True)
        began = time.monotonic()
        poll("the ceiling is raised", lambda: self.status()["nodes"][0]["ceiling_kib"] > 100 * 1024)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "clean")
        self.assertLess(time.monotonic() - began, 6)
        poll("and gone", lambda: self.status()["nodes"][0]["ceiling_kib"] == 0)

    def test_degraded(self):
        self.set(patched=0)
        self.start()
        c = self.client()
        for method in ("Pause", "Resume", "Hurry"):
            self.assertEqual(self.call(method, {"domid": 5})["error"], "org.scrubd.Degraded")
        self.assertEqual(c.call("org.scrubd.Wait", {"clean": True}, more=True)["error"], "org.scrubd.Degraded")
        self.assertEqual(self.wait(c, free_mib=1)["event"], "done")


class Refused(Pace):
    def test_dead(self):
        """What is dead can be neither paused nor hurried."""
        self.add(5, GIB // 4)
        self.set(idle=0)
        self.start()
        c = self.client()
        c.destroy(5)
        c.rest()
        self.assertEqual(self.job(5)["state"], "scrubbing")
        for method in ("Pause", "Resume", "Hurry"):
            self.assertEqual(self.call(method, {"domid": 5})["error"], "org.scrubd.NoSuchJob")

    def test_stop_while_they_wait(self):
        """A stop lets go of whoever waits, and drains what is paused; no limit is left behind."""
        self.add(5, GIB)
        self.start(SLOW + "ceiling_mib_s = 16\n")
        with self.client() as c:
            c.destroy(5)
        self.call("Pause", {"domid": 5})
        waiter = self.client()
        waiter.call("org.scrubd.Wait", {"clean": True}, more=True)
        self.assertEqual(self.stop(), 0)
        self.assertIsNone(self.pages(5))
        self.assertEqual(self.show()["has_ceiling"], 0)
        self.assertIsNone(waiter.rest()[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
