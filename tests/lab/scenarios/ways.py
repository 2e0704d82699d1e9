# SPDX-License-Identifier: GPL-2.0-or-later
"""With `scrubctl hook enable`, and nothing else: every way in which a guest dies on a real host goes through scrubd.

WAYS has a function for each: it makes a guest, has it end in that way, asserts what `ended` does, and returns how
many ms scrubd's teardowns took. The bench mixes them.
"""

import contextlib

import joblog
from scenarios.destroy import by_scrubd
from suite import BOOTS, SLOW, expect, scenario

BOOTS["libvirt"] = {"mem_mib": 3072, "dom0_mib": 1280, "prealloc": False, "xen_args": "bootscrub=0", "extra": "libvirt"}
BOOTS["shutdown"] = {"mem_mib": 2560, "prealloc": False, "xen_args": "bootscrub=0"}

MEM_MIB = 96
# All that enable touches.
FOOTPRINT = ("ls -lR --time-style=+ /usr/sbin/xl* /usr/lib/scrubd /usr/local/sbin /etc/systemd/system 2>/dev/null; "
             "cat /usr/sbin/xl; cat /var/lib/dpkg/diversions")


@contextlib.contextmanager
def hook_enabled(host):
    """Afterwards nothing of it is left."""
    before = host.sh(FOOTPRINT)
    host.sh("scrubctl hook enable")
    try:
        yield
    finally:
        host.sh("scrubctl hook disable")
        after = host.sh(FOOTPRINT)
        expect(after == before, f"the hook left something behind:\n{before}\n---\n{after}")


def tools(host):
    return {(t["tool"], t.get("pid", 0)): t for t in host.json("scrubctl hook status --json")["tools"]}


def ends(host, domid, command):
    """The command has returned only when the domain was dead, and scrubd has done it."""
    words = host.sh(f"{{ {command}; }} >&2 || exit 1; labhv domain {domid}", 400).split()
    expect(words[0] in ("none", "dying"), f"`{command}` returned before domain {domid} was dead: {words}")
    return ended(host, domid, 5)


def ended(host, domid, timeout_s=60):
    """The domain ends, and scrubd has done it."""
    host.expect_gone(domid, timeout_s)
    return by_scrubd(host, domid)["teardown_ms"]


def running(host, guest, options=""):
    return host.victim(guest, mem=MEM_MIB, running=True, options=options)


def domid_of(host, name):
    return int(host.sh(f"guest_domid {name}"))


def ready(host, name, times):
    host.poll(f"{name} is ready", 60, lambda: int(host.try_sh(
        f"grep -c LAB-READY $(console_of {name})")[1] or 0) >= times)


# --- xl and scrubctl ---

def xl_destroy(host, guest):
    domid = host.victim(guest, mem=MEM_MIB)
    return ends(host, domid, f"xl destroy {host.name}")


def scrubctl_destroy(host, guest):
    domid = host.victim(guest, mem=MEM_MIB)
    return ends(host, domid, f"scrubctl destroy {host.name}")


def python_destroy(host, guest):
    domid = host.victim(guest, mem=MEM_MIB)
    ms = ends(host, domid, "PYTHONPATH=$(echo /usr/lib/xen-*/lib/python) hooked python3 -c '"
                           f"import xen.lowlevel.xc; xen.lowlevel.xc.xc().domain_destroy({domid})'")
    # It knows nothing of xenstore: the background xl clears up.
    host.poll("the background xl ends", 20, lambda: host.try_sh(f"pgrep -f '[c]reate.*{host.name}.cfg'")[0] != 0)
    return ms


def xl_shutdown(host, guest):
    domid = running(host, guest)
    host.sh(f"xl shutdown {host.name}")
    return ended(host, domid)


def xl_reboot(host, guest):
    domid = running(host, guest)
    host.sh(f"xl reboot {host.name}")
    ms = ended(host, domid)
    ready(host, host.name, 2)
    return ms + ends(host, domid_of(host, host.name), f"xl destroy {host.name}")


def xl_save(host, guest):
    domid = running(host, guest)
    return ends(host, domid, f"xl save {host.name} /dev/null")


def xl_migrate(host, guest):
    domid = running(host, guest)
    ms = ends(host, domid, f"xl migrate -s '' {host.name} 'xl migrate-receive'")
    return ms + ends(host, domid_of(host, host.name), f"xl destroy {host.name}")


def by_itself(how):
    def end(host, guest):
        return ended(host, running(host, guest, f"--off 1 --how {how} --conf 'on_reboot = \"destroy\"'"))
    return end


