#!/bin/bash
# Sampling: umem users estimates the memory in use, umem leaks shows the origin
# of a leak without audit, umem whatis describes a faulting address, and umem
# ctl turns sampling on and off in a running process.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build sampled
build planted
build guarded
build near
build resized

# taken - samples of $pid so far
taken() {
	"$umem" users --json "$pid" 2>/dev/null |
	    sed -n 's/^ *"samples_taken": \([0-9]*\),$/\1/p' | grep . || echo 0
}

# sample_grows LOOKS - are there more before so many looks have been taken?
sample_grows() {
	local before now

	before=$(taken)
	for ((i = 0; i < $1; i++)); do
		sleep 0.02
		now=$(taken)
		[ "$now" -gt "$before" ] && return
	done
	return 1
}

# The estimates of umem users are near the truth, and the stacks are right.
export UMEM_OPTIONS=sample=4k
start "$TMP/sampled"
expect 0 '^ +~[0-9.]+M +[0-9]+% +~[0-9]+ +[0-9]+s  keep_many \(sampled\.c:[0-9]+\) < main$' \
    users "$pid"
expect 0 '^ {4}sampled`main\+0x' users -d "$pid"
expect 0 '^ {4}sampled`keep_deep\+0x' users -d "$pid"
expect 0 ';main;keep_few [0-9]+$' users --folded "$pid"
expect 0 ';main;keep_deep(;dive){41} [0-9]+$' users --folded "$pid"
"$umem" users --json "$pid" >json
python3 - json <<'END' || exit 1
import json, sys
true = {"keep_many": (20000, 200), "keep_few": (40, 100000),
        "dive": (100, 5000), "forget": (20000, 100)}
report = json.load(open(sys.argv[1]))
assert report["sample_bytes"] == 4096, report
assert report["samples_not_kept"] == 0, report
for site in report["users"]:
    name = site["call_site"].split(" ")[0]
    if name not in true:
        continue
    n, size = true.pop(name)
    # Five times the deviation of so many samples.
    near = 5 / site["seen"] ** 0.5
    for key, want in ("blocks", n), ("bytes", n * size):
        assert abs(site[key] / want - 1) < near, (name, key, site)
    assert 0 < site["oldest_age_ns"] < 120e9, site
assert not true, true
END

# The leak has a stack, though nothing is audited, and is estimated as a whole.
expect 1 '^ +~[12][0-9.]*M +[0-9]+% +~[0-9]{5} .* forget \(sampled.c:[0-9]+\) < main$' \
    leaks "$pid"
expect 1 '^~ is an estimate from samples\.$' leaks "$pid"
"$umem" leaks --json "$pid" >json
python3 - json <<'END' || exit 1
import json, sys
for leak in json.load(open(sys.argv[1]))["leaks"]:
    if leak["call_site"].startswith("forget "):
        near = 5 / leak["seen"] ** 0.5
        assert abs(leak["blocks"] / 20000 - 1) < near, leak
        assert abs(leak["bytes"] / 2e6 - 1) < near, leak
        sys.exit()
assert False
END
expect 1 '^ {4}sampled`main\+0x' leaks -d "$pid"
if grep -q keep_ said; then
	echo "what is kept is no leak:"
	cat said
	exit 1
fi

# Addresses of guarded blocks, in the process and in its core.
freed=$(sed -n 's/^freed //p' told)
ended=$(sed -n 's/^ended //p' told)
gcore -o core "$pid" >/dev/null 2>&1
for target in "$pid" "core.$pid"; do
	expect 0 "^$freed is [0-9a-f]*\+0x5, in a freed sample of 96 bytes" \
	    whatis "$target" "$freed"
	expect 0 '^    freed by thread [0-9]+, [0-9.]+ s (ago|before the newest record):$' \
	    whatis "$target" "$freed"
	expect 0 '^ {9}sampled`give_up\+0x' whatis "$target" "$freed"
	expect 0 '^ {9}sampled`find_guarded\+0x' whatis "$target" "$freed"
	expect 0 "^$ended is [0-9a-f]*\+0x60, past the end of an allocated sample" \
	    whatis "$target" "$ended"
	"$umem" whatis --json "$target" "$freed" | python3 -c \
	    'import json, sys; d = json.load(sys.stdin)[0]
assert d["state"] == "freed" and d["guarded"] and d["freed"]["stack"], d' ||
	    exit 1
done
expect 0 's +keep_many \(sampled' users "core.$pid"
expect 2 'is a core file' ctl "core.$pid" sample=off
rm -f "core.$pid"
expect 0 '^Sampling: +one in 4K bytes; [0-9]{3,} samples are in use$' \
    status "$pid"

# Samples and their pages are in tables of their own.
expect 0 ' \+ samples [0-9.]+M ' status "$pid"
expect 0 '^\[samples\] +- +[0-9]{3,} +- +- +[0-9.]+M +- +0$' stat "$pid"
expect 0 '^\[large blocks\] +- +0 +- +- +0 +- +0$' stat "$pid"
finish 0

# Nothing is found in vain, or missed, when many or all blocks are samples.
for mean in 1 300; do
	UMEM_OPTIONS=sample=$mean start "$TMP/planted" 3
	# The library's own thread may have a magazine in hand.
	soon_planted "sample=$mean"
	finish 0
done

# If only a guarded sample points to a block, the block is lost with the sample,
# also where places beside it in the heap are free.
UMEM_OPTIONS=sample=1 start "$TMP/guarded"
soon_planted guarded
finish 0

