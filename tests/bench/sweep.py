#!/usr/bin/env python3
"""sweep.py - malloc and free by size and pattern, as a table and a picture

	tests/bench/sweep.py BUILD

Runs BUILD/bench/sweep (sweep.c describes the patterns) under each allocator,
in random order, in ROUNDS rounds (4), and keeps the least figure of each cell.
Prints for each pattern the geometric mean of the ratios to the best allocator,
and the cells in which umem takes more than twice as long as the best.

BUILD/sweep.txt has all figures, in ns.  BUILD/sweep.svg has a plot for each
pattern, size against ns, both by their logarithms, with one line for each
allocator.  PEERS names the allocators, as for run.py; SECONDS is the time of
each figure (0.01), a tenth of that with QUICK=1.
"""

import math
import os
import random
import subprocess
import sys

import allocators
from chart import STYLE

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = allocators.OURS
PANEL, GAP, HIGH, COLUMNS = 330, 62, 230, 3
LEGEND = 7  # names in a row
COLOURS = ["#6b7a90", "#3b82f6", "#0d9488", "#65a30d", "#a855f7", "#db2777",
           "#ca8a04", "#1e3a8a", "#67e8f9", "#581c87", "#86efac"]
OUR_COLOUR = "#c2410c"
CLIFF = 2  # times the best


def run(build, allocator, seconds):
    """{(pattern, size): ns} of one run."""
    done = subprocess.run([f"{build}/bench/sweep", str(seconds)], text=True,
                          env={**os.environ, **allocator.environment},
                          stdout=subprocess.PIPE, check=True, timeout=600)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {(name, int(size)): float(ns) for name, size, ns in lines}


def measure(build, wanted, rounds, seconds):
    """{allocator: {(pattern, size): ns}}, the least of the rounds."""
    least = {name: {} for name in wanted}
    for turn in range(rounds):
        for name in random.sample(list(wanted), len(wanted)):
            allocators.say(f"sweep: round {turn + 1}, {name}")
            for cell, ns in run(build, wanted[name], seconds).items():
                least[name][cell] = min(ns, least[name].get(cell, ns))
    return least


def text_of(size):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size // unit}{name}"
    return str(size)


def table(least):
    """The geometric means, the cliffs, and all figures, as texts."""
    cells = list(least[OURS])
    patterns = list(dict.fromkeys(pattern for pattern, _ in cells))
    best = {c: min(least[name][c] for name in least) for c in cells}
    means = [" ".join([f"{'':8}", *(f"{name[:9]:>9}" for name in least)])]
    figures = []
    for pattern in patterns:
        sizes = [size for p, size in cells if p == pattern]
        mean = {name: math.exp(sum(math.log(least[name][pattern, s] /
                                            best[pattern, s])
                                   for s in sizes) / len(sizes))
                for name in least}
        means.append(" ".join([f"{pattern:8}",
                               *(f"{mean[name]:9.2f}" for name in least)]))
        figures += ["", pattern, means[0]] + [
            " ".join([f"{text_of(size):8}",
                      *(f"{least[name][pattern, size]:9.1f}"
                        for name in least)]) for size in sizes]
    cliffs = [f"{p} {text_of(s)}: {least[OURS][p, s] / best[p, s]:.1f}"
              for p, s in cells
              if least[OURS][p, s] > CLIFF * best[p, s]]
    means.append(f"umem takes more than {CLIFF} times the best in"
                 f" {len(cliffs)} of {len(cells)} cells: "
                 + (", ".join(cliffs) or "none"))
    return "\n".join(means), "\n".join(figures).strip()


def lines(least):
    """(name, colour) of each allocator, ours last, above the others."""
    peers = [name for name in least if name != OURS]
    return [*((name, COLOURS[i % len(COLOURS)])
              for i, name in enumerate(peers)), (OURS, OUR_COLOUR)]


def panel(pattern, least, left, top):
    """The plot of one pattern, as parts of an SVG."""
    sizes = [size for p, size in least[OURS] if p == pattern]
    all_ns = [least[name][pattern, s] for name in least for s in sizes]
    low = 10 ** math.floor(math.log10(min(all_ns)))
    high = 10 ** math.ceil(math.log10(max(all_ns)))

    def x_of(size):
        return left + PANEL * (math.log(size / sizes[0]) /
                               math.log(sizes[-1] / sizes[0]))

    def y_of(ns):
        return top + HIGH * (1 - math.log(ns / low) / math.log(high / low))

    yield (f'<text x="{left}" y="{top - 8}" font-weight="bold">{pattern}'
           '</text>')
    mark = low
    while mark <= high:
        y = y_of(mark)
        yield (f'<path class="grid" d="M{left} {y:.1f}H{left + PANEL}"/>'
               f'<text x="{left - 6}" y="{y + 4:.1f}" font-size="12"'
               f' text-anchor="end">{mark:g}</text>')
        mark *= 10
    for size in sizes[::4]:
        yield (f'<text x="{x_of(size):.1f}" y="{top + HIGH + 16}"'
               f' font-size="12" text-anchor="middle">{text_of(size)}</text>')
    for name, colour in lines(least):
        points = " ".join(f"{x_of(s):.1f},{y_of(least[name][pattern, s]):.1f}"
                          for s in sizes)
        yield (f'<polyline fill="none" stroke="{colour}" stroke-width='
               f'"{3 if name == OURS else 1.3}" points="{points}"><title>{name}'
               '</title></polyline>')


def picture(least):
    patterns = list(dict.fromkeys(pattern for pattern, _ in least[OURS]))
    width = COLUMNS * (PANEL + GAP) + GAP
    rows = -(-len(patterns) // COLUMNS)
    height = rows * (HIGH + 56) + 76
    parts = []
    for i, pattern in enumerate(patterns):
        parts += panel(pattern, least, GAP + i % COLUMNS * (PANEL + GAP),
                       30 + i // COLUMNS * (HIGH + 56))
    for i, (name, colour) in enumerate(lines(least)):
        x, y = GAP + i % LEGEND * (width - GAP) // LEGEND, height - 48
        y += i // LEGEND * 26
        parts.append(f'<path stroke="{colour}" stroke-width="3"'
                     f' d="M{x} {y}h22"/><text x="{x + 27}" y="{y + 6}">'
                     f'{"umem" if name == OURS else name}</text>')
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" role="img"'
        f' viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<title>ns of processor time for one malloc and free, by size</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
        *parts, "</svg>"]) + "\n"


def main(build):
    allocators.clean_environment()
    quick = os.environ.get("QUICK", "") not in ("", "0")
    wanted = allocators.find(build, os.environ.get("PEERS", "").split(),
                             f"{HERE}/../../build/peers")
    least = measure(build, wanted,
                    int(os.environ.get("ROUNDS", 2 if quick else 4)),
                    float(os.environ.get("SECONDS", 0.001 if quick else 0.01)))
    means, figures = table(least)
    for name, text in (("txt", figures + "\n"), ("svg", picture(least))):
        with open(f"{build}/sweep.{name}", "w", encoding="utf-8") as file:
            file.write(text)
    print(f"Sweep of sizes and patterns, to the best (1.00)\n{means}\n"
          f"figures: {build}/sweep.txt, picture: {build}/sweep.svg")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
