# SPDX-License-Identifier: GPL-2.0-or-later
"""Teardowns: from request to dead, joined, adopted, throttled, stuck, degraded, and across stops and kills."""
import os
import signal
import socket
import subprocess
import time
import unittest

from scrubdtest import GIB, SCRUBD, Client, ScrubdTest, poll


class Jobs(ScrubdTest):
    def test_destroy(self):
        """hello with the first step done, heartbeats, dead; what is left of it is nothing."""
        self.add(5, 2 * GIB, "web")
        self.start()
        c = self.client()
        began = time.monotonic()
        hello = c.destroy(5)
        self.assertLess(time.monotonic() - began, 1)
        self.assertTrue(hello["continues"])
        job = hello["parameters"]["job"]
        self.assertEqual(hello["parameters"]["event"], "hello")
        self.assertEqual((job["domid"], job["name"], job["adopted"], job["pages_total"]),
                         (5, "web", False, 2 * GIB))
        self.assertEqual(job["uuid"], "00000005-a4a5-a6a7-a8a9-aaabacadaeaf")
        self.assertEqual(job["steps"], 1)
        self.assertEqual(self.show()["domains"]["5"]["life"], "dying")
        rest = c.rest()
        self.assertEqual([r["parameters"]["event"] for r in rest[:-1]], ["heartbeat"] * (len(rest) - 1))
        dead = rest[-1]["parameters"]
        self.assertEqual(dead["event"], "dead")
        self.assertEqual((dead["job"]["state"], dead["job"]["pages_left"]), ("scrubbing", 0))
        self.assertIsNone(self.pages(5))
        poll("its memory is clean, and the job gone", lambda: self.jobs() == [])
        self.assertEqual(self.status()["jobs_done"], 1)
        host = self.show()
        self.assertEqual(host["most_running_steps"], 1)
        self.assertLessEqual(host["longest_step_us"], 2000)
        self.assertEqual(host["sets"], 0)  # with the defaults nothing needs to be set

    def test_heartbeats(self):
        """One a second while it goes on, with figures that move."""
        self.add(5, 8 * GIB)
        self.start("duty_percent = 25\n")
        c = self.client()
        c.destroy(5)
        times, left = [], []
        for _ in range(3):
            reply = c.recv()["parameters"]
            self.assertEqual(reply["event"], "heartbeat")
            times.append(time.monotonic())
            left.append(reply["job"]["pages_left"])
        for a, b in zip(times, times[1:]):
            self.assertGreater(b - a, 0.7)
            self.assertLess(b - a, 2)
        self.assertEqual(left, sorted(left, reverse=True))
        self.assertGreater(reply["job"]["rate_kib_s"], 0)
        poll("there is an estimate", lambda: c.recv()["parameters"]["job"].get("eta_ms", 0) > 0)

    def test_duty(self):
        """At 20 % of the time the steps of a second take 200 ms."""
        self.add(5, 4 * GIB)
        self.start("duty_percent = 20\n")
        c = self.client()
        c.destroy(5)
        first = c.recv()["parameters"]["job"]
        last = c.recv()["parameters"]["job"]
        share = (last["hypervisor_us"] - first["hypervisor_us"]) / 1000 / (last["elapsed_ms"] - first["elapsed_ms"])
        self.assertLess(share, 0.21)
        # A quarter of it where the machine is so busy that timers are late, and then the pauses are too long.
        self.assertGreater(share, 0.02)

    def test_step_us(self):
        self.add(5, GIB)
        self.start("step_us = 300\n")
        c = self.client()
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertLessEqual(self.show()["longest_step_us"], 300)

    def test_small(self):
        """A domain that its first step finishes."""
        self.add(5, 10)
        self.start("min_size_mib = 0\n")
        c = self.client()
        self.assertEqual(c.destroy(5)["parameters"]["event"], "hello")
        last = c.recv()
        self.assertEqual(last["parameters"]["event"], "dead")
        self.assertNotIn("continues", last)
        self.assertIsNone(self.pages(5))
        self.assertEqual(c.destroy(5)["error"], "org.scrubd.NoSuchDomain")

    def test_min_size(self):
        """A domain below min_size_mib is its caller's, and is not touched; one that is not is torn down."""
        self.add(5, 8191)
        self.add(6, 8192)
        self.start()
        c = self.client()
        self.assertEqual(c.destroy(5)["parameters"]["event"], "hello")
        self.assertEqual(c.recv()["parameters"], {"event": "decline", "reason": "smaller than min_size_mib"})
        self.assertEqual(self.show()["domains"]["5"]["life"], "alive")
        self.assertEqual(self.jobs(), [])
        self.assertEqual(c.destroy(5, uuid="00000005-a4a5-a6a7-a8a9-aaabacadae00")["error"],
                         "org.scrubd.NoSuchDomain")
        c.destroy(6)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertEqual(self.status()["jobs_done"], 1)

    def test_min_size_joins(self):
        """What is left of a domain that is being torn down may be small: its job is joined all the same."""
        self.add(5, 9000)
        self.set(free_pages_ms=2)
        self.start()
        a, b = self.client(), self.client()
        a.destroy(5)
        poll("little is left", lambda: self.pages(5) < 8192)
        self.assertEqual(b.destroy(5)["parameters"]["job"]["domid"], 5)
        self.set(free_pages_ms=1000)
        for c in (a, b):
            self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")

    def test_held_pages(self):
        """Dead is dead, even if somebody's mapping keeps a page; and once more is dead at once."""
        self.add(5, 5000, "guest", 2)
        self.start("min_size_mib = 0\n")
        c = self.client()
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["job"]["pages_left"], 2)
        self.assertEqual(self.show()["domains"]["5"]["life"], "dead")
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")

    def test_join(self):
        """A second call joins the job; both hear of its end; one that leaves takes nothing with it."""
        self.add(5, 2 * GIB)
        self.start()
        a, b, gone = self.client(), self.client(), self.client()
        first = a.destroy(5)["parameters"]["job"]
        second = b.destroy(5, uuid=first["uuid"].upper())["parameters"]["job"]
        self.assertEqual(first["id"], second["id"])
        gone.destroy(5)
        gone.close()
        self.assertEqual(len(self.jobs()), 1)
        for c in (a, b):
            self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertEqual(self.status()["jobs_done"], 1)

    def test_caller_leaves(self):
        """A job whose only caller is gone goes on to its end."""
        self.add(5, GIB)
        self.start()
        with Client(self.sock) as c:
            c.destroy(5)
        poll("domain 5 is gone", lambda: self.pages(5) is None)
        self.assertEqual(self.status()["jobs_done"], 1)

    def test_caller_never_reads(self):
        self.add(5, GIB)
        self.start()
        c = self.client()
        c.send("org.scrubd.Destroy", {"domid": 5}, more=True)
        poll("domain 5 is gone", lambda: self.pages(5) is None)

    def test_half_closed_caller(self):
        """A caller that shuts down its side is gone, its job is not."""
        self.add(5, GIB)
        self.start()
        c = self.client()
        c.send("org.scrubd.Destroy", {"domid": 5}, more=True)
        c.sock.shutdown(socket.SHUT_WR)
        poll("domain 5 is gone", lambda: self.pages(5) is None)

    def test_many(self):
        """Twenty at once: one step at a time on the whole host, all get on, each caller hears of its own."""
        for domid in range(1, 21):
            self.add(domid, GIB // 8, f"guest{domid}")
        self.start()
        clients = {domid: self.client() for domid in range(1, 21)}
        for domid, c in clients.items():
            c.send("org.scrubd.Destroy", {"domid": domid}, more=True)
        poll("all are listed, or done", lambda: self.status()["jobs"] + self.status()["jobs_done"] >= 20)
        for domid, c in clients.items():
            last = c.rest()[-1]["parameters"]
            self.assertEqual((last["event"], last["job"]["domid"]), ("dead", domid))
        host = self.show()
        self.assertEqual(host["most_running_steps"], 1)
        self.assertEqual(list(host["domains"]), ["0"])

    def test_round_robin(self):
        """A small domain does not wait for a big one that came before."""
        self.add(1, 8 * GIB)
        self.add(2, GIB // 8)
        self.start()
        big, small = self.client(), self.client()
        big.destroy(1)
        small.destroy(2)
        self.assertEqual(small.rest()[-1]["parameters"]["event"], "dead")
        self.assertGreater(self.pages(1), 6 * GIB)

    def test_one_connection(self):
        """A connection serves one destroy after another, also when they are sent together."""
        for domid in (1, 2, 3):
            self.add(domid, 20000)
        self.start()
        c = self.client()
        for domid in (1, 2, 3):
            c.send("org.scrubd.Destroy", {"domid": domid}, more=True)
        for domid in (1, 2, 3):
            last = c.rest()[-1]["parameters"]
            self.assertEqual((last["event"], last["job"]["domid"]), ("dead", domid))

    def test_somebody_else_finishes(self):
        """A plain destroy in the middle: the callers hear that it is dead."""
        self.add(5, 32 * GIB)
        self.start()
        c = self.client()
        c.destroy(5)
        self.fakectl("destroy", 5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")

    def test_domid_reused(self):
        """The number comes back for another domain in the middle: that one is not touched."""
        self.add(5, 32 * GIB)
        self.start()
        c = self.client()
        c.destroy(5)
        self.set(generation=1)
        self.fakectl("destroy", 5)
        self.add(5, 1234)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertEqual(self.pages(5), 1234)
        self.assertEqual(self.show()["domains"]["5"]["life"], "alive")

    def test_refused(self):
        """What the hypervisor refuses is refused, and forgotten."""
        self.add(5, 1000)
        self.start("min_size_mib = 0\n")
        self.set(step_error=22)
        reply = self.client().destroy(5)
        self.assertEqual(reply["error"], "org.scrubd.Refused")
        self.assertIn("Invalid argument", reply["parameters"]["reason"])
        self.assertEqual(self.jobs(), [])
        self.set(step_error=0)
        c = self.client()
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")

    def test_list_and_watch(self):
        for domid in (1, 2, 3):
            self.add(domid, 8 * GIB, f"guest{domid}")
        self.start()
        self.assertEqual(self.jobs(), [])
        for domid in (1, 2, 3):
            self.client().destroy(domid)
        self.assertEqual(sorted(j["name"] for j in self.jobs()), ["guest1", "guest2", "guest3"])
        c = self.client()
        c.send("org.scrubd.Watch", {"interval_ms": 50}, more=True)
        left = []
        for _ in range(10):
            reply = c.recv()
            self.assertTrue(reply["continues"])
            self.assertEqual(reply["parameters"]["status"]["jobs"], 3)
            left.append(sum(j["pages_left"] for j in reply["parameters"]["jobs"]))
        self.assertLess(left[-1], left[0])


class Pacing(ScrubdTest):
    def test_backlog(self):
        """Slow scrubbing: memory comes back as it gets clean, and the job says that it waits."""
        self.add(5, GIB)
        self.set(scrub_pages_ms=30)  # 4 CPUs: 120 pages a ms, a ninth of what steps free
        self.start("backlog_high_mib = 16\n")
        c = self.client()
        c.destroy(5)
        poll("it waits", lambda: any(j["state"] == "waiting" for j in self.jobs()))
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        # One step over the mark.
        self.assertLessEqual(self.show()["max_backlog"], 16 * 256 + 2 * 1100 * 2)

    def test_baseline(self):
        """Dirty memory that was there before is no backlog."""
        self.set(dirty=40 * GIB, dirtied=40 * GIB, boot=40 * GIB, idle=0)
        self.add(5, 10000)
        self.start()
        self.assertEqual(self.status()["backlog_pages"], 0)
        self.assertEqual(self.status()["baseline_pages"], 40 * GIB)
        c = self.client()
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertNotIn("is not being scrubbed", self.log())

    def test_backlog_of_another(self):
        """What a scrubd that crashed has left dirty is backlog for the next one, not its baseline."""
        self.set(dirty=GIB, dirtied=GIB, scrub_pages_ms=2)
        self.start()
        self.assertGreater(self.status()["backlog_pages"], GIB // 2)
        self.assertEqual(self.status()["baseline_pages"], 0)

    def test_no_progress(self):
        """A host that scrubs nothing: the destroy ends all the same, and the log says so, not too often."""
        self.add(5, GIB)
        self.set(idle=0)
        self.start("no_progress_ms = 200\nbacklog_high_mib = 64\n")
        c = self.client()
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertIn("is not being scrubbed: releasing memory anyway", self.log())
        self.assertLess(self.log().count("is not being scrubbed"), 4)

    def test_backlog_unknown(self):
        """If the backlog cannot be read the duty cycle alone paces."""
        self.add(5, GIB)
        self.start()
        self.set(get_error=14)
        c = self.client()
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertIn("cannot read the backlog: Bad address", self.log())
        self.assertEqual(self.log().count("cannot read the backlog"), 1)

    def test_idle(self):
        """With nothing to do and nothing set: no hypercall, no wake-up; little memory."""
        self.add(5, 10000)
        self.start()
        c = self.client()
        c.destroy(5)
        c.rest()
        c.close()
        poll("host is clean", lambda: self.show()["dirty"] == 0)
        time.sleep(1.2)  # the last tick
        before = self.show()["calls"], self.switches()
        time.sleep(3)
        after = self.show()["calls"], self.switches()
        self.assertEqual(before[0], after[0])
        self.assertLessEqual(after[1] - before[1], 1)

    def switches(self):
        with open(f"/proc/{self.proc.pid}/status") as f:
            return sum(int(x.split()[1]) for x in f if x.startswith("voluntary_ctxt"))


class Trouble(ScrubdTest):
    def test_inner_error(self):
        """The hypervisor cannot get on: an alarm, retries without spinning, callers are let go; then it can."""
        self.add(5, 100000)
        self.start()
        self.set(inner_error=16)
        c = self.client()
        self.assertEqual(c.destroy(5)["parameters"]["event"], "hello")
        last = c.rest()[-1]["parameters"]
        self.assertEqual(last["event"], "decline")
        self.assertIn("does not get on", last["reason"])
        self.assertIn("does not get on (Device or resource busy", self.log())
        self.assertLess(self.show()["steps"], 8)
        self.assertEqual(len(self.jobs()), 1)
        self.set(inner_error=0)
        poll("domain 5 is gone", lambda: self.pages(5) is None)

    def test_later_error(self):
        """An error of the hypercall in the middle of a teardown is retried."""
        self.add(5, 4 * GIB)
        self.start()
        c = self.client()
        c.destroy(5)
        self.set(step_error=12)
        self.wait_log("does not get on (Cannot allocate memory")
        self.set(step_error=0)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")

    def test_no_movement(self):
        """Steps that take much time and free nothing count as trouble."""
        self.add(5, 100000)
        self.set(stuck=1, stuck_ms=2000)
        self.start("duty_percent = 100\n")
        c = self.client()
        c.destroy(5)
        self.wait_log("does not get on (no progress")
        self.set(stuck=0)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")

    def test_others_go_on(self):
        """One that is stuck does not hold up another."""
        self.add(1, 100000)
        self.add(2, GIB)
        self.start()
        self.set(inner_error=16)
        a = self.client()
        a.destroy(1)
        self.wait_log("does not get on")
        self.set(inner_error=0)
        b = self.client()
        b.destroy(2)
        self.assertEqual(b.rest()[-1]["parameters"]["event"], "dead")


class Leaving(ScrubdTest):
    def test_adopt(self):
        """Killed in the middle with its caller: the next one finds the domain, and finishes it."""
        self.add(5, 8 * GIB, "web")
        self.add(6, 1000)
        self.fakectl("add", 7, 1000, "zombie", 3)
        self.start()
        c = self.client()
        c.destroy(5)
        c.recv()
        self.kill()
        c.close()
        left = self.pages(5)
        self.assertGreater(left, 0)
        self.fakectl("life", 7, "dead")
        self.start()
        jobs = self.jobs()
        self.assertEqual([(j["domid"], j["name"], j["adopted"]) for j in jobs], [(5, "web", True)])
        self.assertLessEqual(jobs[0]["pages_total"], left)
        self.wait_log("name=web: found half torn down")
        # It can be joined.
        c = self.client()
        self.assertTrue(c.destroy(5)["parameters"]["job"]["adopted"])
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertEqual(self.pages(6), 1000)

    def test_adopt_many(self):
        """More domains than one answer lists."""
        for domid in range(1, 151):
            self.add(domid, 1000 if domid % 3 else 5000)
            if domid % 3 == 0:
                self.fakectl("life", domid, "dying")
        self.start()
        poll("all 50 are done", lambda: self.status()["jobs_done"] == 50)
        self.assertEqual(len(self.show()["domains"]), 1 + 100)

    def test_killed_again_and_again(self):
        """SIGKILL at random moments: nothing is lost, nothing is done twice."""
        self.add(5, 4 * GIB)
        self.add(6, 1000)
        self.start()
        with Client(self.sock) as c:
            c.destroy(5)
        for delay in (0.05, 0.21, 0.13, 0.3, 0.02):
            time.sleep(delay)
            self.kill()
            self.start()
        poll("domain 5 is gone", lambda: self.pages(5) is None)
        host = self.show()
        self.assertEqual(host["dirtied"], 4 * GIB)
        self.assertEqual(self.pages(6), 1000)

    def test_term_with_caller(self):
        """SIGTERM: the connection closes at once, the caller finishes; scrubd makes no step for it any more."""
        self.add(5, 64 * GIB)
        self.start()
        c = self.client()
        c.destroy(5)
        began = time.monotonic()
        self.proc.send_signal(signal.SIGTERM)
        self.assertIsNone(c.rest()[-1])
        self.assertEqual(self.proc.wait(30), 0)
        self.assertLess(time.monotonic() - began, 3)
        self.assertGreater(self.pages(5), 32 * GIB)
        self.assertIn("stopping, its callers finish it", self.log())
        self.assertFalse(os.path.exists(self.sock))

    def test_term_without_caller(self):
        """Nobody waits for it: it is finished, without pauses, before scrubd goes."""
        self.add(5, 4 * GIB)
        self.start("duty_percent = 5\n")
        with Client(self.sock) as c:
            c.destroy(5)
        self.assertGreater(self.pages(5), 3 * GIB)
        self.assertEqual(self.stop(), 0)
        self.assertIsNone(self.pages(5))

    def test_term_twice(self):
        """A second SIGTERM ends that; the domain is there for the next scrubd."""
        self.add(5, 64 * GIB)
        self.start()
        with Client(self.sock) as c:
            c.destroy(5)
        self.proc.send_signal(signal.SIGTERM)
        self.wait_log("SIGTERM: stopping")
        poll("socket is gone", lambda: not os.path.exists(self.sock))
        began = time.monotonic()
        self.assertEqual(self.stop(), 0)
        self.assertLess(time.monotonic() - began, 3)
        self.assertGreater(self.pages(5), 0)
        self.assertIn("left half torn down", self.log())

    def test_settings_end(self):
        """Stop and crash both end in stock behaviour."""
        conf = 'scrub_cpus = "1-2"\nlease_s = 2\n'
        self.start(conf)
        host = self.show()
        self.assertEqual((host["has_mask"], host["mask"], host["lease_ms"]), (1, 6, 2000))
        self.stop()
        self.assertEqual(self.show()["has_mask"], 0)
        self.start(conf)
        self.kill()
        self.assertEqual(self.show()["has_mask"], 1)
        poll("the lease ends", lambda: self.show()["has_mask"] == 0, 5)
        # Or a scrubd that wants nothing takes back what it finds.
        self.start(conf)
        self.kill()
        self.start("")
        self.assertEqual(self.show()["has_mask"], 0)


class Limits(ScrubdTest):
    def test_lease_is_renewed(self):
        self.start('scrub_cpus = "1-2"\nlease_s = 2\n')
        end = time.monotonic() + 4
        while time.monotonic() < end:
            self.assertEqual(self.show()["mask"], 6)
            time.sleep(0.1)
        self.assertEqual(self.status()["mask"], "1-2")

    def test_offline(self):
        """A list without an online CPU: said, all CPUs are used, and scrubd serves."""
        self.start('scrub_cpus = "9"\n')
        self.assertIn('scrub_cpus = "9": no CPU of it is online: those are 0-3; all CPUs scrub', self.log())
        status = self.status()
        self.assertEqual((status["state"], status["mask"]), ("ready", "0-3"))
        self.assertIn("no CPU of it is online", status["reason"])
        self.assertEqual(self.show()["has_mask"], 0)
        self.call("SetLimit", {"mask": "0"})
        self.assertNotIn("reason", self.status())

    def test_mask(self):
        """CPUs outside the mask scrub nothing."""
        self.add(5, 50000)
        self.start('scrub_cpus = "1,3"\n')
        c = self.client()
        c.destroy(5)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        poll("host is clean", lambda: self.show()["dirty"] == 0)
        scrubbed = self.show()["cpu_scrubbed"]
        self.assertEqual([bool(x) for x in scrubbed[:4]], [False, True, False, True])

    def test_ceiling(self):
        """In force while there are jobs, and until their backlog is gone; not a moment before or after."""
        self.add(5, 20000)
        self.set(scrub_pages_ms=1)
        self.start("ceiling_mib_s = 10\n")
        self.assertEqual(self.show()["has_ceiling"], 0)
        c = self.client()
        c.destroy(5)
        self.assertEqual(self.show()["ceiling_kib"], 10240)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        self.assertGreater(self.show()["dirty"], 1000)
        self.assertEqual(self.show()["ceiling_kib"], 10240)
        self.assertEqual(self.status()["nodes"][0]["ceiling_kib"], 10240)
        poll("backlog is gone", lambda: self.show()["dirty"] < 256)
        poll("so is the ceiling", lambda: self.show()["has_ceiling"] == 0, 5)

    def test_floor(self):
        """As the ceiling: with it a host that is never idle gets clean."""
        self.add(5, 20000)
        self.set(idle=0)
        self.start("floor_mib_s = 100\nceiling_mib_s = 200\n")
        self.assertEqual(self.show()["floor_kib"], 0)
        c = self.client()
        c.destroy(5)
        self.assertEqual(self.show()["floor_kib"], 102400)
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "dead")
        poll("all is clean", lambda: self.show()["dirty"] == 0)
        poll("the floor ends", lambda: self.show()["floor_kib"] == 0, 5)

    def test_set_and_reset(self):
        self.start('scrub_cpus = "1-2"\n')
        c = self.client()
        self.assertEqual(c.call("org.scrubd.SetLimit", {"mask": "3"}),
                         {"parameters": {"ceiling_kib": 0, "mask": "3"}})
        self.assertEqual(self.show()["mask"], 8)
        self.assertEqual(c.call("org.scrubd.SetLimit", {"ceiling_kib": 2048}),
                         {"parameters": {"ceiling_kib": 2048, "mask": "3"}})
        self.assertEqual(self.show()["ceiling_kib"], 0)  # nothing to do yet
        self.assertEqual(c.call("org.scrubd.Reset"), {"parameters": {}})
        self.assertEqual(self.show()["mask"], 6)
        self.assertEqual(c.call("org.scrubd.SetLimit", {"mask": "all"})["parameters"]["mask"], "all")
        self.assertEqual(self.show()["has_mask"], 0)
        self.assertEqual(c.call("org.scrubd.SetLimit", {"mask": "0"})["parameters"]["mask"], "0")
        self.assertEqual(c.call("org.scrubd.SetLimit", {"mask": ""})["parameters"]["mask"], "all")

    def test_ceiling_during_job(self):
        self.add(5, 64 * GIB)
        self.start()
        self.client().destroy(5)
        self.assertEqual(self.show()["has_ceiling"], 0)
        self.call("SetLimit", {"ceiling_kib": 4096})
        self.assertEqual(self.show()["ceiling_kib"], 4096)
        self.call("Reset")
        self.assertEqual(self.show()["has_ceiling"], 0)

    def test_hypervisor_refuses(self):
        """What was in force stays."""
        self.start('scrub_cpus = "1-2"\n')
        self.set(set_error=22)
        reply = self.call("SetLimit", {"mask": "3"})
        self.assertEqual(reply["error"], "org.scrubd.Refused")
        self.assertIn("Invalid argument", reply["parameters"]["reason"])
        self.set(set_error=0)
        self.assertEqual(self.call("SetLimit")["parameters"]["mask"], "1-2")


class Degraded(ScrubdTest):
    def setUp(self):
        super().setUp()
        self.set(patched=0)
        for domid in (1, 2, 3):
            self.add(domid, 1000, f"guest{domid}")
        self.start('scrub_cpus = "1"\n')

    def test_status(self):
        status = self.status()
        self.assertEqual((status["state"], status["reason"]), ("degraded", "unpatched hypervisor"))
        self.assertNotIn("backlog_pages", status)
        self.assertEqual((status["nodes"], status["cpus"]), ([], []))
        self.assertIn("degraded: unpatched hypervisor", self.log())
        for method in ("SetLimit", "Reset"):
            self.assertEqual(self.call(method), {"error": "org.scrubd.Degraded",
                                                 "parameters": {"reason": "unpatched hypervisor"}})

    def test_one_after_another(self):
        """Each caller has its turn when the one before has closed its connection."""
        a, b, c = self.client(), self.client(), self.client()
        for x, domid in ((a, 1), (b, 2), (c, 3)):
            self.assertEqual(x.destroy(domid)["parameters"]["event"], "hello")
        decline = a.rest()[-1]
        self.assertEqual(decline["parameters"]["event"], "decline")
        self.assertEqual(decline["parameters"]["reason"], "unpatched hypervisor")
        self.assertNotIn("continues", decline)
        for _ in range(2):
            self.assertEqual(b.recv()["parameters"]["event"], "heartbeat")
        self.assertEqual([j["state"] for j in self.jobs()], ["freeing", "queued", "queued"])
        self.fakectl("destroy", 1)
        a.close()
        self.assertEqual(b.rest()[-1]["parameters"]["event"], "decline")
        self.assertEqual(c.recv()["parameters"]["event"], "heartbeat")
        b.close()
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "decline")
        c.close()
        poll("the queue is empty", lambda: self.jobs() == [])
        host = self.show()
        self.assertEqual((host["steps"], host["sets"], host["gets"]), (0, 0, 0))
        self.assertNotIn("refuses", self.log())

    def test_leaves_the_queue(self):
        """One that goes while it waits is passed over; one without a domain does not queue."""
        a, b, c = self.client(), self.client(), self.client()
        a.destroy(1)
        b.destroy(2)
        c.destroy(3)
        self.assertEqual(a.rest()[-1]["parameters"]["event"], "decline")
        b.close()
        a.close()
        self.assertEqual(c.rest()[-1]["parameters"]["event"], "decline")
        self.assertEqual(self.client().destroy(9)["error"], "org.scrubd.NoSuchDomain")
        self.assertEqual(self.client().destroy(0)["error"], "org.scrubd.NotAllowed")

    def test_same_connection(self):
        """A connection that asks again has ended its turn."""
        c = self.client()
        for domid in (1, 2):
            self.assertEqual(c.destroy(domid)["parameters"]["event"], "hello")
            self.assertEqual(c.rest()[-1]["parameters"]["event"], "decline")

    def test_same_domain(self):
        a, b = self.client(), self.client()
        a.destroy(1)
        b.destroy(1)
        self.assertEqual(len(self.jobs()), 1)
        self.assertEqual(a.rest()[-1]["parameters"]["event"], "decline")
        self.fakectl("destroy", 1)
        a.close()
        self.assertEqual(b.rest()[-1]["parameters"]["event"], "decline")

    def test_stop(self):
        a, b = self.client(), self.client()
        a.destroy(1)
        b.destroy(2)
        self.assertEqual(self.stop(), 0)
        self.assertIsNone(b.rest()[-1])
        self.assertEqual(self.show()["resets"], 0)


class Systemd(ScrubdTest):
    """What systemd sees: notifications, and a socket that it made."""

    def test_notify(self):
        path = os.path.join(self.dir, "notify")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(sock.close)
        sock.bind(path)
        sock.settimeout(30)
        os.environ["NOTIFY_SOCKET"] = path
        self.addCleanup(os.environ.pop, "NOTIFY_SOCKET")
        self.add(5, GIB)
        self.start("duty_percent = 10\n")  # what takes less than a second it is not told
        seen = []

        def until(word):
            while not any(word in x for x in seen):
                seen.append(sock.recv(4096).decode())

        until("READY=1")
        self.assertTrue(any("STATUS=Idle" in x for x in seen))
        self.client().destroy(5)
        until("STATUS=1 domain, ")
        until("STATUS=Idle, 1 domains torn down")
        self.stop()
        until("STOPPING=1")

    def test_activation(self):
        sock = socket.socket(socket.AF_UNIX)
        self.addCleanup(sock.close)
        sock.bind(self.sock)
        sock.listen(8)
        before = Client(self.sock)  # connected before scrubd runs
        self.addCleanup(before.close)
        before.send("org.scrubd.GetStatus")
        script = ("import os,sys\nos.dup2(int(sys.argv[1]), 3)\nos.set_inheritable(3, True)\n"
                  "os.environ['LISTEN_PID'] = str(os.getpid())\nos.environ['LISTEN_FDS'] = '1'\n"
                  "os.execv(sys.argv[2], sys.argv[2:])")
        with open(self.log_path, "a") as log:
            self.proc = subprocess.Popen(
                ["python3", "-c", script, str(sock.fileno()), SCRUBD, "--config", self.conf, "--socket", "/nowhere/x"],
                env={**os.environ, "SCRUBD_FAKE_HOST": self.host}, stderr=log, pass_fds=[sock.fileno()])
        self.assertEqual(before.recv()["parameters"]["state"], "ready")
        self.assertEqual(self.stop(), 0)
        self.assertTrue(os.path.exists(self.sock))  # it is systemd's


if __name__ == "__main__":
    unittest.main(verbosity=2)
