#!/bin/bash
# demo.sh - shows in about a minute the purposes of the library
#
#	tools/build/demo.sh BUILD
#
# Runs programs on glibc's malloc and on ours, in turn, and prints time, peak
# memory and the memory that is left when the work is done; has the command
# find a leak in a running program; and measures an object cache.  Every figure
# is of this run.  Fails if a program's output differs between the two.
set -eu

self=$(readlink -f "$0")
tree=${self%/*/*/*}

# One thread: many small objects of mixed sizes, kept and dropped.
job_python3() {
	python3 - <<'END'
import collections, json
words = ["w%d" % (i * 7919 % 100003) for i in range(200000)]
count = collections.Counter(words)
tree = {w: {"n": n, "of": list(w)} for w, n in count.items()}
text = json.dumps(tree, sort_keys=True)
again = json.loads(text)
print(len(text), sum(len(v["of"]) for v in again.values()))
END
}

# Filled, asked and emptied over a socket of its own, by two threads of input
# and output.
job_redis() {
	local folder server
	local -a ask

	folder=$(mktemp -d)
	redis-server --port 0 --unixsocket "$folder/socket" --save '' \
	    --io-threads 2 --dir "$folder" >"$folder/log" 2>&1 &
	server=$!
	ask=(redis-cli -s "$folder/socket")
	until "${ask[@]}" ping >/dev/null 2>&1; do
		kill -0 "$server" 2>/dev/null || {
			cat "$folder/log" >&2
			return 1
		}
		sleep 0.1
	done
	redis-benchmark -s "$folder/socket" -t set,lpush,hset,get -q \
	    -n 20000 -d 100 -P 16 >/dev/null
	"${ask[@]}" eval "local n = 0
	    for i = 1, 200000 do
		redis.call('set', 'k' .. i, string.rep('x', i % 400)) end
	    for i = 1, 200000, 2 do redis.call('del', 'k' .. i) end
	    for i = 1, 200000 do n = n + redis.call('strlen', 'k' .. i) end
	    return n" 0
	"${ask[@]}" flushall
	sleep 2
	awk '$1 == "VmRSS:" { print $2 }' "/proc/$server/status" >"$LEFT"
	"${ask[@]}" shutdown nosave >/dev/null 2>&1 || true
	wait "$server" || true
	rm -rf "$folder"
}

# Four pairs of threads; one of a pair allocates, the other frees.
job_server() {
	"$BUILD/demo/server"
}

# Four threads that free nearly all of their blocks.
job_peak() {
	local kib

	kib=$("$BUILD/demo/peak")
	echo "${kib#* }" >"$LEFT"
}

if [ "${1-}" = --job ]; then
	case $2 in
	python3) job_python3 ;;
	redis) job_redis ;;
	server) job_server ;;
	peak) job_peak ;;
	esac
	exit
fi

[ $# -eq 1 ] || { echo "usage: tools/build/demo.sh BUILD" >&2; exit 2; }
BUILD=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUILD LEFT=$work/left LC_ALL=C
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS LD_PRELOAD
failed=0

# measure NAME glibc|umem COMMAND... - adds "SECONDS PEAK LEFT" to a file
measure() {
	echo 0 >"$LEFT"
	command time -q -f '%e %M' -o "$work/cost" "${@:3}" \
	    "$self" --job "$1" >"$work/$1.$2.out" 2>"$work/$1.$2.err" || {
		echo "demo: $1 failed on $2's malloc:" >&2
		cat "$work/$1.$2.err" >&2
		return 1
	}
	paste -d' ' "$work/cost" "$LEFT" >>"$work/$1.$2"
}

# median FILE COLUMN
median() {
	cut -d' ' -f"$2" "$1" | sort -n | awk '{ value[NR] = $1 }
	    END { print value[int((NR + 1) / 2)] }'
}

# compare NAME ROUNDS TEXT... - one line of the table for each malloc
compare() {
	local name=$1 which round

	echo
	printf '%s\n' "${@:3}"
	for ((round = 0; round < $2; round++)); do
		if ! measure "$name" glibc env ||
		    ! measure "$name" umem "$BUILD/umem" run --; then
			failed=1
			return
		fi
	done
	cmp -s "$work/$name.glibc.out" "$work/$name.umem.out" || {
		echo "  the outputs differ"
		failed=1
	}
	for which in glibc umem; do
		echo "$name $which $(median "$work/$name.$which" 1)" \
		    "$(median "$work/$name.$which" 2)" \
		    "$(median "$work/$name.$which" 3)"
	done | tee -a "$work/figures" | awk '{
		printf "  %-6s %6.2f s %8.1f MiB at the peak", $2, $3, $4 / 1024
		if ($5 > 0)
			printf " %8.1f MiB left", $5 / 1024
		print "" }'
}

