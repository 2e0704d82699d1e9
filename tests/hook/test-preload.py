#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The preloaded library in real processes: every way to reach xc_domain_destroy() and xc_domain_create()
crosses it, every way in which scrubd can fail ends in the real function, children do not inherit it. TAP on standard output.

usage: test-preload.py HOOK CALLER LOADER MODULE OTHER-LIBRARY [sanitized]
"""
import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.dont_write_bytecode = True
from scripted import Scrubd

HOOK, CALLER, LOADER, MODULE, OTHER = (os.path.abspath(p) for p in sys.argv[1:6])
SANITIZED = len(sys.argv) > 6

HELLO = {"parameters": {"event": "hello"}, "continues": True}
BEAT = {"parameters": {"event": "heartbeat"}, "continues": True}
DEAD = {"parameters": {"event": "dead"}}
GO = {"parameters": {"event": "go"}}
DECLINE = {"parameters": {"event": "decline", "reason": "degraded"}}


class Case:
    """One test's directory, with a scrubd in it if there is a script."""

    def __init__(self, script=None, hang=False):
        self.dir = tempfile.mkdtemp(prefix="scrubhook-")
        self.path = self.dir + "/sock"
        self.log = self.dir + "/real"
        self.scrubd = None
        if script is not None:
            script = script + ["hang"] if hang else script
            self.scrubd = Scrubd(self.path, {"Destroy": script, "AwaitMemory": script})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.scrubd:
            self.scrubd.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def env(self, preload=HOOK, **more):
        env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "SCRUBHOOK_DEBUG")}
        env.update(LD_PRELOAD=preload, SCRUBD_SOCKET=self.path, FAKE_XC_LOG=self.log)
        if SANITIZED:
            env["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
        env.update(more)
        return env

    def run(self, *argv, preload=HOOK, **more):
        self.start = time.monotonic()
        done = subprocess.run(argv, env=self.env(preload, **more), stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=60)
        self.took = time.monotonic() - self.start
        return done.returncode, done.stdout, done.stderr

    def real(self):
        """The domains for which the real function was called, and "create" for that one."""
        try:
            with open(self.log) as f:
                return [int(line.split()[1]) if line.startswith("real") else line.strip() for line in f]
        except FileNotFoundError:
            return []

    def asked(self):
        """Domids of destroys and uuids of creates that it was called for."""
        asked = []
        for call in self.scrubd.calls:
            assert call["method"] in ("org.scrubd.Destroy", "org.scrubd.AwaitMemory") and call["more"] is True, call
            params = call["parameters"]
            asked.append(params["domid"] if "domid" in params else params["uuid"])
        return asked


def equal(got, want):
    if got != want:
        raise AssertionError("got %r, want %r" % (got, want))


OK = (0, "rc=0 errno=0\n", "")
NOT_FOUND = (1, "rc=-1 errno=%d\n" % errno.ESRCH, "")


def through_scrubd(*argv, domid=7):
    """scrubd says dead: the real function is not called."""
    with Case([HELLO, BEAT, DEAD]) as c:
        equal(c.run(*argv), OK)
        equal(c.asked(), [domid])
        equal(c.real(), [])


def without_scrubd(*argv):
    """No socket: the real function is called, and its result and errno come back."""
    with Case() as c:
        equal(c.run(*argv), OK)
        equal(c.real(), [7])
        equal(c.run(*argv, FAKE_XC_FAIL="1"), NOT_FOUND)
        equal(c.real(), [7, 7])


def test_exports_two_symbols_and_needs_libc_only():
    if SANITIZED:
        return
    symbols = subprocess.run(["nm", "-D", "--defined-only", HOOK], text=True, capture_output=True, check=True).stdout
    equal([line.split()[-1] for line in symbols.splitlines()], ["xc_domain_create", "xc_domain_destroy"])
    dynamic = subprocess.run(["readelf", "-d", HOOK], text=True, capture_output=True, check=True).stdout
    equal(re.findall(r"NEEDED.*\[(.*)\]", dynamic), ["libc.so.6"])


def test_linked_program():
    through_scrubd(CALLER, "direct", "7")
    without_scrubd(CALLER, "direct", "7")


def test_forked_child():
    through_scrubd(CALLER, "fork", "7")
    without_scrubd(CALLER, "fork", "7")


def in_background(script, asked, real):
    with Case(script) as c:
        out = c.dir + "/out"
        equal(c.run(CALLER, "daemon", "7", out), (0, "", ""))
        deadline = time.monotonic() + 20
        while not (os.path.exists(out) and os.path.getsize(out)):
            if time.monotonic() > deadline:
                raise AssertionError("the process in the background said nothing")
            time.sleep(0.01)
        with open(out) as f:
            equal(f.read(), OK[1])
        if script:
            equal(c.asked(), asked)
        equal(c.real(), real)


def test_background_process():
    in_background([HELLO, DEAD], [7], [])
    in_background(None, None, [7])


def test_locally_loaded_module():
    through_scrubd(LOADER, MODULE, "7")
    without_scrubd(LOADER, MODULE, "7")


def creates(*argv, out="rc=6 errno=0\n"):
    """A create waits for scrubd's word, then calls the real function, and what that says comes back."""
    with Case([HELLO, 1.0, BEAT, GO]) as c:
        equal(c.run(*argv), (0, out, ""))
        equal(c.asked(), ["07000000-0000-0000-0000-000000000000"])
        equal(c.real(), ["create"])
        if c.took < 1.0:
            raise AssertionError("it did not wait")
    for script, hang in ((None, False), ([], False), ([HELLO], False), ([b"garbage\0"], True),
                         ([{"error": "org.varlink.service.MethodNotFound", "parameters": {}}], True)):
        with Case(script, hang) as c:
            equal(c.run(*argv), (0, out, ""))
            equal(c.real(), ["create"])
            equal(c.run(*argv, FAKE_XC_FAIL="1"), NOT_FOUND)


def test_create():
    creates(CALLER, "create", "7")


def test_create_in_locally_loaded_module():
    creates(LOADER, MODULE, "7", "create")


def test_create_without_real_function():
    with Case([HELLO, GO]) as c:
        equal(c.run(LOADER, "none", "7", "create"), (1, "rc=-1 errno=%d\n" % errno.ENOSYS, ""))
        equal(c.asked(), [])


def test_create_with_silent_scrubd():
    """It never waits for longer than for a hello, and later a sign of life."""
    for script, after in (([], 2.0), ([HELLO], 5.0), ([{"parameters": {"event": "hello", "wait_ms": 500},
                                                       "continues": True}], 1.5)):
        with Case(script, hang=True) as c:
            equal(c.run(CALLER, "create", "7"), (0, "rc=6 errno=0\n", ""))
            equal(c.real(), ["create"])
            if not after <= c.took < after + 1.5:
                raise AssertionError("took %.2f s, want about %.1f s" % (c.took, after))


def test_missing_real_function():
    with Case() as c:
        equal(c.run(LOADER, "none", "7"), (1, "rc=-1 errno=%d\n" % errno.ENOSYS, ""))
        rc, out, err = c.run(LOADER, "none", "7", SCRUBHOOK_DEBUG="1")
        equal((rc, out), (1, "rc=-1 errno=%d\n" % errno.ENOSYS))
        assert "no xc_domain_destroy() of libxenctrl in this program" in err, err
    through_scrubd(LOADER, "none", "7")


def falls_back(script, hang=False, after=0.0, within=1.5, times=1):
    with Case(script, hang) as c:
        equal(c.run(CALLER, "direct", "7", FAKE_XC_FAIL="1"), NOT_FOUND)
        equal(c.asked(), [7] * times)
        equal(c.real(), [7])
        if not after <= c.took < after + within:
            raise AssertionError("took %.2f s, want about %.1f s" % (c.took, after))


def test_refusals_and_ends():
    falls_back([{"error": "org.scrubd.NoSuchDomain", "parameters": {"domid": 7}}], hang=True)
    falls_back([HELLO, DECLINE], hang=True)
    falls_back([HELLO], times=2)
    falls_back([])
    falls_back([b"\0"], hang=True)
    falls_back([b"garbage\0"], hang=True)
    falls_back([HELLO, b"\xff\xfe{{{{" + b"[" * 65536], hang=True)
    falls_back([HELLO, b'{"parameters":{"event":"dead"}}'], times=2)


def test_default_hello_timeout():
    falls_back([], hang=True, after=2.0)


def test_default_silence_timeout():
    falls_back([HELLO, BEAT], hang=True, after=5.0)


def test_heartbeats_keep_it_waiting():
    with Case([HELLO] + [1.0, BEAT] * 7 + [DEAD]) as c:
        equal(c.run(CALLER, "direct", "7"), OK)
        equal(c.real(), [])


def test_refused_connection():
    with Case() as c:
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(c.path)
        dead.listen(1)
        dead.close()
        equal(c.run(CALLER, "direct", "7"), OK)
        equal(c.real(), [7])


def test_domain_0_is_not_for_scrubd():
    with Case([HELLO, DEAD]) as c:
        equal(c.run(CALLER, "direct", "0", FAKE_XC_FAIL="1"), NOT_FOUND)
        equal(c.asked(), [])
        equal(c.real(), [0])


def test_threads():
    with Case([HELLO, 0.2, BEAT, DEAD]) as c:
        equal(c.run(CALLER, "threads", "40"), (0, OK[1] * 40, ""))
        equal(sorted(c.asked()), list(range(1, 41)))
        equal(c.real(), [])


def test_signals():
    with Case([HELLO, 0.3, BEAT, 0.3, DEAD]) as c:
        equal(c.run(CALLER, "signals", "7"), OK)
        equal(c.real(), [])


def test_debug_output():
    with Case() as c:
        rc, out, err = c.run(CALLER, "direct", "7", SCRUBHOOK_DEBUG="1")
        equal((rc, out), OK[:2])
        assert re.fullmatch(r"libscrubhook\[\d+\]: dom=7: scrubd cannot be reached \(%s\): "
                            r"No such file or directory\n" % re.escape(c.path), err), err
        equal(c.run(CALLER, "direct", "7", SCRUBHOOK_DEBUG="0"), OK)


def test_leaves_ld_preload():
    third = OTHER.replace("libother", "libother2")
    with Case() as c:
        for before, after in (
                (HOOK, "(unset)"),
                (HOOK + ":" + OTHER, OTHER),
                (OTHER + ":" + HOOK, OTHER),
                (OTHER + " " + HOOK, OTHER),
                (OTHER + " " + HOOK + ":" + third, OTHER + " " + third),
                (OTHER + ":" + HOOK + " " + third, OTHER + ":" + third),
                (HOOK + "::" + HOOK + " ", "(unset)")):
            shutil.copy(OTHER, third)
            equal(c.run(CALLER, "env", preload=before), (0, "here=%s\nchild=%s\n" % (after, after), ""))
        os.unlink(third)
        # Somebody else's, whose name merely ends like ours.
        alike = c.dir + "/my-libscrubhook.so"
        shutil.copy(OTHER, alike)
        equal(c.run(CALLER, "env", preload=alike + ":" + HOOK), (0, "here=%s\nchild=%s\n" % (alike, alike), ""))
        # By another name: a copy, and a link.
        for name in ("/copy.so", "/link.so"):
            (shutil.copy if name == "/copy.so" else os.symlink)(HOOK, c.dir + name)
            equal(c.run(CALLER, "env", preload=c.dir + name), (0, "here=(unset)\nchild=(unset)\n", ""))


def test_preloaded_twice():
    """Two hooks in a row ask scrubd once, and the real function comes after both."""
    with Case([HELLO, DECLINE], hang=True) as c:
        os.mkdir(c.dir + "/other")
        second = shutil.copy(HOOK, c.dir + "/other")
        equal(c.run(CALLER, "direct", "7", preload=HOOK + ":" + second), OK)
        equal(c.asked(), [7])
        equal(c.real(), [7])


def test_stays_for_a_script_that_execs_the_program():
    through_scrubd("/bin/sh", "-c", 'exec "%s" direct 7' % CALLER)
    through_scrubd("/bin/sh", "-c", '"%s" fork 7; exit $?' % CALLER)


def main():
    tests = [(name[5:], f) for name, f in sorted(globals().items()) if name.startswith("test_")]
    results = {}

    def run(name, test):
        try:
            test()
            results[name] = None
        except Exception as e:  # a failed test is a result
            results[name] = "%s: %s" % (type(e).__name__, e)

    # Side by side, since some wait for seconds; each has its own directory.
    threads = [threading.Thread(target=run, args=t) for t in tests]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("1..%d" % len(tests))
    for n, (name, _) in enumerate(tests, 1):
        print("%s %d %s" % ("not ok" if results[name] else "ok", n, name.replace("_", " ")))
        if results[name]:
            print("# " + results[name].replace("\n", "\n# "))
    return any(results.values())


sys.exit(main())
