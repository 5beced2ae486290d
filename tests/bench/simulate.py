#!/usr/bin/env python3
"""simulate.py - operations a second on more CPUs than the machine has

	make build/bench/simulate
	make SAN=thread build-thread/bench/simulate
	tests/bench/simulate.py

simulate.c counts for each operation of eight patterns, and for 1 to 256
emulated CPUs, the visits of each lock, exchanges of magazines, and lines of the
cache that pass from CPU to CPU.  It measures the time of an operation without
them, how long each lock is held, and how long two CPUs of this machine take to
pass a line.  From these a closed queueing network predicts operations a second:
each CPU is a customer that works by itself, and visits the locks, which serve
one customer at a time (exact mean value analysis).

	own work	processor time of an operation, less the visits of
			locks, plus the lines that pass outside of locks
	a visit		how long the lock is held, plus a pass for each line
			that passes meanwhile, the lock's own included

The CPU waits for the lines of the library: it needs their contents at once.  It
does not wait for a block that it writes to, nor for rounds, whose lines it
fetches ahead, because they follow each other.  Each cost is measured alone, and
none is fitted.  The model leaves out the kernel, the size
of caches, the buses, the upkeep thread, the sleep of threads that wait for a
lock, and the locks of the program.

The prediction is compared with real threads on two CPUs of this machine, and
with 16 CPUs of another machine (README.md, "Many CPUs").  For that, own work
and the time that locks are held are scaled by the ratio of the figures for one
thread; the costs of lines are those of this machine.

The measurements take about 20 minutes.  build/simulate.json keeps them; if it
exists, only the prediction is made again.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from multiprocessing.pool import ThreadPool

CPUS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
# Measured on 16 CPUs, in millions a second: one thread, 16 threads.
PATTERNS = {"private": (62.9, 1075), "burst": (91.1, 1364),
            "burst4k": (58.4, 476), "sizes": (63.6, 941),
            "large": (19.6, 177), "huge": (28.8, 283), "shared": (24.2, 191),
            "xmalloc": (None, 346)}
# ns to read a line that the other CPU has written.  The two CPUs of a virtual
# machine move between the cores of the host: near ones share a cache.
DISTANCES = {"near": (15, 85), "far": (90, 200)}
RESULTS = "build/simulate.json"
SECONDS = 300


def run(build, ncpus, *args):
    """The lines that simulate prints: {word: number}, and the locks."""
    environment = {**os.environ}
    if ncpus:
        environment["SIMULATE_CPUS"] = str(ncpus)
    done = subprocess.run([f"{build}/bench/simulate", *map(str, args)],
                          text=True, capture_output=True, env=environment,
                          check=False)
    if done.returncode != 0:
        raise OSError(f"{shlex.join(done.args)}: {done.stderr.strip()}")
    figures, locks = {}, []
    for line in done.stdout.splitlines():
        word, *rest = line.split()
        if word == "lock":
            locks.append((rest[0], int(rest[1]), *map(float, rest[2:])))
        else:
            figures[word] = float(rest[0])
    return figures, locks


def hold_times(times):
    """ns that a lock is held: {(name, size): ns, name: ns}."""
    figures, locks = times
    sums = {}
    for name, size, visits, _, ns in locks:
        for key in ((name, size), name):
            n, total = sums.get(key, (0, 0))
            sums[key] = (n + visits,
                         total + visits * max(0, ns - figures["clock"]))
    return {key: total / n for key, (n, total) in sums.items()}


class Point:
    """One pattern on so many CPUs: its own work, and its visits of locks."""

    def __init__(self, counts, times, elsewhere):
        holds = hold_times(times)
        self.counts, locks = counts
        self.work = times[0]["ns"] - sum(
            visits * holds[name, size]
            for name, size, visits, _, _ in times[1])
        # Name, visits, ns held, lines that pass.
        self.locks = [
            (f"{name} of {size}" if name in ("slabs", "depot") else name,
             visits,
             holds.get((name, size), holds.get(name, elsewhere.get(name, 0))),
             lines)
            for name, size, visits, lines, _ in locks]

    def demands(self, costs, factor=1):
        """ns of an operation: without locks, and at each lock."""
        ahead = self.counts["program"] + self.counts["rounds"]
        return (self.work * factor + self.counts["library"] * costs["pass"]
                + ahead * costs["many"],
                [visits * (held * factor + lines * costs["pass"])
                 for _, visits, held, lines in self.locks])

    def busiest(self, costs):
        """The lock with the largest demand, and the CPUs that saturate it."""
        own, demands = self.demands(costs)
        most = max(demands, default=0)
        if most == 0:
            return "", float("inf")
        return (self.locks[demands.index(most)][0],
                (own + sum(demands)) / most)


def throughput(ncpus, own, demands):
    """Millions of operations a second, by exact mean value analysis."""
    queues = [0.0] * len(demands)
    rate = 0
    for n in range(1, ncpus + 1):
        stays = [d * (1 + q) for d, q in zip(demands, queues)]
        rate = n / (own + sum(stays))
        queues = [rate * stay for stay in stays]
    return rate * 1e3


def counted(pattern, n):
    """The counts, and the faster of two measurements of times."""
    print(f"simulate: {pattern}, {n} CPUs", file=sys.stderr)
    steps = 60000
    if pattern in ("large", "huge"):  # each has more lines
        steps = 20000
    elif pattern == "xmalloc" and n > 64:
        steps = 120000
    counts = run("build-thread", n, "counts", pattern, steps)
    return counts, min((run("build", n, "times", pattern, 20000)
                        for _ in range(2)), key=lambda t: t[0]["ns"])


def distance(costs):
    """near, far, or None: where the two CPUs were on the host."""
    for name, (low, high) in DISTANCES.items():
        if low < costs["pass"] < high:
            return name
    return None


def pair(seconds):
    """The costs and the threads' figures by distance, until time is up."""
    costs, rates = {}, {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for pattern in PATTERNS:
            before = run("build", 0, "costs")[0]
            mops = [run("build", 0, "threads", pattern, n)[0].get("mops")
                    for n in (1, 2)]
            after = run("build", 0, "costs")[0]
            where = distance(before)
            if where is None or where != distance(after):
                continue
            costs.setdefault(where, []).extend((before, after))
            if None not in mops:
                rates.setdefault(f"{pattern} {where}", []).append(mops)
    return ({where: {key: statistics.median(c[key] for c in several)
                     for key in ("pass", "many")}
             for where, several in costs.items()},
            {key: [statistics.median(m[i] for m in several) for i in (0, 1)]
             for key, several in rates.items()})


def number(x):
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def table(rows):
    for i, row in enumerate(rows):
        print("|", " | ".join(row), "|")
        if i == 0:
            print("|" + "---|" * len(row))


def predict(results):
    """Prints the predictions and the counts."""
    models = {}
    for pattern in PATTERNS:
        runs = {n: rest for name, n, *rest in results["runs"]
                if name == pattern}
        elsewhere = {}
        for _, times in runs.values():
            elsewhere.update(hold_times(times))
        models[pattern] = {n: Point(counts, times, elsewhere)
                           for n, (counts, times) in sorted(runs.items())}
    for where, costs in results["costs"].items():
        print(f"\n{where}: a line waited for {costs['pass']:.3g} ns,"
              f" another {costs['many']:.3g} ns\n")
        factors = [throughput(1, *models[p][1].demands(costs)) / PATTERNS[p][0]
                   for p in PATTERNS if PATTERNS[p][0]]
        rows = [["pattern", *map(str, CPUS), "2 here", "16 there",
                 "busiest lock, saturated by CPUs, at 16, 64, 128, 256"]]
        for pattern, model in models.items():
            rates = {n: throughput(n, *p.demands(costs))
                     for n, p in model.items()}
            one, many = PATTERNS[pattern]
            factor = rates[1] / one if one else statistics.median(factors)
            other = throughput(16, *model[16].demands(costs, factor))
            here = results["threads"].get(f"{pattern} {where}")
            locks = [model[n].busiest(costs) for n in (16, 64, 128, 256)
                     if n in model]
            rows.append([
                pattern, *(number(rates[n]) if n in rates else ""
                           for n in CPUS),
                f"{number(here[1])}: {rates[2] / here[1]:.2f}" if here else "",
                f"{many}: {other / many:.2f}",
                ", ".join(f"{name} {number(limit)}" for name, limit in locks)])
        table(rows)
    if not results["costs"]:
        print("no prediction: other work disturbed all measurements of costs")
    print("\ncounts of an operation\n")
    keys = ["exchanges", "migrations", "refills", "program", "rounds",
            "library"]
    rows = [["pattern, CPUs", "own ns", "visits", *keys]]
    for pattern, model in models.items():
        for n in (1, 2, 16, 64, 256):
            if n in model:
                rows.append([
                    f"{pattern}, {n}", number(model[n].work),
                    number(sum(lock[1] for lock in model[n].locks)),
                    *(number(model[n].counts[key]) for key in keys)])
    table(rows)


def main():
    if not os.path.exists(RESULTS):
        jobs = [(pattern, n) for n in CPUS for pattern in PATTERNS]
        with ThreadPool(2) as pool:
            done = pool.starmap(counted, jobs, chunksize=1)
        costs, rates = pair(SECONDS)
        with open(RESULTS, "w", encoding="utf-8") as file:
            json.dump({"runs": [[*job, *run] for job, run in zip(jobs, done)],
                       "costs": costs, "threads": rates}, file)
    with open(RESULTS, encoding="utf-8") as file:
        predict(json.load(file))


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"simulate.py: {error}")
