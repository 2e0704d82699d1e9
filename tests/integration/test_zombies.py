# SPDX-License-Identifier: GPL-2.0-or-later
"""Dead domains that something holds on to: named with what they keep, whoever destroyed them, until they are gone."""
import time
import unittest

from scrubdtest import GIB, ScrubdTest, poll

UUID_5 = "00000005-a4a5-a6a7-a8a9-aaabacadaeaf"


class Zombies(ScrubdTest):
    def zombies(self):
        return self.status()["zombies"]

    def asleep(self):
        """scrubd makes no calls."""
        calls = self.show()["calls"]
        time.sleep(1.5)
        return self.show()["calls"] == calls

    def destroy(self, domid):
        c = self.client()
        c.destroy(domid)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")

    def test_of_a_job(self):
        """Reported after two seconds, not earlier; the log says so once, and when it is gone."""
        self.add(5, 50000, "web", 3)
        self.add(6, 50000, "db")
        self.start()
        self.destroy(6)
        self.destroy(5)
        began = time.monotonic()
        zombies = poll("a zombie", self.zombies, 10)
        self.assertGreater(time.monotonic() - began, 1.9)
        self.assertEqual([(z["domid"], z["uuid"], z["name"], z["pages"]) for z in zombies], [(5, UUID_5, "web", 3)])
        self.assertGreater(zombies[0]["dead_ms"], 1999)
        line = "dom=5 uuid=%s name=web: a zombie: dead, but something still holds on to it and to 3 of its pages" % UUID_5
        self.assertEqual(self.log().count(line), 1)
        first = zombies[0]["dead_ms"]
        poll("it grows older", lambda: self.zombies()[0]["dead_ms"] > first + 1500)
        self.fakectl("release", 5)
        poll("it is gone", lambda: not self.zombies(), 5)
        self.assertEqual(self.log().count("name=web: the zombie is gone after"), 1)
        self.assertEqual(self.log().count("a zombie: dead"), 1)
        self.assertNotIn("name=db: a zombie", self.log())

    def test_found_at_start(self):
        """One of somebody else's."""
        self.add(5, 4, "web", 4)
        self.fakectl("life", 5, "dead")
        self.start()
        self.assertEqual(poll("a zombie", self.zombies, 10)[0]["pages"], 4)
        self.assertEqual(self.jobs(), [])

    def test_of_others(self):
        """Destroyed behind scrubd's back while it looks after another zombie."""
        self.add(5, 50000, "web", 3)
        self.add(6, 50000, "db", 1)
        self.start()
        self.destroy(6)
        self.fakectl("destroy", 5)
        poll("both are zombies", lambda: {z["domid"] for z in self.zombies()} == {5, 6}, 10)

    def test_degraded(self):
        self.set(patched=0)
        self.add(5, 4, "web", 4)
        self.fakectl("life", 5, "dead")
        self.start()
        self.assertEqual(poll("a zombie", self.zombies, 10)[0]["name"], "web")

    def test_number_used_again(self):
        """The zombie is gone, a new domain has its number: that one is none."""
        self.add(5, 4, "web", 4)
        self.fakectl("life", 5, "dead")
        self.start()
        poll("a zombie", self.zombies, 10)
        self.fakectl("release", 5)
        self.set(generation=1)
        self.add(5, GIB, "web")
        poll("it is gone", lambda: not self.zombies(), 5)

    def test_dying(self):
        """Half torn down is not dead."""
        self.set(free_pages_ms=1)
        self.add(5, 20000, "web")
        self.start()
        self.client().destroy(5)
        end = time.monotonic() + 3.5
        while time.monotonic() < end:
            self.assertEqual(self.zombies(), [])
            time.sleep(0.1)

    def test_idle(self):
        """With a zombie scrubd looks once a second, without one never: some seconds after its job is dead."""
        self.add(5, 20000, "web", 3)
        self.start()
        self.destroy(5)
        poll("a zombie", lambda: self.zombies() and self.zombies()[0]["dead_ms"] > 11000, 20)
        before = self.show()["calls"]
        time.sleep(3)
        self.assertIn(self.show()["calls"] - before, range(4, 9))  # a look is two
        self.fakectl("release", 5)
        poll("it is gone", lambda: "the zombie is gone" in self.log(), 5)
        poll("scrubd sleeps", self.asleep, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