XL_WAYS = {"xl-destroy": xl_destroy, "scrubctl-destroy": scrubctl_destroy, "python": python_destroy,
           "xl-shutdown": xl_shutdown, "xl-reboot": xl_reboot, "xl-save": xl_save, "xl-migrate": xl_migrate,
           "poweroff": by_itself("poweroff"), "reboot": by_itself("reboot"), "crash": by_itself("crash")}


# --- libvirt ---

XML = """<domain type='xen'>
  <name>{name}</name><memory unit='MiB'>{mem}</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='{machine}'>{os}</type><kernel>/usr/lib/lab/vmlinux</kernel>
    <initrd>/usr/lib/lab/guest.img</initrd><cmdline>console=hvc0 quiet rdinit=/init lab_fill=all</cmdline></os>
  <on_poweroff>destroy</on_poweroff><on_reboot>destroy</on_reboot><on_crash>destroy</on_crash>
  <devices><console type='pty'><target type='xen' port='0'/></console></devices>
</domain>
"""
KINDS = {"pv": ("xenpv", "linux"), "pvh": ("xenpvh", "xenpvh")}


def start_libvirt(host):
    """libvirtd, with its Xen driver. Under this emulated CPU its model of a qemu64 asks for too much."""
    host.sh("sed -i '/sep/d' /usr/share/libvirt/cpu_map/x86_qemu64.xml; mkdir -p /var/log/xen/console; "
            "systemctl start libvirtd.service && poll 60 virsh -c xen:///system list >/dev/null 2>&1 || "
            "{ journalctl -u libvirtd --no-pager | tail -30; exit 1; } >&2", 200)


def virsh_create(host, guest):
    host.victims += 1
    host.name = f"victim{host.victims}"
    machine, os = KINDS[guest]
    host.boot.put(f"/run/lab/{host.name}.xml", XML.format(name=host.name, mem=MEM_MIB, machine=machine, os=os))
    host.sh(f"rm -f $(console_of {host.name}); virsh -c xen:///system create /run/lab/{host.name}.xml", 200)
    ready(host, host.name, 1)
    return domid_of(host, host.name)


def agree(host):
    """The guest is gone for libvirt and for xl, and what libvirt still has xl has too."""
    virsh = set(host.sh("virsh -c xen:///system list --all --name").split())
    xl = {line.split()[0] for line in host.sh("xl list").splitlines()[1:]}
    return host.name not in virsh | xl and virsh <= xl


def virsh(verb):
    def end(host, guest):
        domid = virsh_create(host, guest)
        if verb == "destroy":
            ms = ends(host, domid, f"virsh -c xen:///system destroy {host.name}")
        else:
            host.sh(f"virsh -c xen:///system shutdown {host.name}")
            ms = ended(host, domid)
        host.poll("libvirt and xl agree", 10, lambda: agree(host))
        return ms
    return end


def behind_libvirt(host, guest):
    """Somebody else destroys libvirt's guest: libvirt hears of it."""
    domid = virsh_create(host, guest)
    ms = ends(host, domid, f"scrubctl destroy {host.name}")
    host.poll("libvirt and xl agree", 10, lambda: agree(host))
    return ms


LIBVIRT_WAYS = {"virsh-destroy": virsh("destroy"), "virsh-shutdown": virsh("shutdown"), "behind-libvirt": behind_libvirt}

WAYS = {**XL_WAYS, **LIBVIRT_WAYS}


# --- Scenarios ---

@scenario("hook")
def hook(host):
    """scrubctl hook enable: xl by PATH and by its path is caught; status names who is not; disable leaves nothing"""
    with host.unharmed():
        old = host.victim("pv", mem=MEM_MIB)
        old_name = host.name
        with hook_enabled(host):
            expect("Nothing to do" in host.sh("scrubctl hook enable"), "enabled twice")
            found = tools(host)
            expect(found["xl", 0]["caught"], f"{found}")
            missed = [t for t in found.values() if not t["caught"]]
            expect(missed and all(t["tool"] == "xl" and "pid" in t for t in missed), f"{found}")
            expect(any(old_name in t["why"] for t in missed), f"{old_name} is not named: {missed}")
            new = host.victim("pv", mem=MEM_MIB)
            mine = [t for t in tools(host).values() if host.name in t["why"]]
            expect(mine and mine[0]["caught"], f"the xl of {host.name}: {mine}")
            ends(host, new, f"xl destroy {new}")
            # xl goes on through the diversion, with all it is asked.
            expect("xen_version" in host.sh("xl info") and host.try_sh("xl frobnicate")[0] != 0, "xl info")
            ends(host, old, f"/usr/sbin/xl destroy {old}")
        expect(not tools(host)["xl", 0]["caught"], "status after disable")
        domid = host.victim("pv", mem=MEM_MIB)
        host.sh(f"xl destroy {domid}")
        host.expect_gone(domid, 1)
        expect(not host.journal(f"dom={domid} .*teardown begins"), "caught without the hook")


