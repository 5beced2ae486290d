"""report.py - evaluates the samples of a run: rows, means, targets, tables

A row holds one figure of all allocators.  Its ratios are to the best peer:
above 1 an allocator is worse, below 1 better, whether more or less of the unit
is better.
"""

import collections
import math
import re
import statistics
from dataclasses import dataclass

from allocators import LIBC, OURS

# True if less of the unit is better, False if more is.
UNITS = {
    "ns": True,
    "us": True,
    "ms": True,
    "s": True,
    "KiB": True,
    "MiB": True,
    "x": True,
    "Mops/s": False,
    "loops/s": False,
}
# Growth, of which a ratio makes no sense.
DIFFERENCES = {"MiB+"}

# A figure belongs to the first group that it matches.
GROUPS = [
    ("user+sys", r"\.cpu$"),
    ("peak RSS", r"^[^.]*\.rss$"),
    ("malloc_test RSS", r"\.rss$"),
    ("pairs, written", r"^pair\..*\.set$"),
    ("pairs", r"^pair\."),
    ("batches", r"^batch\."),
    ("hand-over", r"^(prodcons|larson|xmalloc|mstress|rptest|nalloc|onesided\.free)\."),
    ("mixed batches", r"^sh\."),
    ("malloc_test", r"^malloc_test\."),
    ("threads", r"^(threads\.|cache\.|churn\.thread|glibc-thread\.)"),
    ("living data", r"^(alloc-test|tree|bignum|cubes|bodies)(\.\d+)?$"),
    ("large blocks", r"^malloc-large$"),
    ("growing", r"^(grow\.|vectors\.|onesided\.realloc\.time)"),
    ("latency", r"^latency\..*\.p"),
    ("object cache", r"^objcache\.own\."),
    ("bulk calls", r"^bulk\.own\."),
    ("descriptors", r"^descriptors\.own\."),
    ("deferred frees", r"^rcu\.\w+\.own\.\w+$"),
    ("deferred, peak", r"^rcu\.\w+\.own\.\w+\.peak$"),
    ("fresh blocks", r"^(space\.touch|phase\.ns|frag\.time|giveback.*time)"),
    ("start", r"^(start\.(exec|busy)|ramp\.reached)$"),
    ("memory held", r"^(space|phase|frag|idle|start\.memory)"),
]
# In these figures umem is called by its own interface (and each name says
# "own"), other allocators by malloc.  They count in no mean over groups.
OWN_FIGURE = re.compile(r"\.own\.")
MEMORY_GROUPS = {"peak RSS", "malloc_test RSS", "deferred, peak",
                 "memory held"}


def best_of(unit, values):
    """The name with the best value; values is {name: value}."""
    choose = min if UNITS.get(unit, True) else max
    return choose(values, key=values.get)


def ratio_of(unit, value, other):
    """How much worse value is than other; None if that makes no sense."""
    if unit in DIFFERENCES or value <= 0 or other <= 0:
        return None
    return value / other if UNITS[unit] else other / value


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


@dataclass
class Row:
    """A line of the table."""

    figure: str
    unit: str
    medians: dict
    ratios: dict  # of each allocator to the best peer
    best: str = None
    best_peer: str = None
    spread: tuple = None  # of ours to the best peer, by round


def make_row(bench, figure):
    unit = bench.units[figure]
    samples = bench.samples[figure]
    medians = {n: statistics.median(samples[n])
               for n in bench.allocators if n in samples}
    peers = {n: v for n, v in medians.items() if n != OURS}
    row = Row(figure, unit, medians, {})
    row.best = best_of(unit, medians)
    if not peers:
        return row
    row.best_peer = best_of(unit, peers)
    for name in medians:
        pairs = zip(samples[name], samples[row.best_peer])
        by_round = [ratio_of(unit, a, b) for a, b in pairs]
        by_round = [r for r in by_round if r is not None]
        if by_round:
            row.ratios[name] = statistics.median(by_round)
        if by_round and name == OURS:
            row.spread = (min(by_round), max(by_round))
    return row


def mark_of(row):
    if OURS not in row.ratios:
        return ""
    ratio = row.ratios[OURS]
    mark = "+" if ratio <= 1 else "=" if ratio <= 1.05 else "-"
    if LIBC in row.ratios and ratio > 1.05 * row.ratios[LIBC]:
        mark += "!"
    return mark


