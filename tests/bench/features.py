#!/usr/bin/env python3
"""features.py - what profiling costs, beside the profilers of others

Usage: features.py BUILD

Runs four programs that do a fixed amount of work under each allocator without
and with a profiler, as a user would turn it on.  All of a round come in random
order.  A run is the second of two in a row, so that pages and caches are warm.
The figures of each are the least of the rounds: user and system time, with that
of the processes that the profiler starts, and the most memory that one process
had resident; of heaptrack, that may be the process that reads the trace.  The
client of redis-server is this process, which is not counted.

The table has the ratio to the same allocator without a profiler, and the
figures of the latter.  Samples are one in so many bytes as by default, or as
the documentation proposes:

    samples         umem with sample=default
    and metrics     the same, read each second by umem metrics --sites=10
    prof:true       jemalloc; one in 512 KiB (lg_prof_sample 19)
    tcmalloc        gperftools; TCMALLOC_SAMPLE_PARAMETER 524288, as proposed
    heaptrack       each allocation, on glibc

Environment: ROUNDS=N (5), ONLY=REGEX of the programs.
"""

import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/real")
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import allocators  # noqa: E402
import inputs  # noqa: E402
import programs  # noqa: E402

PROGRAMS = ["python-malloc", "sqlite", "perl", "redis"]
# Of redis, which programs.py has as a script that measures the server itself.
SERVER = ["redis-server", "--port", "0", "--unixsocket", "{folder}/socket",
          "--save", "", "--appendonly", "no", "--activedefrag", "no",
          "--dir", "{folder}"]

# Name, the allocator below it, variables of the profiler, and if the metrics
# are read.
FEATURES = [
    ("umem, samples", "ours", {"UMEM_OPTIONS": "sample=default"}, False),
    ("umem, samples and metrics", "ours", {"UMEM_OPTIONS": "sample=default"},
     True),
    ("jemalloc, prof:true", "jemalloc", {"MALLOC_CONF": "prof:true"}, False),
    ("tcmalloc, samples", "tcmalloc",
     {"TCMALLOC_SAMPLE_PARAMETER": "524288"}, False),
    ("glibc, heaptrack", "glibc", None, False),
]
LIBRARIES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc.so.4",
             "glibc": None}


