#!/usr/bin/env python3
"""chart.py - time against peak memory, one dot for each allocator, as SVG

	tests/bench/chart.py BENCH.json >CHART.svg
	tests/bench/chart.py README.md TIME MEMORY NOTE >CHART.svg

Each figure is the geometric mean, over programs, of the ratio to the best
allocator on each program; 1 is best, so the best corner is at the lower left.
The first form draws the results of `make bench`, which calls it.  The second one
draws two rows of a table in this folder's README, whose first cells are TIME and
MEMORY; NOTE names the programs, the machine and the date.  README's picture is

	tests/bench/chart.py tests/bench/README.md \\
	    'time, minimum of the rounds, EPYC' 'peak RSS, median, EPYC' \\
	    '31 programs outside this tree, AMD EPYC, 1 December 2026' \\
	    >tests/bench/chart.svg
"""

import json
import re
import sys

import allocators

WIDTH, HEIGHT = 640, 440
LEFT, RIGHT, TOP, BOTTOM = 68, 24, 20, 86  # margins of the plot
FONT = 17
OURS = "umem"

# A page in which an image stands cannot style it, so it has both colours.
STYLE = """
svg { font: %dpx system-ui, sans-serif; }
.back { fill: #fff; } text { fill: #222; } .note { fill: #555; }
.grid { stroke: #ddd; } .axis { stroke: #888; }
circle { fill: #6b7a90; } .ours { fill: #c2410c; font-weight: bold; }
@media (prefers-color-scheme: dark) {
	.back { fill: #0d1117; } text { fill: #e6edf3; } .note { fill: #9da7b3; }
	.grid { stroke: #2b323b; } .axis { stroke: #7d8590; }
	circle { fill: #93a4bb; } .ours { fill: #ff8a4c; }
}
""" % FONT


def from_results(content):
    """Points {name: (time, memory)} and a note, of what run.py has found."""
    time, memory = (content["over_programs"].get(what) or {}
                    for what in ("time", "peak RSS"))
    count = max((n for _, n in time.values()), default=0)
    return ({OURS if name == allocators.OURS else name:
             (time[name][0], memory[name][0])
             for name in time if name in memory}, f"{count} programs")


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]




def from_table(path, wanted):
    """Points of the rows with these first cells; a cell may leave out its
    beginning if an earlier row of the table has it."""
    head, begin, found = [], "", {}
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for line, after in zip(lines, lines[1:]):
        if not line.startswith("|"):
            head, begin = [], ""
        elif re.match(r"\|[-:| ]+$", after) and not head:
            head = cells(line)
        elif head and not re.match(r"\|[-:| ]+$", line):
            row = cells(line)
            if ", " in row[0]:
                begin = row[0][:row[0].rindex(", ")]
            for name in (row[0], f"{begin}, {row[0]}"):
                if name in wanted:
                    found[name] = dict(zip(head[1:], map(float, row[1:])))
    time, memory = (found[name] for name in wanted)
    return {name: (time[name], memory[name]) for name in time}


def ticks(low, high):
    """Round numbers from at most low to at least high, about five."""
    step = next(s for s in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 50, 100)
                if (high - low) / s <= 6)
    first = int(low / step)
    marks = [first * step]
    while marks[-1] < high:
        marks.append(marks[-1] + step)
    return marks


class Scale:
    def __init__(self, values, low, high):
        self.marks = ticks(1, max(values) * 1.01)
        self.low, self.high = low, high

    def at(self, value):
        first, last = self.marks[0], self.marks[-1]
        return self.low + (value - first) / (last - first) * \
            (self.high - self.low)


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def place(text, x, y, taken):
    """The anchor and the position of a label beside a dot."""
    width, half = 0.58 * FONT * len(text), 0.5 * FONT
    best = None
    for anchor, left, dy in (("start", x + 10, 0), ("end", x - 10 - width, 0),
                             ("middle", x - width / 2, -FONT),
                             ("middle", x - width / 2, FONT)):
        box = (left, y + dy - half, left + width, y + dy + half)
        best = best or (anchor, left, dy, box)
        if box[0] >= LEFT and box[2] <= WIDTH and \
                not any(overlap(box, other) for other in taken):
            best = (anchor, left, dy, box)
            break
    anchor, left, dy, box = best
    taken.append(box)
    return anchor, left + {"start": 0, "middle": width / 2,
                           "end": width}[anchor], y + dy + FONT * 0.35


def axes(across, up):
    end = HEIGHT - BOTTOM
    for mark in across.marks:
        x = across.at(mark)
        yield (f'<path class="grid" d="M{x:.1f} {TOP}V{end}"/>'
               f'<text x="{x:.1f}" y="{end + 24}" text-anchor="middle">'
               f'{mark:g}</text>')
    for mark in up.marks:
        y = up.at(mark)
        yield (f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
               f'<text x="{LEFT - 10}" y="{y + 6:.1f}" text-anchor="end">'
               f'{mark:g}</text>')
    yield f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{end}H{WIDTH - RIGHT}"/>'
    middle = (TOP + end) / 2
    yield (f'<text transform="translate(20 {middle}) rotate(-90)"'
           ' text-anchor="middle">peak memory</text>')
    yield (f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{end + 50}"'
           ' text-anchor="middle">time (1: the best of all)</text>')


def make(points, note):
    across = Scale([p[0] for p in points.values()], LEFT, WIDTH - RIGHT)
    up = Scale([p[1] for p in points.values()], HEIGHT - BOTTOM, TOP)
    dots = {name: (across.at(t), up.at(m)) for name, (t, m) in points.items()}
    taken = [(x - 7, y - 7, x + 7, y + 7) for x, y in dots.values()]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img"'
           f' viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
           "<title>Time against peak memory of allocators</title>",
           f"<style>{STYLE}</style>",
           f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
           *axes(across, up)]
    for name in sorted(dots, key=lambda name: name != OURS):
        x, y = dots[name]
        ours = ' class="ours"' if name == OURS else ""
        anchor, left, base = place(name, x, y, taken)
        out.append(f'<circle{ours} cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
                   f'<text{ours} x="{left:.1f}" y="{base:.1f}"'
                   f' text-anchor="{anchor}">{name}</text>')
    out.append(f'<text class="note" x="{WIDTH - RIGHT}" y="{HEIGHT - 10}"'
               f' text-anchor="end" font-size="15">{note}</text></svg>')
    return "\n".join(out) + "\n"


def main(argv):
    if len(argv) == 5:
        points, note = from_table(argv[1], argv[2:4]), argv[4]
    else:
        with open(argv[1], encoding="utf-8") as file:
            points, note = from_results(json.load(file))
    if points:
        sys.stdout.write(make(points, note))
    return not points


if __name__ == "__main__":
    sys.exit(main(sys.argv))
