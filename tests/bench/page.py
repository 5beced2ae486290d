"""page.py - one self-contained HTML page of a run, and the rows of README

Plots are inline SVG, written here: lines over a logarithmic axis, and rows
of dots, one dot an allocator.  Nothing is loaded from anywhere; colours are
the same for an allocator in all plots.
"""

import html
import json
import math
import re
import sys

from report import OURS, number

COLOURS = ["#d62728", "#111111", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b",
           "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#ff7f0e", "#5254a3"]

STYLE = """
body { font: 14px sans-serif; margin: 2em auto; max-width: 1100px; }
table { border-collapse: collapse; margin: 1em 0; }
td, th { padding: 2px 8px; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; }
.best { font-weight: bold; } .missed { color: #b00; } svg { margin: 8px 0; }
text { font: 11px sans-serif; } .title { font-weight: bold; }
"""


class Axis:
    """Values to pixels, on a logarithmic scale or not."""

    def __init__(self, values, start, end, log):
        low, high = min(values), max(values)
        self.log = log
        self.low = self.place(low)
        self.high = self.place(high)
        if not log:
            self.low = min(self.low, 0)
        if self.high - self.low < 1e-9:
            self.high = self.low + 1
        self.start, self.end = start, end

    def place(self, value):
        return math.log2(max(value, 1e-9)) if self.log else value

    def pixel(self, value):
        part = (self.place(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self):
        if not self.log:
            step = 10 ** math.floor(math.log10(self.high - self.low))
            while (self.high - self.low) / step < 4:
                step /= 2
            first = math.ceil(self.low / step)
            last = math.floor(self.high / step)
            return [i * step for i in range(first, last + 1)]
        step = max(1, math.ceil((self.high - self.low) / 8))
        ticks = [2.0 ** i for i in range(math.floor(self.low),
                                         math.ceil(self.high) + 1, step)]
        return [t for t in ticks
                if self.low - 1e-9 <= math.log2(t) <= self.high + 1e-9]


def text(x, y, words, anchor="middle", name=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
            f' class="{name}">{html.escape(str(words))}</text>')


def line(x1, y1, x2, y2, colour="#ddd"):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
            f' stroke="{colour}"/>')


def dot(x, y, colour, hint, size=4):
    return (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{colour}"'
            f' fill-opacity="0.8"><title>{html.escape(hint)}</title>'
            '</circle>')


def svg(width, height, parts):
    return (f'<svg width="{width}" height="{height}" viewBox="0 0 {width}'
            f' {height}" xmlns="http://www.w3.org/2000/svg">'
            + "".join(parts) + "</svg>\n")


def short(value):
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