# An address beside a sample, in the memory that it has for itself, does not
# keep it; and an earlier block of this memory keeps nothing, also while no
# block has the memory.
UMEM_OPTIONS=sample=1 start "$TMP/near"
soon_planted near
finish 0

# On and off, in a program that does nothing slow, in each mode.
for mode in rseq locked; do
	UMEM_OPTIONS=mode=$mode start "$TMP/sampled" 0
	expect 2 "no callers are recorded; \"umem ctl $pid sample=default\"" \
	    users "$pid"
	if sample_grows 8; then
		echo "samples before it was turned on"
		exit 1
	fi
	expect 0 '^sample=1m \(before: off\)$' ctl "$pid" sample=default
	sample_grows 1000 || { echo "$mode: no samples when on"; exit 1; }
	expect 0 '^sample=100 \(' ctl "$pid" sample=100
	sample_grows 1000 || { echo "$mode: no samples at 100"; exit 1; }
	expect 0 '^sample=off \(' ctl "$pid" sample=off
	if sample_grows 8 && sample_grows 8; then
		echo "$mode: samples after it was turned off"
		exit 1
	fi
	finish 0
done

# Small sizes have their fast path again, also if the interval is set to what it
# was, or twice before the program allocates.
small_end_is() {
	local end

	for ((i = 0; i < 50; i++)); do
		end=$(gdb -batch -nx -p "$pid" \
		    -ex 'printf "%lu\n", alloc_fast.small_end' 2>/dev/null |
		    grep -x '[0-9]*')
		[ "$end" = "$1" ] && return
		sleep 0.05
	done
	echo "small_end is $end instead of $1 $2"
	exit 1
}
UMEM_OPTIONS=mode=rseq start "$TMP/sampled" 0
for means in off "off off" default "default default" "1k default" "off"; do
	for mean in $means; do
		expect 0 '^sample=' ctl "$pid" "sample=$mean"
	done
	[ "$mean" = off ] && end=32769 || end=513
	small_end_is "$end" "after $means"
done
finish 0

# Under load, turning sampling on and off does not harm the running threads.
unset UMEM_OPTIONS
start "$TMP/sampled" 3
for ((n = 0; n < 15; n++)); do
	for mean in 1k off 1 1m; do
		expect 0 '^sample=' ctl "$pid" "sample=$mean"
	done
done
sample_grows 1000 || { echo "no samples in the end"; exit 1; }
expect 0 '^Sampling: +one in 1M bytes; ' status "$pid"
finish 0

# grown MIB - lets the program enlarge its vector to this size
grown() {
	echo >&9
	until grep -qx "grown $(($1 << 20))" "$TMP/told"; do
		sleep 0.02
	done
}

# vector MIB SITE - the vector has the only sample, which stands for this size
vector() {
	"$umem" users --json "$pid" >json
	python3 - json "$1" "$2" <<-'END' || exit 1
	import json, sys
	site, = [row for row in json.load(open(sys.argv[1]))["users"]
	         if not row["call_site"].startswith("unknown")]
	assert site["call_site"].startswith(sys.argv[3] + " "), site
	assert site["seen"] == 1 and site["blocks"] == 1, site
	assert site["bytes"] == int(sys.argv[2]) << 20, site
	END
}

# A block that realloc() enlarges in place is a sample of its new size, with the
# stack of this call, also if it was allocated before sampling began.
start "$TMP/resized"
expect 0 '^sample=1m ' ctl "$pid" sample=default
if [ "$(taken)" -ne 0 ]; then
	echo "a sample before sampling began"
	exit 1
fi
grown 80
vector 80 vector_grow
expect 0 '^ +80M +100% +1 +[0-9]+s  vector_grow \(resized\.c:[0-9]+\) < main$' \
    users "$pid"
expect 0 '^sample=off ' ctl "$pid" sample=off
grown 160
vector 160 vector_grow
finish 0
UMEM_OPTIONS=sample start "$TMP/resized"
vector 40 vector_begin
grown 80
vector 80 vector_grow
grown 160
vector 160 vector_grow
finish 0

# Samples are halved if there are too many, so each one that is left stands for
# as many blocks as its interval says, also if they have no bytes.
cat >empty.c <<'END'
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept;

int
main(void)
{
	char c;

	for (int i = 0; i < 33000; i++)
		kept = aligned_alloc(64, 0);
	return write(1, "ready\n", 6) != 6 || read(0, &c, 1) < 0;
}
END
"$CC" -O1 -g -fno-builtin -o empty empty.c || exit 1
UMEM_OPTIONS=sample=1 start ./empty
"$umem" users --json "$pid" >json
python3 - json <<'END' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
site, = [row for row in report["users"] if row["call_site"].startswith("main ")]
assert report["interval_doubled"] > 0 and site["bytes"] == 0, report
assert abs(site["blocks"] / 32768 - 1) < 0.05, site
END
finish 0

# A debugged process takes no samples.
UMEM_DEBUG=default start "$TMP/sampled"
expect 2 'every block is checked there already' ctl "$pid" sample=default
finish 0

# Few samples of a leak do not tell how fast it grows.
UMEM_OPTIONS=sample=512k start "$TMP/sampled"
sleep 1.2
"$umem" leaks --json "$pid" >json
python3 - json <<'END' || exit 1
import json, sys
for row in json.load(open(sys.argv[1]))["leaks"]:
    if "oldest_age_ns" in row:
        few = row["estimated"] and row["seen"] < 8
        assert few != ("bytes_per_minute" in row), row
END
finish 0
