# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of the demo: from windows of samples to results.json, the table and the verdict.

Pure: no clock, no file, no host. A sample is a round trip in microseconds, or None if no reply
came within the grace time.

Rules
- Percentiles are by nearest rank. A lost sample ranks above every answered one: a percentile
  that falls on it has no figure (None, "lost" in the table) and passes no bar.
- max is that of the answered samples; a bar on it also wants nothing lost.
- ratio_p99 is pooled during over pooled quiet. ratio_p99_quiet_quiet is what two sets of quiet
  windows differ by (odd against even repeats, the larger over the smaller): no ratio closer to 1
  than that means anything.
"""

# A quiet window worse than this shows a disturbed machine, not a property of the host in it.
DISTURBED_US = 30000
# Of readings that a real-time thread of this machine takes every 10 ms, beside the emulator: a
# longer gap is a stall of this machine, whatever happened inside the emulated one.
HOST_GAP_MS = 20

STOCK_MAX_US = 300000
SCRUBD_RATIO = 2.0
SCRUBD_MAX_US = 20000
TEARDOWN_S = 3.0
IDLE_RSS_KIB = 10 * 1024

NAMES = {"stock": "stock Xen", "patched": "scrubd", "livepatched": "live-patched", "unloaded": "patch removed"}
WITH_SCRUBD = ("patched", "livepatched")


def percentile(samples, percent):
    """Nearest rank; None where that is a lost sample. samples must not be empty."""
    ordered = sorted(s for s in samples if s is not None)
    rank = max(-(-len(samples) * percent // 100), 1)
    return ordered[int(rank) - 1] if rank <= len(ordered) else None


def summary(samples):
    answered = [s for s in samples if s is not None]
    return {
        "n": len(samples),
        "lost": len(samples) - len(answered),
        "p50_us": percentile(samples, 50),
        "p99_us": percentile(samples, 99),
        "max_us": max(answered, default=None),
    }


def disturbed(name, figures, host_gap_ms):
    """Why a window ("quiet" or "during") does not count, or None. What the pings of a destroy's
    window look like is no reason."""
    if host_gap_ms > HOST_GAP_MS:
        return f"a stall of this machine of {host_gap_ms:.0f} ms"
    if name == "quiet" and figures["lost"] > 0:
        return "a lost ping in a quiet window"
    if name == "quiet" and figures["max_us"] > DISTURBED_US:
        return f"a ping of {figures['max_us'] / 1000:.0f} ms in a quiet window"
    return None


def ratio(over, under):
    if over is None or not under:
        return None
    return round(over / under, 2)


def quiet_quiet(windows):
    """Ratio of the p99 of two halves of the quiet windows, at least 1; of a single window, of its
    odd and even samples."""
    if len(windows) > 1:
        halves = [[s for w in windows[k::2] for s in w] for k in (0, 1)]
    else:
        halves = [windows[0][k::2] for k in (0, 1)]
    p99 = [percentile(h, 99) for h in halves]
    if None in p99:
        return None
    return ratio(max(p99), min(p99))


def pool(runs):
    """One entry for each (hypervisor, guest) of runs, in order of appearance.

    A run is {"hypervisor", "guest", "quiet_samples": [..], "during_samples": [..], ..}."""
    groups = {}
    for run in runs:
        groups.setdefault((run["hypervisor"], run["guest"]), []).append(run)
    pooled = []
    for (hypervisor, guest), group in groups.items():
        quiet = [r["quiet_samples"] for r in group]
        entry = {
            "hypervisor": hypervisor,
            "guest": guest,
            "quiet": summary([s for w in quiet for s in w]),
            "during": summary([s for r in group for s in r["during_samples"]]),
        }
        entry["ratio_p99"] = ratio(entry["during"]["p99_us"], entry["quiet"]["p99_us"])
        entry["ratio_p99_quiet_quiet"] = quiet_quiet(quiet)
        pooled.append(entry)
    return pooled


def results(runs, voided, **about):
    """What results.json holds. Samples stay out of it: they are in samples.csv."""
    keep = [{k: v for k, v in r.items() if not k.endswith("_samples")} for r in runs]
    return {"runs": keep, "pooled": pool(runs), "voided": voided, **about}


def clean_time(series, begin, ended):
    """Seconds from `begin` until the dirty memory is back at what it was at `begin`, for good.

    series: (time, dirty pages), ascending, reaching past `ended` (when the destroy returned).
    None if it is not back by the end of the series."""
    before = [d for t, d in series if t <= begin]
    if not before:
        raise ValueError("no reading before the destroy")
    baseline = before[-1]
    last_dirty = max([ended] + [t for t, d in series if t > begin and d > baseline])
    back = [t for t, d in series if t >= last_dirty and d <= baseline]
    return round(back[0] - begin, 3) if back else None


def parse_window(text):
    """What dom0's `window` printed: (head, [(seq, late_us, rtt_us or None)]).

    head: begin_us, end_us, status of the command; t0_ns and error_us of the epoch; clock_ns."""
    head, samples, ended = {}, [], False
    for line in text.splitlines():
        f = line.split()
        if f[0] == "clock":
            head["clock_ns"] = int(f[1])
        elif f[0] == "command":
            head["begin_us"], head["end_us"], head["status"] = int(f[1]), int(f[2]), int(f[3])
        elif f[0] == "epoch":
            head["t0_ns"], head["error_us"] = int(f[1]), int(f[2])
        elif f[0] == "end":
            ended = True
        else:
            samples.append((int(f[0]), int(f[1]), None if f[2] == "-" else int(f[2])))
    if not ended or "begin_us" not in head or "t0_ns" not in head:
        raise ValueError("incomplete window")
    if [s[0] for s in samples] != list(range(len(samples))) or not samples:
        raise ValueError("samples are missing")
    return head, samples


def _ms(us):
    return "lost" if us is None else f"{us / 1000:.2f}"


def _mean(values):
    values = list(values)
    return "-" if not values or None in values else f"{sum(values) / len(values):.2f}"


def table(res):
    """The pooled figures as text, times of the ping in ms."""
    head = ("hypervisor", "guest", "window", "n", "lost", "p50", "p99", "max", "during:quiet",
            "quiet:quiet", "teardown", "clean")
    rows = [head, ("", "", "", "", "", "ms", "ms", "ms", "p99", "p99", "s, mean", "s, mean")]
    for p in res["pooled"]:
        runs = [r for r in res["runs"]
                if (r["hypervisor"], r["guest"]) == (p["hypervisor"], p["guest"])]
        for window in ("quiet", "during"):
            w, last = p[window], window == "during"
            rows.append((
                NAMES[p["hypervisor"]], p["guest"].upper(), window, str(w["n"]), str(w["lost"]),
                _ms(w["p50_us"]), _ms(w["p99_us"]), _ms(w["max_us"]),
                ("-" if p["ratio_p99"] is None else f"{p['ratio_p99']:.2f}") if last else "",
                ("-" if p["ratio_p99_quiet_quiet"] is None
                 else f"{p['ratio_p99_quiet_quiet']:.2f}") if last else "",
                _mean(r["teardown_s"] for r in runs) if last else "",
                _mean(r["clean_s"] for r in runs) if last else ""))
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    lines = ["  ".join(c.ljust(w) if i < 3 else c.rjust(w)
                       for i, (c, w) in enumerate(zip(r, widths))).rstrip() for r in rows]
    lines.insert(2, "-" * max(map(len, lines)))
    return "\n".join(lines)


def verdict(res):
    """[(met, text)]: the figures to reach, for what was measured."""
    out = []
    for p in res["pooled"]:
        who = f"{NAMES[p['hypervisor']]}, {p['guest'].upper()}: "
        during, quiet = p["during"], p["quiet"]
        runs = [r for r in res["runs"]
                if (r["hypervisor"], r["guest"]) == (p["hypervisor"], p["guest"])]
        if p["hypervisor"] not in WITH_SCRUBD:
            out.append((during["lost"] > 0 or (during["max_us"] or 0) > STOCK_MAX_US,
                        f"{who}max during destroy {_ms(during['max_us'])} ms, shows the problem "
                        f"above {STOCK_MAX_US // 1000} ms"))
        else:
            out.append((p["ratio_p99"] is not None and p["ratio_p99"] <= SCRUBD_RATIO,
                        f"{who}p99 during destroy {_ms(during['p99_us'])} ms, at most "
                        f"{SCRUBD_RATIO:g} x quiet p99 ({_ms(quiet['p99_us'])} ms)"))
            out.append((during["lost"] == 0 and during["max_us"] <= SCRUBD_MAX_US,
                        f"{who}max during destroy {_ms(during['max_us'])} ms, "
                        f"{during['lost']} lost, at most {SCRUBD_MAX_US // 1000} ms and none"))
            worst = max(r["teardown_s"] for r in runs)
            out.append((worst <= TEARDOWN_S,
                        f"{who}longest teardown {worst:.2f} s, at most {TEARDOWN_S:g} s"))
            outside = sum(r.get("pages_outside_mask", 0) for r in runs)
            masks = sorted({str(r.get("mask")) for r in runs})
            out.append((outside == 0 and masks != ["None"],
                        f"{who}{outside} pages scrubbed outside the mask "
                        f"(CPUs {', '.join(masks)})"))
        off = [r for r in runs if r["free_mib_after"] != r["free_mib_before"]]
        out.append((not off, f"{who}free memory after equals before in "
                             f"{len(runs) - len(off)} of {len(runs)} destroys"))
        dirty = [r for r in runs if r["clean_s"] is None]
        out.append((not dirty, f"{who}dirty memory back at its baseline in "
                               f"{len(runs) - len(dirty)} of {len(runs)} destroys"))
    idle = [r["idle"] for r in res["runs"] if r.get("idle")]
    if idle:
        wakes, seconds = sum(i["wakeups"] for i in idle), sum(i["seconds"] for i in idle)
        rss = max(i["rss_kib"] for i in idle)
        out.append((wakes <= seconds, f"scrubd idle: {wakes} wake-ups in {seconds:.0f} s, "
                                      "at most one a second"))
        out.append((rss < IDLE_RSS_KIB, f"scrubd idle: {rss / 1024:.1f} MiB resident, under "
                                        f"{IDLE_RSS_KIB // 1024} MiB"))
    return out


def compare(quiet, during):
    """quiet, during: lists of windows, each a list of samples in us."""
    q, d = ([s for w in windows for s in w] for windows in (quiet, during))
    q_p99, d_p99 = percentile(q, 99), percentile(d, 99)
    return {"quiet_p99": q_p99, "during_p99": d_p99, "ratio": ratio(d_p99, q_p99),
            "quiet_quiet": quiet_quiet(quiet), "quiet_max": summary(q)["max_us"],
            "during_max": summary(d)["max_us"], "lost": summary(d)["lost"]}


def worst_between(samples, sends, begin, end):
    """The longest of the samples that were under way between begin and end (seconds, as sends); None
    if one that was sent then is lost."""
    inside = [sample for sample, sent in zip(samples, sends)
              if sent <= end and (sent >= begin or (sample or 0) / 1e6 > begin - sent)]
    return None if None in inside else max(inside, default=None)
