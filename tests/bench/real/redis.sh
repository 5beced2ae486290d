#!/bin/bash
# redis.sh - gives a redis-server its work, and says what it used
#
#	redis.sh FOLDER		commands from FOLDER/work.resp
#
# Only the server runs on the allocator, which comes in SERVER_PRELOAD.  Its
# figures are those of the kernel after the work, before its end.
set -u

at=$(mktemp -d)
cli=(redis-cli -s "$at/s")
LD_PRELOAD=${SERVER_PRELOAD:-} redis-server --port 0 --unixsocket "$at/s" \
    --save '' --appendonly no --activedefrag no \
    --enable-debug-command local --dir "$at" >"$at/log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid; rm -rf "$at"' EXIT

for ((i = 0; i < 200; i++)); do
	[ "$("${cli[@]}" ping 2>/dev/null)" = PONG ] && break
	sleep 0.02
done
for _ in 1 2 3; do
	"${cli[@]}" --pipe <"$1/work.resp" >"$at/pipe" 2>&1 || {
		tail -1 "$at/pipe" >&2
		exit 1
	}
done
grep '^errors' "$at/pipe"
"${cli[@]}" dbsize
"${cli[@]}" debug digest
# Of all its threads; the first number is the time on a CPU, in ns.
busy=$(cat "/proc/$pid"/task/*/schedstat | awk '{ ns += $1 } END { print ns }')
peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status")
echo "used $busy $peak"