def groups_of(row):
    for group, pattern in GROUPS:
        if re.search(pattern, row.figure):
            if OWN_FIGURE.search(row.figure):
                return (group,)
            memory = group in MEMORY_GROUPS
            return group, "all memory" if memory else "all times"
    return ()


def means_in_common(ratios):
    """({allocator: (mean, figures)}, figures left out) of {figure: {allocator:
    ratio}}.

    Means over different figures cannot be compared, so a figure counts only if
    every allocator has it.  An allocator that has less than half of them is not
    compared at all.
    """
    having = collections.Counter(n for by_name in ratios.values()
                                 for n in by_name)
    compared = [n for n in having if 2 * having[n] >= len(ratios)]
    common = [f for f, by_name in ratios.items()
              if all(n in by_name for n in compared)]
    means = {n: (geometric_mean([ratios[f][n] for f in common]), len(common))
             for n in compared if common}
    return means, [f for f in ratios if f not in common]


def geometric_means(rows):
    """({group: means of the ratio to the best peer}, {group: left out})."""
    means, left_out = {}, {}
    for group in [g for g, _ in GROUPS] + ["all times", "all memory"]:
        ratios = {row.figure: row.ratios for row in rows
                  if group in groups_of(row) and row.ratios}
        found, without = means_in_common(ratios)
        if found:
            means[group] = found
        if without:
            left_out[group] = without
    return means, left_out


def over_programs(bench, rows, suffix):
    """(means over programs, programs left out).

    Of the ratio to the best of all allocators, ours among them, on that
    program.
    """
    ratios = {}
    for row in rows:
        # A tick of the clock is too much of less than that.
        if not row.figure.endswith(suffix) or min(row.medians.values()) <= 0:
            continue
        program = row.figure[:-len(suffix)]
        if program not in bench.fixed:
            continue
        best = min(row.medians.values())
        ratios[program] = {n: v / best for n, v in row.medians.items()}
    return means_in_common(ratios)


def noise(bench):
    """Median over all figures of (largest - least) / median, by allocator."""
    result = {}
    for name in bench.allocators:
        widths = []
        for samples in bench.samples.values():
            values = samples.get(name, [])
            middle = statistics.median(values) if values else 0
            if len(values) > 1 and middle > 0:
                widths.append((max(values) - min(values)) / middle)
        if widths:
            result[name] = statistics.median(widths)
    return result


# Targets


@dataclass
class Target:
    """A target, which is met if value is at most limit."""

    text: str
    value: float
    limit: float
    detail: str = ""

    @property
    def met(self):
        # As it is printed: the rest is noise.
        return round(self.value, 2) <= round(self.limit, 2)


class Targets:
    """Collects those for which there are figures."""

    def __init__(self, rows):
        self.rows = {row.figure: row for row in rows}
        self.found = []

    def ratios(self, pattern):
        return {f: r.ratios[OURS] for f, r in self.rows.items()
                if OURS in r.ratios and re.search(pattern, f)}

    def mean(self, text, pattern, limit):
        ratios = self.ratios(pattern)
        if ratios:
            self.found.append(Target(f"{text}, geometric mean",
                                     geometric_mean(ratios.values()), limit))

    def worst(self, text, pattern, limit):
        ratios = self.ratios(pattern)
        if not ratios:
            return
        over = sorted(((r, f) for f, r in ratios.items() if r > limit),
                      reverse=True)
        detail = ", ".join(f"{re.sub('.(cpu|rss)$', '', f)} {r:.2f}"
                           for r, f in over)
        self.found.append(
            Target(f"{text}, the worst", max(ratios.values()), limit, detail))

    def ours(self, text, figure, limit, scale=1.0):
        row = self.rows.get(figure)
        if row is not None and OURS in row.medians:
            self.found.append(Target(text, row.medians[OURS] * scale, limit))

    def fall(self, text, stem, limit):
        """Is a figure with more threads below that with the fewest?"""
        rates = {}
        for name, row in self.rows.items():
            match = re.fullmatch(rf"{stem}\.(\d+)\.(\d+)", name)
            if match and OURS in row.medians:
                size, threads = map(int, match.groups())
                rates.setdefault(size, {})[threads] = row.medians[OURS]
        falls = {f"{size} with {n}": by[min(by)] / rate
                 for size, by in rates.items() for n, rate in by.items()
                 if rate > 0}
        if falls:
            over = sorted(((v, k) for k, v in falls.items() if v > limit),
                          reverse=True)
            self.found.append(Target(
                text, max(falls.values()), limit,
                ", ".join(f"{k} {v:.2f}" for v, k in over)))

    def lives(self, text, figure):
        row = self.rows.get(figure)
        if row is not None:
            self.found.append(Target(f"{text}: killed",
                                     int(OURS not in row.medians), 0))

    def to_libc(self, text, figure, ratio, plus):
        row = self.rows.get(figure)
        if row is None or not {OURS, LIBC} <= row.medians.keys():
            return
        ours, libc = row.medians[OURS], row.medians[LIBC]
        if plus:
            self.found.append(Target(text, ours - libc, plus))
        else:
            self.found.append(Target(text, ours / libc, ratio))


