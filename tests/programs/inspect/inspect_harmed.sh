#!/bin/bash
# umem verify finds a change of one byte in a cache exactly if the library finds
# it later, when it checks the buffer, whatever the words of UMEM_DEBUG, the
# flags, the size and the alignment of the cache.  It names the buffer and the
# byte.  Without a change it finds nothing.
# test timeout: 120
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
umem=$(readlink -f "$B")/umem
$CC -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -o harmed \
    "$TOP/tests/programs/inspect/parts/harmed.c" -L"$B" -lumem \
    -Wl,-rpath,"$(readlink -f "$B")"
cat >look.py <<'END'
import json
import os
import re
import subprocess
import sys

umem, words = sys.argv[1], sys.argv[2:]
how = os.environ["UMEM_DEBUG"]


def verify(pid):
    """Status, and the findings by cache."""
    run = subprocess.run([umem, "verify", "--json", str(pid)],
                         stdout=subprocess.PIPE)
    found = {}
    for finding in json.loads(run.stdout):
        found.setdefault(finding["cache"], []).append(finding)
    return run.returncode, found


with open("messages", "w") as messages:
    program = subprocess.Popen(["./harmed", *words], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=messages,
                               text=True)
    lines = list(iter(program.stdout.readline, "ready\n"))
    assert verify(program.pid) == (0, {}), f"{how}: finds without a change"
    program.stdin.write("\n")
    program.stdin.flush()
    harmed = dict((line.split()[0], line.split()[1:])
                  for line in iter(program.stdout.readline, "ready\n"))
    status, found = verify(program.pid)
    program.stdin.write("\n")
    program.stdin.close()
    assert program.wait() == 0, open("messages").read()[-2000:]

text = open("messages").read()
reported = set(re.findall(r"  cache: (\S+)$", text, re.M)) & set(harmed)
wrong = [f"{how}: {name} {harmed[name]}: "
         f"{'verify ' + found[name][0]['fault'] if name in found else 'only the library'}"
         for name in sorted(set(found) ^ reported)]
for name, findings in found.items():
    state, buffer, byte = harmed[name]
    one = findings[0]
    # In a pattern the word is named, elsewhere the byte.
    at = {int(byte, 16), int(byte, 16) & ~7}
    if (len(findings) != 1 or int(one["buffer"], 16) != int(buffer, 16)
            or not one["fault"].startswith(f"({state}) ")
            or ("at" in one and int(one["at"], 16) not in at)):
        wrong.append(f"{how}: {name} {harmed[name]}: {findings}")
print(f"{len(harmed)} harmed, {len(reported)} reported")
if wrong:
    sys.exit("\n".join(wrong))
if not reported and words[:1] != ["nothing"]:
    sys.exit(f"{how}: the library found nothing")
assert status == bool(reported)
END

while read -r debug options words; do
	echo "UMEM_DEBUG=$debug UMEM_OPTIONS=$options"
	# shellcheck disable=SC2086 # words, if any
	UMEM_DEBUG=noabort,${debug#-} UMEM_OPTIONS=${options#-} \
	    python3 look.py "$umem" $words
done <<'END'
audit -
guards -
default -
guards,maxverify=64 -
guards,rcu_writes -
firewall=1 - firewall
firewall=200,audit - firewall
- hardened
guards:harmed_1*;audit:harmed_2* hardened
- - nothing
END
