"""allocators.py - the measured allocators, and how a program gets one

They are umem, libc's own malloc (which needs no preload), Debian's packages of
others, and the peers that tools/build/peers.sh has built.  All run with their
default options.
"""

import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass, field

OURS = "ours"
LIBC = "glibc"

# By the names of their libraries in Debian.
INSTALLED = {
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
    "tbb": "libtbbmalloc_proxy.so.2",
}

# By the names that tools/build/peers.sh gives them.
BUILT = ["snmalloc", "mimalloc2", "mimalloc3", "jemalloc5", "tcgoogle",
         "rpmalloc"]

# Variables that an allocator needs to work as intended.  Google's tcmalloc
# registers rseq itself.  If libc has registered it first, tcmalloc's per-CPU
# mode is off.
NEEDED = {"tcgoogle": {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}}

# Variables that would make an allocator other than it is by default.
OPTIONS = re.compile(r"^(UMEM_|MALLOC_|MIMALLOC_|GLIBC_TUNABLES|TCMALLOC_|TBB_"
                     r"|SNMALLOC_|RPMALLOC_)")


@dataclass
class Allocator:
    name: str
    path: str  # of its library; empty for libc's
    version: str = ""
    environment: dict = field(default_factory=dict)


def say(*words):
    print("bench:", *words, file=sys.stderr, flush=True)


def find_library(name):
    machine = platform.machine()
    for folder in (
        f"/usr/lib/{machine}-linux-gnu",
        "/usr/local/lib",
        "/usr/lib64",
        "/usr/lib",
        f"/lib/{machine}-linux-gnu",
    ):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    return None


def make(name, path, version=""):
    environment = dict(NEEDED.get(name, {}))
    if path:
        environment["LD_PRELOAD"] = path
    return Allocator(name, path, version, environment)


def first_line(path):
    try:
        with open(path, encoding="utf-8") as file:
            return " ".join(file.read().split())
    except OSError:
        return ""


def debian_version(path):
    """Such as "libjemalloc2 5.3.0-1"."""
    done = subprocess.run(
        ["dpkg-query", "-S", os.path.realpath(path)], capture_output=True,
        text=True, check=False)
    package = done.stdout.split(":")[0]
    if done.returncode != 0 or not package:
        return ""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Version}", package],
        capture_output=True, text=True, check=False)
    return done.stdout


# Prints 1 or 0: whether Google's tcmalloc has caches for each CPU.
TCMALLOC_MODE = """
import ctypes
active = ctypes.CDLL(None).MallocExtension_Internal_GetPerCpuCachesActive
active.restype = ctypes.c_bool
print(int(active()))
"""


def mode(allocator):
    """How tcgoogle says that it runs; empty for the others.

    Without caches for each CPU it falls back to caches for each thread, which
    are slower between threads, and says nothing.
    """
    if allocator.name != "tcgoogle":
        return ""
    done = subprocess.run(
        [sys.executable, "-c", TCMALLOC_MODE],
        env={**os.environ, **allocator.environment}, capture_output=True,
        text=True, check=False, timeout=60)
    answer = done.stdout.strip()
    return {"1": "caches for each CPU", "0": "caches for each THREAD"}.get(
        answer, "mode unknown")


def find_peer(word, folder):
    """The peer that a word of PEERS names; None if it is not there."""
    name, equals, path = word.partition("=")
    built = f"{folder}/{name}"
    known = [LIBC, *INSTALLED, *BUILT]
    if equals and not name or name == OURS:
        say(f"PEERS: {word!r} is neither a peer nor NAME=PATH")
        sys.exit(2)
    if equals and os.path.exists(path):
        return make(name, os.path.abspath(path))
    if not equals and name == LIBC:
        return make(LIBC, "", " ".join(platform.libc_ver()))
    if not equals and name not in known:
        say(f"PEERS: {name} is not one of {' '.join(known)}")
        sys.exit(2)
    if not equals and name in INSTALLED:
        path = find_library(INSTALLED[name])
        if path:
            return make(name, path, debian_version(path))
    if not equals and os.path.exists(f"{built}.so"):
        return make(name, os.path.abspath(f"{built}.so"),
                    first_line(f"{built}.version"))
    say(f"{name} left out:"
        f" there is no {path or INSTALLED.get(name) or built + '.so'}")
    return None


def find(build, wanted, peers_folder):
    """Name to allocator, ours first; exits if ours is not built.

    wanted has names, which choose among those known, and NAME=PATH to add.
    """
    path = os.path.abspath(f"{build}/libumem_malloc.so.1")
    if not os.path.exists(path):
        say(f"there is no {path}")
        sys.exit(2)
    named = [word for word in wanted if "=" not in word]
    added = [word for word in wanted if "=" in word]
    words = (named or [LIBC, *INSTALLED, *BUILT]) + added
    peers = [find_peer(word, peers_folder) for word in words]
    return {OURS: make(OURS, path),
            **{peer.name: peer for peer in peers if peer is not None}}


def clean_environment():
    """Unsets LD_PRELOAD; returns the allocators' options that are set."""
    # glibc's turn is one without a preload.
    os.environ.pop("LD_PRELOAD", None)
    return {k: v for k, v in os.environ.items() if OPTIONS.match(k)}
