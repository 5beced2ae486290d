#!/bin/bash
# A command that looks at a process leaves its pages as they are: no page of
# memory without a file becomes present in /proc/PID/pagemap, not even the page
# of zeros, and the figures of a process that sleeps do not change.
# test timeout: 60
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build chain

cat >looks.py <<'END'
import json, subprocess, sys
umem, pid = sys.argv[1:]
PAGE = 4096

def present():
    pages = {}
    pagemap = open(f"/proc/{pid}/pagemap", "rb", buffering=0)
    for line in open(f"/proc/{pid}/maps"):
        words = line.split()
        name = " ".join(words[5:])
        if words[4] != "0" or name.startswith("[v"):
            continue
        at, end = (int(n, 16) // PAGE for n in words[0].split("-"))
        while at < end:
            pagemap.seek(8 * at)
            got = pagemap.read(min(end - at, 1 << 17) * 8)
            for i in range(7, len(got), 8):
                if got[i] >> 7:
                    pages[at + i // 8] = words[0] + " " + name
            at += len(got) // 8
    return pages

def figures():
    text = subprocess.run([umem, "status", "--json", pid], check=True,
                          stdout=subprocess.PIPE).stdout
    return json.loads(text)["memory"]

def pages_of(figures):
    return {key: figures[key] for key in
            ("not_ours_bytes", "untouched_bytes", "surplus_bytes")}

before = present()
first = pages_of(figures())
for command in ("status", "stat", "metrics", "leaks", "verify",
                "whatis", "top"):
    arguments = {"whatis": ["whatis", pid, "1000"],
                 "top": ["top", "-n", "1", pid]}
    done = subprocess.run([umem] + arguments.get(command, [command, pid]),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode > 1:
        sys.exit(f"{command}: status {done.returncode}: {done.stderr}")
    after = present()
    new = [name for page, name in after.items() if page not in before]
    if new:
        sys.exit(f"umem {command}: {len(new)} pages are new, in {set(new)}")
last = pages_of(figures())
if first != last:
    sys.exit(f"the figures change without reason: {first}, {last}")
END

start "$TMP/chain" 8
python3 looks.py "$umem" "$pid" || exit 1
finish 0
