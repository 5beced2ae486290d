#!/usr/bin/env python3
"""rust.py - real Rust programs, each with five global allocators

usage: rust.py FOLDER [ROUNDS]

cargo fetches the programs into FOLDER (from crates.io, once).  The script adds
a #[global_allocator] to the source of each and builds it with each allocator.
Then each runs ROUNDS times (9) on the same input, in random order, with two
threads.  Of two runs in a row the second counts.  A program that exists in
FOLDER is not built again; remove FOLDER/*.umem after a change of umem.

Prints tables in Markdown: processor time (user and system) and peak RSS, each as
minimum and median of the rounds, then the ratios to the best of each program,
with their geometric means.
"""

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# The dependency, and the type of the allocator.
ALLOCATORS = {
    "umem": (f'package = "umem"\npath = "{HERE}/../../tools/rust/umem"', "Umem"),
    "mimalloc": ('package = "mimalloc"\nversion = "=0.1.52"', "MiMalloc"),
    "jemalloc": ('package = "tikv-jemallocator"\nversion = "=0.7.0"', "Jemalloc"),
    "snmalloc": ('package = "snmalloc-rs"\nversion = "=0.7.6"', "SnMalloc"),
    "system": ("", ""),
}
# Version, main file, command.  The input "tree" is the sources of all crates.
PROGRAMS = {
    "ripgrep": ("15.2.0", "crates/core/main.rs",
                ["rg", "-j2", "-uu", "-i", "-n", "alloc|unsafe", "tree"]),
    "fd-find": ("10.5.0", "src/main.rs",
                ["fd", "-j2", "-u", ".", *["tree"] * 10]),
    "tokei": ("15.0.0", "src/main.rs", ["tokei", "--no-ignore", "tree"]),
    "jaq": ("3.1.2", "src/main.rs",
            ["jaq", "group_by(.group) | map({n: length, last: max_by(.size).name})",
             "input.json"]),
    "uu_sort": ("0.12.0", "src/main.rs", ["sort", "--parallel=2", "input.txt"]),
}
OWN = r"(tikv-jemallocator|mimalloc)"


def write(path, text, mode="w"):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, mode, encoding="utf-8") as file:
        file.write(text)


def fetch():
    write("fetch/src/lib.rs", "")
    write("fetch/Cargo.toml", '[package]\nname = "fetch"\nversion = "0.0.0"\n' + "".join(
        f'[dependencies.{name}]\nversion = "={program[0]}"\n'
        for name, program in PROGRAMS.items()))
    subprocess.run(["cargo", "vendor", "-q", "--versioned-dirs", "--manifest-path",
                    "fetch/Cargo.toml", "new"], check=True)
    numbers = random.Random(1)
    write("input.json", json.dumps([
        {"id": i, "name": f"name{numbers.randrange(10**9)}",
         "group": numbers.randrange(1000), "size": numbers.random(),
         "tags": [f"tag{numbers.randrange(50)}" for _ in range(4)]}
        for i in range(100000)]))
    write("input.txt", "".join(
        f"{numbers.randrange(10**12)} {numbers.random()}\n" for _ in range(800000)))
    os.rename("new", "tree")


def build(name, allocator):
    version, main_file, command = PROGRAMS[name]
    dependency, static = ALLOCATORS[allocator]
    source = f"source/{name}"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(f"tree/{name}-{version}", source)
    with open(f"{source}/Cargo.toml", encoding="utf-8") as file:
        manifest = file.read()
    # Without an allocator of the program's own, and the feature that names it.
    manifest = re.sub(rf"(?m)^\[.*\.{OWN}\]\n([^[\n].*\n)*", "", manifest)
    manifest = re.sub(rf'= \["{OWN}"\]', "= []", manifest)
    write(f"{source}/Cargo.toml", f"{manifest}\n[workspace]\n")
    if dependency:
        write(f"{source}/Cargo.toml", f"[dependencies.measured]\n{dependency}\n", "a")
        write(f"{source}/{main_file}", "#[global_allocator]\nstatic MEASURED:"
              f" measured::{static} = measured::{static};\n", "a")
    subprocess.run(["cargo", "build", "-q", "--release", "--target-dir", "target",
                    "--manifest-path", f"{source}/Cargo.toml"], check=True)
    shutil.copy(f"target/release/{command[0]}", f"{name}.{allocator}")


def run(name, allocator):
    """The processor time in s and the peak RSS in MiB of a run."""
    with open("output", "wb") as output:
        child = subprocess.Popen(
            [f"./{name}.{allocator}", *PROGRAMS[name][2][1:]], stdout=output,
            env={**os.environ, "LC_ALL": "C", "RAYON_NUM_THREADS": "2"})
        _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{name} with {allocator}: status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def print_table(title, rows):
    print(f"\n| {title} | " + " | ".join(ALLOCATORS) + " |")
    print("|---|" + "--:|" * len(ALLOCATORS))
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |")


def report(results):
    tables = {"processor time, s": [], "peak RSS, MiB": [],
              "to the best: time (minimum), peak RSS (median)": []}
    of_time, of_size, of_both = tables.values()
    ratios = []
    for name in PROGRAMS:
        times, sizes = zip(*(zip(*results[name, a]) for a in ALLOCATORS))
        of_time.append((name, [f"{min(t):.3f}, {statistics.median(t):.3f}" for t in times]))
        of_size.append((name, [f"{min(s):.1f}, {statistics.median(s):.1f}" for s in sizes]))
        times = [min(t) for t in times]
        sizes = [statistics.median(s) for s in sizes]
        ratios.append([(t / min(times), s / min(sizes)) for t, s in zip(times, sizes)])
        of_both.append((name, [f"{t:.2f}, {s:.2f}" for t, s in ratios[-1]]))
    means = [[statistics.geometric_mean(of) for of in zip(*pairs)]
             for pairs in zip(*ratios)]
    of_both.append(("geometric mean", [f"{t:.2f}, {s:.2f}" for t, s in means]))
    of_both.append(("its product", [f"{t * s:.2f}" for t, s in means]))
    for title, rows in tables.items():
        print_table(title, rows)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    if not os.path.exists("tree"):
        fetch()
    pairs = [(name, allocator) for name in PROGRAMS for allocator in ALLOCATORS]
    for pair in pairs:
        if not os.path.exists(".".join(pair)):
            build(*pair)
    results = {pair: [] for pair in pairs}
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 9):
        for pair in random.sample(pairs, len(pairs)):
            run(*pair)
            results[pair].append(run(*pair))
    report(results)


if __name__ == "__main__":
    main()
