#!/bin/bash
# test timeout: 600
# umem leaks on real programs at work, plain and under audit.  It finds three
# blocks that a preloaded library loses on purpose, and each other leak that it
# reports is one: no memory of the process points there (inspect_truth.py).
#
# shellcheck disable=SC2030,SC2031 # a program at a time has a shell of its own
set -u
umem=$B/umem
truth=$TOP/tests/stress/inspect_truth.py
get() { PATH=$PATH:/usr/sbin command -v "$1"; }

cat >lose.c <<'END'
#include <stdlib.h>
#include <string.h>
__attribute__((constructor, noinline)) static void
lose_on_purpose(void)
{
	for (int i = 0; i < 3; i++)
		memset(malloc(7777), 1, 7777);
}
END
# Where the user that PostgreSQL runs as can read it.
chmod 755 "$TMP"
mkdir lib
cp "$SHIM" lib
"$CC" -O0 -fno-builtin -shared -fPIC -o lib/lose.so lose.c || exit 1
chmod -R a+rX lib
both="$TMP/lib/$(basename "$SHIM") $TMP/lib/lose.so"

# Becomes the program.
with_both() {
	export LD_PRELOAD=$both UMEM_DEBUG=$words
	exec "$@"
}

bad() {
	echo "UMEM_DEBUG=$words $*"
	cat said
	exit 1
}

# looked NAME PID MOST - the process has the three lost blocks, and at most MOST
# leaks in all.  A pointer in a register of a running thread may hide a lost
# block for a moment, so ten looks may be needed.  A server's child may have
# ended meanwhile; for other processes, the caller notices that.
looked() {
	local n=0 try

	for ((try = 0; try < 10 && n < 3; try++)); do
		python3 "$truth" "$umem" "$2" >said 2>&1 || {
			[ -d "/proc/$2" ] || return 0
			bad "$1: no look"
		}
		[ "$(wc -l <said)" -eq 1 ] || bad "$1: not true"
		n=$(sed -n 's/ leaks$//p' said)
		[ "$n" -le "$3" ] || bad "$1: more than the three"
	done
	[ "$n" -ge 3 ] || bad "$1: not the three"
	[ "$words" = audit ] || return 0
	"$umem" leaks -c lose_on_purpose "$2" >said 2>&1
	[ -d "/proc/$2" ] || return 0
	grep -Eq '^22\.7K leaked in 3 blocks' said || bad "$1: not lost"
}

# soon COMMAND... - waits until it succeeds
soon() {
	until "$@" >/dev/null 2>&1; do
		sleep 0.05
	done
}

python() {
	cat >work.py <<-'END'
	import json, sys, threading, time
	kept = [json.loads(json.dumps({"a": list(range(100))}))
	        for _ in range(2000)]
	def work():
	    while True:
	        kept[0] = json.loads(json.dumps(kept[1]))
	threading.Thread(target=work, daemon=True).start()
	print("ready", flush=True)
	sys.stdin.read()
	END
	for PYTHONMALLOC in '' malloc; do
		export PYTHONMALLOC
		rm -f input told
		mkfifo input
		(with_both python3 work.py <input >told) &
		pid=$!
		exec 9>input
		soon grep -qx ready told
		looked "python $PYTHONMALLOC" $pid 3
		exec 9>&-
		wait $pid || bad "python: ended with $?"
	done
	unset PYTHONMALLOC
}

redis() {
	local cli=(redis-cli -s "$PWD/s")

	(with_both redis-server --port 0 --unixsocket "$PWD/s" --save '' \
	    --io-threads 2 --appendonly no >log 2>&1) &
	pid=$!
	soon "${cli[@]}" ping
	redis-benchmark -s "$PWD/s" -n 20000 -q -r 5000 \
	    -t set,get,incr,lpush,lpop,sadd,hset,zadd >bench 2>&1 &
	load=$!
	for ((n = 0; n < 3; n++)); do
		looked "redis, look $n" $pid 3
		sleep 0.5
	done
	wait $load || bad "redis: the load ended with $?"
	"${cli[@]}" shutdown nosave
	wait $pid || bad "redis: ended with $?"
}

nginx() {
	cat >conf <<-END
	worker_processes 2; daemon off; pid $PWD/pid; error_log $PWD/errors;
	$([ "$(id -u)" != 0 ] || echo 'user root;')
	events { worker_connections 100; }
	http {
		access_log off; gzip on; gzip_types *; gzip_min_length 20;
		client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2;
		fastcgi_temp_path $PWD/t3; uwsgi_temp_path $PWD/t4;
		scgi_temp_path $PWD/t5;
		server { listen unix:$PWD/web; root $PWD; }
	}
	END
	seq 1 200000 >big
	(with_both "$(get nginx)" -p "$PWD" -c "$PWD/conf" -e errors) &
	pid=$!
	soon test -S web
	fetch='import socket, sys
for i in range(200):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.sendall(b"GET /big HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n")
    while s.recv(65536): pass'
	python3 -c "$fetch" web || bad "nginx: no answers"
	python3 -c "$fetch" web &
	load=$!
	for one in $pid $(pgrep -P $pid); do
		looked "nginx $one" "$one" 3
	done
	wait $load || bad "nginx: answers ended"
	kill -QUIT $pid
	wait $pid || bad "nginx: ended with $?"
}

# It loses a string or two itself when it starts, and says so in its source.
postgres() {
	local as=() bin pid

	bin=$(find /usr/lib/postgresql/*/bin -maxdepth 0 2>/dev/null | tail -1)
	[ -x "$bin/initdb" ] || return 0
	mkdir -p pg
	if [ "$(id -u)" = 0 ]; then
		as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
		chown 65534 pg
	fi
	"${as[@]}" "$bin/initdb" -D "$PWD/pg/data" -U me -A trust -N \
	    --locale=C >said 2>&1 || bad "initdb"
	(with_both "${as[@]}" "$bin/pg_ctl" -D "$PWD/pg/data" -w \
	    -l "$PWD/pg/log" -o "-k '$PWD/pg' -c listen_addresses= \
	    -c shared_buffers=4MB" \
	    start >said 2>&1) || bad "postgres: not started"
	"$bin/pgbench" -h "$PWD/pg" -U me -i -q postgres >said 2>&1
	"$bin/pgbench" -h "$PWD/pg" -U me -c 3 -T 12 postgres >bench 2>&1 &
	load=$!
	sleep 1
	pid=$(head -1 pg/data/postmaster.pid)
	for one in $pid $(pgrep -P "$pid" | tail -4); do
		looked "postgres $one" "$one" 6
	done
	wait $load || bad "postgres: pgbench ended with $?"
	"${as[@]}" "$bin/pg_ctl" -D "$PWD/pg/data" -w -m fast stop \
	    >said 2>&1 || bad "postgres: not stopped"
	rm -rf pg
}

for words in '' audit; do
	for program in python redis nginx postgres; do
		case $program in
		python) probe=python3 ;;
		redis) probe=redis-server ;;
		*) probe=$program ;;
		esac
		get $probe >/dev/null || continue
		($program) || exit 1
	done
done
