# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of the demo on synthetic samples: percentiles with lost pings, pooling, ratios, voiding,
time to clean memory, results.json's shape, table and verdict."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import analysis  # noqa: E402


def run(hypervisor, guest, repeat, quiet, during, **more):
    return {"hypervisor": hypervisor, "guest": guest, "mem_mib": 4096, "dom0_vcpus": 1,
            "repeat": repeat, "teardown_s": 2.0, "clean_s": 2.5, "free_mib_before": 6900,
            "free_mib_after": 6900, "quiet": analysis.summary(quiet),
            "during": analysis.summary(during), "quiet_samples": quiet, "during_samples": during,
            **more}


def figures(runs):
    """{text before its first number or '%': met}, one for each figure of the verdict."""
    return {text: met for met, text in analysis.verdict(analysis.results(runs, []))}


class Percentiles(unittest.TestCase):
    def test_nearest_rank(self):
        samples = list(range(1000, 0, -1))
        self.assertEqual(analysis.percentile(samples, 50), 500)
        self.assertEqual(analysis.percentile(samples, 99), 990)
        self.assertEqual(analysis.percentile(samples, 100), 1000)
        self.assertEqual(analysis.percentile([7], 99), 7)
        self.assertEqual(analysis.percentile([7, 9], 50), 7)
        self.assertEqual(analysis.percentile([7, 9], 51), 9)

    def test_lost_ranks_last(self):
        # Ten of 1000: p99 is the worst answered; eleven: it falls on a lost one.
        self.assertEqual(analysis.percentile([500] * 989 + [800] + [None] * 10, 99), 800)
        self.assertIsNone(analysis.percentile([None] * 11 + [500] * 989, 99))

    def test_summary(self):
        self.assertEqual(analysis.summary([3, None, 1, 2]),
                         {"n": 4, "lost": 1, "p50_us": 2, "p99_us": None, "max_us": 3})
        self.assertEqual(analysis.summary([None, None])["max_us"], None)


class Ratios(unittest.TestCase):
    def test_during_over_quiet_is_pooled(self):
        # By itself the second repeat's p99 is 4000 us; in the pool of 400 samples rank 396 decides.
        runs = [run("stock", "pv", 1, [1000] * 200, [2000] * 200),
                run("stock", "pv", 2, [1000] * 200, [2000] * 196 + [4000] * 4)]
        pooled, = analysis.pool(runs)
        self.assertEqual(pooled["during"]["n"], 400)
        self.assertEqual(pooled["during"]["p99_us"], 2000)
        self.assertEqual(pooled["ratio_p99"], 2.0)

    def test_groups_are_kept_apart(self):
        runs = [run(h, g, 1, [1000], [v]) for h, g, v in
                (("stock", "pv", 1), ("stock", "pvh", 2), ("patched", "pv", 3))]
        self.assertEqual([(p["hypervisor"], p["guest"], p["during"]["max_us"])
                          for p in analysis.pool(runs)],
                         [("stock", "pv", 1), ("stock", "pvh", 2), ("patched", "pv", 3)])

    def test_quiet_quiet_compares_odd_with_even_repeats(self):
        windows = [[100] * 100, [150] * 100, [100] * 100]
        self.assertEqual(analysis.quiet_quiet(windows), 1.5)
        self.assertEqual(analysis.quiet_quiet(windows[1:]), 1.5)  # never below 1

    def test_quiet_quiet_of_one_window(self):
        self.assertEqual(analysis.quiet_quiet([[100, 300] * 50]), 3.0)

    def test_no_ratio_where_p99_is_lost(self):
        pooled, = analysis.pool([run("stock", "pv", 1, [1000] * 50, [1000] * 40 + [None] * 10)])
        self.assertIsNone(pooled["ratio_p99"])


class Voiding(unittest.TestCase):
    def why(self, name, samples, gap_ms=10):
        return analysis.disturbed(name, analysis.summary(samples), gap_ms)

    def test_quiet_by_the_maximum(self):
        self.assertIsNone(self.why("quiet", [500] * 999 + [30000]))
        self.assertIn("30 ms", self.why("quiet", [500] * 999 + [30001]))

    def test_quiet_by_a_lost_ping(self):
        self.assertIn("lost", self.why("quiet", [500] * 999 + [None]))
        self.assertIn("lost", self.why("quiet", [None]))

    def test_never_by_the_pings_of_a_destroy(self):
        self.assertIsNone(self.why("during", [500] * 900 + [800000] * 99 + [None]))

    def test_both_by_a_stall_of_the_machine(self):
        for name in ("quiet", "during"):
            self.assertIsNone(self.why(name, [500], 20))
            self.assertIn("stall", self.why(name, [500], 20.1))


class CleanTime(unittest.TestCase):
    def test_last_return_to_the_baseline_counts(self):
        series = [(-1, 5), (0, 5), (1, 900), (2, 5), (3, 700), (4, 6), (5, 5), (6, 5)]
        self.assertEqual(analysis.clean_time(series, 0, 1.5), 5)

    def test_not_before_the_destroy_has_ended(self):
        self.assertEqual(analysis.clean_time([(0, 0), (1, 9), (2, 0), (3, 0), (4, 0)], 0, 2.5), 3)

    def test_below_the_baseline_is_clean(self):
        self.assertEqual(analysis.clean_time([(0, 7), (1, 900), (2, 3)], 0, 1), 2)

    def test_still_dirty(self):
        self.assertIsNone(analysis.clean_time([(0, 0), (1, 900), (2, 1)], 0, 1))

    def test_needs_a_reading_before(self):
        with self.assertRaises(ValueError):
            analysis.clean_time([(1, 0), (2, 0)], 0, 1)