@scenario("hook-in-path")
def hook_in_path(host):
    """Where there is no dpkg-divert, a wrapper stands first in PATH: who calls xl by its path is not caught"""
    divert = "/usr/bin/dpkg-divert"
    host.sh(f"mv {divert} {divert}.away")
    try:
        with host.unharmed(), hook_enabled(host):
            expect(host.sh("command -v xl").strip() == "/usr/local/sbin/xl", "it is not what PATH finds")
            xl = tools(host)["xl", 0]
            expect(xl["caught"] and "first in PATH" in xl["why"], f"{xl}")
            domid = host.victim("pv", mem=MEM_MIB)
            ends(host, domid, f"xl destroy {domid}")
            domid = host.victim("pv", mem=MEM_MIB)
            host.sh(f"/usr/sbin/xl destroy {domid}")
            host.expect_gone(domid, 1)
            expect(not host.journal(f"dom={domid} .*teardown begins"), "caught past the wrapper")
    finally:
        host.sh(f"mv {divert}.away {divert}")


# Those that no other scenario shows, and of the slow ones each with one kind of guest.
SHOWN = {"pv": ("xl-shutdown", "xl-reboot", "xl-save", "xl-migrate", "crash"),
         "pvh": ("xl-shutdown", "xl-save", "poweroff", "reboot")}


@scenario("ways", guests=("pv", "pvh"))
def ways(host, guest):
    """xl shutdown, reboot, save, migrate, and guests that end by themselves: all through scrubd"""
    with hook_enabled(host), host.unharmed() as figures:
        for name in SHOWN[guest]:
            figures[name] = XL_WAYS[name](host, guest)
    return figures


@scenario("libvirt", boot="libvirt", guests=("pv", "pvh"))
def libvirt(host, guest):
    """virsh destroy and shutdown: through scrubd, and libvirt and xl agree afterwards"""
    start_libvirt(host)
    with hook_enabled(host), host.unharmed() as figures:
        tool = tools(host)["libvirtd.service", int(host.sh("systemctl show -P MainPID libvirtd"))]
        expect(not tool["caught"] and tool["mend"] == "systemctl restart libvirtd.service", f"{tool}")
        host.sh(tool["mend"] + " && poll 60 virsh -c xen:///system list >/dev/null", 200)
        tool = tools(host)["libvirtd.service", int(host.sh("systemctl show -P MainPID libvirtd"))]
        expect(tool["caught"], f"{tool}")
        for name, way in LIBVIRT_WAYS.items():
            figures[name] = way(host, guest)
    host.sh("systemctl restart libvirtd.service")
    return figures


# Debian's xendomains as it comes, but that it saves nothing: guests are shut down. The journal goes to the console,
# and with it to the serial log, which is there when the host is not.
POWEROFF = """cd /etc/systemd/system; rm xendomains.service systemd-user-sessions.service
printf 'XENDOMAINS_SAVE=\nXENDOMAINS_RESTORE=false\nXENDOMAINS_SHUTDOWN="--wait"\n' >> /etc/default/xendomains
printf '[Journal]\nForwardToConsole=yes\nTTYPath=/dev/hvc0\nMaxLevelConsole=info\n' > /etc/systemd/journald.conf.d/console.conf
systemctl daemon-reload; systemctl restart systemd-journald.service
systemctl start systemd-user-sessions.service xendomains.service"""


@scenario("host-shutdown", boot="shutdown", guests=("pv",), last=True)
def host_shutdown(host, guest):
    """The host powers off: xendomains shuts the guests down, and scrubd holds nothing back"""
    host.configure(SLOW)
    host.sh("scrubctl hook enable")
    host.sh(POWEROFF)
    domids = [running(host, guest) for _ in range(2)]
    serial = len(host.boot.serial_log())
    host.boot.start_command("exec systemctl --no-block poweroff")
    host.poll("the host is off", 60, host.boot.channel.closed.is_set)
    text = host.boot.serial_log()[serial:]
    figures = {}
    for domid in domids:
        job = joblog.end_of_job(text, domid)
        expect(job and job["how"] == "dead", f"scrubd did not tear domain {domid} down:\n{text[-4000:]}")
        # At the pace of SLOW it would have taken 50 times as long as in the hypervisor.
        expect(job["ms"] < job["hypervisor_ms"] * 10 + 500, f"domain {domid} was held back: {job}")
        figures[f"{len(figures)}_ms"] = job["ms"]
    return figures
