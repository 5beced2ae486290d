#!/bin/bash
# The accounting of umem status agrees with the kernel's on real programs: the
# memory of the library, by its own counts, is within 5 % and 1 MiB of the
# resident set of its mappings in /proc/PID/smaps, and the resident set of the
# process is that of all mappings.  Pages that the program only read, which are
# all the kernel's page of zeros, are not in it.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
export PYTHONMALLOC=malloc

# A mapping that is partly the library's counts with its pages in memory.
cat >check.py <<'END2'
import json
import os
import re
import struct
import sys

pid, status = sys.argv[1], json.load(open(sys.argv[2]))
memory = status["memory"]
ranges = [(int(r["address"], 16), int(r["address"], 16) + r["bytes"])
          for r in memory["ranges"]]
page = os.sysconf("SC_PAGE_SIZE")
pagemap = open(f"/proc/{pid}/pagemap", "rb")


def pages(start, end):
    """Bytes in memory between two addresses."""
    first, n = start // page, (end + page - 1) // page - start // page
    pagemap.seek(first * 8)
    words = struct.iter_unpack("=Q", pagemap.read(n * 8))
    return page * sum(word >> 63 for word, in words)


rss = ours = 0
for line in open(f"/proc/{pid}/smaps"):
    found = re.match("([0-9a-f]+)-([0-9a-f]+) ", line)
    if found:
        start, end = (int(word, 16) for word in found.groups())
    if not line.startswith("Rss:"):
        continue
    here = 1024 * int(line.split()[1])
    rss += here
    parts = [(max(start, a), min(end, b)) for a, b in ranges
             if a < end and start < b]
    if sum(b - a for a, b in parts) == end - start:
        ours += here
    else:
        ours += sum(pages(a, b) for a, b in parts)
mapped = memory["mapped_bytes"]
print(f"mapped {mapped}, resident {ours} of {rss}; {memory}")
# Programs have blocks of which they never touched a part.
assert abs(mapped - ours) <= ours / 20 + 2**20, "mapped"
assert abs(memory["rss_bytes"] - rss) <= rss / 50, "rss"
assert abs(memory["not_ours_bytes"] - (rss - ours)) <= rss / 20, "not ours"
assert ours > rss / 4, "too little memory of the library"
END2

# agrees NAME - checks the process $pid
agrees() {
	"$umem" status --json "$pid" >json || exit 1
	python3 check.py "$pid" json >said 2>&1 || {
		echo "$1:"
		cat said
		exit 1
	}
	nchecked=$((nchecked + 1))
}

# holds PROGRAM WORD... - the same of a program that prints "ready" and reads
# its input to the end
holds() {
	command -v "$1" >/dev/null || return
	start "$@"
	agrees "$1"
	finish 0
}
nchecked=0

holds python3 -c '
table = {i: "text %d" % i * (i % 7) for i in range(200000)}
for key in range(0, 200000, 3):
    del table[key]
print("ready", flush=True)
open(0).read()'
# shellcheck disable=SC2016 # a program
holds perl -e '
$| = 1;
%table = map { $_ => ["x" x ($_ % 200)] } 1..100000;
delete @table{grep { $_ % 3 } keys %table};
print "ready\n";
1 while <STDIN>;'
holds lua5.4 -e '
local t = {}
for i = 1, 200000 do t[i] = ("x"):rep(i % 100) .. i end
for i = 1, 200000, 3 do t[i] = nil end
collectgarbage()
print("ready")
io.stdout:flush()
io.read("a")'
cat >init.sql <<'END2'
create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
    insert into t select i, hex(randomblob(40)) from n;
delete from t where a % 3 = 0;
.system echo ready
END2
holds sqlite3 -batch -init init.sql :memory:

if command -v redis-server >/dev/null && command -v redis-cli >/dev/null; then
	# From Redis 7 on, the command "debug" must be allowed.
	allow=(--enable-debug-command yes)
	redis-server --version | grep -q ' v=[0-6]\.' && allow=()
	LD_PRELOAD=$SHIM redis-server --port 0 --unixsocket "$TMP/s" --save '' \
	    "${allow[@]}" >log 2>&1 &
	pid=$!
	until [ "$(redis-cli -s "$TMP/s" ping 2>/dev/null)" = PONG ]; do
		kill -0 $pid 2>/dev/null || exit 1
		sleep 0.05
	done
	redis-cli -s "$TMP/s" debug populate 200000 key 100 >said
	redis-cli -s "$TMP/s" --raw eval 'for i = 0, 199999, 3 do
		redis.call("del", "key:" .. i) end' 0 >>said
	agrees redis-server
	redis-cli -s "$TMP/s" shutdown nosave >said 2>&1
	wait $pid
fi
[ $nchecked -gt 0 ] || exit 77

# A kernel before 6.7 does not tell which pages are the page of zeros.
IFS=. read -r major minor _ <<<"$(uname -r)"
[ $((major * 100 + ${minor%%[!0-9]*})) -ge 607 ] || exit 0
cat >reads.c <<'END2'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char own[16 << 20];

int
main(void)
{
	volatile char *block = malloc(64 << 20);
	char all = 0, c;

	memset(own, 1, sizeof(own));
	for (int i = 0; i < 64 << 20; i += 4096)
		all |= block[i];
	puts("ready");
	fflush(stdout);
	return all | (char)read(0, &c, 1);
}
END2
"$CC" -O1 -fno-builtin -o reads reads.c || exit 1
for pages in no always; do
	UMEM_OPTIONS=huge_pages=$pages start ./reads
	"$umem" status --json "$pid" >json
	finish 0
	python3 - json <<'END2' || exit 1
import json, sys
memory = json.load(open(sys.argv[1]))["memory"]
# The kernel may have made a huge page of the start of the heap meanwhile.
most = 2 << 20
assert memory["untouched_bytes"] > (64 << 20) - 65536 - most, memory
assert memory["not_ours_bytes"] > (16 << 20) - most, memory
END2
done
