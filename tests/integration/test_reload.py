# SPDX-License-Identifier: GPL-2.0-or-later
"""The configuration is read again: what takes effect, on what, and what a bad file does."""
import os
import signal
import unittest

from scrubdtest import GIB, ScrubdTest, poll


class Reload(ScrubdTest):
    def write(self, text):
        with open(self.conf, "w") as f:
            f.write(text)

    def reload(self, text):
        self.write(text)
        return self.call("ReloadConfig")

    def test_nothing(self):
        self.start("step_us = 500\n")
        self.assertEqual(self.reload("# the same\nstep_us = 500\nlease_s = 10\n"), {"parameters": {"changed": []}})
        self.assertIn("0 keys have changed", self.log())

    def test_changes(self):
        self.start("step_us = 500\n")
        self.assertEqual(self.reload('lease_s = 5\nprotect = {"web*"}\n')["parameters"]["changed"],
                         [{"key": "step_us", "from": "500", "to": "2000"}, {"key": "lease_s", "from": "10", "to": "5"},
                          {"key": "protect", "from": "{}", "to": "{web*}"}])
        for line in ("step_us was 500, is now 2000", "lease_s was 10, is now 5", "protect was {}, is now {web*}",
                     self.conf + " was read again: 3 keys have changed"):
            self.assertIn(line, self.log())

    def test_hup(self):
        self.start("step_us = 500\n")
        self.write("step_us = 700\n")
        self.proc.send_signal(signal.SIGHUP)
        self.wait_log("step_us was 500, is now 700")
        self.write("step_us = 700\nstep_us = 1\n")
        self.proc.send_signal(signal.SIGHUP)
        self.wait_log(f"{self.conf}:2: step_us: set a second time: the configuration stays as it was")
        self.assert_serving()

    def test_running_job(self):
        """A teardown that would take minutes is over at once after a reload."""
        self.add(5, 2 * GIB)
        self.start("step_us = 100\nduty_percent = 1\n")
        c = self.client()
        c.destroy(5)
        poll("a few steps", lambda: self.show()["steps"] > 3)
        self.reload("step_us = 50000\nduty_percent = 100\nbacklog_high_mib = 100000\n")
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertGreater(self.show()["longest_step_us"], 40000)

    def test_bad(self):
        """Each mistake is named to who asked and in the log, and changes nothing."""
        self.add(5, 1000)
        self.start('ceiling_mib_s = 100\nscrub_cpus = "0-1"\n')
        before = self.show()
        for text, says in (("step_us = 99\n", ":1: step_us: 99 is not between 100 and 100000"),
                           ("\nlease_s = 1\n", ":2: lease_s: 1 is not between 2 and 3600"),
                           ("nope = 1\n", ":1: no such option 'nope'"),
                           ("step_us = fast\n", ":1: step_us: \"fast\" is not a whole number"),
                           ("quick = {reboot}\nquick = {}\n", ":2: quick: set a second time"),
                           ('step_us = 600\nscrub_cpus = "3-1"\n', ':2: scrub_cpus: "3-1": the range 3-1 runs backwards'),
                           ("protect = {a", ":1: "), ("step_us = 500 lease_s = ", ":1: ")):
            with self.subTest(text=text):
                reply = self.reload(text)
                self.assertEqual(reply["error"], "org.scrubd.InvalidConfig")
                self.assertTrue(reply["parameters"]["reason"].startswith(self.conf + says), reply)
                self.assertIn(reply["parameters"]["reason"] + ": the configuration stays as it was", self.log())
        self.assertNotIn("was read again", self.log())
        self.assertEqual(self.reload('ceiling_mib_s = 100\nscrub_cpus = "0-1"\n')["parameters"]["changed"], [])
        self.assertEqual(self.show()["mask"], before["mask"])

    def test_unreadable(self):
        self.start("step_us = 500\n")
        os.unlink(self.conf)
        os.mkdir(self.conf)
        self.assertEqual(self.call("ReloadConfig")["error"], "org.scrubd.InvalidConfig")
        self.assert_serving()

    def test_removed(self):
        """No file means the defaults, as at start."""
        self.start("step_us = 500\n")
        os.unlink(self.conf)
        self.assertEqual(self.call("ReloadConfig")["parameters"]["changed"],
                         [{"key": "step_us", "from": "500", "to": "2000"}])
        self.stop()
        self.start()
        self.assert_serving()

    def test_mask(self):
        self.start('scrub_cpus = "0"\n')
        poll("the mask is in force", lambda: self.show()["mask"] == 1)
        self.reload('scrub_cpus = "1-2"\n')
        self.assertEqual(self.show()["mask"], 6)
        self.reload('scrub_cpus = "77"\n')
        self.assertIn("no CPU of it is online", self.status()["reason"])
        self.assertEqual(self.show()["has_mask"], 0)
        self.reload("scrub_cpus = all\n")
        self.assertNotIn("reason", self.status())

    def test_rates(self):
        """In force at once while there is something to do; what scrubctl has set stays unless its key has changed."""
        self.add(5, 4 * GIB)
        self.start("step_us = 100\nduty_percent = 1\nceiling_mib_s = 100\n")
        self.client().destroy(5)
        poll("the ceiling is in force", lambda: self.show()["ceiling_kib"] == 100 << 10)
        self.reload("step_us = 100\nduty_percent = 1\nceiling_mib_s = 200\nfloor_mib_s = 50\n")
        show = self.show()
        self.assertEqual((show["ceiling_kib"], show["floor_kib"]), (200 << 10, 50 << 10))
        self.call("SetLimit", {"ceiling_kib": 60 << 10})
        self.reload("step_us = 100\nduty_percent = 1\nceiling_mib_s = 200\nfloor_mib_s = 55\nlease_s = 3\n")
        show = self.show()
        self.assertEqual((show["ceiling_kib"], show["floor_kib"], show["lease_ms"]), (60 << 10, 55 << 10, 3000))
        self.reload("step_us = 100\nduty_percent = 1\nceiling_mib_s = 200\nfloor_mib_s = 70\nlease_s = 3\n")
        show = self.show()
        self.assertEqual((show["ceiling_kib"], show["floor_kib"]), (200 << 10, 70 << 10))

    def test_protect(self):
        """The CPUs of what is protected now are kept clear at once."""
        self.add(5, 10000, "web-1")
        self.add(6, 10000, "db")
        self.fakectl("dom", 5, "soft", 2)
        self.fakectl("dom", 6, "soft", 4)
        # Nor does the renewal of the lease, with which scrubd looks too, help.
        self.start('protect = {"web*"}\nlease_s = 3600\n')
        poll("a mask", lambda: self.show()["mask"] == 0b1101)
        self.assertEqual(self.reload('protect = {"nobody"}\nscrub_cpus = "0"\nlease_s = 3600\n')["parameters"]["changed"], [
            {"key": "scrub_cpus", "from": "auto", "to": "0"}, {"key": "protect", "from": "{web*}", "to": "{nobody}"}])
        poll("the list", lambda: self.show()["mask"] == 1)
        self.reload('protect = {"db"}\nlease_s = 3600\n')
        poll("auto again", lambda: self.show()["mask"] == 0b1011)

    def test_reset(self):
        """Reset goes back to what the file says now."""
        self.start('scrub_cpus = "0"\n')
        self.reload('scrub_cpus = "1"\n')
        self.call("SetLimit", {"mask": "2"})
        self.assertEqual(self.show()["mask"], 4)
        self.call("Reset")
        self.assertEqual(self.show()["mask"], 2)

    def test_degraded(self):
        self.set(patched=0)
        self.start("step_us = 500\n")
        self.assertEqual(len(self.reload('scrub_cpus = "0"\n')["parameters"]["changed"]), 2)
        self.assertEqual(self.show()["sets"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