def read_metrics(umem, parent, ended, readings):
    """Reads the metrics of the child each second, first after half of one."""
    seconds = 0.5
    while not ended.wait(seconds):
        with open(f"/proc/{parent}/task/{parent}/children",
                  encoding="ascii") as file:
            child = file.read().split()
        done = subprocess.run([umem, "metrics", "--sites=10", *child],
                              check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        readings[0] += done.returncode == 0
        seconds = 1


def give_work(folder, ended, answers):
    """Gives a redis-server the commands of redis.sh, and lets it end."""
    with open(f"{folder}/work.resp", "rb") as file:
        commands = 3 * file.read() + b"ECHO done\r\n"
    with socket.socket(socket.AF_UNIX) as server:
        while server.connect_ex(f"{folder}/socket") != 0:
            if ended.wait(0.02):
                return
        sender = threading.Thread(target=server.sendall, args=(commands,))
        sender.start()
        while not answers.endswith(b"done\r\n"):
            part = server.recv(1 << 16)
            if not part:
                return
            answers += part
        sender.join()
        server.sendall(b"SHUTDOWN NOSAVE\r\n")


def cpu_of_children():
    times = os.times()
    return times.children_user + times.children_system


def run_once(build, command, variables, stdin, metrics, served):
    """CPU seconds, with those of all children, and MiB.

    served is the folder of the server's socket and commands, or None.
    """
    before = cpu_of_children()
    back, there = os.pipe()
    assignments = [f"{name}={value}" for name, value in variables.items()]
    with open(stdin, "rb") as file, subprocess.Popen(
            [f"{build}/bench/launch", str(there), *assignments, *command],
            stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=[there]) as process:
        os.close(there)
        ended, readings, answers = threading.Event(), [0], bytearray()
        beside = []
        if metrics:
            beside.append(threading.Thread(
                target=read_metrics,
                args=(f"{build}/umem", process.pid, ended, readings)))
        if served:
            beside.append(threading.Thread(
                target=give_work, args=(served, ended, answers)))
        for thread in beside:
            thread.start()
        with os.fdopen(back) as pipe:
            figures = pipe.read().split()
        ended.set()
        for thread in beside:
            thread.join()
    if (len(figures) != 3 or figures[2] != "0"
            or metrics and readings[0] == 0
            or served and (not answers.endswith(b"done\r\n")
                           or b"\n-" in answers)):
        sys.exit(f"features: {' '.join(command)}: {figures}, {readings},"
                 f" {bytes(answers[-200:])}")
    return cpu_of_children() - before, float(figures[1])


def variants(build):
    """Name: (allocator, variables, wrapper, whether metrics are read)."""
    found = {}
    for name, below, variables, metrics in FEATURES:
        path = (f"{build}/libumem_malloc.so.1" if below == "ours" else
                LIBRARIES[below]
                and allocators.find_library(LIBRARIES[below]))
        if (LIBRARIES.get(below) and not path) or (
                variables is None and not shutil.which("heaptrack")):
            print(f"not installed, and left out: {name}", file=sys.stderr)
            continue
        preload = {"LD_PRELOAD": os.path.abspath(path)} if path else {}
        found[below] = (below, preload, False, False)
        found[name] = (below, {**preload, **(variables or {})},
                       variables is None, metrics)
    return found


def command_of(program, folder):
    words = SERVER if program.server else program.command
    return [re.sub(r"^\{(\d+)\}$", r"\1", word)
            .replace("{here}", f"{HERE}/real").replace("{folder}", folder)
            for word in words]


def print_table(least, found, names):
    heads = "".join(f" {name} time | RSS |" for name in names)
    print(f"| |{heads}")
    print("|---|" + "--:|--:|" * len(names))
    for variant, (below, _, _, _) in found.items():
        cells = []
        for name in names:
            (cpu, rss), base = least[name, variant], least[name, below]
            cells.append(f" {cpu:.2f} s | {rss:.0f} MiB |" if variant == below
                         else f" {cpu / base[0]:.2f} | {rss / base[1]:.2f} |")
        print(f"| {variant if variant != 'ours' else 'umem'} |"
              + "".join(cells))


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = sys.argv[1]
    if not os.path.exists(f"{build}/bench/launch"):
        sys.exit(f"features: no {build}/bench/launch: run make bench")
    allocators.clean_environment()
    only = re.compile(os.environ.get("ONLY", ""))
    work = {p.name: p for p in programs.PROGRAMS if p.name in PROGRAMS
            and only.search(p.name) and p.there(build)
            and (not p.server or shutil.which(SERVER[0]))}
    found, least = variants(build), {}
    with tempfile.TemporaryDirectory() as folder:
        inputs.write(folder, 1)
        for turn in range(int(os.environ.get("ROUNDS", "5"))):
            jobs = [(p, v) for p in work for v in found]
            random.shuffle(jobs)
            started = time.monotonic()
            for name, variant in jobs:
                program = work[name]
                below, variables, wrapped, metrics = found[variant]
                command = command_of(program, folder)
                if program.server and below == "glibc":
                    # Debian's redis is linked with jemalloc.
                    variables = {
                        "LD_PRELOAD": allocators.find_library("libc.so.6"),
                        **variables}
                if wrapped:
                    command = ["heaptrack", "-o", f"{folder}/trace", *command]
                for _ in range(2):
                    used = run_once(
                        build, command, {**program.environment, **variables},
                        f"{folder}/{program.stdin}" if program.stdin
                        else os.devnull, metrics,
                        folder if program.server else None)
                before = least.get((name, variant), used)
                least[name, variant] = tuple(map(min, before, used))
            print(f"round {turn + 1}: {time.monotonic() - started:.0f} s",
                  file=sys.stderr, flush=True)
    print_table(least, found, list(work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
