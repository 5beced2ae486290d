"""
inspect_truth.py UMEM PID - is what umem leaks says of a process true?

Stops the process, has it looked at, and searches all its memory for words
that point into a block reported as leaked.  Such a word may be in another
leaked block, in a free one, in memory of the library's own, or on a stack
below its pointer; anywhere else it proves the report wrong.

Prints "N leaks", and a line for each word that should not be.
"""
import bisect
import json
import os
import re
import signal
import subprocess
import sys
import time

umem, pid = sys.argv[1], int(sys.argv[2])


def ask(*words):
    run = subprocess.run([umem, *words], capture_output=True, text=True)
    if run.returncode > 1 or run.stderr:
        sys.exit(f"umem {' '.join(words)}: {run.stderr}")
    return json.loads(run.stdout)


def stack_pointers():
    for tid in os.listdir(f"/proc/{pid}/task"):
        words = open(f"/proc/{pid}/task/{tid}/syscall").read().split()
        if words[0] != "running":
            yield int(words[-2], 16)


def mappings():
    """What can be read and was written; but the library's data and bss."""
    library_end = 0
    for line in open(f"/proc/{pid}/maps"):
        words = line.split(None, 5)
        start, end = (int(x, 16) for x in words[0].split("-"))
        name = words[5].strip() if len(words) > 5 else ""
        if "/libumem" in name or (start == library_end and not name):
            library_end = end
            continue
        if words[1][0] == "r" and not name.startswith(("[v", "/dev/dri")):
            if words[1][1] == "w" or not name.startswith("/"):
                yield start, end, name


def pointers(blocks):
    starts = [block[0] for block in blocks]
    least, most = starts[0], blocks[-1][1]
    memory = open(f"/proc/{pid}/mem", "rb", 0)
    for start, end, name in mappings():
        for at in range(start, end, 1 << 22):
            memory.seek(at)
            try:
                data = memory.read(min(end - at, 1 << 22))
            except OSError:
                continue
            words = memoryview(data).cast("Q")
            for i, word in enumerate(words):
                if least <= word < most:
                    block = blocks[bisect.bisect(starts, word) - 1]
                    if word < block[1]:
                        yield at + 8 * i, word, name


def is_below(at, name, sps):
    """Below the pointer of the stack that at is on, if that is one."""
    sizes = [sp - at for sp in sps if sp - 128 > at]
    return bool(sizes) and min(sizes) < 8 << 20 and (
        name == "[stack]" or name == "")


def check():
    leaks = ask("walk", "--json", str(pid), "leak")
    print(len(leaks), "leaks")
    if not leaks:
        return
    blocks = sorted((int(leak["buffer"], 16),
                     int(leak["buffer"], 16) + leak["size"])
                    for leak in ask("whatis", "--json", str(pid), *leaks))
    starts = [block[0] for block in blocks]
    sps = sorted(stack_pointers())
    hits = [hit for hit in pointers(blocks)]
    for i in range(0, len(hits), 100):
        some = hits[i:i + 100]
        said = ask("whatis", "--json", str(pid),
                   *(f"{at:x}" for at, _, _ in some))
        for (at, word, name), what in zip(some, said):
            j = bisect.bisect(starts, at) - 1
            if j >= 0 and at < blocks[j][1]:
                continue
            if what.get("state") == "free":
                continue
            if "library itself" in what.get("what", ""):
                continue
            if what["kind"] == "mapping" and is_below(at, name, sps):
                continue
            print(f"{word:x} is pointed to from {at:x} ({name}): {what}")


os.kill(pid, signal.SIGSTOP)
try:
    time.sleep(0.05)
    check()
finally:
    os.kill(pid, signal.SIGCONT)