def targets(rows):
    """Ours to the best peer of each figure, if the text says nothing else."""
    t = Targets(rows)
    t.mean("time of programs", r"\.cpu$", 1.00)
    t.worst("time of programs", r"\.cpu$", 1.15)
    t.mean("peak RSS of programs", r"^[^.]*\.rss$", 1.15)
    t.worst("peak RSS of programs", r"^[^.]*\.rss$", 1.60)
    t.worst("pairs of 16 to 1024 bytes", r"^pair\.(16|64|256|1000)$", 1.00)
    t.mean("batches", r"^batch\.", 0.95)
    t.worst("pairs of 4K to 4M",
            r"^pair\.(4096|8192|32768|102400|1048576|4194304)", 1.00)
    t.mean("first touch of fresh blocks", r"^space\.touch\.", 1.00)
    t.mean("growing buffers", r"^(grow|vectors\.(realloc|copy))", 1.00)
    t.worst("growing buffers", r"^(grow|vectors\.(realloc|copy))", 1.00)
    t.worst("producer and consumer (1.5 times the rate)", r"^prodcons\.",
            1 / 1.5)
    t.worst("malloc_test, each cell", r"^malloc_test\.\d+\.\d+$", 1.00)
    t.worst("malloc_test, filled, each cell", r"^malloc_test\..*\.set$", 1.00)
    t.fall("malloc_test, one pair's rate to that of more pairs", "malloc_test",
           1.00)
    t.mean("malloc_test (twice the rate)", r"^malloc_test\.\d+\.\d+$", 0.5)
    t.worst("RCU updates to call_rcu() (twice the rate)",
            r"^rcu\.\w+\.own\.callback$", 0.5)
    t.worst("RCU updates to the best method (twice the rate)",
            r"^rcu\.\w+\.own\.best$", 0.5)
    t.worst("RCU updates, peak memory", r"^rcu\..*\.own\.\w+\.peak$",
            1.00)
    t.ours("1000 idle threads after 2 s, MiB", "idle.2s", 64)
    t.ours("1 GiB given back, threads, 2 s idle, MiB", "giveback.multi", 8)
    t.ours("1 GiB given back, one thread, 2000 calls, MiB",
           "giveback.single", 8)
    t.ours("fragmentation: resident to live", "frag.overhead", 3)
    t.ours("phase shift: peak to live", "phase.peak", 1.5)
    t.lives("phase shift in 160 MiB", "phase160.time")
    for bytes_, rounded in ((8, 8), (16, 16), (24, 32), (40, 48), (64, 64),
                            (100, 112), (200, 208), (500, 512), (1000, 1008)):
        t.ours(f"space of {bytes_} bytes, to {rounded}", f"space.{bytes_}",
               1.02, bytes_ / rounded)
    for percent in ("p99.99", "p99.9999"):
        t.worst(f"latency {percent}", rf"^latency\..*\.{percent}$", 1.00)
    t.to_libc("exec of /bin/true, time to glibc's", "start.exec", 1.03, 0)
    t.to_libc("exec of /bin/true, memory above glibc's, KiB", "start.memory",
              0, 400)
    t.ours("a thread that only frees, growth, MiB", "onesided.free", 8)
    t.ours("one that only reallocates, growth, MiB", "onesided.realloc", 8)
    t.ours("full speed after a cold start, ms", "ramp.reached", 20)
    return t.found


