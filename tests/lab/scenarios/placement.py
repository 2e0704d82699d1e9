# SPDX-License-Identifier: GPL-2.0-or-later
"""Where memory is scrubbed: scrubd keeps the CPUs of protected guests clear, and follows them."""

import contextlib

from suite import BOOTS, PATIENCE, Failure, expect, scenario

# dom0 is pinned to CPU 0.
BOOTS["placement"] = {"smp": 4, "mem_mib": 2560, "prealloc": False, "xen_args": "bootscrub=0"}

# An Intel CPU, whose threads Xen sees; it has no PVH guests here.
BOOTS["siblings"] = {"smp": 4, "smt": 2, "cpu": "Nehalem", "mem_mib": 2304, "prealloc": False, "xen_args": "bootscrub=0"}

HPTOOL = "$(ls /usr/lib/xen-*/bin/xen-hptool /usr/sbin/xen-hptool 2>/dev/null | head -n 1)"
FOLLOW_MS = 2000 * PATIENCE  # it looks once a second; what moves the domain and asks for the mask takes time, too


def allowed(host):
    """By the hypervisor's word."""
    return [n for n, cpu in enumerate(host.scrub()["cpus"][:4]) if cpu["allowed"]]


def whys(host):
    cpus = host.json("scrubctl cpus --json")["cpus"][:4]
    return [c["why"] + (f" {c['name']}" if "name" in c else "") for c in cpus]


def said(host):
    """The text of scrubctl cpus, whose lines end where 80 columns do."""
    return " ".join(host.sh("scrubctl cpus").split())


def scrubbed(host, cpus):
    counters = host.scrub()["cpus"]
    return [counters[n]["idle"] + counters[n]["floor"] for n in cpus]


def follows(host, command, want):
    """Runs a command; how many ms later, by dom0's clock, the hypervisor has this mask. No scrubctl meanwhile,
    which would have scrubd look."""
    text = ", ".join("true" if n in want else "false" for n in range(4))
    out = host.sh(f"""
        mask() {{ labscrub get | grep -o '"allowed": [a-z]*' | head -n 4 | cut -d' ' -f2 | paste -sd, | sed 's/,/, /g'; }}
        {command}
        t0=$(date +%s%3N)
        i=0
        until [ "$(mask)" = "{text}" ]; do
            i=$((i + 1)); [ $i -lt 400 ] || {{ echo "the mask is $(mask), not {text}" >&2; exit 1; }}
        done
        echo $(($(date +%s%3N) - t0))""")
    ms = int(out.split()[-1])
    expect(ms <= FOLLOW_MS, f"`{command}` was followed after {ms} ms")
    return ms


