#!/bin/bash
# timeout: 600
# umem leaks two hundred times in a row on a busy process, which is none the
# worse for it; and on real programs, in which a block is lost on purpose.
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build planted

start "$TMP/planted" 4 4
for ((n = 0; n < 200; n++)); do
	soon_planted "time $n"
done
finish 0

# Python: nothing is lost but what is lost on purpose.
cat >lose.py <<'END'
import ctypes, json, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
kept = [json.loads(json.dumps({"a": list(range(100))})) for _ in range(2000)]
threading.Thread(target=threading.Event().wait, daemon=True).start()
if len(sys.argv) > 1:
    for _ in range(10):
        libc.malloc(54321)
    [bytearray(3000) for _ in range(100)]
print("ready", flush=True)
sys.stdin.read()
END
start python3 lose.py
"$umem" leaks "$pid" >said 2>&1 || { cat said; exit 1; }
finish 0
start python3 lose.py lose
"$umem" leaks "$pid" >said 2>&1
if ! grep -Eq '^ +Total +10 buffers, ' said; then
	echo "python: not the ten blocks:"
	cat said
	exit 1
fi
finish 0

# redis, at work: it loses nothing.
command -v redis-server >/dev/null || exit 0
port=$((20000 + RANDOM % 20000))
LD_PRELOAD=$SHIM redis-server --port $port --save '' --appendonly no \
    >/dev/null 2>&1 &
redis=$!
for ((i = 0; i < 100; i++)); do
	redis-cli -p $port ping 2>/dev/null | grep -q PONG && break
	sleep 0.1
done
redis-benchmark -p $port -n 200000 -q >/dev/null 2>&1 &
load=$!
for ((n = 0; n < 10; n++)); do
	if ! "$umem" leaks -d $redis >said 2>&1; then
		echo "redis, look $n:"
		head -30 said
		kill $redis $load
		exit 1
	fi
done
wait $load
status=$?
redis-cli -p $port shutdown nosave
wait $redis
[ $status -eq 0 ]
