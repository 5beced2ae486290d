#!/bin/bash
# redis-server under redis-benchmark, and its content afterwards.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need redis-server redis-cli redis-benchmark
run() {
	local pid cli=(redis-cli -s "$PWD/s") i status=0

	exec_with "$1" redis-server --port 0 --unixsocket "$PWD/s" --save '' \
	    --io-threads 2 --activedefrag no >log 2>&1 &
	pid=$!
	until [ "$("${cli[@]}" ping 2>/dev/null)" = PONG ]; do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	[ "$1" = none ] || really "$pid" || echo "not on our malloc"
	redis-benchmark -s "$PWD/s" -q -n "${REDIS_CALLS:-10000}" -c 20 -P 4 \
	    -r 5000 -t set,get,incr,lpush,lpop,sadd,hset,zadd,lrange_100 \
	    >bench 2>&1 || status=1
	"${cli[@]}" flushall
	for ((i = 0; i < 2000; i++)); do
		echo "set key:$i $(printf '%*d' $((i % 300)) $i)"
		echo "rpush list:$((i % 10)) element:$i"
		echo "zadd sorted $((i * 7919 % 1000)) member:$i"
		echo "del key:$((i / 2))"
	done | "${cli[@]}" | cksum
	# Redis asks the allocator by mallctl(); both count the same blocks.
	"${cli[@]}" info memory | tr -d '\r' | awk -F: '{ n[$1] = $2 }
	    END {
		if (n["mem_allocator"] ~ /jemalloc/ &&
		    (n["allocator_allocated"] < 0.9 * n["used_memory"] ||
		    n["allocator_allocated"] > 2 * n["used_memory"] + 4e6))
			print "wrong: allocator_allocated", n["allocator_allocated"]
	    }'
	"${cli[@]}" dbsize
	"${cli[@]}" lrange list:3 0 -1 | cksum
	"${cli[@]}" zrange sorted 0 -1 withscores | cksum
	"${cli[@]}" save && cp dump.rdb dump && "${cli[@]}" debug reload 2>&1 |
		sed 's/^ERR.*//'
	"${cli[@]}" shutdown nosave 2>/dev/null
	wait "$pid" || status=2
	return $status
}
in_each run