class Page:
    def __init__(self, content):
        self.content = content
        self.figures = content["figures"]
        self.names = list(content["allocators"])
        self.colours = {n: COLOURS[i % len(COLOURS)]
                        for i, n in enumerate(self.names)}
        self.parts = []

    def add(self, part):
        self.parts.append(part)

    def heading(self, words, below=""):
        self.add(f"<h2>{html.escape(words)}</h2>\n")
        if below:
            self.add(f"<p>{html.escape(below)}</p>\n")

    def legend(self):
        items = "".join(
            f'<span style="color:{self.colours[n]}">&#9679; {html.escape(n)}'
            "</span> &nbsp; " for n in self.names)
        self.add(f"<p>{items}</p>\n")

    def table(self, head, rows, best=None):
        self.add("<table><tr>" + "".join(
            f"<th>{html.escape(str(h))}</th>" for h in head) + "</tr>\n")
        for row in rows:
            cells = ""
            for i, cell in enumerate(row):
                mark = ' class="best"' if best and best(row, i) else ""
                cells += f"<td{mark}>{html.escape(str(cell))}</td>"
            self.add(f"<tr>{cells}</tr>\n")
        self.add("</table>\n")

    def lines(self, title, series, xlog=False, ylog=False, xlabel=""):
        """series is {allocator: [(x, y)]}."""
        series = {n: [p for p in points if p[1] > 0]
                  for n, points in series.items()}
        points = [p for found in series.values() for p in found]
        if not points:
            return
        width, height = 520, 300
        x = Axis([p[0] for p in points], 60, width - 15, xlog)
        y = Axis([p[1] for p in points], height - 40, 30, ylog)
        parts = [text(width / 2, 16, title, name="title"),
                 text(width / 2, height - 6, xlabel)]
        for tick in y.ticks():
            at = y.pixel(tick)
            parts += [line(60, at, width - 15, at),
                      text(55, at + 4, short(tick), "end")]
        for tick in x.ticks():
            at = x.pixel(tick)
            parts += [line(at, 30, at, height - 40),
                      text(at, height - 24, short(tick))]
        for name, found in series.items():
            path = " ".join(f"{x.pixel(a):.1f},{y.pixel(b):.1f}"
                            for a, b in found)
            wide = 2.5 if name == OURS else 1.2
            parts.append(f'<polyline points="{path}" fill="none" stroke='
                         f'"{self.colours[name]}" stroke-width="{wide}"/>')
            parts += [dot(x.pixel(a), y.pixel(b), self.colours[name],
                          f"{name}: {short(b)} at {short(a)}", 2.5)
                      for a, b in found]
        self.add(svg(width, height, parts))

    def dots(self, rows):
        """rows is {label: {allocator: ratio}}; a logarithmic axis."""
        values = [v for row in rows.values() for v in row.values() if v > 0]
        if not values:
            return
        width, left, height = 1000, 170, 16 * len(rows) + 50
        x = Axis([*[min(v, 16) for v in values], 1], left, width - 20, True)
        parts = []
        for tick in x.ticks():
            at = x.pixel(tick)
            parts += [line(at, 22, at, height - 20,
                           "#888" if tick == 1 else "#ddd"),
                      text(at, 14, short(tick))]
        for i, (label, row) in enumerate(rows.items()):
            at = 34 + 16 * i
            parts += [text(left - 8, at + 4, label, "end"),
                      line(left, at, width - 20, at, "#eee")]
            for name in reversed(self.names):
                if row.get(name, 0) > 0:
                    parts.append(dot(
                        x.pixel(min(row[name], 16)), at, self.colours[name],
                        f"{label}, {name}: {short(row[name])}",
                        5 if name == OURS else 3.5))
        self.add(svg(width, height, parts))

    def plane(self, time, memory):
        """Both means of each allocator in one plane."""
        both = [n for n in self.names if n in time and n in memory]
        if not both:
            return
        width, height = 620, 420
        x = Axis([1, *[time[n][0] for n in both]], 60, width - 90, False)
        y = Axis([1, *[memory[n][0] for n in both]], height - 40, 30, False)
        x.low = y.low = 0.95
        parts = [text(width / 2, height - 6, "time to the best"),
                 text(60, 20, "peak memory to the best", "start")]
        for tick in [t for t in y.ticks() if t >= 1]:
            parts += [line(60, y.pixel(tick), width - 90, y.pixel(tick)),
                      text(55, y.pixel(tick) + 4, short(tick), "end")]
        for tick in [t for t in x.ticks() if t >= 1]:
            parts += [line(x.pixel(tick), 30, x.pixel(tick), height - 40),
                      text(x.pixel(tick), height - 24, short(tick))]
        for name in both:
            at = x.pixel(time[name][0]), y.pixel(memory[name][0])
            parts += [dot(*at, self.colours[name], name, 6),
                      text(at[0] + 8, at[1] + 4, name, "start")]
        self.add(svg(width, height, parts))

    # Sections

    def left_out(self, of):
        """Sentences that name the allocators missing in a group's means."""
        return "".join(
            f" Not in the means of {what}, since an allocator did not complete"
            f" them: {', '.join(without)}."
            for what, without in self.content.get("left_out", {}).items()
            if what in of)

    def over_programs(self):
        means = {k: v for k, v in self.content["over_programs"].items() if v}
        if not means:
            return
        self.heading("Over all programs", "Geometric means of the ratio to"
                     " the best of all allocators on each program; in"
                     " brackets the number of programs, which all of them"
                     " ran." + self.left_out(means))
        rows = [[what, *[f"{found[n][0]:.2f} ({found[n][1]})"
                         if n in found else "-" for n in self.names]]
                for what, found in means.items()]
        self.table(["", *self.names], rows)
        self.plane(means.get("time", {}), means.get("peak RSS", {}))

    def programs(self, suffix, title):
        rows = {}
        for name in self.content["programs"]:
            figure = self.figures.get(name + suffix)
            if figure and min(figure["medians"].values()) > 0:
                best = min(figure["medians"].values())
                rows[name] = {n: v / best
                              for n, v in figure["medians"].items()}
        if rows:
            self.heading(title, "Each dot is an allocator, by the best on"
                         " that program.")
            self.dots(rows)

    def groups(self):
        rows = {group: {n: v[0] for n, v in found.items()}
                for group, found in self.content["geometric_means"].items()}
        if rows:
            self.heading("Groups of figures", "Geometric means of the ratio"
                         " to the best peer; left is better."
                         + self.left_out(rows))
            self.dots(rows)

    def targets(self):
        if not self.content["targets"]:
            return
        self.heading("Targets")
        self.table(["", "reached", "at most", "", ""], [
            [t["text"], number(t["value"]), number(t["limit"]),
             "" if t["met"] else "missed", t["detail"]]
            for t in self.content["targets"]])

    def family(self, pattern):
        """{allocator: [(x, y)]}; x is the number that the pattern takes."""
        series = {}
        for name, figure in self.figures.items():
            match = re.fullmatch(pattern, name)
            if match:
                for n, value in figure["medians"].items():
                    series.setdefault(n, []).append(
                        (float(match.group(1)), value))
        return {n: sorted(series[n]) for n in self.names if n in series}

    def curves(self):
        families = [
            ("Start-up: Mops/s by ms since the start", r"ramp\.(\d+)",
             False, False, "interval of 10 ms"),
        ]
        for size in (256, 1024, 4096, 16384, 65536):
            for tail, words in (("", ""), (r"\.set", ", filled")):
                families.append(
                    (f"malloc_test up to {size} bytes{words}: loops/s",
                     rf"malloc_test\.{size}\.(\d+){tail}", True, True,
                     "pairs of threads"))
        for threads in (1, 2):
            for what in ("malloc", "free"):
                families.append(
                    (f"Latency of {what}, {threads} threads: ns",
                     rf"latency\.{threads}\.{what}\.p([\d.]+)", "tail", True,
                     "one call in so many is slower"))
        self.heading("Curves")
        for title, pattern, xlog, ylog, label in families:
            series = self.family(pattern)
            if xlog == "tail":
                series = {n: [(100 / max(100 - x, 1e-5), y) for x, y in found]
                          for n, found in series.items()}
            self.lines(title, series, bool(xlog), ylog, label)

    def scaling(self):
        """Throughput of each figure that ends in a number of threads."""
        stems = {}
        for name, figure in self.figures.items():
            match = re.fullmatch(r"(.*)\.(\d+)", name)
            if match and figure["unit"] in ("Mops/s", "loops/s"):
                stems.setdefault(match.group(1), figure["unit"])
        self.heading("Scaling", "Left: throughput by threads.  Right: its"
                     " efficiency, which is throughput by that of the fewest"
                     " threads, as often as there are threads or CPUs, if"
                     " these are fewer.")
        cpus = self.content["machine"]["cpus"]
        for stem, unit in stems.items():
            series = self.family(re.escape(stem) + r"\.(\d+)")
            self.lines(f"{stem}: {unit}", series, True, True, "threads")
            self.lines(f"{stem}: efficiency", {
                n: [(x, y / found[0][1] / (min(x, cpus) / found[0][0]))
                    for x, y in found]
                for n, found in series.items() if found[0][1] > 0
            }, True, False, "threads")

    def all_figures(self):
        self.heading("All figures", "Medians; ratio is ours to the best"
                     " peer, below 1 ours is better.")
        rows = []
        for name, figure in self.figures.items():
            ratio = figure["ratios"].get(OURS)
            spread = figure["spread"]
            rows.append([
                name, figure["unit"],
                *[number(figure["medians"].get(n)) for n in self.names],
                f"{ratio:.2f}" if ratio else "",
                f"{spread[0]:.2f}-{spread[1]:.2f}" if spread else ""])
        self.table(["", "unit", *self.names, "ratio", "spread"], rows)

    def failures(self):
        if self.content["failures"]:
            self.heading("What failed")
            self.table(["program", "allocator", "why"], [
                [f["program"], f["allocator"], f["why"]]
                for f in self.content["failures"]])


