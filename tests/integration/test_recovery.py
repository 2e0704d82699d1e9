# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong around scrubd: its socket or directory removed, xenstore hanging, and kills at any instant."""
import os
import random
import signal
import socket
import subprocess
import threading
import time
import unittest

from scrubdtest import DEADLINE_S, SCRUBD, Client, ScrubdTest, poll

KILLS = int(os.environ.get("SCRUBD_KILLS", "100"))
SEED = int(os.environ.get("SCRUBD_SEED", "0")) or random.randrange(1, 1 << 32)


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
        for _ in range(5):
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


class Restart(ScrubdTest):
    """scrubd is stopped, or killed, and started again on a socket that stays: an upgrade, or a crash, under systemd."""

    CONF = "step_us = 200\nduty_percent = 10\n"

    def start_on(self, listener):
        """As systemd does it."""
        with open(self.conf, "w") as f:
            f.write(self.CONF)
        with open(self.log_path, "a") as log:
            self.proc = subprocess.Popen(
                ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&0 </dev/null', "sh", SCRUBD, "--config", self.conf],
                env={**os.environ, "SCRUBD_FAKE_HOST": self.host}, stdin=listener, stderr=log)

    def half_way(self):
        with Client(self.sock) as c:
            c.send("org.scrubd.ListJobs", more=True)
            return [r for r in c.rest() if r["parameters"] and r["parameters"]["job"]["steps"] > 3]

    def restarted(self, sig):
        self.add(5, 400000)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.sock)
            listener.listen(64)
            self.start_on(listener)
            caller = subprocess.Popen([os.environ["DESTROYER"], self.sock, "5"], stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "SCRUBD_FAKE_HOST": self.host})
            self.addCleanup(caller.kill)
            poll("a teardown under way", self.half_way)
            self.stop(sig)
            self.assertEqual(self.show()["domains"]["5"]["life"], "dying")
            self.start_on(listener)
            self.assertEqual(caller.communicate(timeout=DEADLINE_S)[0], "scrubd has torn the domain down\n")
            self.assertEqual(caller.returncode, 0)
            self.assertIn("half torn down", self.log())
            self.assertIsNone(self.pages(5))
            self.stop()

    def test_stopped(self):
        """Its callers go on with the next one, and the domain is torn down in steps to its end."""
        self.restarted(signal.SIGTERM)

    def test_killed(self):
        self.restarted(signal.SIGKILL)


class Kills(ScrubdTest):
    """SIGKILL at random instants of scrubd, the caller, or both."""

    CONF = "step_us = 200\nduty_percent = 20\nscrub_cpus = \"1\"\nlease_s = 2\n"

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.wanted = True
        self.starts = 0

    def keep_running(self):
        """What systemd does."""
        while self.wanted:
            self.proc.wait()
            if self.wanted:
                time.sleep(0.01)
                self.start(self.CONF, wait=False)
                self.starts += 1

    def life(self, domid):
        dom = self.show()["domains"].get(str(domid))
        return dom["life"] if dom else None

    def call_destroyer(self, domid):
        return subprocess.Popen([os.environ["DESTROYER"], self.sock, str(domid)],
                                env={**os.environ, "SCRUBD_FAKE_HOST": self.host}, stdout=subprocess.DEVNULL)

    def one(self, domid, kills):
        """Destroy a domain with that many kills meanwhile. Returns how many hit it half torn down."""
        caller, hits = self.call_destroyer(domid), 0
        for _ in range(kills):
            time.sleep(self.random.uniform(0, 0.06))
            victims = self.random.choice(("scrubd", "caller", "both"))
            hits += self.life(domid) == "dying"
            if victims != "caller":
                self.proc.kill()
            if victims != "scrubd":
                caller.kill()
                caller.wait()
                # Whoever wanted it gone looks, and asks again if nothing has begun.
                if self.life(domid) == "alive":
                    caller = self.call_destroyer(domid)
        if self.life(domid) == "alive" and caller.poll() is not None:
            caller = self.call_destroyer(domid)
        poll(f"domain {domid} is gone", lambda: self.life(domid) is None)
        self.assertIn(caller.wait(DEADLINE_S), (0, -9))
        return hits

    def test_kills(self):
        print(f"SCRUBD_SEED={SEED}", flush=True)
        domains = {domid: self.random.randrange(20000, 120000) for domid in range(1, 21)}
        for domid, pages in domains.items():
            self.add(domid, pages)
        self.start(self.CONF)
        keeper = threading.Thread(target=self.keep_running)
        keeper.start()
        try:
            hits = sum(self.one(domid, KILLS // 20) for domid in domains)
            poll("scrubd serves", self._serves)
            poll("no job is left", lambda: self.status()["jobs"] == 0)
            poll("all of it clean", lambda: self.show()["dirty"] == 0)
            show = self.show()
            # Each page was given back, and scrubbed, once.
            self.assertEqual(show["dirtied"], sum(domains.values()))
            self.assertEqual(show["scrubbed"], show["dirtied"])
            self.assertEqual(list(show["domains"]), ["0"])
            self.assertEqual(show["mask"], 2)
            print(f"{KILLS // 20 * 20} kills, {hits} of them half-way, {self.starts} starts of scrubd")
            self.assertGreater(hits, KILLS // 5)
        finally:
            self.wanted = False
            self.proc.kill()
            keeper.join()
        # It does not come back: the lease ends its settings.
        poll("stock behaviour", lambda: not self.show()["has_mask"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
