# SPDX-License-Identifier: GPL-2.0-or-later
"""Group status: how fast scrubctl answers while a big guest is torn down and many watch."""

import statistics

import lab

MEM_MIB, WATCHERS = 4096, 50
COUNT = 40
DESTROYS = 3

# "US JOBS" a line: how long scrubctl took from start to end, and how many teardowns were under way by its answer.
ANSWERS = r"""#!/bin/bash
for ((n = 0; n < $1; n++)); do
    a=${EPOCHREALTIME/./}; answer=$(scrubctl status --json) || exit 1; b=${EPOCHREALTIME/./}
    [[ $answer =~ \"jobs\":\ ?([0-9]+) ]] || exit 1
    echo "$((b - a)) ${BASH_REMATCH[1]}"
done
"""
# The same of a program that is only started and ended.
STARTS = r"""for ((n = 0; n < $1; n++)); do
    a=${EPOCHREALTIME/./}; answer=$(scrubctl --version) || exit 1; b=${EPOCHREALTIME/./}
    echo "$((b - a)) 0"
done
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
    """[(ms, jobs), ..]"""
    return [(int(us) / 1000, int(jobs)) for us, jobs in map(str.split, text.splitlines())]


def status(host):
    for name, script, mode in (("answers", ANSWERS, 0o755), ("starts", STARTS, 0o644), ("watch.py", WATCH, 0o644)):
        host.boot.put(f"/usr/lib/lab/{name}", script, mode)
    host.sh("scrubctl status >/dev/null")  # its pages are in memory then
    for name in ("starts", "answers"):
        ms = [ms for ms, _ in parse(host.sh(f"bash /usr/lib/lab/{name} {COUNT}"))]
        host.add(name + "-idle", round(statistics.median(ms), 1), "ms", "", ms)
    busy = []
    for n in range(host.repeats(DESTROYS)):
        host.note(f"destroy {n + 1}")
        domid = host.victim("pv", mem=MEM_MIB)
        watch = host.boot.start_command(f"echo $$ > /run/lab/watch.pid; exec python3 /usr/lib/lab/watch.py {WATCHERS} "
                                        "> /run/lab/watch.out")
        host.sh("poll 60 grep -q READY /run/lab/watch.out")
        xl = host.boot.start_command(f"hooked xl destroy {domid}")
        host.poll("a teardown under way", 20, host.jobs)
        during = [ms for ms, jobs in parse(host.sh(f"/usr/lib/lab/answers {COUNT}")) if jobs]
        rc, _, err = xl.wait(240)
        if rc != 0:
            raise lab.LabError(f"xl destroy failed: {err.decode(errors='replace')}")
        host.sh("kill $(cat /run/lab/watch.pid); rm /run/lab/watch.out")  # fails if one was thrown out
        watch.wait(30)
        job = host.end_of_job(domid)
        lab.PROGRESS.say(f"      {len(during)} answers during the teardown: {job}")
        busy += during
        host.poll("all clean", 60, lambda: host.status()["backlog_pages"] == 0)
    host.add("median", round(statistics.median(busy), 1) if busy else None, "ms", "<=50", busy)
    host.add("worst", max(busy, default=None), "ms", "<=50", [len(busy)])
