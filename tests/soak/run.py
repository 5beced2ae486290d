#!/usr/bin/env python3
"""run.py - runs the soak in each mode, and the command umem beside it

	tests/soak/run.py BUILD SECONDS [MODE...]

The modes are those of MODES below, all by default; SECONDS is their total.
SEED in the environment repeats a run, as far as threads allow; by default it
follows from the clock.

While the soak of a mode runs, this program does the following without pause,
and checks each answer against the board, the page that the soak shares:
 - umem metrics, status, stat, top, ps, users, verify, whatis, leaks, walk leak;
 - umem ctl, which turns sampling on and off and changes the limits;
 - changes of the CPUs of the process, by its cpuset if this user may make one.

A difference, a crash, a soak that makes no progress for HANG_S seconds, and an
answer that is wrong end the run with status 1.  The core stays in the
folder that the last line names; gdb, if there is one, prints its stacks.
"""
import glob
import json
import mmap
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext

MODES = {
    "rseq": {"UMEM_OPTIONS": "mode=rseq"},
    "own": {"UMEM_OPTIONS": "mode=own"},
    "locked": {"UMEM_OPTIONS": "mode=locked"},
    "hardened": {"UMEM_OPTIONS": "hardened"},
    "nomagazines": {"UMEM_OPTIONS": "nomagazines"},
    "debug": {"UMEM_DEBUG": "default"},
}
# How the mode begins in umem status.
STATUS = {"rseq": "rseq, ", "own": "rseq, ", "locked": "locked"}
FACTOR = int(os.environ.get("TEST_TIME_FACTOR", "1"))
HANG_S = 120 * FACTOR
MIB = 1 << 20
# Of the others, one at a time can stop a process.
RUNNING = ("metrics", "top", "ps")
# A thread in vfork() stops for nobody.
IN_VFORK = re.compile(r"thread \d+ does not stop; its registers are not known")

# struct board of soak.h.
FIELDS = ("words ready beats differences forks vforks clones execs threads "
          "cancels signals modules scarce failed child_ops sharing_begun "
          "sharing_ended limit_wanted limit_granted censuses in_use expected "
          "rss").split()
NPLANTED, NFROZEN, NACTORS = 6, 48, 64
WORDS = len(FIELDS) + 2 * (NPLANTED + NFROZEN + NACTORS)


class Wrong(Exception):
    """An answer that is not right."""


def need(condition, text):
    if not condition:
        raise Wrong(text)


