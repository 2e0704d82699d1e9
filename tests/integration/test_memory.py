# SPDX-License-Identifier: GPL-2.0-or-later
"""Clean memory for those who are about to create a domain: how long they wait, and what goes on meanwhile."""
import time
import unittest

from scrubdtest import GIB, Client, ScrubdTest, poll

METHOD = "org.scrubd.AwaitMemory"
MIB = 256  # pages
REBOOT = 1  # Xen's shutdown reason
OTHER = "11111111-2222-3333-4444-555555555555"


class Creates(ScrubdTest):
    def soil(self, pages):
        self.set(dirty=pages)

    def await_memory(self, params=None):
        """(events, seconds)"""
        c = self.client()
        began = time.monotonic()
        c.send(METHOD, params, more=True)
        events = [r["parameters"]["event"] for r in c.rest()]
        return events, time.monotonic() - began

    def waiting(self):
        """A client that waits."""
        c = self.client()
        self.assertEqual(c.call(METHOD, more=True)["parameters"]["event"], "hello")
        return c

    def at_once(self, params=None):
        events, seconds = self.await_memory(params)
        self.assertEqual(events, ["hello", "go"])
        self.assertLess(seconds, 0.9)

    def test_clean(self):
        """Nothing to wait for, nor for the few dirty pages that a host has anyway."""
        self.start()
        self.at_once()
        self.set(idle=0)
        self.soil(3 * MIB)
        self.at_once()
        c = self.client()
        self.assertEqual(c.call(METHOD, more=True)["parameters"], {"event": "hello", "wait_ms": 5000})
        self.assertNotIn("wants to create", self.log())
        self.assertEqual(self.show()["sets"], 0)

    def test_baseline(self):
        """Memory that has been dirty since the host booted is no backlog."""
        self.set(idle=0, dirty=GIB, boot=GIB)
        self.start()
        self.at_once()

    def test_until_clean(self):
        self.set(scrub_pages_ms=25)
        self.start("create_wait_s = 20\n")
        self.soil(150000)  # 1.5 s for four CPUs
        events, seconds = self.await_memory()
        self.assertLess(self.show()["dirty"], 1 * MIB + 1)
        self.assertEqual((events[0], events[1], events[-1]), ("hello", "heartbeat", "go"))
        self.assertGreater(seconds, 1)
        self.assertLess(seconds, 10)
        self.assertIn("it waits for 5", self.log())
        self.assertIn("0 MiB are still dirty", self.log())

    def test_not_for_ever(self):
        """Nobody scrubs: it goes on after create_wait_s."""
        self.set(idle=0)
        self.start("create_wait_s = 2\n")
        self.soil(GIB)
        events, seconds = self.await_memory()
        self.assertEqual(events[0], "hello")
        self.assertIn("heartbeat", events)
        self.assertEqual(events[-1], "go")
        self.assertGreaterEqual(seconds, 2)
        self.assertLess(seconds, 3)
        self.assertIn("1024 MiB are still dirty", self.log())

    def test_comes_back(self):
        """A domain that reboots does not wait for what it left itself; others do, and so does one that was destroyed."""
        self.add(5, 100 * MIB)
        self.add(6, 100 * MIB)
        self.dom(5, shutdown=1 + REBOOT)
        self.set(idle=0)
        self.start("create_wait_s = 2\n")
        uuids = [f"0000000{domid}-a4a5-a6a7-a8a9-aaabacadaeaf" for domid in (5, 6)]
        for domid in 5, 6:
            c = self.client()
            c.destroy(domid)
            self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.soil(GIB)
        self.at_once({"uuid": uuids[0]})
        for params in ({"uuid": uuids[1]}, {"uuid": OTHER}, {}):
            self.assertGreaterEqual(self.await_memory(params)[1], 2)

    def test_switched_off(self):
        self.set(idle=0)
        self.start("create_wait_s = 0\n")
        self.soil(GIB)
        self.at_once()
        self.assertNotIn("wants to create", self.log())

    def test_degraded(self):
        self.set(patched=0)
        self.start()
        self.at_once()

    def test_no_figures(self):
        """The hypervisor does not tell how much is dirty, or no longer does: go."""
        self.set(idle=0)
        self.start("create_wait_s = 30\n")
        self.soil(GIB)
        c = self.waiting()
        self.set(get_error=5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "go")
        self.at_once()

    def test_full_speed(self):
        """The ceiling is lifted while somebody waits, and back afterwards."""
        self.add(5, 8 * GIB)
        self.set(scrub_pages_ms=20)
        self.start("ceiling_mib_s = 8\nduty_percent = 2\ncreate_wait_s = 30\n")
        a = self.client()
        a.destroy(5)
        self.assertEqual(self.show()["ceiling_kib"], 8192)
        self.soil(80000)  # 1 s for four CPUs, 40 s at 8 MiB/s
        first, second = self.waiting(), self.waiting()
        self.assertEqual(self.show()["ceiling_kib"], 0)
        first.close()
        poll("only one waits", lambda: self.show()["ceiling_kib"] == 0)
        began = time.monotonic()
        self.assertEqual(second.rest()[-1]["parameters"]["event"], "go")
        self.assertLess(time.monotonic() - began, 10)
        poll("the ceiling is back", lambda: self.show()["ceiling_kib"] == 8192)

    def test_steps_wait(self):
        """A teardown under way adds nothing to what a create waits for, says so, and goes on afterwards."""
        self.add(5, 2 * GIB)
        self.set(idle=0)
        self.start("create_wait_s = 2\nbacklog_high_mib = 100000\nduty_percent = 5\n")
        a = self.client()
        a.destroy(5)
        poll("a backlog", lambda: self.show()["dirty"] > 10 * MIB)
        c = self.waiting()
        dirty = self.show()["dirty"]
        poll("the job waits", lambda: self.jobs()[0]["state"] == "waiting")
        while True:
            event = c.recv()["parameters"]["event"]
            if event == "go":
                break
            self.assertEqual(self.show()["dirty"], dirty)
            self.assertEqual(a.recv()["parameters"]["event"], "heartbeat")
        poll("the teardown goes on", lambda: self.show()["dirty"] > dirty)

    def test_no_end_of_creates(self):
        """One create after another holds a teardown up, not for longer than max_teardown_s allows."""
        self.add(5, GIB // 16)
        self.set(idle=0, free_pages_ms=100)
        self.start("create_wait_s = 2\nbacklog_high_mib = 100000\nmax_teardown_s = 4\n")
        a = self.client()
        a.destroy(5)
        self.soil(GIB)
        waiting = [self.waiting()]
        end = time.monotonic() + 20
        while self.pages(5) is not None:
            self.assertLess(time.monotonic(), end)
            waiting.append(self.waiting())
            time.sleep(0.1)
        self.assertEqual(a.rest()[-1]["parameters"]["event"], "dead")

    def test_gives_up(self):
        """A create that is interrupted leaves nothing behind: steps go on at once."""
        self.add(5, 2 * GIB)
        self.set(idle=0)
        self.start("create_wait_s = 60\nbacklog_high_mib = 100000\nduty_percent = 5\n")
        self.client().destroy(5)
        poll("a backlog", lambda: self.show()["dirty"] > 10 * MIB)
        self.waiting().close()
        dirty = self.show()["dirty"]
        poll("the teardown goes on", lambda: self.show()["dirty"] > dirty, 5)
        self.assert_serving()

    def test_stop(self):
        """scrubd stops: the door, so that the create goes on."""
        self.set(idle=0)
        self.start("create_wait_s = 60\n")
        self.soil(GIB)
        c = self.waiting()
        self.assertEqual(self.stop(), 0)
        self.assertIsNone(c.rest()[-1])

    def test_many(self):
        """Creates stand outside the limit of connections."""
        self.set(idle=0)
        self.start("create_wait_s = 60\n")
        self.soil(GIB)
        clients = [self.waiting() for _ in range(150)]
        self.assertEqual(self.status()["state"], "ready")
        self.set(idle=1, scrub_pages_ms=100000)
        for c in clients:
            self.assertEqual(c.rest()[-1]["parameters"]["event"], "go")

    def test_needs_more(self):
        self.start()
        with Client(self.sock) as c:
            self.assertEqual(c.call(METHOD)["error"], "org.varlink.service.ExpectedMore")
            reply = c.call(METHOD, {"pages": 1}, more=True)
            self.assertEqual((reply["error"], reply["parameters"]),
                             ("org.varlink.service.InvalidParameter", {"parameter": "pages"}))

    def test_one_connection(self):
        """A create, then a destroy, on one connection."""
        self.add(5, GIB)
        self.start()
        c = self.client()
        c.send(METHOD, more=True)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "go")
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")


if __name__ == "__main__":
    unittest.main(verbosity=2)
