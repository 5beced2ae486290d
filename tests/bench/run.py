#!/usr/bin/env python3
"""run.py - runs the benchmarks under several allocators, side by side

Usage: run.py BUILD [--scaling | --table]

BUILD is the build folder, with the programs in BUILD/bench.  Each program
runs under each allocator in turn, then again the other way round, and so on;
the results are the medians of the rounds.  The first run of a new program pays
for pages that the machine has to fetch.  So before the first round the last
allocator in turn runs once without being counted, and memory for each run is
kept ready (Held).  The allocators are ours, glibc's (which needs no preload),
the installed ones of Debian's peers, and the peers that "make peers" has built
into build/peers.

The table has one line for each figure.  A star marks the best allocator.
"ratio" is ours to the best peer: below 1 ours is better, whether more or less
of the unit is better.  It is the median of the ratios of the rounds, because a
machine that is slow for some seconds is slow for all allocators of a round.
"spread" is the least and the largest of these ratios.  Two threads that pass
blocks to each other may be three times slower if the host has put their
virtual CPUs far apart.  The mark after it is
    +   ours is at least as good as the best peer
    =   within 5 % of it
    -   worse
    !   worse than glibc, by more than 5 %
Programs that do a fixed amount of work, and the real programs, have two more
figures: PROGRAM.cpu, user and system time, and PROGRAM.rss, the most memory
that was resident.  The output of a real program must be the same under all.

Then come geometric means: over the programs, of the ratio to the best of all
allocators on that program; and over the figures, of the ratio to the best
peer.  Each program and the targets follow.  The last table measures
vmem_alloc() and vmem_free() in our library alone; "flat" is the slowest
column divided by the first.

All samples go to BUILD/bench.json, a page with plots to BUILD/bench.html, and a
chart of time against memory to BUILD/bench.svg.
--scaling runs the programs with threads, with 1, 2, 4 ... threads up to twice
the number of CPUs (scaling.json, scaling.html).  --table runs nothing: it
prints the rows of README's table from BUILD/bench.json.

Environment:
    QUICK=1            shorter measurements, and nothing that needs a gigabyte
                       or sleeps: less than 5 minutes
    ONLY=REGEX         only the programs with a matching name (or "vmem")
    PEERS="PEER ..."   names to compare with, instead of all that there are;
                       each NAME=PATH adds another library
    ROUNDS=N, SCALE=X  instead of the defaults
    LIMIT=N            seconds it may take (7200; 280 if QUICK, 460 with
                       --scaling); measurements missing then, or after an
                       interrupt, are left out

Exits 1 if a program failed under our allocator, 2 if it cannot run at all.
"""

import collections
import hashlib
import json
import mmap
import os
import platform
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/real")
# Nothing is written among the sources.
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import allocators  # noqa: E402
import chart  # noqa: E402
import inputs  # noqa: E402
import page  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
from allocators import LIBC, OURS, say  # noqa: E402

# "make peers" builds the peers into this folder in every build variant.
PEERS_FOLDER = os.path.join(HERE, "../../build/peers")
MOST_SECONDS = 7200
QUICK_SECONDS = 280
SCALING_SECONDS = 460

# Memory that is kept at hand between the runs, at most.
HOLD_MAX_MIB = 1024


class Failure(Exception):
    """A run that gave no figures; the text says why."""


# Runs


