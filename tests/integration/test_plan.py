# SPDX-License-Identifier: GPL-2.0-or-later
"""What scrubd foretells of a teardown, held against the teardown itself; and what it says of its settings."""
import time
import unittest

from scrubdtest import GIB, ScrubdTest, poll


class Plan(ScrubdTest):
    def plan(self, domid, **params):
        answer = self.call("Plan", {"domid": domid, **params})
        return answer["parameters"]["plan"] if "error" not in answer else answer

    def destroy(self, domid):
        """Returns the seconds until it is dead, and until it is clean."""
        c, began = self.client(), time.monotonic()
        c.destroy(domid, wait_clean=True)
        dead = None
        while True:
            event = c.recv()["parameters"]["event"]
            if event == "dead":
                dead = time.monotonic() - began
            elif event == "clean":
                return dead, time.monotonic() - began

    def test_comes_true(self):
        """Unknown before the first teardown; after it, what is foretold is what comes."""
        self.set(free_pages_ms=400, scrub_pages_ms=50)
        self.add(5, GIB, "first")
        self.add(6, GIB, "second")
        self.start("backlog_high_mib = 64\n")
        plan = self.plan(6)
        self.assertEqual((plan["way"], plan["name"], plan["pages"], plan["measured"], plan["quick"]),
                         ("steps", "second", GIB, False, False))
        self.assertNotIn("clean_ms", plan)
        self.assertEqual((self.show()["steps"], self.pages(6)), (0, GIB))  # nothing was done
        first = self.destroy(5)
        plan = self.plan(6)
        self.assertTrue(plan["measured"])
        self.assertEqual(plan["mask"], "0-3")
        second = self.destroy(6)
        # A machine that has other work now and then makes one of the two longer.
        for what, foretold, came in zip(("dead", "clean"), (plan["dead_ms"], plan["clean_ms"]), zip(first, second)):
            self.assertTrue(min(came) / 2 < foretold / 1000 < max(came) * 2, f"{what} after {came} s, foretold {plan}")

    def test_other_ways(self):
        self.set(free_pages_ms=1)
        self.add(5, 8191, "small")
        self.add(6, GIB, "big")
        self.dom(6, shutdown=2)
        self.start()
        plan = self.plan(5)
        self.assertEqual((plan["way"], plan["reason"]), ("caller", "smaller than min_size_mib"))
        plan = self.plan(6)
        self.assertEqual((plan["way"], plan["purpose"], plan["quick"], plan["duty_percent"], plan["step_us"]),
                         ("steps", "reboot", True, 100, 2000))
        self.client().destroy(6)
        plan = self.plan(6)
        self.assertEqual(plan["way"], "running")
        self.assertNotIn("steps", plan)

    def test_takes_turns(self):
        """What is under way comes on top."""
        self.set(free_pages_ms=1)
        self.add(5, GIB, "a")
        self.add(6, GIB, "b")
        self.start()
        alone = self.plan(6)
        self.client().destroy(5)
        both = self.plan(6)
        self.assertEqual((alone["jobs_before"], both["jobs_before"]), (0, 1))
        self.assertGreater(both["dead_ms"], alone["dead_ms"] * 3 / 2)

    def test_errors(self):
        self.add(5, GIB, "a")
        self.start()
        self.assertEqual(self.plan(6), {"error": "org.scrubd.NoSuchDomain", "parameters": {"domid": 6}})
        self.assertEqual(self.plan(5, uuid="00000000-0000-0000-0000-000000000000")["error"], "org.scrubd.NoSuchDomain")
        self.assertEqual(self.plan(0)["error"], "org.scrubd.NotAllowed")
        self.assertEqual(self.plan(-1)["parameters"], {"parameter": "domid"})
        self.assert_serving()

    def test_degraded(self):
        self.set(patched=0)
        self.add(5, GIB, "a")
        self.start()
        plan = self.plan(5)
        self.assertEqual((plan["way"], plan["reason"]), ("caller", "unpatched hypervisor"))
        self.assertEqual(self.call("GetHealth")["error"], "org.scrubd.Degraded")


class Health(ScrubdTest):
    def health(self):
        return self.call("GetHealth")["parameters"]

    def test_idle(self):
        self.start("ceiling_mib_s = 100\nlease_s = 7\nmax_dirty_age_s = 30\n")
        h = self.health()
        self.assertEqual((h["busy"], h["ceiling_kib"], h["cpus"], h["lease_ms"], h["lease_s"], h["dirty_ms"]),
                         (False, 102400, "auto", 0, 7, 0))
        self.assertEqual((h["has_mask"], h["has_ceiling"], h["has_floor"], h["max_dirty_age_s"]), (False, False, False, 30))
        self.assertNotIn("mask", h)

    def test_in_force(self):
        self.set(free_pages_ms=1)
        self.add(5, GIB, "a")
        self.start('scrub_cpus = "1-2"\nceiling_mib_s = 100\nfloor_mib_s = 3\n')
        self.client().destroy(5)
        h = self.health()
        self.assertEqual((h["busy"], h["cpus"], h["mask"], h["floor_kib"]), (True, "1-2", "1-2", 3072))
        self.assertTrue(h["has_mask"] and h["has_ceiling"] and h["has_floor"])
        self.assertGreater(h["lease_ms"], 5000)
        # Somebody else has put the scrubber back.
        self.set(has_mask=0)
        self.assertFalse(self.health()["has_mask"])

    def test_dirty(self):
        self.set(idle=0)
        self.add(5, 20000, "a")
        self.start()
        self.client().destroy(5)
        poll("it gets older", lambda: self.health()["dirty_ms"] > 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
