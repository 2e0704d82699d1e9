# SPDX-License-Identifier: GPL-2.0-or-later
"""The host of `dev bench ops`: what a scenario of the lab sees, and where figures go."""

import random

import lab
import suite


class OpsHost(suite.Host):
    """results: a Results. options: .repeats, .seed, .noisy. step: of PROGRESS."""

    def __init__(self, boot, results, options, step):
        super().__init__(boot)
        self.results, self.options, self.step = results, options, step
        self.group = None
        self.prepare(needs_scrubd=boot.scrubd)

    def begin(self, group):
        self.group = group
        self.note("")

    def note(self, text):
        self.step.note(f"{self.group}: {text}")

    def add(self, name, *args):
        """As Results.add(), the name after that of the group."""
        self.results.add(f"{self.group}-{name}", *args)

    def repeats(self, usual):
        return self.options.repeats or usual

    def random(self):
        """A source of random numbers whose seed is told."""
        seed = self.options.seed or random.randrange(1, 1 << 30)
        lab.PROGRESS.say(f"      {self.group}: seed {seed}")
        return random.Random(seed)