# Tables


def number(value):
    if value is None:
        return "-"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 3)}f}"


def print_table(bench, rows):
    names = list(bench.allocators)
    width = max([len(r.figure) for r in rows] + [12]) + 1
    print(f"{'':<{width}}{'unit':<8}"
          + "".join(f"{n:>11}" for n in names)
          + f"{'ratio':>8}  spread")
    program = None
    for row in rows:
        start = row.figure.split(".")[0]
        if program not in (None, start):
            print()
        program = start
        cells = ""
        for name in names:
            star = "*" if name == row.best and len(row.medians) > 1 else " "
            cells += f"{number(row.medians.get(name)):>10}{star}"
        tail = ""
        if OURS in row.ratios:
            tail = f"{row.ratios[OURS]:>8.2f}"
            if row.spread:
                tail += f"  {row.spread[0]:.2f}-{row.spread[1]:.2f}"
            tail = f"{tail:<20} {mark_of(row)}"
        print(f"{row.figure:<{width}}{row.unit:<8}{cells}{tail}".rstrip())


def print_means(bench, title, means):
    names = list(bench.allocators)
    if not means:
        return
    print(f"\n{title}\n")
    print(f"{'':<16}" + "".join(f"{n:>13}" for n in names))
    for group, by_name in means.items():
        cells = ""
        for name in names:
            text = "-"
            if name in by_name:
                text = f"{by_name[name][0]:.2f} ({by_name[name][1]})"
            cells += f"{text:>13}"
        print(f"{group:<16}{cells}")


def print_programs(bench, rows):
    """Ours to the best peer, program by program, the worst first."""
    lines = {}
    for row in rows:
        name, _, suffix = row.figure.rpartition(".")
        if name in bench.fixed and suffix in ("cpu", "rss"):
            lines.setdefault(name, {})[suffix] = row
    lines = {n: r for n, r in lines.items()
             if any(OURS in row.ratios for row in r.values())}
    if not lines:
        return
    print("\nPrograms: ours to the best peer\n")
    print(f"{'':<18}{'time':>8}  {'spread':<12}{'best peer':<12}"
          f"{'memory':>8}  {'spread':<12}{'best peer':<12}")

    def cells(row):
        if row is None or OURS not in row.ratios:
            return f"{'-':>8}  {'':<12}{'':<12}"
        spread = f"{row.spread[0]:.2f}-{row.spread[1]:.2f}"
        return f"{row.ratios[OURS]:>8.2f}  {spread:<12}{row.best_peer:<12}"

    def time_of(item):
        row = item[1].get("cpu")
        return -row.ratios.get(OURS, 0) if row else 0

    for name, found in sorted(lines.items(), key=time_of):
        print(f"{name:<18}{cells(found.get('cpu'))}"
              f"{cells(found.get('rss'))}".rstrip())


def print_targets(found):
    if not found:
        return
    print("\nTargets\n")
    for target in found:
        mark = "met   " if target.met else "MISSED"
        print(f"{mark} {number(target.value):>7} of at most"
              f" {number(target.limit):>6}  {target.text}")
        if target.detail:
            print(f"{'':<32}{target.detail}")


def print_vmem(vmem):
    if not vmem:
        return
    counts = sorted({n for row in vmem.values() for n in row})
    print("\nvmem_alloc and vmem_free, ns a pair, by segments in the arena\n")
    header = "".join(f"{n:>10}" for n in counts)
    print(f"{'':<16}{header}{'flat':>10}")
    for policy, row in vmem.items():
        cells = "".join(f"{number(row.get(n)):>10}" for n in counts)
        flat = max(row.values()) / row[min(row)]
        print(f"{policy:<16}{cells}{flat:>10.2f}")


def print_others(others):
    """Says whether somebody else was at work on this machine."""
    if not others:
        return
    disturbed = sum(1 for cpus in others if cpus > 0.1)
    print(f"\nOthers kept {statistics.fmean(others):.2f} CPUs busy meanwhile;"
          f" more than a tenth of one in {disturbed} of {len(others)} runs.")
    if disturbed > 0:
        print("Figures of several threads (prodcons, threads, malloc_test)"
              " mean little in those.")
