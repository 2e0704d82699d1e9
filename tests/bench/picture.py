# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws latency.png with gnuplot: every ping of all destroys, stock and scrubd on one time axis, or one
panel beside the other for each phase of a host that was patched while it ran."""

import os
import subprocess

GUESTS = {"pv": "a PV guest of 4 GiB", "pvh": "a PVH guest of 4 GiB"}
# In drawing order: what stalls lies behind what does not.
SERIES = (("stock", "stock Xen", "#d1495b"), ("patched", "scrubd", "#00798c"))
PHASES = (("stock", "before: stock Xen", "#d1495b"), ("livepatched", "live-patched, with scrubd", "#00798c"),
          ("unloaded", "the patch taken out again", "#d1495b"))
FROM_S, TO_S = -1.0, 3.0
LOST_MS = 2800  # where a lost ping is drawn: at the upper edge

SCRIPT = """\
set terminal pngcairo size {width},{height} enhanced font 'DejaVu Sans,{font}' background '#ffffff'
set output '{out}'
set encoding utf8
set multiplot
set logscale y
set xrange [{from_s}:{to_s}]
set yrange [0.2:3000]
set ytics ('0.2' 0.2, '0.5' 0.5, '1' 1, '2' 2, '5' 5, '10' 10, '20' 20, '50' 50, '100' 100, \\
           '200' 200, '500' 500, '1000' 1000, '2000' 2000) nomirror
set xtics 0.5 nomirror
set grid ytics lc rgb '#e4e4e4' lt 1 lw 1
set border 3 lc rgb '#808080'
set tics textcolor rgb '#404040' scale 0.5
set label 1 '{{/=19:Bold A neighbour’s ping while another guest is destroyed}}' \\
    at screen 0.5,0.952 center tc rgb '#202020'
set label 2 '{subtitle}' at screen 0.5,0.9 center tc rgb '#606060'
"""

PANEL = """\
set lmargin at screen {left}
set rmargin at screen {right}
set bmargin at screen 0.11
set tmargin at screen 0.755
set title '{{/=14 {title}}}' offset 0,1.5 tc rgb '#202020'
set xlabel 'seconds since xl destroy was started' offset 0,0.3 tc rgb '#404040'
{ylabel}
set arrow 1 from 0,graph 0 to 0,graph 1 nohead lc rgb '#202020' lw 1.5 dt 2
set label 3 'xl destroy' at 0,graph 0.965 offset -0.6,0 right tc rgb '#202020'
set key at graph 0.5,graph 1.055 center center horizontal Left reverse samplen 1 width 2 \
    tc rgb '#404040'
plot {plots}
unset label 1
unset label 2
"""


def points(records, hypervisor, guest):
    """(seconds since the destroy, round trip in ms or None) of all repeats."""
    for run, windows in records:
        if (run["hypervisor"], run["guest"]) == (hypervisor, guest):
            during = windows["during"]
            for (_, _, rtt_us), send_s in zip(during["samples"], during["sends"]):
                yield send_s, None if rtt_us is None else rtt_us / 1000


def write_points(path, rows):
    with open(path, "w") as f:
        for send_s, rtt_ms in rows:
            f.write(f"{send_s:.4f} {LOST_MS if rtt_ms is None else rtt_ms:.4f}\n")


def script(out, panels, destroys):
    """The gnuplot script. panels: [(title, [(path, name or None, colour, worst ms or None), ..]), ..]"""
    text = SCRIPT.format(
        width=(700 if len(panels) < 3 else 560) * len(panels) + 100, height=640, font=12, out=out, from_s=FROM_S, to_s=TO_S,
        subtitle=f"pings to dom0 every 5 ms, {destroys} "
                 f"{'destroys' if destroys > 1 else 'destroy'} each, drawn on top of each other; "
                 "dom0 has one vCPU; under emulation")
    for i, (title, series) in enumerate(panels):
        plots = []
        for path, name, colour, worst in series:
            label = name + (f": worst {worst:.0f} ms" if worst is not None else "")
            plots.append(f"'{path}' using 1:2 with points pt 7 ps 0.38 lc rgb '#70{colour[1:]}' notitle")
            plots.append(f"NaN with points pt 7 ps 1.3 lc rgb '{colour}' title '{label}'")
        text += PANEL.format(
            left=(i + 0.105 if i == 0 else i + 0.065) / len(panels),
            right=(i + 0.975) / len(panels), title=title,
            ylabel="set ylabel 'round trip in ms (log scale)' offset 0,0 tc rgb '#404040'"
            if i == 0 else "unset ylabel", plots=", \\\n     ".join(plots))
    return text + "unset multiplot\n"


def series(cache, records, guest, kinds):
    """The series of a panel: one for each of kinds, (hypervisor, name, colour), that was measured."""
    os.makedirs(cache, exist_ok=True)
    found = []
    for hypervisor, name, colour in kinds:
        rows = list(points(records, hypervisor, guest))
        if not rows:
            continue
        path = os.path.join(cache, f"{guest}-{hypervisor}.dat")
        write_points(path, rows)
        found.append((path, name, colour, max((ms for _, ms in rows if ms is not None), default=None)))
    return found


def plot(directory, panels, records):
    text = script(os.path.join(directory, "latency.png"), [p for p in panels if p[1]],
                  max(run["repeat"] for run, _ in records))
    path = os.path.join(directory, "cache", "latency.gp")
    with open(path, "w") as f:
        f.write(text)
    subprocess.run(["gnuplot", path], check=True)


def draw(directory, records):
    cache = os.path.join(directory, "cache")
    plot(directory, [(f"destroying {GUESTS[g]}", series(cache, records, g, SERIES)) for g in GUESTS], records)


SHADES = {"#d1495b": ("#d1495b", "#edae49"), "#00798c": ("#00798c", "#30638e")}
GUEST_COLOURS = (("pv", "a PV guest", 0), ("pvh", "a PVH guest", 1))


def draw_phases(directory, records):
    """A panel for each phase, in the order in which the host went through them."""
    cache = os.path.join(directory, "cache")
    panels = []
    for hypervisor, title, colour in PHASES:
        drawn = []
        for guest, name, shade in GUEST_COLOURS:
            drawn += series(cache, records, guest, [(hypervisor, name, SHADES[colour][shade])])
        panels.append((title, drawn))
    plot(directory, panels, records)