def busy_seconds():
    """Processor time of the whole machine so far, without idle time."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except OSError:
        return 0.0
    idle, iowait = ticks[3:5]
    return (sum(ticks) - idle - iowait) / os.sysconf("SC_CLK_TCK")


class Cgroup:
    """A memory cgroup of some MiB, of version 1 or 2; gone afterwards."""

    def __init__(self, mib):
        self.folder = None
        for parent, limit in (("/sys/fs/cgroup/memory", "limit_in_bytes"),
                              ("/sys/fs/cgroup", "max")):
            folder = f"{parent}/umem-bench-{os.getpid()}"
            try:
                if limit == "max":
                    self.write(f"{parent}/cgroup.subtree_control", "+memory")
                os.mkdir(folder)
                self.folder = folder
                self.write(f"{folder}/memory.{limit}", str(mib << 20))
                return
            except OSError:
                self.remove()

    @classmethod
    def possible(cls):
        trial = cls(64)
        there = trial.folder is not None
        trial.remove()
        return there

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def enter(self):
        self.write(f"{self.folder}/cgroup.procs", str(os.getpid()))

    def remove(self):
        if self.folder is None or not os.path.isdir(self.folder):
            return
        for _ in range(50):
            try:
                os.rmdir(self.folder)
                break
            except OSError:
                time.sleep(0.02)
        self.folder = None


def launch(build, environment, command, seconds, stdin=None, cgroup=None):
    """Output, processor seconds and peak MiB of a command."""
    back, there = os.pipe()
    assignments = [f"{k}={v}" for k, v in environment.items()]
    process = subprocess.Popen(
        [f"{build}/bench/launch", str(there), *assignments, *command],
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[there],
        start_new_session=True,
        preexec_fn=cgroup.enter if cgroup else None,
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
    errors = errors.decode(errors="replace")
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
    for line in output.decode().splitlines():
        words = line.split()
        if (len(words) != 3
                or words[2] not in report.UNITS.keys() | report.DIFFERENCES):
            raise Failure(f"odd line {line!r}")
        figures[words[0]] = (float(words[1]), words[2])
    return figures


def in_turn(names, turn, rounds):
    """Two rounds, one the other way round, put each as early as late."""
    first = turn // 2 * len(names) // ((rounds + 1) // 2)
    names = names[first:] + names[:first]
    return names[::-1] if turn % 2 == 1 else names


class Held:
    """Touched memory, which this process frees just before the next run.

    A virtual machine may have to ask its host for memory that was free for
    some seconds.  That takes up to twenty times as long as the rest of a page
    fault, and longest with huge pages.  Otherwise chance would decide which
    allocator pays for it.
    """

    def __init__(self):
        self.memory = None

    def hold(self, mib):
        self.let_go()
        size = min(int(mib), HOLD_MAX_MIB) << 20
        self.memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self.memory.madvise(mmap.MADV_HUGEPAGE)
        self.memory[::mmap.PAGESIZE] = bytes(size // mmap.PAGESIZE)

    def let_go(self):
        if self.memory:
            self.memory.close()
        self.memory = None


class Bench:
    """All runs and their results."""

    def __init__(self, build, scaling):
        self.build = build
        self.scaling = scaling
        self.quick = os.environ.get("QUICK", "") not in ("", "0")
        self.rounds = int(os.environ.get(
            "ROUNDS", 2 if self.quick or scaling else 3))
        # Of the work of real programs.
        self.part = 0.25 if self.quick else 1
        self.inputs = f"{build}/bench/inputs"
        self.scale = float(
            os.environ.get("SCALE", 0.15 if self.quick or scaling else 0.7))
        self.seconds = float(os.environ.get(
            "LIMIT", QUICK_SECONDS if self.quick
            else SCALING_SECONDS if scaling else MOST_SECONDS))
        self.only = re.compile(os.environ.get("ONLY", ""))
        self.allocators = allocators.find(
            build, os.environ.get("PEERS", "").split(), PEERS_FOLDER)
        self.started = time.monotonic()
        self.units = {}  # figure: unit, in the order of the table
        self.samples = {}  # figure: {allocator: [value a round]}
        self.fixed = {}  # names of programs with .cpu and .rss: True
        self.failures = {}  # (program, allocator): why
        self.outputs = {}  # real program: {allocator: hash}
        self.held = Held()
        # program: the most memory so far, MiB
        self.peak = collections.defaultdict(float)
        self.wall = {}  # program: seconds, all rounds under all allocators
        self.vmem = {}  # policy: {segments: ns}
        self.others = []  # of each run: CPUs that were kept busy by others

    def seconds_left(self, most):
        return min(most, self.started + self.seconds - time.monotonic())

    def command(self, program):
        if program.real:
            words = [word.replace("{here}", f"{HERE}/real")
                     .replace("{inputs}", self.inputs)
                     for word in program.command]
            return [re.sub(r"^\{(\d+)\}$", self.part_of, word)
                    for word in words]
        args = program.args
        if self.quick and program.quick_args is not None:
            args = program.quick_args
        # Some programs run at full scale unless the user sets SCALE.
        scale = self.scale
        if program.whole and "SCALE" not in os.environ:
            scale = 1.0
        return [f"{self.build}/bench/{program.file or program.name}",
                str(scale), *args]

    def part_of(self, match):
        return str(int(int(match.group(1)) * self.part))

    def environment(self, program, name):
        allocator = self.allocators[name]
        environment = {**program.environment, **allocator.environment}
        if program.server:
            # Debian's redis is linked with jemalloc; libc's must go before.
            preload = environment.pop("LD_PRELOAD", None)
            environment["SERVER_PRELOAD"] = (
                preload or allocators.find_library("libc.so.6") or "")
        return environment

    def note(self, name, figures):
        for figure, (value, unit) in figures.items():
            self.units[figure] = unit
            self.samples.setdefault(figure, {}).setdefault(name, [])
            self.samples[figure][name].append(value)

    def launch_program(self, program, name, seconds):
        cgroup, stdin = None, None
        if program.cgroup_mib:
            cgroup = Cgroup(program.cgroup_mib)
            if cgroup.folder is None:
                raise Failure("no memory cgroup can be made here")
        if program.stdin:
            stdin = open(f"{self.inputs}/{program.stdin}", "rb")
        try:
            self.held.let_go()
            result = launch(self.build, self.environment(program, name),
                            self.command(program), seconds, stdin, cgroup)
            self.peak[program.name] = max(self.peak[program.name], result[2])
            return result
        finally:
            if stdin:
                stdin.close()
            if cgroup:
                cgroup.remove()
            self.held.hold(1.25 * self.peak[program.name] + 16)

    def run_one(self, program, name, seconds):
        busy, start = busy_seconds(), time.monotonic()
        output, cpu, rss = self.launch_program(program, name, seconds)
        # Less than a few ticks of the clock in a short run is no one.
        others = busy_seconds() - busy - cpu - 0.05
        self.others.append(max(0, others) / (time.monotonic() - start))
        if program.server:
            output, _, used = output.rpartition(b"used ")
            cpu, rss = used.split()
            cpu, rss = float(cpu) / 1e9, float(rss) / 1024
        figures = {}
        if program.real:
            self.outputs.setdefault(program.name, {})[name] = (
                hashlib.sha256(output).hexdigest())
        else:
            figures = parse(output)
        if program.cgroup_mib:
            # That it lives is the result; the other figures are another's.
            figures = {f"{program.name}.time": (cpu, "s")}
        if program.fixed:
            self.fixed[program.name] = True
            figures[f"{program.name}.cpu"] = (cpu, "s")
            figures[f"{program.name}.rss"] = (rss, "MiB")
        self.note(name, figures)

    def warm_up(self, program, name):
        try:
            self.launch_program(program, name,
                                self.seconds_left(program.seconds))
        except Failure:
            pass  # The run that counts will say so.

    def run_program(self, program, turn):
        """One round of one program; False if the time is up."""
        names = in_turn(list(self.allocators), turn, self.rounds)
        if turn == 0 and not program.cgroup_mib:
            self.warm_up(program, names[-1])
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
        if (self.scaling or not self.only.search("vmem")
                or not os.path.exists(program)):
            return
        most = "10000" if self.quick else "1000000"
        try:
            output, _, _ = launch(self.build, {}, [program, most], 300)
        except Failure as failure:
            self.failures["bench_vmem", OURS] = str(failure)
            say(f"bench_vmem: {failure}")
            return
        for line in output.decode().splitlines():
            words = line.split()
            if len(words) == 4 and words[0] == "vmem":
                row = self.vmem.setdefault(words[1], {})
                row[int(words[2])] = float(words[3])

    def rounds_of(self, program):
        if not self.quick:
            return program.rounds
        # With ONLY the user asks for the program, so it runs at least once.
        return program.quick_rounds or int(self.only.pattern != "")

    def programs(self):
        """Those that are wanted and there; says which are not."""
        ncpus = len(os.sched_getaffinity(0))
        every = (programs.scaling(ncpus) if self.scaling
                 else programs.PROGRAMS)
        wanted = [p for p in every if self.only.search(p.name)]
        absent = [p.name for p in wanted if not p.there(self.build)]
        if absent:
            say(f"not installed, and left out: {' '.join(absent)}")
        limited = [p.name for p in wanted if p.cgroup_mib]
        if limited and not Cgroup.possible():
            say(f"no memory cgroup can be made here: {' '.join(limited)}"
                " left out")
            absent += limited
        return [p for p in wanted if p.name not in absent]

    def run(self):
        found = self.programs()
        if any(p.real for p in found):
            inputs.write(self.inputs, self.part)
        for turn in range(self.rounds):
            for program in found:
                if turn >= self.rounds_of(program):
                    continue
                say(f"round {turn + 1} of {self.rounds}: {program.name}")
                if not self.run_program(program, turn):
                    say(f"{self.seconds:g} s are over; what is missing of"
                        f" round {turn + 1} is left out")
                    return
            if turn == 0 and self.rounds > 1:
                self.say_how_long(found)

    def say_how_long(self, found):
        rest = sum(self.wall.get(p.name, 0)
                   * (min(self.rounds_of(p), self.rounds) - 1)
                   for p in found if self.rounds_of(p) > 0)
        rest = min(rest, self.seconds_left(rest))
        say(f"the first round took"
            f" {(time.monotonic() - self.started) / 60:.0f} min; the others"
            f" will take about {max(rest, 0) / 60:.0f}")

    def compare_outputs(self):
        for program, hashes in self.outputs.items():
            right = hashes.get(LIBC)
            if right is None:
                right = collections.Counter(hashes.values()).most_common()[0][0]
            for name, found in hashes.items():
                if found != right:
                    self.failures[program, name] = "its output is another"


# The machine


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
        env={"LD_PRELOAD": bench.allocators[OURS].path,
             "UMEM_OPTIONS": "verbose"},
        capture_output=True, text=True, check=False, timeout=60,
    )
    return done.stderr.strip() or "does not say"


def machine(bench, options):
    host = {
        "cpu": first_line("/proc/cpuinfo", r"model name\s*:\s*(.*)"),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "huge pages": first_line(
            "/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        "load at start": os.getloadavg()[0],
        "ours": mode_of_ours(bench),
        "scale": f"{bench.scale:g}, rounds: {bench.rounds}",
    }
    if options:
        host["options set"] = " ".join(f"{k}={v}" for k, v in options.items())
    return host


# Results


def results(bench, host, rows, means, left_out):
    over = {"time": report.over_programs(bench, rows, ".cpu"),
            "peak RSS": report.over_programs(bench, rows, ".rss")}
    return {
        "machine": host,
        "quick": bench.quick,
        "rounds": bench.rounds,
        "scale": bench.scale,
        "allocators": {a.name: a.version or a.path
                       for a in bench.allocators.values()},
        "programs": list(bench.fixed),
        "figures": {
            row.figure: {
                "unit": row.unit,
                "less_is_better": report.UNITS.get(row.unit, True),
                "medians": row.medians,
                "best_peer": row.best_peer,
                "ratios": row.ratios,
                "spread": row.spread,
                "samples": bench.samples[row.figure],
            }
            for row in rows
        },
        "over_programs": {what: found for what, (found, _) in over.items()},
        "geometric_means": means,
        # For want of an allocator's figure: see report.means_in_common().
        "left_out": left_out | {
            what: without for what, (_, without) in over.items() if without},
        "targets": [
            {"text": t.text, "value": t.value, "limit": t.limit,
             "met": t.met, "detail": t.detail}
            for t in (report.targets(rows) if not bench.scaling else [])
        ],
        "vmem": bench.vmem,
        "seconds": bench.wall,
        "others": bench.others,
        "failures": [
            {"program": program, "allocator": name, "why": why}
            for (program, name), why in bench.failures.items()
        ],
    }


def write_files(bench, content):
    base = f"{bench.build}/{'scaling' if bench.scaling else 'bench'}"
    points, note = chart.from_results(content)
    files = [(f"{base}.json", json.dumps(content, indent=1)),
             (f"{base}.html", page.make(content, bench.scaling))]
    if points:
        files.append((f"{base}.svg", chart.make(points, note)))
    for path, text in files:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    print(f"\nAll figures of all rounds are in {base}.json, the plots in"
          f" {base}.html" + (f", time against memory in {base}.svg."
                             if points else "."))


def print_results(bench, rows, content):
    report.print_table(bench, rows)
    report.print_means(
        bench, "Geometric means of the ratio to the best peer (of so many"
        " figures; lower is better)", content["geometric_means"])
    report.print_programs(bench, rows)
    report.print_means(
        bench, "Geometric means over programs of the ratio to the best of all"
        " allocators (of so many programs)",
        {k: v for k, v in content["over_programs"].items() if v})
    for what, without in content["left_out"].items():
        print(f"\nNot in the means of {what}, since an allocator did not"
              f" complete them: {', '.join(without)}.")
    if not bench.scaling:
        report.print_targets(report.targets(rows))
    widths = ", ".join(f"{n} {w:.0%}" for n, w in report.noise(bench).items())
    if widths:
        print(f"\nFrom least to largest of the rounds, median over the"
              f" figures: {widths}.")
    report.print_others(bench.others)


def main():
    words = sys.argv[1:]
    options = [w for w in words if w.startswith("--")]
    build = next((w for w in words if not w.startswith("--")), None)
    if (build is None or len(words) != 1 + len(options)
            or set(options) - {"--scaling", "--table"}):
        print(__doc__, file=sys.stderr)
        return 2
    if "--table" in options:
        return page.print_markdown(f"{build}/bench.json")
    if not os.path.exists(f"{build}/bench/launch"):
        say(f"there is no {build}/bench/launch: run make bench")
        return 2
    set_options = allocators.clean_environment()
    bench = Bench(build, "--scaling" in options)
    host = machine(bench, set_options)
    for key, value in host.items():
        print(f"{key + ':':<15}{value}")
    for allocator in bench.allocators.values():
        mode = allocators.mode(allocator)
        if mode:
            allocator.version += f", {mode}"
        print(f"{allocator.name + ':':<15}"
              f"{allocator.version or allocator.path}", flush=True)
    print()
    try:
        bench.run_vmem()
        bench.run()
    except KeyboardInterrupt:
        say("interrupted: what is missing is left out")
    bench.compare_outputs()
    rows = [report.make_row(bench, figure) for figure in bench.units]
    content = results(bench, host, rows, *report.geometric_means(rows))
    if rows:
        print_results(bench, rows, content)
    report.print_vmem(bench.vmem)
    if not rows and not bench.vmem and not bench.failures:
        say(f"no program is called {bench.only.pattern!r}")
        return 2
    for (program, name), why in bench.failures.items():
        print(f"\nFAILED: {program} under {name}: {why}")
    write_files(bench, content)
    return 1 if any(name == OURS for _, name in bench.failures) else 0


if __name__ == "__main__":
    sys.exit(main())