@contextlib.contextmanager
def backlog(host, mib=256):
    """The memory of a dead guest, which is scrubbed slowly meanwhile and then quickly."""
    host.sh("scrubctl limit --ceiling 4M")
    try:
        domid = host.victim("pv", mem=mib)
        host.sh(f"hooked xl destroy {domid}")
        host.expect_gone(domid)
        expect(host.status()["backlog_pages"] > mib * 256 // 2, "the backlog is gone already")
        yield
        expect(host.status()["backlog_pages"] > 1000, "the backlog did not last")
    finally:
        host.sh("scrubctl limit --ceiling none")
        host.poll("all clean", 60, lambda: host.status()["backlog_pages"] == 0)


@contextlib.contextmanager
def pinned(host):
    host.sh("guest_start rt --type pv --mem 96 --cpus 1", 400)
    try:
        yield
    finally:
        host.try_sh("xl destroy rt")
        host.poll("rt is gone", 20, lambda: host.try_sh("guest_domid rt")[0] != 0)


@scenario("placement-pin", boot="placement")
def pin(host):
    """A pinned guest is protected without being named; xl vcpu-pin is followed"""
    figures = {}
    with host.configured("backlog_high_mib = 4096\n"), host.unharmed():
        expect(allowed(host) == [0, 1, 2, 3], f"at first the mask is {allowed(host)}")
        expect(not host.scrub()["mask_set"], "there is nothing to protect, but a mask")
        with pinned(host):
            # By the event of xenstore: nobody has asked scrubd for anything.
            host.poll("the mask without CPU 1", 5, lambda: allowed(host) == [0, 2, 3])
            expect(whys(host) == ["free", "hard rt", "free", "free"], f"scrubctl cpus says {whys(host)}")
            before = scrubbed(host, (1,))
            with backlog(host):
                expect(scrubbed(host, (1,)) == before, "a CPU that is to be kept clear has scrubbed")
                figures["follow_ms"] = follows(host, "xl vcpu-pin rt 0 2", [0, 1, 3])
                before = scrubbed(host, (2,))
                expect(whys(host) == ["free", "free", "hard rt", "free"], f"then it says {whys(host)}")
            expect(scrubbed(host, (2,)) == before, "a CPU that is to be kept clear has scrubbed")
            text = said(host)
            expect("no kept clear for rt (domain " in text, text)
        host.poll("no mask without a pinned guest", 5, lambda: not host.scrub()["mask_set"])
    log = host.journal("CPUs that may scrub")
    expect("CPUs that may scrub: 0,2-3; clear: 1 for dom=" in log and "name=rt (by pin)" in log, f"the log says: {log}")
    return figures


@scenario("limit-for", boot="placement")
def limit_for(host):
    """A limit that is set for a time ends by itself, also with a scrubd that is killed; what was set before holds again"""
    def mask_and_ceiling():
        settings = host.scrub()
        return allowed(host), [n["ceiling_kib"] for n in settings["nodes"]][0]

    with host.configured("backlog_high_mib = 4096\n"), host.unharmed() as figures:
        host.sh("scrubctl limit --cpus 0-1")
        host.sh("scrubctl limit --cpus 2 --for 3s")
        expect(allowed(host) == [2], f"the mask is {allowed(host)}")
        host.poll("the mask of before", 5, lambda: allowed(host) == [0, 1])
        with backlog(host):
            host.sh("scrubctl limit --ceiling 8M --for 3s")
            expect(mask_and_ceiling() == ([0, 1], 8192), f"the limits are {mask_and_ceiling()}")
            host.poll("the ceiling of before", 5, lambda: mask_and_ceiling() == ([0, 1], 4096))
        host.sh("scrubctl limit --cpus 3 --for 1h")
        expect(allowed(host) == [3], f"the mask is {allowed(host)}")
        host.sh("systemctl kill -s KILL scrubd.service")
        host.poll("the configuration holds", 15, lambda: allowed(host) == [0, 1, 2, 3])
        host.sh("poll 15 scrubctl status >/dev/null 2>&1")
        expect("for" not in host.sh("scrubctl limit"), "a limit for a time has outlived scrubd")
    return figures


@scenario("placement-pool", boot="placement")
def pool(host):
    """A guest that moves to a protected cpupool, and one protected by name, are followed"""
    figures = {}
    with host.configured('backlog_high_mib = 4096\nprotect = {"pool:rt"}\n'), host.unharmed():
        host.sh("xl cpupool-cpu-remove Pool-0 2 && xl cpupool-cpu-remove Pool-0 3 && "
                "printf 'name=\"rt\"\\nsched=\"credit2\"\\ncpus=[\"2\", \"3\"]\\n' > /run/lab/rt.cfg && "
                "xl cpupool-create /run/lab/rt.cfg")
        try:
            with pinned(host):
                host.poll("the mask without CPU 1", 5, lambda: allowed(host) == [0, 2, 3])
                with backlog(host):
                    figures["follow_ms"] = follows(host, "xl cpupool-migrate rt rt", [0, 1])
                    # It may run on all of its pool, and no rule is needed for less.
                    expect(whys(host) == ["free", "free", "hard rt", "hard rt"], f"scrubctl cpus says {whys(host)}")
                    figures["back_ms"] = follows(host, "xl cpupool-migrate rt Pool-0", [0, 1, 2, 3])
                    host.sh("scrubctl protect 'r?'")
                    expect(whys(host) == ["hard rt", "hard rt", "free", "free"], f"by name it says {whys(host)}")
                    expect(allowed(host) == [2, 3], f"by name the mask is {allowed(host)}")
                    host.sh("scrubctl protect 'r?' --off")
                    expect(not host.scrub()["mask_set"], "a mask without anything to protect")
        finally:
            host.sh("xl cpupool-destroy rt; xl cpupool-cpu-add Pool-0 2; xl cpupool-cpu-add Pool-0 3")
    return figures


@scenario("placement-offline", boot="placement")
def offline(host):
    """CPUs that go offline and come back, and a guest that is protected but may run anywhere"""
    figures = {}
    with host.configured("backlog_high_mib = 4096\n"), host.unharmed(), pinned(host):
        host.poll("the mask without CPU 1", 5, lambda: allowed(host) == [0, 2, 3])
        with backlog(host):
            try:
                figures["offline_ms"] = follows(host, f"{HPTOOL} cpu-offline 3 >/dev/null", [0, 2])
                expect(whys(host)[3] == "offline", f"scrubctl cpus says {whys(host)}")
                expect(host.json("scrubctl cpus --json")["cpus"][3]["online"] is False, "offline, but online")
            finally:
                host.sh(f"{HPTOOL} cpu-online 3 >/dev/null")
            host.poll("CPU 3 scrubs again", 5, lambda: allowed(host) == [0, 2, 3])
        host.sh("scrubctl protect bystander")
        rows = said(host)
        expect("bystander (domain " in rows and "is protected, but may run on every CPU" in rows, rows)
        rc, _, err = host.try_sh("scrubctl protect 0")
        expect(rc == 1 and "domain 0 cannot be protected" in err, err)
        host.sh("scrubctl reset")
        if "bystander" in host.sh("scrubctl protect"):
            raise Failure("reset has not forgotten what was protected")
    return figures


@scenario("placement-siblings", boot="siblings")
def siblings(host):
    """The hardware thread beside that of a pinned guest is kept clear too, and follows it"""
    figures = {}
    with host.configured("backlog_high_mib = 4096\n"), host.unharmed(), pinned(host):
        host.poll("the mask without the core of CPU 1", 5, lambda: allowed(host) == [2, 3])
        expect(whys(host) == ["sibling rt", "hard rt", "free", "free"], f"scrubctl cpus says {whys(host)}")
        before = scrubbed(host, (0, 1))
        with backlog(host):
            expect(scrubbed(host, (0, 1)) == before, "a CPU that is to be kept clear has scrubbed")
            figures["follow_ms"] = follows(host, "xl vcpu-pin rt 0 2", [0, 1])
            before = scrubbed(host, (2, 3))
        expect(scrubbed(host, (2, 3)) == before, "a CPU that is to be kept clear has scrubbed")
        rows = said(host)
        expect("shares its core with CPU 2, kept clear for rt" in rows, rows)
    return figures
