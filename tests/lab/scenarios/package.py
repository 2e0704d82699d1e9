# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian package: installed, used, upgraded over a teardown, removed, purged."""

import re
import tempfile

import assets
from scenarios.destroy import by_scrubd
from suite import BOOTS, SLOW, expect, scenario

# Nothing of the project is there until the scenario installs it.
BOOTS["package"] = {"mem_mib": 3072, "prealloc": False, "xen_args": "bootscrub=0", "scrubd": False, "extra": "apt"}

# Each file of dom0, and what is in those that packages change: but for logs, and what dpkg and apt know. /run is another
# file system: only ours of it.
FILES = ("find / -xdev \\( -path /tmp -o -path /root -o -path /var/log -o -path /var/lib/dpkg -o -path /var/cache "
         "-o -path /var/lib/apt -o -path /var/lib/systemd/timers -o -path /var/lib/xen \\) -prune -o "
         "\\( ! -type d -o -empty -o -name '*scrub*' \\) -printf '%y %m %p %l\\n' | sort; "
         "find /etc /usr/sbin /var/lib/systemd -type f -exec sha256sum {} + | sort -k 2; "
         "find /run -name '*scrub*'; dpkg-divert --list; systemctl list-unit-files --no-legend '*scrub*'")
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 {} </dev/null 2>&1"


def printed_commands(text):
    """What the package tells to do next: its indented lines."""
    return re.findall(r"^    (\S.*)$", text[text.index("scrubd is installed"):], re.M)


def property_of(host, unit, name):
    return host.sh(f"systemctl show -P {name} {unit}").strip()


def expect_off(host):
    """Nothing of scrubd is enabled, runs, or stands before xl."""
    for unit in ("scrubd.socket", "scrubd.service"):
        expect(host.try_sh(f"systemctl is-enabled {unit}")[1].strip() in ("disabled", "not-found", ""),
               f"{unit} is enabled")
        expect(property_of(host, unit, "ActiveState") == "inactive", f"{unit} runs")
    expect("scrub" not in host.sh("dpkg-divert --list; cat /usr/sbin/xl; readlink -f /usr/sbin/xl"), "xl is hooked")
    settings = host.scrub()
    expect(not any(settings[k] for k in ("ceiling_set", "mask_set", "lease_set")), f"settings in Xen: {settings}")


def expect_ordered(host):
    """After what it needs, before those who start guests: also Debian's units, which are made of init scripts."""
    host.sh("systemd-analyze verify --man=no scrubd.service scrubd.socket 2>&1 | { ! grep . >&2; }")
    after, before = (property_of(host, "scrubd.service", p).split() for p in ("After", "Before"))
    for unit in ("xen.service", "scrubd.socket"):
        expect(unit in after, f"scrubd.service is not after {unit}: {after}")
    for unit in ("xendomains.service", "libvirtd.service", "virtxend.service"):
        expect(unit in before, f"scrubd.service is not before {unit}: {before}")
    for unit in ("xen.service", "xendomains.service"):
        expect("generator" in property_of(host, unit, "FragmentPath"), f"{unit} is not the generated one")
    expect("scrubd.service" in property_of(host, "xendomains.service", "After").split(), "xendomains forgot scrubd")


@scenario("package", boot="package")
def package(host):
    """Installed by apt: off until told, first destroy caught, upgraded over a teardown, removed, purged, no trace"""
    # The lab masks it, as it takes time at boot.
    host.sh("rm /etc/systemd/system/xendomains.service; systemctl daemon-reload")
    with tempfile.TemporaryDirectory() as work:
        newer, version = assets.newer_deb(work)
        for name, path in (("scrubd.deb", assets.deb()), ("newer.deb", newer)):
            with open(path, "rb") as f:
                host.boot.put("/root/" + name, f.read())
    before = host.sh(FILES)

    text = host.sh(INSTALL.format("install /root/scrubd.deb"))
    expect_off(host)
    expect_ordered(host)
    exposure = float(re.search(r"service: ([0-9.]+)", host.sh("systemd-analyze security scrubd.service | tail -1")).group(1))
    expect(exposure <= 2.0, f"systemd-analyze security says {exposure}")
    commands = printed_commands(text)
    expect(1 <= len(commands) <= 2, f"with apt that is more than three commands, or none: {text}")
    for command in commands:
        host.sh(command)
    expect(host.status()["state"] == "ready", f"status: {host.status()}")
    with host.unharmed() as figures:
        domid = host.victim("pv")
        host.sh(f"xl destroy {domid}")
        host.expect_gone(domid, 1)
        by_scrubd(host, domid)
    figures.update(commands=1 + len(commands), exposure=exposure)

    figures.update(upgraded(host, version))

    host.sh(INSTALL.format("remove scrubd"))
    expect_off(host)
    with host.unharmed(clean=False):
        domid = host.victim("pv")
        host.sh(f"xl destroy {domid}")
        host.expect_gone(domid, 1)
    left = sorted(set(host.sh(FILES).splitlines()) - set(before.splitlines()))
    expect(all("/etc/scrubd" in line for line in left), f"left behind by the removal: {left}")
    host.sh(INSTALL.format("purge scrubd"))
    left = sorted(set(host.sh(FILES).splitlines()) ^ set(before.splitlines()))
    expect(not left, f"not as before the package: {left}")
    return figures


def upgraded(host, version):
    """An upgrade while a domain is torn down: the teardown goes on, in steps, and its caller is told the truth."""
    shipped = host.sh("cat /etc/scrubd/scrubd.conf")
    with host.unharmed() as figures:
        host.configure(SLOW)
        domid, pid = host.victim("pv", mem=256), host.main_pid()
        xl = host.boot.start_command(f"xl destroy {domid}")
        host.poll("a teardown under way", 20, lambda: [j for j in host.jobs() if j["steps"] > 3])
        # apt takes long here. The next scrubd knows nothing of the pause.
        host.sh(f"scrubctl pause {domid}")
        expect([j["domid"] for j in host.jobs()] == [domid], f"not under way: {host.jobs()}")
        host.sh(INSTALL.format("install /root/newer.deb"))
        expect(version in host.sh("dpkg-query -W scrubd"), "the newer one is not installed")
        expect(host.main_pid() not in (0, pid), "the old scrubd still runs")
        rc, out, err = xl.wait(120)
        expect(rc == 0, f"xl destroy ended with {rc}: {out}{err}")
        host.expect_gone(domid, 1)
        expect(host.journal(f"dom={domid} .*half torn down"), f"the new scrubd did not go on with it: {host.journal()}")
        expect(host.boot.get("/etc/scrubd/scrubd.conf").decode() == SLOW, "the configuration was lost")
        expect(host.sh("systemctl is-enabled scrubd.service scrubd.socket").split() == ["enabled"] * 2, "disabled")
        figures.update({"upgraded_" + k: v for k, v in by_scrubd(host, domid).items()})
    host.configure(shipped)
    return {k: v for k, v in figures.items() if k.startswith("upgraded_")}