class ParseWindow(unittest.TestCase):
    TEXT = ("clock 5000\ncommand 1000100 2500000 0\nepoch 7000 12\n"
            "0 15 480\n1 20 -\n2 3 510\nend\n")

    def test_whole(self):
        head, samples = analysis.parse_window(self.TEXT)
        self.assertEqual(head, {"clock_ns": 5000, "begin_us": 1000100, "end_us": 2500000,
                                "status": 0, "t0_ns": 7000, "error_us": 12})
        self.assertEqual(samples, [(0, 15, 480), (1, 20, None), (2, 3, 510)])

    def test_cut_short(self):
        lines = self.TEXT.splitlines(keepends=True)
        for cut in ("end\n", "1 20 -\n", "command 1000100 2500000 0\n", "epoch 7000 12\n"):
            with self.subTest(cut), self.assertRaises(ValueError):
                analysis.parse_window("".join(x for x in lines if x != cut))


class Results(unittest.TestCase):
    def test_shape(self):
        res = analysis.results([run("patched", "pvh", 1, [1000] * 100, [1500] * 100)],
                               [{"max_us": 40000}], seconds=7)
        res = json.loads(json.dumps(res))
        self.assertEqual(set(res["runs"][0]), {
            "hypervisor", "guest", "mem_mib", "dom0_vcpus", "repeat", "teardown_s", "clean_s",
            "quiet", "during", "free_mib_before", "free_mib_after"})
        self.assertEqual(set(res["runs"][0]["quiet"]), {"n", "lost", "p50_us", "p99_us", "max_us"})
        self.assertEqual(set(res["pooled"][0]), {
            "hypervisor", "guest", "quiet", "during", "ratio_p99", "ratio_p99_quiet_quiet"})
        self.assertEqual((res["voided"], res["seconds"]), ([{"max_us": 40000}], 7))

    def test_table(self):
        res = analysis.results([run("stock", "pv", 1, [1000] * 100, [2000] * 98 + [None] * 2)], [])
        rows = [line.split() for line in analysis.table(res).splitlines()]
        self.assertEqual(rows[3], ["stock", "Xen", "PV", "quiet", "100", "0", "1.00", "1.00", "1.00"])
        self.assertEqual(rows[4], ["stock", "Xen", "PV", "during", "100", "2", "2.00", "lost", "2.00",
                                   "-", "1.00", "2.00", "2.50"])


class Verdict(unittest.TestCase):
    GOOD = {"mask": "0-1", "pages_outside_mask": 0,
            "idle": {"seconds": 5, "wakeups": 4, "rss_kib": 5000}}

    def missed(self, *runs):
        return [text for text, met in figures(list(runs)).items() if not met]

    def good(self, **changed):
        during = changed.pop("during", [1900] * 999 + [19000])
        return run("patched", "pv", 1, [1000] * 1000, during, **{**self.GOOD, **changed})

    def test_all_met(self):
        self.assertEqual(self.missed(self.good()), [])
        self.assertEqual(self.missed(run("stock", "pv", 1, [1000] * 10, [1000] * 9 + [301000])), [])

    def test_each_can_be_missed(self):
        for name, bad in (
                ("shows the problem", run("stock", "pv", 1, [1000] * 10, [299000] * 10)),
                ("2 x quiet p99", self.good(during=[2100] * 1000)),
                ("max during", self.good(during=[1000] * 999 + [20001])),
                ("1 lost", self.good(during=[1000] * 999 + [None])),
                ("teardown", self.good(teardown_s=3.1)),
                ("outside the mask", self.good(pages_outside_mask=1)),
                ("outside the mask", self.good(mask=None)),
                ("free memory", self.good(free_mib_after=6899)),
                ("free memory", self.good(free_mib_after=6901)),
                ("dirty memory", self.good(clean_s=None)),
                ("wake-ups", self.good(idle={"seconds": 5, "wakeups": 6, "rss_kib": 5000})),
                ("resident", self.good(idle={"seconds": 5, "wakeups": 0, "rss_kib": 10240}))):
            with self.subTest(name):
                missed = self.missed(bad)
                self.assertEqual(len(missed), 1, missed)
                self.assertIn(name, missed[0])

    def test_all_lost_is_a_miss_not_an_error(self):
        self.assertEqual(len(self.missed(self.good(during=[None] * 10))), 2)


class Windows(unittest.TestCase):
    def test_compare_pools(self):
        c = analysis.compare([[100] * 200, [100] * 200], [[150] * 200, [150] * 196 + [900] * 4])
        self.assertEqual((c["quiet_p99"], c["during_p99"], c["ratio"]), (100, 150, 1.5))
        self.assertEqual((c["quiet_max"], c["during_max"], c["lost"]), (100, 900, 0))
        self.assertEqual(c["quiet_quiet"], 1.0)

    def test_compare_lost(self):
        c = analysis.compare([[100] * 100], [[100] * 90 + [None] * 10])
        self.assertEqual((c["during_p99"], c["ratio"], c["lost"]), (None, None, 10))

    def test_worst_between(self):
        sends = [0.0, 1.0, 2.0, 3.0, 4.0]
        self.assertEqual(analysis.worst_between([9, 5, 7, 6, 9], sends, 1.0, 3.0), 7)
        # Sent before, but still under way then.
        self.assertEqual(analysis.worst_between([1500000, 5, 7, 6, 9], sends, 1.0, 3.0), 1500000)
        # Lost: of the time between, or before.
        self.assertIsNone(analysis.worst_between([9, 5, None, 6, 9], sends, 1.0, 3.0))
        self.assertEqual(analysis.worst_between([None, 5, 7, 6, None], sends, 1.0, 3.0), 7)
        self.assertIsNone(analysis.worst_between([9], [0.0], 1.0, 3.0))


if __name__ == "__main__":
    unittest.main()
