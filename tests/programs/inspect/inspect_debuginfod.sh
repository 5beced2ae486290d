#!/bin/bash
# With DEBUGINFOD_URLS, names of a stripped program come from a server.  A
# server that does not answer delays the command for some seconds only.  Without
# DEBUGINFOD_URLS no server is asked.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

python3 -c 'import ctypes; ctypes.CDLL("libdebuginfod.so.1")' 2>/dev/null ||
    exit 77
cat >main.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __attribute__((noinline)) void
served(void)
{
	memset(malloc(3000), 1, 3000);
	__asm__ volatile("");
}

int
main(void)
{
	char c;

	served();
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END
"$CC" -O1 -g -w -fno-builtin -o main main.c || exit 1
id=$(readelf -n main | sed -n 's/.*Build ID: //p')
mkdir -p "buildid/$id"
cp main "buildid/$id/debuginfo"
strip main

cat >server.py <<'END'
import http.server, socket, sys
if sys.argv[1] == "silent":
    server = socket.create_server(("127.0.0.1", 0))
else:
    server = http.server.HTTPServer(("127.0.0.1", 0),
        http.server.SimpleHTTPRequestHandler)
address = server if sys.argv[1] == "silent" else server.socket
open("port", "w").write("%d\n" % address.getsockname()[1])
if sys.argv[1] == "silent":
    kept = []
    while True:
        kept.append(server.accept())
        print("asked", file=sys.stderr, flush=True)
server.serve_forever()
END
# serve KIND - starts a server, and sets $url
serve() {
	rm -f port
	python3 server.py "$1" 2>requests &
	server=$!
	while [ ! -s port ]; do
		kill -0 "$server" 2>/dev/null || exit 77
		sleep 0.05
	done
	url=http://127.0.0.1:$(cat port)
}
fail() {
	echo "$*"
	cat said requests
	exit 1
}

server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null' EXIT
export DEBUGINFOD_CACHE_PATH=$TMP/cache
unset DEBUGINFOD_URLS DEBUGINFOD_TIMEOUT DEBUGINFOD_MAXTIME
UMEM_DEBUG=audit start ./main
serve files
"$umem" leaks -d "$pid" >said 2>&1
grep -q '^ *main+0x' said || fail "a name without a server"
[ ! -s requests ] || fail "a server was asked without DEBUGINFOD_URLS"
DEBUGINFOD_URLS=$url "$umem" leaks -d "$pid" >said 2>&1
grep -Eq '^ +main`served\+0x[0-9a-f]+ \(main.c:8\)$' said || fail "no name"
kill "$server"
server=

rm -rf cache
serve silent
SECONDS=0
DEBUGINFOD_URLS=$url "$umem" leaks -d "$pid" >said 2>&1
took=$SECONDS
kill "$server"
server=
grep -q '^umem: the servers of DEBUGINFOD_URLS are slow' said ||
    fail "no warning"
grep -q '^ *main+0x' said || fail "no report"
[ -s requests ] || fail "the silent server was not asked"
# The query ends after 5 s; by default libdebuginfod would try for 270 s.  The
# rest is for a busy machine.
[ $took -lt $((60 * ${TEST_TIME_FACTOR:-1})) ] || fail "it took $took s"
finish 0