def make(content, scaling):
    page = Page(content)
    title = "umem: scaling" if scaling else "umem: benchmarks"
    page.add("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
             f"<title>{title}</title><style>{STYLE}</style></head><body>\n"
             f"<h1>{title}</h1>\n")
    page.table(["machine", ""], content["machine"].items())
    page.table(["allocator", ""], content["allocators"].items())
    page.legend()
    if scaling:
        page.scaling()
    else:
        page.over_programs()
        page.targets()
        page.programs(".cpu", "Time of programs (user and system)")
        page.programs(".rss", "Peak memory of programs")
        page.groups()
        page.curves()
    page.failures()
    page.all_figures()
    page.add("</body></html>\n")
    return "".join(page.parts)


# The rows of README's table: label, figure, and a factor if there is one.
MARKDOWN = [
    ("malloc and free of 64 bytes, ns", "pair.64"),
    ("of 64 bytes, written, ns", "pair.64.set"),
    ("of 100 KiB", "pair.102400"),
    ("of 4 MiB", "pair.4194304"),
    ("200 mallocs of 64, then 200 frees", "batch.200.64"),
    ("2000, freed in random order", "batch.rand.64"),
    ("one thread allocates, one frees, Mops/s", "prodcons.64"),
    ("malloc_test, 4 pairs, up to 4 KiB, loops/s", "malloc_test.4096.4"),
    ("larson, 8 threads, Mops/s", "larson.8"),
    ("its peak memory, MiB", "larson8.rss"),
    ("xmalloc, 8 threads, Mops/s", "xmalloc.8"),
    ("mstress, 16 threads, ns an operation", "mstress.16"),
    ("a buffer to 32 MiB by 64 KiB, ms", "grow.append"),
    ("object with an expensive constructor, by an object cache of umem,"
     " by malloc of others, ns", "objcache.own.pair"),
    ("updates of an RCU hash table, by umem_cache_free_rcu() of umem, by"
     " liburcu and free() of others, Mops/s", "rcu.table.own.best"),
    ("of an RCU array, likewise, Mops/s", "rcu.array.own.best"),
    ("its peak memory, MiB", "rcu.array.own.best.peak"),
    ("fragmentation run, resident to live", "frag.overhead"),
    ("1000 idle threads, MiB", "idle.2s"),
    ("1 GiB freed, MiB kept after 2 s", "giveback.multi"),
    ("gcc -O2, s", "gcc.cpu"),
    ("redis-server, s", "redis.cpu"),
    ("its peak memory, MiB", "redis.rss"),
]


def markdown_number(value):
    return "-" if value is None else f"{value:.3g}" if value < 1000 else (
        f"{value:.0f}")


def markdown(content):
    names = list(content["allocators"])
    yield "| | " + " | ".join(
        "umem" if n == OURS else n for n in names) + " |"
    yield "|---|" + "--:|" * len(names)
    for words, figure in MARKDOWN:
        medians = content["figures"].get(figure, {}).get("medians")
        if medians:
            yield f"| {words} | " + " | ".join(
                markdown_number(medians.get(n)) for n in names) + " |"
    for what, found in content["over_programs"].items():
        if found:
            count = max(n for _, n in found.values())
            yield (f"| {what} of {count} programs, geometric mean to the best"
                   " | " + " | ".join(f"{found[n][0]:.2f}" if n in found
                                      else "-" for n in names) + " |")


def print_markdown(path):
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        print(f"bench: {error}: run make bench", file=sys.stderr)
        return 2
    for row in markdown(content):
        print(row)
    return 0
