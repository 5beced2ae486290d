#!/usr/bin/env python3
"""run.py - runs the benchmarks under several allocators, side by side

Usage: run.py BUILD

BUILD is the build folder, with the programs in BUILD/bench.  Each program
runs under each allocator in turn, then again in another order, and so on; of
the rounds the medians count.  Allocators are preloaded: ours, glibc's (which
needs no preload) and those of the peers that are installed.

The table has a line a figure.  A star marks the best allocator.  "ratio" is
ours to the best peer: below 1 ours is better, whichever way the unit goes.
It is the median of the ratios of the rounds, of which "spread" is the least
and the largest: a machine that is slow for some seconds is so for all.  Two
threads that hand blocks over may be three times slower when the host has put
their virtual CPUs far apart.  The mark after it is
    +   ours is at least as good as the best peer
    =   within 5 % of it
    -   worse
    !   worse than glibc, by more than 5 %
Programs that do a fixed amount of work have two more figures: PROGRAM.cpu,
user and system time, and PROGRAM.rss, the most memory that was resident.
Everything measured goes to BUILD/bench.json.

The last table is of vmem_alloc() and vmem_free() in our library alone;
"flat" is the slowest column by the first.

Environment:
    QUICK=1            shorter measurements, and neither frag nor idle: a
                       minute and a half instead of eight
    ONLY=REGEX         programs whose name matches (or "vmem")
    PEERS="PEER ..."   to compare with, instead of all that are installed:
                       a name known here, or NAME=PATH for another library
    ROUNDS=N, SCALE=X  other than the default
    LIMIT=N            seconds it may take; what is missing then is left out

Exits 1 if a program failed under our allocator, 2 if it cannot run at all.
"""

import json
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

# Together with bench_vmem, that is what the text above says.
MOST_SECONDS = 450
QUICK_SECONDS = 85
OURS = "ours"
LIBC = "glibc"

# What is better, less (True) or more; a ratio of the others makes no sense.
UNITS = {
    "ns": True,
    "us": True,
    "ms": True,
    "s": True,
    "MiB": True,
    "x": True,
    "Mops/s": False,
    "loops/s": False,
}
DIFFERENCES = {"MiB+"}

PEERS = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
    "tbb": "libtbbmalloc_proxy.so.2",
}

# A figure belongs to the first group that it matches.
GROUPS = [
    ("user+sys", r"\.cpu$"),
    ("peak RSS", r"\.rss$"),
    ("pairs", r"^pair\."),
    ("batches", r"^batch\."),
    ("hand-over", r"^(prodcons|larson|xmalloc|mstress)\."),
    ("malloc_test", r"^malloc_test\."),
    ("threads", r"^(threads\.|cache\.|churn\.thread)"),
    ("growing", r"^grow\."),
    ("latency", r"^latency\..*\.p"),
    ("object cache", r"^objcache\.(pair|batch)$"),
    ("fresh blocks", r"^(space\.touch|phase\.ns|frag\.time)"),
    ("memory held", r"^(space|phase|frag|idle)\."),
]
MEMORY_GROUPS = {"peak RSS", "memory held"}


@dataclass
class Program:
    """A program and how it is run."""

    name: str
    fixed: bool = False  # the work; so its time and memory are figures
    args: list = field(default_factory=list)  # after the scale
    quick_args: list = None  # instead, if QUICK
    rounds: int = 99  # that will do
    quick_rounds: int = 99
    seconds: int = 120  # it is given up after


PROGRAMS = [
    Program("micro"),
    Program("prodcons"),
    Program("threads", quick_rounds=2),
    Program("larson", fixed=True),
    Program("xmalloc", fixed=True),
    Program("mstress", fixed=True),
    Program("cache", fixed=True),
    Program("churn", fixed=True),
    Program("grow", quick_rounds=2),
    Program("objcache"),
    Program("latency", fixed=True),
    Program("phase", fixed=True),
    # These are long, or little changes from round to round.
    Program("malloc_test", args=["1,4,32", "256,4096,65536"],
            quick_args=["1,4", "256,4096"], quick_rounds=2),
    Program("space", fixed=True, rounds=2, quick_rounds=1),
    Program("frag", fixed=True, rounds=2, quick_rounds=0),
    Program("idle", fixed=True, rounds=2, quick_rounds=0),
]


