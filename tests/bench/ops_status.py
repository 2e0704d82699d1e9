# SPDX-License-Identifier: GPL-2.0-or-later
"""Group status: how fast scrubctl answers while a big guest is torn down and many watch."""

import statistics

import lab

MEM_MIB, WATCHERS = 4096, 50
COUNT, PAUSE_S = 25, 0.15
DESTROYS = 3

# "US US JOBS" a line: how long scrubctl took, from before it was started until it had ended; how long scrubd takes to
# answer a program that runs already; and how many teardowns were under way by scrubctl's answer.
ANSWERS = r"""
import json, os, socket, sys, time
argv = sys.argv[3:]
for _ in range(int(sys.argv[1])):
    a = time.monotonic()
    out, into = os.pipe()
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, into, 1)])
    os.close(into)
    with open(out) as f:
        answer = f.read()
    if os.waitpid(pid, 0)[1]:
        sys.exit(1)
    b = time.monotonic()
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.environ.get("SCRUBD_SOCKET", "/run/scrubd/scrubd.sock"))
        s.sendall(b'{"method":"org.scrubd.GetStatus"}\0')
        data = b""
        while not data.endswith(b"\0"):
            data += s.recv(65536)
    c = time.monotonic()
    jobs = json.loads(answer)["jobs"] if answer.startswith("{") else 0
    print(round((b - a) * 1e6), round((c - b) * 1e6), jobs, flush=True)
    time.sleep(float(sys.argv[2]))
"""
# Connections with Watch at its default interval, whose replies are read. Says READY when each has had one; ends with
# status 1 if one is closed.
WATCH = r"""
import selectors, socket, sys
poll = selectors.DefaultSelector()
waiting = set()
for _ in range(int(sys.argv[1])):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/scrubd/scrubd.sock")
    s.sendall(b'{"method":"org.scrubd.Watch","more":true}\0')
    poll.register(s, selectors.EVENT_READ)
    waiting.add(s)
while True:
    for key, _ in poll.select():
        data = key.fileobj.recv(1 << 20)
        if not data:
            sys.exit("a watcher was thrown out")
        if b"\0" in data and key.fileobj in waiting:
            waiting.discard(key.fileobj)
            if not waiting:
                print("READY", flush=True)
"""


def parse(text):
    """[(ms of scrubctl, ms of scrubd, jobs), ..]"""
    return [(int(us) / 1000, int(own_us) / 1000, int(jobs)) for us, own_us, jobs in map(str.split, text.splitlines())]


def answers(host, command="scrubctl status --json"):
    return parse(host.sh(f"python3 /usr/lib/lab/answers.py {COUNT} {PAUSE_S} {command}"))


def add(host, name, ms, *bar):
    host.add(name, round(statistics.median(ms), 1) if ms else None, "ms", *(bar or ("",)), ms)


def status(host):
    for name, script in (("answers", ANSWERS), ("watch", WATCH)):
        host.boot.put(f"/usr/lib/lab/{name}.py", script)
    host.sh("scrubctl status >/dev/null")  # its pages are in memory then
    add(host, "starts-idle", [a[0] for a in answers(host, "scrubctl --version")])
    add(host, "answers-idle", [a[0] for a in answers(host)])
    busy = []
    for n in range(host.repeats(DESTROYS)):
        host.note(f"destroy {n + 1}")
        domid = host.victim("pv", mem=MEM_MIB)
        watch = host.boot.start_command(f"echo $$ > /run/lab/watch.pid; exec python3 /usr/lib/lab/watch.py {WATCHERS} "
                                        "> /run/lab/watch.out")
        host.sh("poll 60 grep -q READY /run/lab/watch.out")
        xl = host.boot.start_command(f"hooked xl destroy {domid}")
        host.poll("a teardown under way", 20, host.jobs)
        during = [a for a in answers(host) if a[2]]
        rc, _, err = xl.wait(240)
        if rc != 0:
            raise lab.LabError(f"xl destroy failed: {err.decode(errors='replace')}")
        host.sh("kill $(cat /run/lab/watch.pid); rm /run/lab/watch.out")  # fails if one was thrown out
        watch.wait(30)
        lab.PROGRESS.say(f"      {len(during)} answers during the teardown: {host.end_of_job(domid)}")
        busy += during
        host.poll("all clean", 60, lambda: host.status()["backlog_pages"] == 0)
    add(host, "scrubd", [a[1] for a in busy])
    add(host, "median", [a[0] for a in busy], "<=50")
    host.add("worst", max((a[0] for a in busy), default=None), "ms", "<=50", [len(busy)])
