#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scrubctl hook on a directory that stands for /: what enable writes, that disable leaves nothing of it, what is
refused, what happens after an attempt that was cut off, and what status says of tools and running programs. The
dpkg-divert is the real one. TAP on standard output.

usage: test-hook.py SCRUBCTL LIBRARY PRIVATE-DIRECTORY
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
import tap

SCRUBCTL, LIBRARY, PRIVATE = sys.argv[1:4]
SCRUBCTL = os.path.abspath(SCRUBCTL)
XL, DISTRIB = "/usr/sbin/xl", "/usr/sbin/xl.distrib"
IN_PATH = "/usr/local/sbin/xl"
MARKER = "# Written by scrubctl hook enable; scrubctl hook disable removes it.\n"
DROPIN = "/etc/systemd/system/%s.d/50-scrubd.conf"


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Root:
    """A Debian dom0, as far as the hook looks at it."""

    def __init__(self, xl=True, dpkg=True, library=True, units=(), systemd=True):
        self.dir = tempfile.mkdtemp(prefix="scrubctl-hook-")
        self.write("/proc/self/stat", "")
        self.write("/usr/lib/xen-common/bin/xen-utils-wrapper", "#!/bin/sh\n")
        os.makedirs(self.dir + "/usr/sbin")
        os.makedirs(self.dir + "/usr/local/sbin")
        if xl:
            os.symlink("../lib/xen-common/bin/xen-utils-wrapper", self.dir + XL)
        if dpkg:
            self.write("/var/lib/dpkg/status", "")
            os.makedirs(self.dir + "/var/lib/dpkg/info")
            os.makedirs(self.dir + "/var/lib/dpkg/updates")
            os.makedirs(self.dir + "/usr/bin")
            os.symlink(shutil.which("dpkg-divert"), self.dir + "/usr/bin/dpkg-divert")
        if library:
            self.write(LIBRARY, "")
        for unit in units:
            self.write("/usr/lib/systemd/system/" + unit, "[Service]\n")
        if systemd:
            os.makedirs(self.dir + "/run/systemd/system")
        self.write("/usr/bin/systemctl", "#!/bin/sh\ncase $1 in show) cat %s/environment 2>/dev/null ;; "
                   "*) echo \"$@\" >>%s/systemctl.log ;; esac\n" % (self.dir, self.dir))
        os.chmod(self.dir + "/usr/bin/systemctl", 0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir)

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.dir + path), exist_ok=True)
        with open(self.dir + path, "w") as f:
            f.write(text)

    def read(self, path):
        with open(self.dir + path) as f:
            return f.read()

    def remove(self, path):
        os.unlink(self.dir + path)

    def has(self, path):
        return os.path.lexists(self.dir + path)

    def tree(self):
        """All there is, but for what dpkg and the fake systemctl write."""
        found = {}
        for top, dirs, files in os.walk(self.dir):
            for name in dirs + files:
                path = os.path.join(top, name)
                inside = path[len(self.dir):]
                if inside.startswith(("/var/lib/dpkg/", "/systemctl.log")):
                    continue
                if os.path.islink(path):
                    found[inside] = "-> " + os.readlink(path)
                else:
                    found[inside] = open(path, errors="replace").read() if os.path.isfile(path) else "/"
        return found

    def divert(self, *argv):
        return subprocess.run(("dpkg-divert", "--root", self.dir) + argv, text=True, check=True,
                              capture_output=True).stdout.strip()

    def truename(self):
        return self.divert("--truename", XL)

    def reloads(self):
        return self.read("/systemctl.log").splitlines() if self.has("/systemctl.log") else []

    def process(self, pid, exe, libraries, unit=None, command=()):
        base = "/proc/%d/" % pid
        maps = "".join("7f00-7f10 r-xp 0000 00:1a 11 %s\n" % lib for lib in (exe,) + tuple(libraries))
        self.write(base + "maps", maps + "7ffc-7ffd rw-p 0000 00:00 0 [stack]\n")
        self.write(base + "cmdline", "\0".join(command or (exe,)) + "\0")
        self.write(base + "cgroup", "0::/system.slice/%s\n" % (unit or "session-1.scope"))
        os.symlink(exe, self.dir + base + "exe")

    def scrubctl(self, *argv):
        done = subprocess.run((SCRUBCTL,) + argv, env=dict(os.environ, SCRUBD_ROOT=self.dir, LC_ALL="C.UTF-8"),
                              stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def hook(self, verb):
        code, out, err = self.scrubctl("hook", verb)
        expect(code == 0 and err == "", "hook %s: status %d: %s" % (verb, code, err))
        return out

    def refused(self, verb, *words):
        """It fails, in one line with these words, and changes nothing."""
        before = self.tree()
        code, out, err = self.scrubctl("hook", verb)
        expect(code == 1, "hook %s: status %d: %s%s" % (verb, code, out, err))
        for word in words:
            expect(word in err, "no %r in %r" % (word, err))
        expect(err.count("\n") == 1, "more than a line: %r" % err)
        expect(self.tree() == before, "changed: %r" % sorted(self.tree().items() ^ before.items()))

    def tools(self):
        code, out, err = self.scrubctl("hook", "status", "--json")
        expect(code == 0, err)
        answer = json.loads(out)
        expect(answer["missed"] == sum(not t["caught"] for t in answer["tools"]), answer)
        return {(t["tool"], t.get("pid", 0)): t for t in answer["tools"]}


def expect_diverted(root):
    text = root.read(XL)
    expect(text.startswith("#!/bin/sh\n" + MARKER) and LIBRARY in text and text.endswith('exec %s/xl "$@"\n' % PRIVATE), text)
    expect(os.stat(root.dir + XL).st_mode & 0o7777 == 0o755, "mode")
    expect(os.readlink(root.dir + DISTRIB).endswith("xen-utils-wrapper"), "xl.distrib is not the package's")
    expect(os.readlink(root.dir + PRIVATE + "/xl") == DISTRIB, "private link")
    expect(root.truename() == DISTRIB, root.truename())
    expect(root.tools()["xl", 0]["caught"], root.tools())


def test_enable_diverts_and_disable_leaves_nothing():
    with Root() as r:
        before = r.tree()
        expect(not r.tools()["xl", 0]["caught"], "caught before it is enabled")
        expect("diverted" in r.hook("enable"), "nothing said")
        expect_diverted(r)
        after = r.tree()
        expect("Nothing to do" in r.hook("enable"), "not idempotent")
        expect(r.tree() == after, "the second time changed something")
        r.hook("disable")
        expect(r.tree() == before, "left: %r" % sorted(r.tree().items() ^ before.items()))
        expect(r.truename() == XL, "still diverted")
        expect("Nothing to do" in r.hook("disable"), "not idempotent")
        expect(r.tree() == before, "the second disable changed something")


def cut_off(root, stage):
    """As enable leaves things if it is killed after so many of its steps."""
    os.makedirs(root.dir + PRIVATE)
    os.symlink(DISTRIB, root.dir + PRIVATE + "/xl")
    if stage > 1:
        root.divert("--quiet", "--local", "--no-rename", "--divert", DISTRIB, "--add", XL)
    if stage > 2:
        os.link(root.dir + XL, root.dir + DISTRIB, follow_symlinks=False)
    if stage > 3:
        root.write("/usr/sbin/xl.scrubd-new", "#!/bin/sh\n")


def test_enable_goes_on_where_it_was_cut_off():
    for stage in (1, 2, 3, 4):
        with Root() as r:
            cut_off(r, stage)
            r.hook("enable")
            expect_diverted(r)
            expect(not r.has("/usr/sbin/xl.scrubd-new"), "stage %d: something is left" % stage)


def test_disable_undoes_what_was_cut_off():
    for stage in (1, 2, 3):
        with Root() as r:
            before = r.tree()
            cut_off(r, stage)
            r.hook("disable")
            expect(r.tree() == before and r.truename() == XL, "stage %d: %r" % (stage, r.tree()))
    # disable itself: xl is back already.
    with Root() as r:
        before = r.tree()
        r.hook("enable")
        os.rename(r.dir + DISTRIB, r.dir + XL)
        r.hook("disable")
        expect(r.tree() == before and r.truename() == XL, "%r" % r.tree())


def dpkg(root, *argv):
    """The real one, on this root."""
    done = subprocess.run(("dpkg", "--root", root.dir, "--force-not-root", "--log=/dev/null") + argv, text=True,
                          capture_output=True, env=dict(os.environ, LC_ALL="C", PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
    expect(done.returncode == 0, done.stdout + done.stderr)


def package(root, version):
    """A package xen-fake with an xl in it that says its version."""
    tree = "%s/deb-%s" % (root.dir, version)
    os.makedirs(tree + "/DEBIAN")
    os.makedirs(tree + "/usr/sbin")
    with open(tree + "/DEBIAN/control", "w") as f:
        f.write("Package: xen-fake\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: xl\n" % version)
    with open(tree + XL, "w") as f:
        f.write(version)
    subprocess.run(("dpkg-deb", "--root-owner-group", "--build", tree, tree + ".deb"), check=True, capture_output=True)
    shutil.rmtree(tree)
    return tree + ".deb"


def test_upgrade_and_removal_of_xen():
    with Root(xl=False) as r:
        dpkg(r, "-i", package(r, "1"))
        r.hook("enable")
        dpkg(r, "-i", package(r, "2"))
        expect(r.read(DISTRIB) == "2" and MARKER in r.read(XL), "%r" % r.tree())
        expect(r.tools()["xl", 0]["caught"], "not caught after an upgrade")
        r.hook("disable")
        expect(r.read(XL) == "2" and not r.has(DISTRIB) and not r.has(PRIVATE), "%r" % r.tree())
        dpkg(r, "-i", package(r, "3"))
        expect(r.read(XL) == "3", "an upgrade after disable: %r" % r.tree())
        r.hook("enable")
        dpkg(r, "-r", "xen-fake")
        expect(r.tools() == {}, "a tool that is not there is listed: %r" % r.tools())
        dpkg(r, "-i", package(r, "4"))
        expect(r.read(DISTRIB) == "4" and r.tools()["xl", 0]["caught"], "installed anew: %r" % r.tree())
        dpkg(r, "-r", "xen-fake")
        r.hook("disable")
        expect(not r.has(XL) and not r.has(DISTRIB) and not r.has(PRIVATE) and r.truename() == XL, "%r" % r.tree())


def test_what_others_wrote_stays():
    with Root() as r:
        r.write(DISTRIB, "mine")
        r.refused("enable", DISTRIB, "in the way")
    with Root() as r:
        r.divert("--quiet", "--local", "--no-rename", "--divert", "/usr/sbin/xl.real", "--add", XL)
        r.refused("enable", "diverted to /usr/sbin/xl.real")
        expect("Nothing to do" in r.hook("disable"), "disable did something")
        expect(r.truename() == "/usr/sbin/xl.real", "another's diversion is gone")
    with Root() as r:  # somebody installed over the wrapper
        r.hook("enable")
        r.remove(XL)
        r.write(XL, "mine")
        expect(not r.tools()["xl", 0]["caught"], "another's xl counts as caught")
        r.refused("enable", DISTRIB, "in the way")
        r.refused("disable", XL, "stays")
    with Root(dpkg=False) as r:
        r.write(IN_PATH, "#!/bin/sh\nexec /usr/sbin/xl \"$@\"\n")
        r.refused("enable", IN_PATH, "in the way")
        expect("Nothing to do" in r.hook("disable"), "disable did something")
    with Root(units=["libvirtd.service"], xl=False) as r:
        r.write(DROPIN % "libvirtd.service", "[Service]\nEnvironment=LD_PRELOAD=/mine\n")
        r.refused("enable", DROPIN % "libvirtd.service", "in the way")
        expect("Nothing to do" in r.hook("disable"), "disable did something")


    with Root(units=["xenopsd-xc.service"], xl=False) as r:
        r.write("/environment", "PATH=/bin LD_PRELOAD=/usr/lib/libjemalloc.so\n")
        r.refused("enable", "xenopsd-xc.service", "LD_PRELOAD of its own")
        r.remove("/environment")
        r.hook("enable")


def test_one_refusal_does_not_keep_the_rest():
    with Root(units=["libvirtd.service"]) as r:
        r.write(DISTRIB, "mine")
        code, out, err = r.scrubctl("hook", "enable")
        expect(code == 1 and "libvirtd.service has a drop-in" in out and DISTRIB in err, (code, out, err))
        code, out, err = r.scrubctl("hook", "enable", "--json")
        expect(code == 1 and json.loads(out)["error"] == "refused", out)


def test_without_dpkg_a_wrapper_in_path():
    with Root(dpkg=False) as r:
        before = r.tree()
        r.hook("enable")
        text = r.read(IN_PATH)
        expect(text.startswith("#!/bin/sh\n" + MARKER) and text.endswith('exec /usr/sbin/xl "$@"\n'), text)
        tool = r.tools()["xl", 0]
        expect(tool["caught"] and "PATH" in tool["why"], tool)
        expect("Nothing to do" in r.hook("enable"), "not idempotent")
        r.hook("disable")
        expect(r.tree() == before, "left: %r" % sorted(r.tree().items() ^ before.items()))


def test_nothing_without_the_library():
    with Root(library=False, units=["libvirtd.service"]) as r:
        r.refused("enable", LIBRARY, "is not there")
    with Root() as r:
        r.hook("enable")
        r.remove(LIBRARY)
        tool = r.tools()["xl", 0]
        expect(not tool["caught"] and LIBRARY in tool["why"], tool)


def test_drop_ins():
    with Root(units=["libvirtd.service", "xenopsd-xc.service", "cron.service"]) as r:
        before = r.tree()
        out = r.hook("enable")
        for unit in ("libvirtd.service", "xenopsd-xc.service"):
            expect("systemctl restart " + unit in out, out)
            expect(r.read(DROPIN % unit) == MARKER + "[Service]\nEnvironment=LD_PRELOAD=%s\n" % LIBRARY, r.read(DROPIN % unit))
        expect(not r.has(DROPIN % "virtxend.service") and not r.has(DROPIN % "cron.service"), "drop-ins of others")
        expect(r.reloads() == ["daemon-reload"], r.reloads())
        r.hook("enable")
        expect(r.reloads() == ["daemon-reload"], "reloaded for nothing: %r" % r.reloads())
        r.write(DROPIN % "libvirtd.service", MARKER + "[Service]\nEnvironment=LD_PRELOAD=/old\n")
        expect("libvirtd" in r.hook("enable"), "an old one is left")
        r.write("/etc/systemd/system/libvirtd.service.d/local.conf", "[Service]\n")
        r.hook("disable")
        expect(r.reloads() == ["daemon-reload"] * 3, r.reloads())
        r.remove("/etc/systemd/system/libvirtd.service.d/local.conf")
        os.rmdir(r.dir + "/etc/systemd/system/libvirtd.service.d")
        left = {k: v for k, v in r.tree().items() if not k.startswith("/etc")}
        expect(left == {k: v for k, v in before.items() if not k.startswith("/etc")}, "%r" % left)
        expect(not r.has(DROPIN % "xenopsd-xc.service"), "a drop-in is left")


LIGHT, CTRL = "/usr/lib/x86_64-linux-gnu/libxenlight.so.4.17.0", "/usr/lib/x86_64-linux-gnu/libxenctrl.so.4.17.0"


def test_status_of_running_programs():
    with Root(units=["libvirtd.service", "virtxend.service", "xenopsd-xc.service"]) as r:
        xl = "/usr/lib/xen-4.17/bin/xl"
        r.process(100, xl, (LIGHT, CTRL), command=(xl, "create", "old.cfg"))
        r.process(90, xl, (LIGHT, CTRL, LIBRARY), command=(xl, "create", "new.cfg"))
        r.process(200, "/usr/sbin/libvirtd", (LIGHT, CTRL), "libvirtd.service")
        r.process(300, "/usr/sbin/xenopsd-xc", (CTRL, LIBRARY + " (deleted)"), "xenopsd-xc.service")
        r.process(400, "/usr/bin/python3.11", (CTRL,))
        r.process(401, "/usr/bin/python3.11", ("/lib/libc.so.6",))
        r.process(500, "/usr/sbin/xenconsoled", (CTRL,), "xenconsoled.service")
        r.process(501, "/usr/sbin/scrubctl", (LIGHT, CTRL))
        tools = r.tools()
        expect({k: t["caught"] for k, t in tools.items()} ==
               {("xl", 0): False, ("libvirtd.service", 200): False, ("virtxend.service", 0): False,
                ("xenopsd-xc.service", 300): True, ("xl", 90): True, ("xl", 100): False, ("python3.11", 400): False}, tools)
        expect("old.cfg" in tools["xl", 100]["why"], tools)
        expect(tools["libvirtd.service", 200]["mend"] == "scrubctl hook enable; systemctl restart libvirtd.service", tools)
        r.hook("enable")
        tools = r.tools()
        expect(tools["xl", 0]["caught"] and tools["virtxend.service", 0]["caught"], tools)
        expect(tools["libvirtd.service", 200]["mend"] == "systemctl restart libvirtd.service", tools)
        text = r.hook("status")
        lines = text.splitlines()
        expect(max(map(len, lines)) <= 80, max(lines, key=len))
        expect("libvirtd.service (200): systemctl restart libvirtd.service" in lines, text)


def test_wrong_use():
    with Root() as r:
        for argv in (("hook",), ("hook", "frobnicate"), ("hook", "enable", "now")):
            code, out, err = r.scrubctl(*argv)
            expect(code == 2 and err.count("\n") == 1, (argv, code, out, err))


sys.exit(tap.run(globals()))
