#!/bin/bash
# demo.sh - real programs with and without libumem_malloc, side by side
#
#	tools/demo.sh BUILD
#
# Each program does the same work on the malloc it is installed with and on
# ours; what it prints must be equal.  Then the object cache of README.md is
# built and run.  Fails if an output differs.
set -eu

self=$(readlink -f "$0")
tree=$(dirname "$(dirname "$self")")

# Many small objects of mixed sizes, kept and dropped.
job_python3() {
	python3 - <<'END'
import collections, json
words = ["w%d" % (i * 7919 % 100003) for i in range(400000)]
count = collections.Counter(words)
tree = {w: {"n": n, "of": list(w)} for w, n in count.items()}
text = json.dumps(tree, sort_keys=True)
again = json.loads(text)
print(len(text), sum(len(v["of"]) for v in again.values()))
END
}

# Rows built, sorted and grouped in memory.
job_sqlite3() {
	sqlite3 :memory: <<'END'
CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT, v TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
    WHERE i < 300000)
    INSERT INTO t SELECT i, printf('key%d', i * 7919 % 300007),
    substr('abcdefghijklmnopqrstuvwxyz', 1, i % 26 + 1) FROM n;
CREATE INDEX tk ON t (k);
SELECT count(*), sum(length(v)) FROM t;
SELECT substr(k, 1, 5) AS p, count(*), group_concat(v, '') > 'm'
    FROM t GROUP BY p ORDER BY p LIMIT 5;
END
}

# A server filled, changed and asked, over a socket of its own.
job_redis() {
	local folder server tries=0
	local -a ask

	folder=$(mktemp -d)
	redis-server --port 0 --unixsocket "$folder/socket" --save '' \
	    --dir "$folder" >"$folder/log" 2>&1 &
	server=$!
	ask=(redis-cli -s "$folder/socket")
	until "${ask[@]}" ping >/dev/null 2>&1; do
		tries=$((tries + 1))
		if [ "$tries" -gt 100 ]; then
			cat "$folder/log" >&2
			kill "$server"
			return 1
		fi
		sleep 0.1
	done
	redis-benchmark -s "$folder/socket" -t set,lpush,hset,get -q \
	    -n 100000 -d 100 -P 16 >/dev/null
	"${ask[@]}" eval "local n = 0
	    for i = 1, 200000 do
		redis.call('set', 'k' .. i, string.rep('x', i % 200)) end
	    for i = 1, 200000, 2 do redis.call('del', 'k' .. i) end
	    for i = 1, 200000 do n = n + redis.call('strlen', 'k' .. i) end
	    return n" 0
	"${ask[@]}" shutdown nosave >/dev/null 2>&1 || true
	wait "$server" || true
	rm -rf "$folder"
}

if [ "${1-}" = --job ]; then
	case $2 in
	python3) job_python3 ;;
	sqlite3) job_sqlite3 ;;
	redis) job_redis ;;
	esac
	exit
fi

[ $# -eq 1 ] || { echo "usage: tools/demo.sh BUILD" >&2; exit 2; }
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# measure NAME WHICH COMMAND... - adds "SECONDS KIB" to NAME.WHICH.cost
measure() {
	command time -q -f '%e %M' -a -o "$work/$1.$2.cost" "${@:3}" \
	    "$self" --job "$1" >"$work/$1.$2.out" 2>"$work/$1.$2.err" || {
		echo "demo: $1 failed $2 umem:" >&2
		cat "$work/$1.$2.err" >&2
		return 1
	}
}

# middle FILE COLUMN - of three lines
middle() {
	cut -d' ' -f"$2" "$1" | sort -n | sed -n 2p
}

# Three runs in turn, since one may meet a busy moment of the machine.
measure_both() {
	for _ in 1 2 3; do
		measure "$1" without env &&
		    measure "$1" with "$build/umem" run -- || return
	done
}

echo 'Real programs, without and with libumem_malloc.so.1, medians of three:'
"$build/umem" run -v true
echo
printf '%-10s %21s   %21s   %s\n' '' 'seconds' 'peak MiB' ''
printf '%-10s %10s %10s   %10s %10s   %s\n' program without with \
    without with output
for job in python3 sqlite3 redis; do
	if ! measure_both "$job"; then
		failed=1
		continue
	fi
	same=same
	if ! cmp -s "$work/$job.without.out" "$work/$job.with.out"; then
		same=DIFFERENT
		failed=1
	fi
	without=$work/$job.without.cost
	with=$work/$job.with.cost
	LC_ALL=C awk -v name="$job" -v same="$same" \
	    -v a="$(middle "$without" 1)" -v b="$(middle "$with" 1)" \
	    -v c="$(middle "$without" 2)" -v d="$(middle "$with" 2)" 'BEGIN {
		printf "%-10s %10.2f %10.2f   %10.1f %10.1f   %s\n",
		    name, a, b, c / 1024, d / 1024, same }'
done

echo
echo 'The object cache of README.md, linked with libumem.so.1:'
awk '/^```/ { on = $0 == "```c"; next } on' "$tree/README.md" \
    >"$work/example.c"
"${CC:-cc}" -O2 -I"$tree/umem" -I"$tree/vmem" "$work/example.c" -L"$build" \
    -lumem -o "$work/example"
LD_LIBRARY_PATH=$build "$work/example"
exit $failed
