"""programs.py - the programs that run.py runs, and their arguments

Our own programs print figures, one a line.  For programs that do a fixed
amount of work, and for real programs, processor time and peak memory are
figures, too.  The output of a real program must be equal under all allocators.
"""

import os
import re
import shutil
from dataclasses import dataclass, field


@dataclass
class Program:
    """A program and how it is run."""

    name: str
    file: str = ""  # of the program, if it is not the name
    args: list = field(default_factory=list)  # after the scale
    fixed: bool = False  # the work; so its time and memory are figures
    whole: bool = False  # always at scale 1, for what the scale would change
    quick_args: list = None  # instead, if QUICK
    rounds: int = 99  # that will do
    quick_rounds: int = 99
    seconds: int = 120  # it is given up after
    cgroup_mib: int = 0  # of memory that it may have
    # For real programs: the command, and the name of its input.
    command: list = None
    stdin: str = ""
    environment: dict = field(default_factory=dict)
    server: bool = False  # the script starts it on the allocator, and tells

    @property
    def real(self):
        return self.command is not None

    def there(self, build):
        if self.real:
            return shutil.which(self.command[0]) is not None
        return os.path.exists(f"{build}/bench/{self.file or self.name}")


def fixed(name, *args, **others):
    """fixed("larson8", "8") runs larson with that argument."""
    file = others.pop("file", re.sub(r"\d+$", "", name))
    return Program(name, file, list(args), fixed=True, **others)


# {here} is the folder of scripts, {inputs} the folder of the files that
# inputs.py writes; a number in braces is an amount of work.
def real(name, *command, **others):
    return Program(name, command=list(command), fixed=True, **others)


SIZES = "256,1024,4096,16384,65536"

