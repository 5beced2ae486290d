#!/bin/bash
# If the structures of a small process name much memory, or overlap, the
# command neither takes much memory nor works for long.  It prints the rest, or
# ends with one line and status 2.
# test timeout: 300
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build hostile

cat >measure.py <<'END'
"""measure.py UMEM PID WORD... - memory and time of each command"""
import os, resource, subprocess, sys, time

SECONDS = 40 * int(os.environ.get("TEST_TIME_FACTOR", "1"))
MIB = 200  # the command itself needs 10 MiB

umem, pid, kind = sys.argv[1:4]
for words in ("status", "stat", "leaks", "users", "verify",
              "metrics", "ctl", "grep"):
    begin = time.time()
    with open("said", "w") as said, open("err", "w") as err:
        tool = subprocess.Popen(
            [umem, words, pid] + ["1234567"] * (words == "grep"),
            stdout=said, stderr=err)
        try:
            tool.wait(SECONDS)
        except subprocess.TimeoutExpired:
            tool.kill()
            sys.exit(f"{kind}: {words}: still at work after {SECONDS} s")
    mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    lines = open("err").read().splitlines()
    print(f"{kind}: {words}: status {tool.returncode}, {mib} MiB, "
          f"{time.time() - begin:.1f} s", *lines)
    if not 0 <= tool.returncode <= 2 or mib > MIB:
        sys.exit(1)
    if tool.returncode == 2 and len(lines) != 1:
        sys.exit(1)
END

for kind in pools dedicated same addresses mapped magazines heap segments; do
	start "$TMP/hostile" $kind
	python3 measure.py "$umem" "$pid" $kind || exit 1
	finish 0
done