class Board:
    def __init__(self, path):
        with open(path, "w+b") as file:
            file.truncate(-(-WORDS * 8 // 4096) * 4096)
            self.map = mmap.mmap(file.fileno(), 0)

    def word(self, i):
        return struct.unpack_from("=Q", self.map, 8 * i)[0]

    def __getattr__(self, name):
        return self.word(FIELDS.index(name))

    def set(self, name, value):
        struct.pack_into("=Q", self.map, 8 * FIELDS.index(name), value)

    def pairs(self, first, n):
        return {self.word(first + 2 * i): self.word(first + 2 * i + 1)
                for i in range(n)}

    def planted(self):
        return self.pairs(len(FIELDS), NPLANTED)

    def frozen(self):
        return self.pairs(len(FIELDS) + 2 * NPLANTED, NFROZEN)

    def actor(self, i, k):
        return self.word(len(FIELDS) + 2 * (NPLANTED + NFROZEN + i) + k)

    def operations(self):
        return sum(self.actor(i, 0) for i in range(NACTORS)) + self.child_ops

    def bytes(self):
        total = sum(self.actor(i, 1) for i in range(NACTORS)) % (1 << 64)
        return total if total < 1 << 63 else total - (1 << 64)


class Soak:
    def __init__(self, build, mode, seconds, seed):
        self.mode, self.seconds, self.seed = mode, seconds, seed
        self.program = os.path.join(build, "soak/soak")
        self.umem = os.path.join(build, "umem")
        self.folder = tempfile.mkdtemp(prefix=f"umem-soak-{mode}-")
        self.board = Board(self.file("board"))
        self.random = random.Random(seed)
        self.seen = set()
        self.looks = self.in_flight = 0
        self.asked = {}
        self.sampling = "off"
        self.failure = None
        self.lock = threading.Lock()
        self.stops = threading.Lock()
        env = dict(os.environ, LD_LIBRARY_PATH=build,
                   LD_PRELOAD=os.path.join(build, "libumem_malloc.so.1"),
                   **MODES[mode])
        self.process = subprocess.Popen(
            [self.program, str(seconds), str(seed),
             "board", os.path.join(build, "soak/plugin.so")],
            cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
            stderr=open(self.file("stderr"), "wb"), preexec_fn=allow_core)
        self.pid = self.process.pid

    def file(self, name):
        return os.path.join(self.folder, name)

    def is_over(self):
        return (self.failure is not None or self.board.ready == 2
                or self.process.poll() is not None)

    # The command.

    def ask(self, *words, status=(0,), quiet=True):
        with self.stops if words[0] not in RUNNING else nullcontext():
            run = None
            while run is None or "gets no processor" in run.stderr:
                began = time.monotonic()
                run = subprocess.run([self.umem, *words], capture_output=True,
                                     text=True, timeout=HANG_S)
        n, most = self.asked.get(words[0], (0, 0))
        self.asked[words[0]] = n + 1, max(most, time.monotonic() - began)
        said = [line for line in run.stderr.splitlines()
                if not IN_VFORK.search(line)]
        need(run.returncode in status and not (quiet and said)
             or self.board.ready == 2,
             f"umem {' '.join(words)}: status {run.returncode}, "
             f"{run.stderr.strip()[:500]}")
        return run.stdout

    def ask_json(self, *words, **how):
        text = self.ask(*words, **how)
        try:
            return json.loads(text)
        except ValueError as error:
            raise Wrong(f"umem {' '.join(words)}: {error}: {text[:200]}")

    def check_memory(self, what, memory, before, slack=MIB):
        """The parts add up; as much is in use as the soak has."""
        m = {key: memory[key] for key in (
            "heap_bytes", "live_bytes", "cached_bytes", "waiting_bytes",
            "dirty_bytes", "sampled_bytes", "own_bytes", "mapped_bytes")}
        parts = sum(m[key] for key in list(m)[1:6])
        # A block of up to 24 MiB is between two counts in each of two threads.
        slack += 64 * MIB if what != "status" else 48 * MIB
        need(abs(m["heap_bytes"] - parts) <= slack,
             f"umem {what}: the parts of the heap are {parts}: {m}")
        need(m["mapped_bytes"] == m["heap_bytes"] + m["own_bytes"],
             f"umem {what}: {m}")
        after = self.board.bytes()
        used = m["live_bytes"] + m["sampled_bytes"]
        least, most = min(before, after), max(before, after)
        need(least - slack <= used <= most * 1.5 + slack + 32 * MIB,
             f"umem {what}: {used} bytes in use, the soak had {before} before "
             f"and {after} after")

    def metrics(self):
        before = self.board.bytes()
        text = self.ask("metrics", str(self.pid))
        need(text.endswith("\n# EOF\n") or self.is_over(),
             f"umem metrics: ends in {text[-40:]!r}")
        figures = {name: int(value) for name, value in re.findall(
            r"^umem_(\w+_bytes) (\d+)$", text, re.M)}
        self.check_memory("metrics", figures, before)

    def status(self):
        before = self.board.bytes()
        found = self.ask_json("status", "--json", str(self.pid))
        need(found["status"] == "ready and active", f"umem status: {found}")
        self.check_memory("status", found["memory"], before)
        if self.mode in STATUS:
            need(found["mode"].startswith(STATUS[self.mode]),
                 f"umem status: mode {found['mode']} instead of {self.mode}")

    def stat(self):
        before = self.board.bytes()
        found = self.ask_json("stat", "--json", str(self.pid))
        self.check_memory("stat", found["memory"], before)
        names = [cache["name"] for cache in found["caches"]]
        for name in ("parcels", "limited", "typesafe", "arena"):
            need(names.count("soak_" + name) == 1, f"umem stat: {names}")
        for cache in found["caches"]:
            need(cache["in_use"] + cache["in_magazines"] <=
                 cache["total"] * 1.1 + 1000, f"umem stat: {cache}")

    def top(self):
        text = self.ask("top", "-i", "0.2", "-n", "2", str(self.pid))
        need(text.count(f"umem top  {self.pid} soak") == 2 and
             text.count("RSS ") == 2 or self.is_over(), f"umem top: {text}")

    def ps(self):
        before = self.board.bytes()
        found = self.ask_json("ps", "--json", quiet=False)
        rows = [row for row in found["processes"] if row["pid"] == self.pid]
        if self.is_over():
            return
        need(len(rows) == 1 and rows[0]["program"] == "soak",
             f"umem ps: {rows}")
        self.check_memory("ps", rows[0]["memory"], before)

    def users(self):
        before = self.board.bytes()
        if self.sampling == "off" and self.mode != "debug":
            return
        found = self.ask_json("users", "--json", str(self.pid))["users"]
        total = sum(row["bytes"] for row in found)
        need(all(row["bytes"] >= 0 for row in found) and
             total <= max(before, self.board.bytes()) * 2 + 128 * MIB,
             f"umem users: {total} bytes, {before} were in use")

    def verify(self):
        found = self.ask_json("verify", "--json", str(self.pid))
        need(found == [], f"umem verify: {str(found)[:500]}")

    def whatis(self):
        at, size = self.random.choice(list(self.board.frozen().items()))
        found = self.ask_json("whatis", "--json", str(self.pid),
                              f"{at:x}", f"{at + size - 1:x}")
        for row in found:
            need(row.get("state") == "allocated" and
                 int(row["buffer"], 16) == at and row["size"] >= size
                 or self.is_over(),
                 f"umem whatis {at:x} + {size}: {found}")

    def leaks(self):
        """Only planted blocks, unless a child is at work in this memory: its
        registers are not those of the process."""
        planted = self.board.planted()
        wrong = None
        for _ in range(4):
            begun, ended = self.board.sharing_begun, self.board.sharing_ended
            if self.random.randrange(2):
                found = {int(at, 16) for at in self.ask_json(
                    "walk", "--json", str(self.pid), "leak")}
            else:
                report = self.ask_json("leaks", "--json", str(self.pid),
                                       status=(0, 1))
                need(report["blocks"] >= 0, f"umem leaks: {report}")
                found = {int(at, 16)
                         for row in report["leaks"]
                         for stack in row["stacks"]
                         for at in [stack["example"]]}
            if self.is_over():
                return
            self.looks += 1
            self.seen |= found & set(planted)
            wrong = found - set(planted) if wrong is None else wrong & found
            if not wrong:
                return
            need(begun != ended or begun != self.board.sharing_begun,
                 f"umem leaks: {[hex(at) for at in wrong]} are no leaks")
            self.in_flight += 1
        raise Wrong(f"umem leaks: {[hex(at) for at in wrong]} are no leaks, "
                    "in four looks")

    def ctl(self):
        which = self.random.randrange(4)
        if which == 0:
            self.board.set("limit_wanted", 1)
            try:
                while not self.board.limit_granted:
                    if self.is_over():
                        return
                    time.sleep(0.001)
                limit = f"{self.random.randrange(1, 40)}m"
                self.set_option("hard_limit", limit, "none")
                time.sleep(0.01)
                self.set_option("hard_limit", "none", limit)
            finally:
                self.board.set("limit_wanted", 0)
        elif which == 1:
            limit = f"{self.random.randrange(1, 60)}m"
            self.set_option("soft_limit", limit, "none")
            time.sleep(0.3)
            self.set_option("soft_limit", "none", limit)
        elif self.mode not in ("hardened", "debug"):
            value = self.random.choice(["1k", "64k", "1m", "off"])
            if value != self.sampling:
                self.set_option("sample", value, self.sampling)
                self.sampling = value

    def set_option(self, name, value, before):
        text = self.ask("ctl", str(self.pid), f"{name}={value}")
        need(text.startswith(f"{name}={value} (before: {before})")
             or self.is_over(),
             f"umem ctl {name}={value}: {text!r}, and was {before}")

    def looking(self):
        self.repeat([self.metrics, self.status, self.stat, self.top, self.ps,
                     self.users, self.verify, self.whatis, self.leaks,
                     self.leaks])

    def changing(self):
        self.repeat([self.ctl])

    def repeat(self, asks):
        """One thread asks the command, all the time."""
        while not self.is_over():
            ask = self.random.choice(asks)
            try:
                ask()
            except (Wrong, subprocess.TimeoutExpired) as wrong:
                self.fail(str(wrong))
            except (KeyError, TypeError, ValueError, IndexError) as error:
                self.fail(f"umem {ask.__name__}: {error!r}")
            time.sleep(self.random.random() * 0.3)

    def fail(self, text):
        # A soak that ends by itself has a better reason.
        time.sleep(1)
        with self.lock:
            if self.failure is None and self.board.ready != 2 and (
                    self.process.poll() is None):
                self.failure = text

    # CPUs.

    def moving(self):
        group = Cpuset(self.pid)
        while not self.is_over():
            group.change(self.random)
            time.sleep(self.random.random() * 0.2)
        group.end()

    def watch(self):
        """Until the soak ends.  The supervisor stops each thread every ten
        seconds, so it stands still with any of them; at the end, it waits."""
        last, since = None, 0
        while self.process.poll() is None and self.failure is None:
            time.sleep(0.5)
            ready = self.board.ready
            now = (ready, self.board.beats if ready != 2 else 0)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > HANG_S:
                self.failure = f"no progress for {HANG_S} s"
                self.abort_children()

    def abort_children(self):
        """A child that hangs ends with a core; its parent reports it."""
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as file:
                    words = file.read().rsplit(")", 1)[1].split()
                if int(words[1]) == self.pid:
                    os.kill(int(path.split("/")[2]), signal.SIGABRT)
            except (OSError, IndexError):
                pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass

    def run(self):
        while self.board.ready == 0 and self.process.poll() is None:
            time.sleep(0.01)
        if self.board.ready:
            need(self.board.words == WORDS, "the board has another layout")
        threads = [threading.Thread(target=target)
                   for target in (self.looking, self.changing,
                                  self.moving)]
        for thread in threads:
            thread.start()
        self.watch()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGABRT)
        status = self.process.wait()
        for thread in threads:
            thread.join()
        if self.failure is None and status != 0:
            self.failure = f"ended with status {status}"
        with open(self.file("stderr"), errors="replace") as file:
            said = file.read()
        print(said, end="")
        if self.failure is None and said:
            self.failure = "it wrote the lines above"
        missed = set(self.board.planted()) - self.seen
        if self.failure is None and self.looks >= 20 and missed:
            self.failure = ("umem leaks never found "
                            f"{[hex(at) for at in missed]}")
        return self.report()

    def report(self):
        b = self.board
        print(f"soak {self.mode}: {b.operations() / 1e6:.1f} M operations, "
              f"{b.differences} differences, {b.forks} fork(), {b.vforks} "
              f"vfork(), {b.clones} clone(), {b.execs} programs, {b.threads} "
              f"threads, {b.cancels} cancelled, {b.signals} signals, "
              f"{b.modules} dlopen(), {b.scarce} times scarce, {b.failed} "
              f"failed, {b.censuses} censuses; umem: " +
              ", ".join(f"{n} {word} (up to {most:.1f} s)"
                        for word, (n, most) in sorted(self.asked.items())) +
              f"; {self.in_flight} looks at a child")
        if self.failure is None:
            shutil.rmtree(self.folder)
            return True
        print(f"soak {self.mode}, SEED={self.seed}: FAILED: {self.failure}")
        sys.stdout.flush()
        for name in ("child/core", "core"):
            for core in glob.glob(self.file(name + "*")):
                if shutil.which("gdb"):
                    print(f"soak: {name}:", flush=True)
                    subprocess.run(
                        ["gdb", "-q", "-batch", "-ex", "bt 30", "-ex",
                         "thread apply all bt 8", self.program, core],
                        stderr=subprocess.DEVNULL)
        print(f"soak: the core is in {self.folder}")
        return False


class Cpuset:
    """The CPUs of a process: by a cgroup if it may be made, else by affinity
    of all its threads."""

    def __init__(self, pid):
        self.pid = pid
        self.cpus = sorted(os.sched_getaffinity(0))
        self.group = None
        for top in ("/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"):
            group = f"{top}/umem-soak-{pid}"
            try:
                os.mkdir(group)
                self.group = group
                for name in ("cpuset.cpus", "cpuset.mems"):
                    with open(f"{top}/{name}") as file:
                        self.write(name, file.read().strip() or "0")
                self.write("cgroup.procs", str(pid))
                return
            except OSError:
                self.end()

    def write(self, name, text):
        with open(f"{self.group}/{name}", "w") as file:
            file.write(text)

    def change(self, rnd):
        some = rnd.sample(self.cpus, rnd.randint(1, len(self.cpus)))
        try:
            if self.group:
                self.write("cpuset.cpus", ",".join(map(str, some)))
                return
            for tid in os.listdir(f"/proc/{self.pid}/task"):
                os.sched_setaffinity(int(tid), some)
        except OSError:
            pass

    def end(self):
        for _ in range(100):
            try:
                if self.group:
                    os.rmdir(self.group)
                break
            except OSError:
                time.sleep(0.05)
        self.group = None


def allow_core():
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def main():
    build = os.path.abspath(sys.argv[1])
    modes = sys.argv[3:] or list(MODES)
    seconds = max(4, int(sys.argv[2]) // len(modes))
    seed = int(os.environ.get("SEED") or time.time_ns() % 1000000)
    for mode in modes:
        if not Soak(build, mode, seconds, seed).run():
            sys.exit(1)
    print("no findings")


main()