class Failure(Exception):
    """A run that gave no figures; the text says why."""


def say(*words):
    print("bench:", *words, file=sys.stderr, flush=True)


# Allocators


def find_library(name):
    machine = platform.machine()
    for folder in (
        f"/usr/lib/{machine}-linux-gnu",
        "/usr/local/lib",
        "/usr/lib64",
        "/usr/lib",
    ):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    return None


def find_peer(word):
    """Name and path of a peer; no path if it is not installed."""
    name, equals, path = word.partition("=")
    if equals and not name or name == OURS:
        say(f"PEERS: {word!r} is neither a peer nor NAME=PATH")
        sys.exit(2)
    if not equals and name == LIBC:
        return name, ""
    if not equals and name not in PEERS:
        say(f"PEERS: {name} is not one of {LIBC} {' '.join(PEERS)}")
        sys.exit(2)
    if not equals:
        path = find_library(PEERS[name])
    if path and os.path.exists(path):
        return name, os.path.abspath(path)
    say(f"{name} left out: there is no {path or PEERS[name]}")
    return name, None


def find_allocators(build):
    """Name to path; the empty path stands for libc's own."""
    ours = os.path.abspath(f"{build}/libumem_malloc.so.1")
    if not os.path.exists(ours):
        say(f"there is no {ours}")
        sys.exit(2)
    wanted = os.environ.get("PEERS", "").split() or [LIBC, *PEERS]
    peers = dict(map(find_peer, wanted))
    return {OURS: ours, **{n: p for n, p in peers.items() if p is not None}}


# Runs