echo 'On glibc'\''s malloc, and on libumem_malloc.so.1 (medians of the rounds):'
"$BUILD/umem" run -v true

compare server 3 'server: a thread allocates what another frees, in four pairs.' \
    'See the time.'
compare peak 1 'peak: four threads free 256 MiB, but for one block in a thousand.' \
    'See what is left after three idle seconds.'
compare redis 1 'redis-server: two I/O threads, filled and flushed.' \
    'See what is left of its memory.'
compare python3 3 'python3: one thread.' \
    'See what a program without threads pays or saves.'

echo
echo 'A leak: jobs is started with one allocation in about 16 KiB remembered'
echo '(UMEM_OPTIONS=sample=16k) and goes on running, while "umem leaks PID"'
echo 'looks for blocks that nothing points to. See the line of jobs.c:'
mkfifo "$work/input"
UMEM_OPTIONS=sample=16k "$BUILD/umem" run -- "$BUILD/demo/jobs" \
    <"$work/input" >"$work/told" &
jobs=$!
exec 9>"$work/input"
until grep -q ready "$work/told"; do
	kill -0 $jobs 2>/dev/null || break
	sleep 0.1
done
"$BUILD/umem" leaks $jobs >"$work/leaks" || true
grep -m 3 -e ' leaked in ' -e 'CALL SITE' -e 'jobs\.c' "$work/leaks" || {
	cat "$work/leaks"
	failed=1
}
exec 9>&-
wait $jobs || failed=1

echo
echo 'An object cache: a connection with two locks, a condition and 32 lists,'
echo 'made ready for each malloc(), and kept ready by a cache of libumem.so.1.'
echo 'See the time of one allocation and free:'
if LD_LIBRARY_PATH=$BUILD "$BUILD/demo/objects" >"$work/objects"; then
	awk '{ printf "  malloc %6.1f ns\n  cache  %6.1f ns\n", $1, $2 }' \
	    "$work/objects"
else
	failed=1
fi

# rcu_line NAME COMMAND... - runs hashtable, and prints a line of figures
rcu_line() {
	if "${@:2}" >"$work/rcu" 2>"$work/rcu.err"; then
		awk -v name="$1" '{ printf "  %-20s %7.2f million updates/s" \
		    " %7.2f million lookups/s %6.1f MiB at the peak\n", name,
		    $1 / 1000, $2 / 1000, $3 / 1024 }' "$work/rcu"
	else
		echo "demo: hashtable failed:" >&2
		cat "$work/rcu.err" >&2
		failed=1
	fi
}

echo
echo 'Deferred frees: two threads replace and delete entries of a hash table of'
echo 'liburcu, and two others look entries up without a lock. Each deleted entry'
echo 'is freed after a grace period: by call_rcu() and free() on glibc'\''s malloc,'
echo 'and by umem_cache_free_rcu() to a cache of libumem.so.1. Readers verify'
echo 'each entry. See the updates, and the peak memory:'
export LD_LIBRARY_PATH=$BUILD
rcu_line 'call_rcu and free' "$BUILD/demo/hashtable" malloc
rcu_line 'umem_cache_free_rcu' "$BUILD/demo/hashtable" umem

echo
echo 'A type-stable cache: sessions are freed and reused at once, while readers'
echo 'may still hold a pointer. A reader takes a reference, and then checks that'
echo 'the session is the one that it looked for:'
if "$BUILD/demo/typestable" >"$work/typestable"; then
	awk '{ printf "  %.2f million sessions/s, %.2f million lookups/s\n" \
	    "  lookups that met a free session: %d, another session: %d" \
	    " (all noticed)\n", $1 / 1000, $2 / 1000, $3, $4 }' \
	    "$work/typestable"
else
	failed=1
fi
unset LD_LIBRARY_PATH

echo
echo 'The example of README.md, linked with libumem.so.1:'
awk '/^```/ { on = $0 == "```c"; next } on' "$tree/README.md" \
    >"$work/example.c"
"${CC:-cc}" -O2 -fno-builtin -I"$tree/umem" -I"$tree/vmem" "$work/example.c" -L"$BUILD" \
    -lumem -o "$work/example"
echo "  $(LD_LIBRARY_PATH=$BUILD "$work/example")"

echo
echo 'Summary of this run, umem in percent of glibc:'
awk '$2 == "glibc" { time[$1] = $3; peak[$1] = $4; left[$1] = $5; next }
    {
	# Most of that time is sleep.
	shown = $1 == "peak" ? "   -" : sprintf("%4.0f", 100 * $3 / time[$1])
	printf "  %-8s time %s %%   peak memory %4.0f %%", $1, shown,
	    100 * $4 / peak[$1]
	if ($5 > 0)
		printf "   left %4.0f %%", 100 * $5 / left[$1]
	print ""
    }' "$work/figures"
echo '  (other work on this machine changes the times; run it again to see)'
exit $failed