PROGRAMS = [
    Program("micro", quick_rounds=1),
    Program("mixed64", "mixed", ["1", "64"]),
    Program("mixed256", "mixed", ["64", "256"]),
    Program("prodcons"),
    Program("threads", quick_rounds=1),
    fixed("larson2", "2"),
    fixed("larson8", "8"),
    fixed("xmalloc2", "mixed", "2"),
    fixed("xmalloc8", "mixed", "8"),
    fixed("xmalloc64-2", "64", "2", file="xmalloc", quick_rounds=1),
    fixed("glibc-thread2", "glibc", "2", file="slots", quick_rounds=1),
    fixed("glibc-thread8", "glibc", "8", file="slots", quick_rounds=1),
    fixed("alloc-test1", "test", "1", file="slots", quick_rounds=1),
    fixed("alloc-test2", "test", "2", file="slots", quick_rounds=1),
    fixed("malloc-large", file="malloc_large", quick_rounds=1),
    fixed("bignum", quick_rounds=1),
    fixed("cubes", quick_rounds=1),
    fixed("bodies", quick_rounds=1),
    fixed("tree1", "1", quick_rounds=1),
    fixed("tree2", "2", quick_rounds=1),
    fixed("sh6", "6", "1", file="sh"),
    fixed("sh6t", "6", "4", file="sh"),
    fixed("sh8t", "8", "4", file="sh"),
    fixed("mstress1", "1"),
    fixed("mstress4", "4"),
    fixed("mstress16", "16"),
    fixed("rptest1", "1"),
    fixed("rptest4", "4"),
    fixed("rptest16", "16"),
    fixed("cache-thrash", "thrash", file="cache"),
    fixed("cache-scratch", "scratch", file="cache"),
    fixed("nalloc-private", "private", "2", "8", file="nalloc"),
    fixed("nalloc-shared", "shared", "2", "8", file="nalloc"),
    fixed("nalloc-producer", "producer", "2", "8", file="nalloc"),
    fixed("churn"),
    fixed("vectors-realloc", "realloc", file="vectors"),
    fixed("vectors-copy", "copy", file="vectors"),
    fixed("vectors-large", "large", file="vectors"),
    fixed("latency1", "1", rounds=3),
    fixed("latency2", "2", rounds=3),
    fixed("phase", whole=True, quick_rounds=1),
    real("python", "python3", "{here}/work.py", "{250000}",
         environment={"PYTHONHASHSEED": "0"}),
    real("python-malloc", "python3", "{here}/work.py", "{250000}",
         environment={"PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"}),
    real("sqlite", "sqlite3", ":memory:", stdin="work.sql"),
    real("lua", "lua5.4", "{here}/work.lua", "{400000}"),
    real("perl", "perl", "{here}/work.pl", "{150000}"),
    real("gcc", "gcc", "-O2", "-w", "-S", "-o", "-", "{inputs}/work.c"),
    real("clang", "clang", "-O2", "-w", "-S", "-o", "-", "{inputs}/work.c"),
    real("z3", "z3", "{inputs}/work.smt2"),
    real("ghostscript", "gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER",
         "-sDEVICE=ppmraw", "-r96", "-sOutputFile=-", "{inputs}/work.ps"),
    real("node", "node", "{here}/work.js", "{60000}"),
    real("redis", "bash", "{here}/redis.sh", "{inputs}", server=True),
    Program("grow", quick_rounds=1),
    Program("objcache", quick_rounds=1),
    Program("bulk", quick_rounds=1),
    Program("descriptors", quick_rounds=1),
    Program("rcu", quick_rounds=1),
    Program("start", quick_rounds=1),
    Program("ramp"),
    # These are long, or little changes from round to round.
    Program("phase160", "phase", whole=True, rounds=1, quick_rounds=1,
            cgroup_mib=160),
    Program("malloc_test", args=["1,2,4,8,16,32", SIZES],
            quick_args=["1,4", "256,4096"], rounds=2, quick_rounds=1),
    # Not fixed: how much lives depends on which thread is faster.
    Program("onesided-free", "onesided", ["free"], quick_rounds=1),
    fixed("onesided-realloc", "realloc", file="onesided", quick_rounds=1),
    fixed("giveback-multi", "multi", file="giveback", whole=True, rounds=2,
          quick_rounds=0),
    fixed("giveback-single", "single", file="giveback", whole=True, rounds=2,
          quick_rounds=0),
    fixed("idle", whole=True, rounds=2, quick_rounds=0),
    fixed("frag", whole=True, rounds=2, quick_rounds=0),
    fixed("space", whole=True, rounds=2, quick_rounds=0),
]


def thread_counts(ncpus):
    """1, 2, 4 ... and the number of CPUs, then twice as many."""
    counts = [1]
    while 2 * counts[-1] < ncpus:
        counts.append(2 * counts[-1])
    return sorted({*counts, ncpus, 2 * ncpus})


def scaling(ncpus):
    """Programs of bench-scale; their figures end in the number of threads."""
    counts = [str(n) for n in thread_counts(ncpus)]
    pairs = [n for n in counts if 2 * int(n) <= 2 * ncpus]
    patterns = [Program(name, "patterns", [name, *counts], seconds=600)
                for name in ("private", "burst", "burst4k", "sizes", "large",
                             "huge", "shared", "spawn")]
    return patterns + [
        Program("threads", args=counts, seconds=600),
        Program("larson", args=counts, seconds=600),
        Program("xmalloc", args=["mixed", *counts], seconds=600),
        Program("glibc-thread", "slots", ["glibc", *counts], seconds=600),
        Program("tree", args=counts, seconds=600),
        Program("sh6", "sh", ["6", *counts], seconds=600),
        Program("sh8", "sh", ["8", *counts], seconds=600),
        Program("mstress", args=counts, seconds=600),
        Program("rptest", args=counts, seconds=600),
        Program("nalloc-private", "nalloc", ["private", *counts],
                seconds=600),
        Program("nalloc-shared", "nalloc", ["shared", *counts], seconds=600),
        Program("nalloc-producer", "nalloc",
                ["producer", *[n for n in counts if n != "1"]], seconds=600),
        Program("malloc_test", args=[",".join(pairs), "256,4096"],
                seconds=600),
        Program("rcu", args=pairs, seconds=600),
    ]