def busy_seconds():
    """Processor time of the whole machine so far, without what was idle."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except OSError:
        return 0.0
    idle, iowait = ticks[3:5]
    return (sum(ticks) - idle - iowait) / os.sysconf("SC_CLK_TCK")


def launch(build, environment, command, seconds):
    """Output, processor seconds and peak MiB of a command."""
    back, there = os.pipe()
    assignments = [f"{k}={v}" for k, v in environment.items()]
    process = subprocess.Popen(
        [f"{build}/bench/launch", str(there), *assignments, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[there],
        start_new_session=True,
    )
    os.close(there)
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failure(f"not done after {seconds:.0f} s") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        with os.fdopen(back) as pipe:
            used = pipe.read().split() if process.returncode == 0 else []
    complaint = (errors.strip().splitlines() or [""])[-1][:200]
    if len(used) != 3:
        raise Failure(f"launch failed: {complaint}")
    status = int(used[2])
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise Failure(f"{name} {complaint}".strip())
    if status != 0:
        raise Failure(f"exit {os.WEXITSTATUS(status)} {complaint}".strip())
    # The dynamic loader goes on without a library that it cannot preload.
    if "cannot be preloaded" in errors:
        raise Failure(complaint)
    return output, float(used[0]), float(used[1])


def parse(output):
    """Figures as name: (value, unit)."""
    figures = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) != 3 or words[2] not in UNITS.keys() | DIFFERENCES:
            raise Failure(f"odd line {line!r}")
        figures[words[0]] = (float(words[1]), words[2])
    return figures


class Bench:
    """All runs and what they gave."""

    def __init__(self, build):
        self.build = build
        self.quick = os.environ.get("QUICK", "") not in ("", "0")
        self.rounds = int(os.environ.get("ROUNDS", 3))
        self.scale = float(
            os.environ.get("SCALE", 0.2 if self.quick else 0.7))
        self.seconds = float(os.environ.get(
            "LIMIT", QUICK_SECONDS if self.quick else MOST_SECONDS))
        self.only = re.compile(os.environ.get("ONLY", ""))
        self.allocators = find_allocators(build)
        self.started = time.monotonic()
        self.units = {}  # figure: unit, in the order of the table
        self.samples = {}  # figure: {allocator: [value a round]}
        self.failures = {}  # (program, allocator): why
        self.wall = {}  # program: seconds, all rounds under all allocators
        self.vmem = {}  # policy: {segments: ns}
        self.others = []  # of each run: CPUs that were kept busy by others

    def seconds_left(self, most):
        return min(most, self.started + self.seconds - time.monotonic())

    def command(self, program):
        args = program.args
        if self.quick and program.quick_args is not None:
            args = program.quick_args
        return [f"{self.build}/bench/{program.name}", str(self.scale), *args]

    def run_one(self, program, name, seconds):
        path = self.allocators[name]
        environment = {"LD_PRELOAD": path} if path else {}
        busy, start = busy_seconds(), time.monotonic()
        output, cpu, rss = launch(
            self.build, environment, self.command(program), seconds
        )
        # Less than a few ticks of the clock in a short run is no one.
        others = busy_seconds() - busy - cpu - 0.05
        self.others.append(max(0, others) / (time.monotonic() - start))
        figures = parse(output)
        if program.fixed:
            figures[f"{program.name}.cpu"] = (cpu, "s")
            figures[f"{program.name}.rss"] = (rss, "MiB")
        for figure, (value, unit) in figures.items():
            self.units[figure] = unit
            self.samples.setdefault(figure, {}).setdefault(name, [])
            self.samples[figure][name].append(value)

    def run_program(self, program, turn):
        """One round of one program; False if the time is up."""
        names = list(self.allocators)
        names = names[turn % len(names):] + names[:turn % len(names)]
        if turn % 2 == 1:
            names.reverse()
        for name in names:
            if (program.name, name) in self.failures:
                continue
            seconds = self.seconds_left(program.seconds)
            if seconds <= 0:
                return False
            start = time.monotonic()
            try:
                self.run_one(program, name, seconds)
            except Failure as failure:
                if seconds < program.seconds and "not done" in str(failure):
                    return False
                self.failures[program.name, name] = str(failure)
                say(f"{program.name} under {name}: {failure}")
            finally:
                self.wall[program.name] = (
                    self.wall.get(program.name, 0)
                    + time.monotonic() - start)
        return True

    def run_vmem(self):
        program = f"{self.build}/bench/bench_vmem"
        if not self.only.search("vmem") or not os.path.exists(program):
            return
        most = "100000" if self.quick else "1000000"
        try:
            output, _, _ = launch(self.build, {}, [program, most], 300)
        except Failure as failure:
            self.failures["bench_vmem", OURS] = str(failure)
            say(f"bench_vmem: {failure}")
            return
        for line in output.splitlines():
            words = line.split()
            if len(words) == 4 and words[0] == "vmem":
                row = self.vmem.setdefault(words[1], {})
                row[int(words[2])] = float(words[3])

    def rounds_of(self, program):
        if not self.quick:
            return program.rounds
        # Who names a program wants it.
        return program.quick_rounds or int(self.only.pattern != "")

    def run(self):
        programs = [
            p for p in PROGRAMS
            if self.only.search(p.name)
            and os.path.exists(f"{self.build}/bench/{p.name}")
        ]
        for turn in range(self.rounds):
            for program in programs:
                if turn >= self.rounds_of(program):
                    continue
                say(f"round {turn + 1} of {self.rounds}: {program.name}")
                if not self.run_program(program, turn):
                    say(f"{self.seconds:g} s are over; what is missing of"
                        f" round {turn + 1} is left out")
                    return


# Results


def best_of(unit, values):
    """The name with the best value; values is {name: value}."""
    choose = min if UNITS.get(unit, True) else max
    return choose(values, key=values.get)


def ratio_of(unit, value, other):
    """How much worse value is than other; None if that makes no sense."""
    if unit in DIFFERENCES or value <= 0 or other <= 0:
        return None
    return value / other if UNITS[unit] else other / value


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
            memory = group in MEMORY_GROUPS
            return group, "all memory" if memory else "all times"
    return ()


def geometric_means(bench, rows):
    """Group: {allocator: (mean ratio to the best peer, figures)}."""
    ratios = {}
    for group in [g for g, _ in GROUPS] + ["all times", "all memory"]:
        for row in rows:
            if group not in groups_of(row):
                continue
            for name, ratio in row.ratios.items():
                ratios.setdefault(group, {}).setdefault(name, []).append(ratio)
    return {
        group: {name: (math.exp(statistics.fmean(map(math.log, found))),
                       len(found))
                for name, found in by_name.items()}
        for group, by_name in ratios.items()
    }


def noise(bench):
    """Median over all figures of (largest - least) / median, by allocator."""
    result = {}
    for name in bench.allocators:
        widths = []
        for figure, samples in bench.samples.items():
            values = samples.get(name, [])
            middle = statistics.median(values) if values else 0
            if len(values) > 1 and middle > 0:
                widths.append((max(values) - min(values)) / middle)
        if widths:
            result[name] = statistics.median(widths)
    return result


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


def print_means(bench, means):
    names = list(bench.allocators)
    if not means:
        return
    print("\nGeometric means of the ratio to the best peer (of so many"
          " figures; lower is better)\n")
    print(f"{'':<16}" + "".join(f"{n:>16}" for n in names))
    for group, by_name in means.items():
        cells = ""
        for name in names:
            text = "-"
            if name in by_name:
                text = f"{by_name[name][0]:.2f} ({by_name[name][1]})"
            cells += f"{text:>16}"
        print(f"{group:<16}{cells}")


def print_others(others):
    """Says whether somebody else was at work on this machine."""
    if not others:
        return
    disturbed = sum(1 for cpus in others if cpus > 0.1)
    print(f"Others kept {statistics.fmean(others):.2f} CPUs busy meanwhile;"
          f" more than a tenth of one in {disturbed} of {len(others)} runs.")
    if disturbed > 0:
        print("Figures of several threads (prodcons, threads, malloc_test)"
              " mean little in those.")


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


def first_line(path, pattern, default="?"):
    try:
        with open(path, encoding="utf-8") as file:
            match = re.search(pattern, file.read())
    except OSError:
        return default
    return match.group(1).strip() if match else default


def mode_of_ours(bench):
    """How our allocator says that it runs."""
    done = subprocess.run(
        ["/bin/true"],
        env={"LD_PRELOAD": bench.allocators[OURS], "UMEM_OPTIONS": "verbose"},
        capture_output=True, text=True, check=False, timeout=60,
    )
    return done.stderr.strip() or "does not say"


def machine(bench):
    return {
        "cpu": first_line("/proc/cpuinfo", r"model name\s*:\s*(.*)"),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "huge pages": first_line(
            "/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        "load at start": os.getloadavg()[0],
        "ours": mode_of_ours(bench),
    }


def write_json(bench, host, rows, means):
    content = {
        "machine": host,
        "quick": bench.quick,
        "rounds": bench.rounds,
        "scale": bench.scale,
        "allocators": bench.allocators,
        "figures": {
            row.figure: {
                "unit": row.unit,
                "less_is_better": UNITS.get(row.unit, True),
                "medians": row.medians,
                "best_peer": row.best_peer,
                "ratios": row.ratios,
                "spread": row.spread,
                "samples": bench.samples[row.figure],
            }
            for row in rows
        },
        "geometric_means": means,
        "vmem": bench.vmem,
        "seconds": bench.wall,
        "others": bench.others,
        "failures": [
            {"program": program, "allocator": name, "why": why}
            for (program, name), why in bench.failures.items()
        ],
    }
    path = f"{bench.build}/bench.json"
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    os.replace(f"{path}.new", path)
    print(f"\nAll figures of all rounds are in {path}.")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = sys.argv[1]
    if not os.path.exists(f"{build}/bench/launch"):
        say(f"there is no {build}/bench/launch: run make bench")
        return 2
    # glibc's turn is one without a preload.
    os.environ.pop("LD_PRELOAD", None)
    bench = Bench(build)
    host = machine(bench)
    for key, value in host.items():
        print(f"{key + ':':<15}{value}")
    print(f"{'scale:':<15}{bench.scale:g}, rounds: {bench.rounds}\n",
          flush=True)
    bench.run_vmem()
    bench.run()
    rows = [make_row(bench, figure) for figure in bench.units]
    means = geometric_means(bench, rows)
    if rows:
        print_table(bench, rows)
        print_means(bench, means)
        widths = ", ".join(f"{n} {w:.0%}" for n, w in noise(bench).items())
        if widths:
            print(f"\nFrom least to largest of the rounds, median over the"
                  f" figures: {widths}.")
        print_others(bench.others)
    print_vmem(bench.vmem)
    if not rows and not bench.vmem and not bench.failures:
        say(f"no program is called {bench.only.pattern!r}")
        return 2
    for (program, name), why in bench.failures.items():
        print(f"\nFAILED: {program} under {name}: {why}")
    write_json(bench, host, rows, means)
    return 1 if any(name == OURS for _, name in bench.failures) else 0


if __name__ == "__main__":
    sys.exit(main())
