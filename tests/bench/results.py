# SPDX-License-Identifier: GPL-2.0-or-later
"""The list of figures that a bench writes: [{"name", "value", "unit", "bar", "met", "samples"}, ..]."""

import json
import os

import lab

OUT = os.path.join(lab.ROOT, "build", "bench")


def met(value, bar):
    """bar: "<=5", ">=90"; None for "", the figure is only told then. No value meets no bar."""
    if not bar:
        return None
    limit = float(bar[2:])
    return value is not None and (value <= limit if bar.startswith("<=") else value >= limit)


class Results:
    def __init__(self, file_name):
        self.path = os.path.join(OUT, file_name)
        self.entries = []

    def add(self, name, value, unit, bar="", samples=()):
        entry = {"name": name, "value": value, "unit": unit, "bar": bar, "met": met(value, bar),
                 "samples": list(samples)}
        self.entries.append(entry)
        mark = {None: "    ", True: "PASS", False: "MISS"}[entry["met"]]
        lab.PROGRESS.say(f"{mark}  {name:<34} {value if value is not None else '-':>10} {unit:<10} {bar}")

    def write(self):
        os.makedirs(OUT, exist_ok=True)
        with open(self.path + ".new", "w") as f:
            json.dump(self.entries, f, indent=1)
            f.write("\n")
        os.rename(self.path + ".new", self.path)

    def count(self, value):
        """How many figures have met (True) or missed (False) their bar."""
        return sum(e["met"] is value for e in self.entries)
