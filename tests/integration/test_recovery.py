# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong around scrubd: its socket or directory removed, xenstore hanging, and kills at any instant."""
import os
import unittest

from scrubdtest import Client, ScrubdTest, poll


class Socket(ScrubdTest):
    def serves(self):
        try:
            with Client(self.sock) as c:
                return c.call("org.scrubd.GetStatus")
        except OSError:
            return None

    def test_removed(self):
        self.start()
        old = self.client()
        for _ in range(3):
            os.unlink(self.sock)
            poll("a new socket", self.serves)
            self.assertEqual(os.stat(self.sock).st_mode & 0o777, 0o600)
        self.assertEqual(old.call("org.scrubd.GetStatus")["parameters"]["state"], "ready")
        self.wait_log(self.sock + " was removed: listening there anew")
        self.stop()
        self.assertFalse(os.path.exists(self.sock))

    def test_moved_away(self):
        self.start()
        os.rename(self.sock, self.sock + ".old")
        poll("a new socket", self.serves)

    def test_others(self):
        """What else is removed from the directory is no reason for a new socket."""
        self.start()
        open(os.path.join(self.dir, "other"), "w").close()
        os.unlink(os.path.join(self.dir, "other"))
        self.assert_serving()
        self.assertNotIn("was removed", self.log())

    def test_directory(self):
        """scrubd cannot make its directory: it leaves, for the service manager to start it again."""
        run = os.path.join(self.dir, "run")
        os.mkdir(run)
        self.sock = os.path.join(run, "sock")
        self.start()
        os.rename(run, run + ".old")
        self.assertEqual(self.proc.wait(30), 0)
        self.assertIn("leaving, to be started again", self.log())


class Xenstore(ScrubdTest):
    def test_hangs(self):
        """Steps go on, and the status says what is wrong."""
        self.add(5, 400000)
        self.start("step_us = 500\nduty_percent = 20\n")
        c = self.client()
        c.destroy(5)
        self.set(names_stuck=1)
        self.wait_log("xenstored does not answer: names stay as they were")
        self.assertIn("xenstored does not answer", self.status()["reason"])
        steps = self.show()["steps"]
        poll("steps go on", lambda: self.show()["steps"] > steps)
        self.set(names_stuck=0)
        self.wait_log("xenstored answers again")
        self.assertNotIn("reason", self.status())
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")


if __name__ == "__main__":
    unittest.main(verbosity=2)
