# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits that are set for a time: what they end with, and what holds afterwards."""
import unittest

from scrubdtest import GIB, ScrubdTest, poll

OVER = "limits of before, as their time is over"


class ForATime(ScrubdTest):
    def limits(self):
        return self.call("SetLimit")["parameters"]

    def set_limit(self, **params):
        reply = self.call("SetLimit", params)
        self.assertNotIn("error", reply)
        return reply["parameters"]

    def over(self, times=1):
        poll("the time is over", lambda: self.log().count(OVER) >= times)

    def test_cpus(self):
        self.start('scrub_cpus = "1-2"\n')
        reply = self.set_limit(mask="3", for_ms=300)
        self.assertEqual((reply["mask"], self.show()["mask"]), ("3", 8))
        self.assertLessEqual(reply["mask_for_ms"], 300)
        self.assertNotIn("ceiling_for_ms", reply)
        self.over()
        self.assertEqual((self.limits(), self.show()["mask"]), ({"ceiling_kib": 0, "mask": "1-2"}, 6))
        self.assertIn("limits set for 1 s: ceiling 0 KiB/s, scrub_cpus 3", self.log())
        self.assertIn(OVER + ": ceiling 0 KiB/s, scrub_cpus 1-2", self.log())

    def test_ceiling_of_a_teardown(self):
        self.add(5, 64 * GIB)
        self.start()
        self.client().destroy(5)
        self.set_limit(ceiling_kib=8192)
        self.assertEqual(self.set_limit(ceiling_kib=4096, for_ms=300)["ceiling_kib"], 4096)
        self.assertEqual(self.show()["ceiling_kib"], 4096)
        self.over()
        self.assertEqual((self.limits()["ceiling_kib"], self.show()["ceiling_kib"]), (8192, 8192))

    def test_again(self):
        """The later one counts, and what was lasting before both comes back."""
        self.start('scrub_cpus = "0"\n')
        self.set_limit(mask="1")
        self.set_limit(mask="2", for_ms=86400000)
        self.set_limit(mask="3", for_ms=200)
        self.over()
        self.assertEqual(self.limits(), {"ceiling_kib": 0, "mask": "1"})

    def test_lasting_meanwhile(self):
        """It ends what was for a time. The ceiling's end shows that the other's time would be over."""
        self.start('scrub_cpus = "0"\n')
        self.set_limit(mask="3", for_ms=100)
        self.set_limit(ceiling_kib=4096, for_ms=200)
        self.set_limit(mask="2")
        self.over()
        self.assertEqual((self.limits(), self.show()["mask"]), ({"ceiling_kib": 0, "mask": "2"}, 4))
        self.assertEqual(self.log().count(OVER), 1)

    def test_each_for_its_own_time(self):
        self.start()
        self.set_limit(ceiling_kib=4096, for_ms=3600000)
        self.set_limit(mask="3", for_ms=100)
        self.over()
        now = self.limits()
        self.assertEqual((now["ceiling_kib"], now["mask"]), (4096, "auto"))
        self.assertGreater(now["ceiling_for_ms"], 3000000)
        self.assertNotIn("mask_for_ms", now)

    def test_reset(self):
        self.start('scrub_cpus = "1"\nceiling_mib_s = 3\n')
        self.set_limit(mask="3", ceiling_kib=4096, for_ms=3600000)
        self.assertEqual(self.call("Reset"), {"parameters": {}})
        self.assertEqual((self.limits(), self.show()["mask"]), ({"ceiling_kib": 3072, "mask": "1"}, 2))

    def test_own_key_is_changed(self):
        self.start('scrub_cpus = "1"\n')
        self.set_limit(mask="3", ceiling_kib=4096, for_ms=3600000)
        with open(self.conf, "w") as f:
            f.write('scrub_cpus = "2"\n')
        self.call("ReloadConfig")
        now = self.limits()
        self.assertEqual((now["mask"], now["ceiling_kib"]), ("2", 4096))
        self.assertNotIn("mask_for_ms", now)
        self.assertIn("ceiling_for_ms", now)

    def test_scrubd_starts_again(self):
        """They end with scrubd, as all that scrubctl sets, however scrubd ends."""
        for end in (self.kill, self.stop):
            self.start('scrub_cpus = "1"\n')
            self.set_limit(mask="3", for_ms=3600000)
            end()
            self.start('scrub_cpus = "1"\n')
            poll("as configured", lambda: self.show()["mask"] == 2)
            self.assertEqual(self.limits(), {"ceiling_kib": 0, "mask": "1"})
            self.stop()

    def test_hypervisor_refuses(self):
        """Then nothing has changed, and nothing ends."""
        self.start('scrub_cpus = "1"\n')
        self.set_limit(mask="2", for_ms=3600000)
        self.set(set_error=22)
        self.assertEqual(self.call("SetLimit", {"mask": "3"})["error"], "org.scrubd.Refused")
        self.set(set_error=0)
        now = self.limits()
        self.assertEqual(now["mask"], "2")
        self.assertGreater(now["mask_for_ms"], 3000000)

    def test_status(self):
        """It tells of what was set by hand, and only of that; Watch too."""
        self.start('scrub_cpus = "1"\nceiling_mib_s = 3\n')
        self.assertNotIn("by_hand", self.status())
        self.set_limit(mask="3", for_ms=3600000)
        by_hand = self.status()["by_hand"]
        self.assertEqual(by_hand["mask"], "3")
        self.assertGreater(by_hand.pop("mask_for_ms"), 3000000)
        self.assertEqual(by_hand, {"mask": "3"})
        self.set_limit(mask="3", for_ms=100)
        self.over()
        self.assertNotIn("by_hand", self.status())
        self.set_limit(mask="3", ceiling_kib=4096)
        self.set_limit(mask="0", for_ms=300)
        watch = self.client()
        watch.send("org.scrubd.Watch", {"interval_ms": 50}, more=True)
        self.assertEqual(watch.recv()["parameters"]["status"]["by_hand"]["mask"], "0")
        self.over(2)
        self.assertEqual(self.status()["by_hand"], {"ceiling_kib": 4096, "mask": "3"})
        for conf, by_hand in (('scrub_cpus = "1"\nceiling_mib_s = 5\n', {"mask": "3"}),
                              ('scrub_cpus = "2"\nceiling_mib_s = 5\n', None)):
            with open(self.conf, "w") as f:
                f.write(conf)
            self.call("ReloadConfig")
            self.assertEqual(self.status().get("by_hand"), by_hand)
        self.set_limit(ceiling_kib=4096)
        self.call("Reset")
        self.assertNotIn("by_hand", self.status())


if __name__ == "__main__":
    unittest.main(verbosity=2)
