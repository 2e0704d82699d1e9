# SPDX-License-Identifier: GPL-2.0-or-later
"""Domains are destroyed through scrubd, whoever asks."""

from suite import SLOW, expect, scenario

GUESTS = ("pv", "pvh")


def by_scrubd(host, domid, min_steps=2):
    """Asserts that scrubd tore the domain down in steps, by its journal; returns figures."""
    job = host.end_of_job(domid)
    expect(job["how"] == "dead", f"the job of domain {domid} ended as '{job['how']}'")
    expect(job["steps"] >= min_steps, f"{job['steps']} steps only: {job}")
    expect(job["left"] <= 16, f"{job['left']} pages left at the end")
    return {"steps": job["steps"], "teardown_ms": job["ms"], "hypervisor_ms": job["hypervisor_ms"]}


@scenario("xl-destroy", guests=GUESTS)
def xl_destroy(host, guest):
    """Plain xl destroy of a guest with full memory, in steps, scrubbed on CPU 1 alone"""
    with host.configured('step_us = 500\nscrub_cpus = "1"\n'), host.unharmed() as figures:
        domid = host.victim(guest, mem=384, running=True)
        before, done = host.scrub(), host.status()["jobs_done"]
        host.sh(f"hooked xl destroy {host.name} & xl=$!; "
                "i=0; until scrubctl list --json | tee /run/lab/list | grep -q steps || [ $i -gt 40 ]; "
                "do i=$((i + 1)); done; wait $xl")
        host.expect_gone(domid, 5)
        listed = host.json("cat /run/lab/list")["jobs"]
        expect([j["domid"] for j in listed] == [domid], f"scrubctl list never showed the job: {listed}")
        figures.update(by_scrubd(host, domid))
        expect(host.status()["jobs_done"] == done + 1, "jobs_done did not grow by one")
        host.poll("all of it scrubbed", 60, lambda: host.status()["backlog_pages"] == 0)
        after = host.scrub()
        outside = after["cpus"][0]["idle"] - before["cpus"][0]["idle"]
        inside = after["cpus"][1]["idle"] - before["cpus"][1]["idle"]
        expect(outside == 0, f"CPU 0 is outside the mask and scrubbed {outside} pages")
        expect(inside >= 384 * 256 * 9 // 10, f"CPU 1 scrubbed only {inside} pages")
        figures.update(scrubbed_outside_mask=outside, scrubbed_inside=inside)
    return figures


@scenario("xl-background", guests=GUESTS)
def xl_background(host, guest):
    """A guest powers off; the hooked background xl has it destroyed by scrubd"""
    with host.unharmed() as figures:
        domid = host.victim(guest, mem=192, running=True, options="--off 1", create="hooked xl")
        host.expect_gone(domid, 60)
        figures.update(by_scrubd(host, domid))
        host.poll("the background xl ends", 20,
                  lambda: host.try_sh(f"pgrep -f '[c]reate.*{host.name}.cfg'")[0] != 0)
    return figures


@scenario("scrubd-stopped", guests=GUESTS)
def scrubd_stopped(host, guest):
    """scrubd and its socket are stopped: the hook destroys by itself"""
    with host.unharmed() as figures:
        host.sh("systemctl stop scrubd.socket scrubd.service")
        try:
            expect(host.try_sh("systemctl is-active scrubd.service")[1].strip() == "inactive", "scrubd still runs")
            domid = host.victim(guest)
            host.sh(f"SCRUBHOOK_DEBUG=1 hooked xl destroy {domid}")
            host.expect_gone(domid, 1)
        finally:
            host.sh("systemctl start scrubd.socket scrubd.service")
    expect(not host.journal(f"dom={domid} "), "scrubd heard of a domain while it was stopped")
    return figures


def halfway(host, domid, timeout_s=40):
    """Waits until the job of the domain is between its beginning and its end; returns it."""
    def look():
        for job in host.jobs():
            if job["domid"] == domid and 64 < job["pages_left"] < job["pages_total"]:
                return job
        return None
    return host.poll("a teardown under way", timeout_s, look)


# Not by its socket either, where the hook asks for the next one.
NO_RESTART = """mkdir -p /run/systemd/system/scrubd.service.d
printf '[Service]\\nRestart=no\\nExecStartPre=/bin/false\\n' > /run/systemd/system/scrubd.service.d/lab.conf
systemctl daemon-reload"""
RESTART = """rm -rf /run/systemd/system/scrubd.service.d; systemctl daemon-reload
systemctl reset-failed scrubd.service scrubd.socket; systemctl start scrubd.socket scrubd.service"""


@scenario("kill-scrubd", guests=GUESTS)
def kill_scrubd(host, guest):
    """SIGKILL of scrubd in the middle of a teardown: the hook completes the destroy"""
    with host.configured(SLOW), host.unharmed() as figures:
        domid = host.victim(guest, mem=512)
        # Nobody else may finish it: this scrubd stays dead. (The unit runs scrubd --reset meanwhile.)
        host.sh(NO_RESTART)
        try:
            xl = host.boot.start_command(f"hooked xl destroy {domid}")
            job = halfway(host, domid)
            figures["pages_left_at_kill"] = job["pages_left"]
            host.sh("systemctl kill -s KILL scrubd.service; poll 5 sh -c '! pgrep -fx /usr/sbin/scrubd'")
            rc, out, err = xl.wait(60)
            expect(rc == 0, f"xl destroy failed: {(out + err).decode(errors='replace')}")
            host.expect_gone(domid, 1)
            expect(host.try_sh("pgrep -fx /usr/sbin/scrubd")[0] != 0, "another scrubd took part")
        finally:
            host.sh(RESTART)
        expect(not host.journal(f"dom={domid} .*: dead after"), "scrubd finished it, the hook did not")
    return figures


@scenario("kill-both", guests=GUESTS, everyday=("pv",))
def kill_both(host, guest):
    """SIGKILL of scrubd and of the caller: systemd restarts scrubd, which adopts and finishes"""
    with host.configured(SLOW), host.unharmed() as figures:
        domid = host.victim(guest, mem=512)
        restarts = host.restarts()
        xl = host.boot.start_command(f"echo $$ > /run/lab/xl.pid; hooked xl destroy {domid}")
        job = halfway(host, domid)
        # scrubd stands still first: nothing else may finish the domain between the two.
        host.sh("set -e; s=$(systemctl show -P MainPID scrubd); kill -STOP $s; "
                "kill -KILL -$(cat /run/lab/xl.pid); kill -KILL $s")
        expect(xl.wait(60)[0] == 128 + 9, "the caller was not killed")
        figures["pages_left_at_kill"] = job["pages_left"]
        state = host.sh(f"labhv domain {domid}").split()
        expect(state[0] != "none" and int(state[1]) > 64, f"nothing was left to adopt: {state}")
        adopted = host.poll("the restarted scrubd adopts the domain", 20, lambda: [
            j for j in (host.jobs() if host.try_sh("scrubctl status")[0] == 0 else [])
            if j["domid"] == domid])
        expect(adopted[0]["adopted"] is True, f"not marked as adopted: {adopted[0]}")
        expect(host.restarts() == restarts + 1, f"{host.restarts() - restarts} restarts instead of 1")
        host.expect_gone(domid, 60)
        figures.update(by_scrubd(host, domid))
        expect("half torn down" in host.journal(f"dom={domid} "), "the journal does not speak of adoption")
    return figures


@scenario("scrubctl-destroy", guests=GUESTS)
def scrubctl_destroy(host, guest):
    """scrubctl destroy NAME goes through scrubd and leaves nothing behind"""
    with host.unharmed() as figures:
        domid = host.victim(guest)
        report = host.json(f"scrubctl destroy --json {host.name}")
        expect(report.get("by") == "scrubd" and report.get("domid") == domid, f"unexpected report: {report}")
        host.expect_gone(domid, 1)
        figures.update(by_scrubd(host, domid))
        rc, _, _ = host.try_sh(f"xenstore-exists /local/domain/{domid}/name")
        expect(rc != 0, "its xenstore entries are still there")
    return figures


@scenario("python-destroy", guests=GUESTS)
def python_destroy(host, guest):
    """The Python bindings, which dlopen libxenctrl locally, with the hook preloaded"""
    with host.unharmed() as figures:
        domid = host.victim(guest)
        # Not xl: so nobody but the binding crosses the symbol.
        host.sh(f"export PYTHONPATH=$(echo /usr/lib/xen-*/lib/python); hooked python3 -c '"
                f"import xen.lowlevel.xc; xen.lowlevel.xc.xc().domain_destroy({domid})'")
        host.expect_gone(domid, 1)
        figures.update(by_scrubd(host, domid))
        # The binding knows nothing of xenstore: the background xl cleans up.
        host.poll("the background xl ends", 20,
                  lambda: host.try_sh(f"pgrep -f '[c]reate.*{host.name}.cfg'")[0] != 0)
    return figures


@scenario("degraded", hypervisors=("stock",), guests=GUESTS)
def degraded(host, guest):
    """Unpatched hypervisor: scrubd says that it is degraded, and every way to destroy works"""
    status = host.status()
    expect(status["state"] == "degraded", f"state is {status['state']}")
    expect("unpatched" in (status.get("reason") or ""), f"reason is {status.get('reason')}")
    with host.unharmed() as figures:
        first, first_name = host.victim(guest), host.name
        second, second_name = host.victim(guest), host.name
        host.sh(f"hooked xl destroy {first_name} & a=$!; scrubctl destroy {second_name} & b=$!; "
                "wait $a && wait $b")
        host.expect_gone(first, 1)
        host.expect_gone(second, 1)
        domid = host.victim(guest)
        host.sh(f"xl destroy {domid}")
        host.expect_gone(domid, 1)
    rc, _, err = host.try_sh("scrubctl limit --ceiling 100M")
    expect(rc == 1 and err.strip(), f"a limit was accepted: exit status {rc} {err}")
    return figures


@scenario("scrub-debug", hypervisors=("debug",), guests=GUESTS, boot="debug")
def scrub_debug(host, guest):
    """SCRUB_DEBUG: torn down in steps, then a new guest on that memory; no assertion"""
    serial = len(host.boot.serial_log())
    with host.configured("step_us = 500\n"), host.unharmed() as figures:
        free = host.free_kib() // 1024
        # Most of the memory, so that the next guest cannot but get what the first one had.
        mem = free * 5 // 8
        domid = host.victim(guest, mem=mem)
        host.sh(f"hooked xl destroy {domid}", 400)
        figures.update(by_scrubd(host, domid))
        domid = host.victim(guest, mem=mem, running=True)
        host.sh(f"hooked xl destroy {domid}", 400)
        by_scrubd(host, domid)
        figures["mem_mib"] = mem
    text = host.boot.serial_log()
    expect("Scrubbing Free RAM on" in text, "the host did not scrub at boot: SCRUB_DEBUG checks nothing")
    for bad in ("Assertion", "BUG at", "FATAL", "not scrubbed", "Xen call trace"):
        expect(bad not in text[serial:], f"'{bad}' on the serial console")
    return figures
