#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The metrics, alert rules and dashboard, as promtool of Debian's Prometheus judges them."""
import json
import os
import re
import subprocess
import tempfile
import unittest
import urllib.request

from foreign import HERE, ROOT
import assets
from scrubdtest import GIB, ScrubdTest, poll
from test_metrics import free_port

PROMTOOL = os.path.join(assets.unpacked("prometheus"), "usr", "bin", "promtool")
RULES = os.path.join(ROOT, "conf", "prometheus", "scrubd.rules.yml")
DASHBOARD = os.path.join(ROOT, "conf", "grafana", "scrubd.json")


def promtool(*args, text=None):
    """(exit status, what it said)"""
    p = subprocess.run([PROMTOOL, *args], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       timeout=60)
    return p.returncode, p.stdout


def queries():
    """Every query of the dashboard, with what Grafana would put in."""
    with open(DASHBOARD) as f:
        dashboard = json.load(f)
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")


class Prometheus(ScrubdTest):
    def scrape(self):
        """What a host tells that has seen a destroy and has a zombie."""
        port = free_port()
        self.start(f'metrics_listen = "{port}"\n')
        self.add(5, GIB // 16, "gone")
        self.add(6, GIB // 16, 'w"e\\b', 3)
        for domid in (5, 6):
            with self.client() as c:
                c.destroy(domid)
                c.rest()

        def ask():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as r:
                return r.read().decode()

        poll("the zombie is known", lambda: "scrubd_zombies 1\n" in ask())
        return ask()

    def test_metrics(self):
        """Names, types, units and help by Prometheus' conventions"""
        text = self.scrape()
        self.assertEqual(promtool("check", "metrics", text=text), (0, ""))
        # It can say no.
        self.assertNotEqual(promtool("check", "metrics", text=text.replace("teardowns_total", "teardowns"))[0], 0)

    def test_rules(self):
        rc, out = promtool("check", "rules", RULES)
        self.assertEqual(rc, 0, out)
        with tempfile.TemporaryDirectory() as tmp:
            with open(f"{HERE}/rules.test.yml") as f, open(f"{tmp}/test.yml", "w") as g:
                g.write(f.read().replace("RULES", RULES))
            rc, out = promtool("test", "rules", f"{tmp}/test.yml")
        self.assertEqual(rc, 0, out)

    def test_every_alert_is_tested(self):
        with open(RULES) as f:
            alerts = re.findall(r"alert: (\w+)", f.read())
        with open(f"{HERE}/rules.test.yml") as f:
            fired = re.findall(r"alertname: (\w+)\n +exp_alerts", f.read())
        self.assertEqual(sorted(alerts), sorted(set(fired)))

    def test_dashboard(self):
        """Its queries are well-formed"""
        groups = {"groups": [{"name": "dashboard", "rules": [
            {"record": f"query:{n}", "expr": expr} for n, (_, expr) in enumerate(queries())]}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(groups, f)
            f.flush()
            rc, out = promtool("check", "rules", f.name)
        self.assertEqual(rc, 0, out)
        self.assertIn(f"{len(list(queries()))} rules", out)

    def test_names(self):
        """Rules and dashboard ask for nothing that scrubd does not tell, label or series"""
        text = self.scrape()
        told = {}
        for name, labels in re.findall(r"^([a-z_]+)(\{.*\})? ", text, re.M):
            told.setdefault(name, set()).update(re.findall(r'([a-z]+)="', labels))
        for kind in ("gauge", "counter", "histogram"):
            self.assertIn(f" {kind}\n", text)
        with open(RULES) as f:
            exprs = re.findall(r"expr: (?:>-\n)?(.*?)\n +(?:for|labels):", f.read(), re.S)
        self.assertGreater(len(exprs), 5)
        asked = [("rules", e) for e in exprs] + list(queries())
        for where, expr in asked:
            for name, labels in re.findall(r"\b((?:scrubd|process)_[a-z_]+)(\{[^}]*\})?", expr):
                self.assertIn(name, told, where)
                wanted = set(re.findall(r"([a-z]+) *[=!]", labels)) - {"job", "instance"}
                self.assertLessEqual(wanted, told[name], (where, name))


if __name__ == "__main__":
    unittest.main()
