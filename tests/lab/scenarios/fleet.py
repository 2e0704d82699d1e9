# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet of one: a real Prometheus on this machine watches the lab's host."""

import contextlib
import json
import os
import subprocess
import tempfile
import urllib.parse
import urllib.request

import assets
from boot import NIC_ADDRESS
from suite import BOOTS, ROOT, expect, scenario

PORT = 9719
BOOTS["fleet"] = {"mem_mib": 3072, "prealloc": False, "xen_args": "bootscrub=0", "forward": PORT}

# As scrubd(8) says: whom the sandbox lets in beyond the loopback.
DROP_IN = "/etc/systemd/system/scrubd.service.d/override.conf"
ALLOW = "[Service]\nIPAddressAllow=10.97.0.0/24\n"
GRACE_S = 60


class Prometheus:
    """One that scrapes the host every second, with our rules."""

    def __init__(self, work, target):
        self.url = None
        with open(f"{work}/prometheus.yml", "w") as f:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                       "rule_files": [os.path.join(ROOT, "conf", "prometheus", "scrubd.rules.yml")],
                       "scrape_configs": [{"job_name": "scrubd", "static_configs": [{"targets": [target]}]}]}, f)
        with open(f"{work}/log", "w") as log:
            self.process = subprocess.Popen(
                [os.path.join(assets.unpacked("prometheus"), "usr", "bin", "prometheus"),
                 f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/data",
                 "--web.listen-address=127.0.0.1:0", "--log.level=info"], stderr=log, stdout=log)
        self.log = f"{work}/log"

    def stop(self):
        self.process.kill()
        self.process.wait()

    def text(self):
        with open(self.log) as f:
            return f.read()

    def address(self):
        """Where it listens, once it does: it has picked a port."""
        pid = self.process.pid
        expect(self.process.poll() is None, "Prometheus has ended:\n" + self.text())
        links = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        with open("/proc/net/tcp") as f:
            for line in f:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in links:
                    self.url = f"http://127.0.0.1:{int(words[1].split(':')[1], 16)}"
        return self.url

    def get(self, path, **params):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(params)}", timeout=30) as r:
            return json.load(r)["data"]

    def value(self, query):
        """Of one series, or None."""
        found = self.get("query", query=query)["result"]
        expect(len(found) < 2, f"{query}: {found}")
        return float(found[0]["value"][1]) if found else None


@contextlib.contextmanager
def watched(host):
    """Metrics on, the sandbox opened, a Prometheus that has seen the host up."""
    host.boot.put(DROP_IN, ALLOW)
    host.sh("systemctl daemon-reload")
    try:
        with host.configured(f'metrics_listen = "{NIC_ADDRESS}:{PORT}"\n'), tempfile.TemporaryDirectory() as work:
            prometheus = Prometheus(work, f"127.0.0.1:{host.boot.forwarded}")
            try:
                host.poll("Prometheus listens", GRACE_S, prometheus.address)
                host.poll("Prometheus sees the host", GRACE_S, lambda: prometheus.value('up{job="scrubd"}') == 1)
                yield prometheus
            finally:
                prometheus.stop()
    finally:
        host.sh(f"rm {DROP_IN}; systemctl daemon-reload; systemctl restart scrubd.service")


def queries():
    with open(os.path.join(ROOT, "conf", "grafana", "scrubd.json")) as f:
        for panel in json.load(f)["panels"]:
            for target in panel["targets"]:
                yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")


@scenario("prometheus", boot="fleet", guests=("pv",))
def prometheus(host, guest):
    """A real Prometheus scrapes the host through its network: a destroy shows, the dashboard has data, no alert fires"""
    figures = {}
    with watched(host) as p, host.unharmed():
        domid = host.victim(guest, mem=512)
        xl = host.boot.start_command(f"hooked xl destroy {domid}")
        rc, _, err = xl.wait(240)
        expect(rc == 0, f"xl destroy failed: {err.decode(errors='replace')}")
        host.poll("the destroy in Prometheus", GRACE_S, lambda: p.value("scrubd_teardowns_total") == 1)
        host.poll("it is clean there", GRACE_S, lambda: p.value("scrubd_scrub_duration_seconds_count") == 1)
        job = host.end_of_job(domid)
        figures["freed_mib"] = round(p.value("scrubd_freed_bytes_total") / 2**20)
        expect(abs(figures["freed_mib"] - 512) < 16, f"{figures['freed_mib']} MiB freed by Prometheus' word")
        expect(p.value("scrubd_step_duration_seconds_count") == job["steps"],
               f"{p.value('scrubd_step_duration_seconds_count')} steps there, {job['steps']} in the journal")
        # The hypervisor's own counter, asked for by other means.
        idle = sum(n["idle"] for n in host.scrub()["nodes"]) * 4096
        host.poll("the hypervisor's counter in Prometheus", GRACE_S,
                  lambda: p.value('sum(scrubd_node_scrubbed_bytes_total{by="idle"})') >= idle)
        empty = [title for title, query in queries() if not p.get("query", query=query)["result"]]
        # Only where there is a ceiling, a zombie, a declined destroy or a create that waited.
        figures["panels_without_data"] = len(empty)
        expect(set(empty) <= {"Scrubbing", "Zombies", "Creates wait for clean memory"}, f"no data for {empty}")
        figures["scrapes"] = p.value('count_over_time(up{job="scrubd"}[10m])')
        figures["scrape_ms"] = round(p.value('avg_over_time(scrape_duration_seconds[10m])') * 1000, 1)
        expect(p.value('min_over_time(up{job="scrubd"}[10m])') == 1, "scrapes failed")
        rules = [r for g in p.get("rules")["groups"] for r in g["rules"]]
        expect(len(rules) > 5 and all(r["health"] == "ok" for r in rules), f"rules: {rules}")
        # A step of 100 ms only says that this machine had the emulator wait.
        firing = {a["labels"]["alertname"] for a in p.get("alerts")["alerts"] if a["state"] == "firing"}
        expect(firing <= {"ScrubdLongSteps"}, f"alerts fire: {firing}")

        # And it shows when a host is gone.
        host.sh("systemctl stop scrubd.socket scrubd.service")
        host.poll("Prometheus misses scrubd", GRACE_S, lambda: p.value('up{job="scrubd"}') == 0)
        host.sh("systemctl start scrubd.socket scrubd.service")
        host.poll("and finds it again", GRACE_S, lambda: p.value('up{job="scrubd"}') == 1)
    return figures


@scenario("metrics-sandbox", boot="fleet")
def metrics_sandbox(host):
    """Without the drop-in nobody beyond dom0 gets at the metrics; dom0 does; by default there are none"""
    def from_outside():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{host.boot.forwarded}/metrics", timeout=5) as r:
                return r.read().decode()
        except OSError:
            return ""
    ask = "exec 3<>/dev/tcp/127.0.0.1/9719 && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
    expect(host.try_sh(f"bash -c \"{ask}\"")[0] != 0, "metrics are on by default")
    with host.configured(f'metrics_listen = "0.0.0.0:{PORT}"\n'):
        out = host.sh(f"timeout 20 bash -c \"{ask}\"")
        expect("\nscrubd_degraded 0\n" in out, f"dom0 does not get metrics: {out[:300]}")
        expect(not from_outside(), "the sandbox lets strangers in")
    return {}
