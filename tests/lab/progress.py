# SPDX-License-Identifier: GPL-2.0-or-later
"""Progress of long steps on standard error: a bar on a terminal, plain lines elsewhere.

How long a step took is remembered, so that from the second time on the time left is known.
"""

import json
import os
import sys
import threading
import time


class Progress:
    def __init__(self, times_path=None, stream=sys.stderr):
        self.stream = stream
        self.times_path = times_path
        self.tty = stream.isatty()
        self.lock = threading.Lock()

    def _times(self):
        try:
            with open(self.times_path) as f:
                return json.load(f)
        except (OSError, TypeError, ValueError):
            return {}

    def say(self, text):
        with self.lock:
            if self.tty:
                self.stream.write("\r\033[K")
            self.stream.write(text + "\n")
            self.stream.flush()

    def step(self, name, estimate_s=None, key=None):
        key = key or name
        return Step(self, name, key, self._times().get(key, estimate_s))

    def remember(self, key, seconds):
        if not self.times_path:
            return
        with self.lock:
            times = self._times()
            times[key] = round(seconds, 1)
            os.makedirs(os.path.dirname(self.times_path), exist_ok=True)
            with open(self.times_path + ".new", "w") as f:
                json.dump(times, f)
            os.rename(self.times_path + ".new", self.times_path)


class Step:
    """`with progress.step("dom0 image", 35) as s: ... s.note("unpacking")`"""

    WIDTH = 24

    def __init__(self, progress, name, key, estimate_s):
        self.p = progress
        self.name = name
        self.key = key
        self.estimate_s = estimate_s
        self.detail = ""
        self.stop = threading.Event()
        self.began = None

    def note(self, text):
        self.detail = text

    def _line(self):
        elapsed = time.monotonic() - self.began
        text = f"{self.name:<26}"
        if self.estimate_s:
            done = min(elapsed / self.estimate_s, 0.99)
            fill = int(done * self.WIDTH)
            left = max(self.estimate_s - elapsed, 0)
            text += f" [{'#' * fill}{'.' * (self.WIDTH - fill)}] {elapsed:4.0f} s, about {left:.0f} s left"
        else:
            text += f" {elapsed:4.0f} s"
        return text + (f"  {self.detail}" if self.detail else "")

    def _show(self):
        every = 0.5 if self.p.tty else 15
        while not self.stop.wait(every):
            with self.p.lock:
                if self.p.tty:
                    self.p.stream.write("\r\033[K" + self._line()[:118])
                else:
                    self.p.stream.write(self._line() + "\n")
                self.p.stream.flush()

    def __enter__(self):
        self.began = time.monotonic()
        if not self.p.tty:
            left = f" (about {self.estimate_s:.0f} s)" if self.estimate_s else ""
            self.p.say(f"{self.name} ...{left}")
        self.thread = threading.Thread(target=self._show, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stop.set()
        self.thread.join()
        seconds = time.monotonic() - self.began
        if kind is None:
            self.p.remember(self.key, seconds)
        self.p.say(f"{self.name:<26} {'done' if kind is None else 'FAILED'} in {seconds:.1f} s")
