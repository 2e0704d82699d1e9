# SPDX-License-Identifier: GPL-2.0-or-later
"""What scrubd's journal says about the end of a job. Pure."""

import re

END = re.compile(r"^.*\bdom=(?P<domid>\d+) .*: (?P<how>.*) after (?P<ms>\d+) ms: (?P<figures>.*)$", re.MULTILINE)
FIGURES = {"steps": r"\b(\d+) steps", "hypervisor_ms": r"\b(\d+) ms in the hypervisor",
           "left": r"\b(\d+) of \d+ pages left", "total": r"\bof (\d+) pages left",
           "waiting_ms": r"\bwaiting (\d+) ms", "freeing_ms": r"\bfreeing (\d+) ms"}


def end_of_job(journal, domid):
    """{how, ms, and FIGURES} of the last job of that domain that has ended, or None."""
    found = None
    for m in END.finditer(journal):
        figures = {name: re.search(form, m["figures"]) for name, form in FIGURES.items()}
        if int(m["domid"]) == domid and all(figures.values()):
            found = {"how": m["how"], "ms": int(m["ms"]), **{name: int(f[1]) for name, f in figures.items()}}
    return found
