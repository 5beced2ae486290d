#!/bin/bash
# test timeout: 1500
# An hour on call, with services of Debian on umem: redis with a module that
# leaks, gunicorn with a C extension that leaks and keeps, PostgreSQL with plans
# that grow, PHP with memory of its own, a JVM, and a service that its memory
# cgroup kills.  Each question is answered by one command, and the answer is
# checked.  A service is left out if its packages are not installed.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
export UMEM_OPTIONS=sample=16k
part=start
: >said
: >err
wrong() {
	echo "$part: $*"
	head -n 40 said err ./*.log | cut -c 1-200
	exit 1
}
pids=
trap 'kill $pids 2>/dev/null; wait; rmdir "${group:-/nonexistent}" 2>/dev/null' EXIT
trap 'wrong "not finished in time"' TERM

# service COMMAND... - in the background, on umem; its number is in $pid
service() {
	LD_PRELOAD=$SHIM "$@" >"$part.log" 2>&1 &
	pid=$!
	pids+=" $pid"
}

# traffic COMMAND... - again and again
traffic() {
	while sleep 0.05; do
		"$@"
	done >/dev/null 2>&1 &
	pids+=" $!"
}

# has PROGRAM... - are they installed?
has() {
	local program

	for program in "$@"; do
		command -v "$program" >/dev/null || {
			echo "$part: no $program"
			return 1
		}
	done
}

# ready COMMAND... - waits until it succeeds
ready() {
	until "$@" >/dev/null 2>&1; do
		kill -0 "$pid" 2>/dev/null || wrong "the service is gone"
		sleep 0.1
	done
}

# answer STATUS REGEX WORD... - umem WORD... exits so, within 80 columns but
# for call sites, and its answer is in said
answer() {
	"$umem" "${@:3}" >said 2>err
	status=$?
	if [ $status -ne "$1" ] || ! grep -Eq -e "$2" said; then
		wrong "umem ${*:3}: status $status, no '$2'"
	fi
}

# first PART REGEX - the first row of the table of said with PART in its head
first() {
	sed -n "/ $1, /,\$p" said | sed -n '/ CALL SITE$/{n;p;q;}' |
	    grep -Eq "$2" || wrong "not the first row of $1: $2"
}

part=redis
cat >module.c <<'END2'
#include <stdlib.h>
#include <string.h>

typedef int (*command_t)(void *, void **, int);
static int (*get_api)(const char *, void *);
static int (*create_command)(void *, const char *, command_t, const char *,
    int, int, int);
static int (*set_attributes)(void *, const char *, int, int);
static int (*reply_long)(void *, long long);

static __attribute__((noinline)) void
session_open(void)
{
	for (int i = 0; i < 20; i++) {
		void *volatile session = malloc(1500);

		memset(session, 1, 1500);
		session = NULL;
	}
}

static int
session_command(void *ctx, void **argv, int argc)
{
	session_open();
	return reply_long(ctx, argc);
}

int
RedisModule_OnLoad(void *ctx, void **argv, int argc)
{
	get_api = *(int (**)(const char *, void *))ctx;
	get_api("RedisModule_CreateCommand", &create_command);
	get_api("RedisModule_SetModuleAttribs", &set_attributes);
	get_api("RedisModule_ReplyWithLongLong", &reply_long);
	set_attributes(ctx, "session", 1, 1);
	return create_command(ctx, "session.open", session_command, "", 0, 0, 0);
}
END2
redis=
if has redis-server redis-cli; then
	"$CC" -O1 -g -fno-builtin -w -shared -fPIC -o module.so module.c || exit 1
	service redis-server --port 0 --unixsocket "$PWD/redis.socket" --save '' \
	    --loadmodule "$PWD/module.so"
	redis=$pid
	ready redis-cli -s redis.socket ping
	traffic redis-cli -s redis.socket session.open
fi

part=gunicorn
cat >extension.c <<'END2'
#include <Python.h>

static PyObject *kept;

static __attribute__((noinline)) void
order_lose(void)
{
	void *volatile order = malloc(3000);

	memset(order, 1, 3000);
	order = NULL;
}

static __attribute__((noinline)) void
order_keep(void)
{
	PyObject *bytes = PyBytes_FromStringAndSize(NULL, 2000);

	PyList_Append(kept, bytes);
	Py_DECREF(bytes);
}

static PyObject *
handle(PyObject *self, PyObject *arguments)
{
	for (int i = 0; i < 20; i++) {
		order_lose();
		order_keep();
	}
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"handle", handle, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "orders", NULL, -1, methods};

PyMODINIT_FUNC
PyInit_orders(void)
{
	kept = PyList_New(0);
	return PyModule_Create(&module);
}
END2
cat >app.py <<'END2'
import orders


def app(environ, start_response):
    orders.handle()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
END2
python=/usr/bin/python3
include=$($python -c 'import sysconfig; print(sysconfig.get_path("include"))')
gunicorn=
if has gunicorn curl && [ -e "$include/Python.h" ]; then
	"$CC" -O1 -g -fno-builtin -w -shared -fPIC "-I$include" -o orders.so \
	    extension.c || exit 1
	service $python "$(command -v gunicorn)" --workers 1 \
	    --bind "unix:$PWD/gunicorn.socket" app:app
	ready curl -s --unix-socket gunicorn.socket http://app/
	gunicorn=$(ps --ppid "$pid" -o pid= | tail -n 1 | tr -d ' ')
	pids+=" $gunicorn"
	traffic curl -s --unix-socket gunicorn.socket http://app/
fi

part=postgres
bin=$(find /usr/lib/postgresql/*/bin -maxdepth 0 2>/dev/null | tail -n 1)
postgres=
if has psql setpriv && [ -x "$bin/initdb" ]; then
	as=()
	if [ "$(id -u)" = 0 ]; then
		# It refuses to run as root.
		as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
		chmod 755 "$TMP"
	fi
	mkdir db
	cp "$SHIM" db
	[ ${#as[@]} -eq 0 ] || chown -R 65534:65534 db
	(
		cd db || exit 1
		"${as[@]}" "$bin/initdb" -D data -U me -A trust -N --locale=C
	) >initdb.log 2>&1 || wrong "no database"
	LD_PRELOAD=$PWD/db/$(basename "$SHIM") "${as[@]}" "$bin/postgres" \
	    -D "$PWD/db/data" -k "$PWD/db" -c listen_addresses= \
	    -c fsync=off >postgres.log 2>&1 &
	pid=$!
	pids+=" $pid"
	ready psql -h "$PWD/db" -U me -At postgres -c 'select 1'
	# A session that prepares statements, and never forgets one.
	mkfifo session
	psql -h "$PWD/db" -U me -Atq postgres <session >backend 2>psql.log &
	pids+=" $!"
	exec 7>session
	echo 'select pg_backend_pid();' >&7
	ready grep -q . backend
	postgres=$(cat backend)
	for ((i = 0;; i++)); do
		echo "prepare p$i as select $i, count(*) from pg_class
		    where relname like 'a$i%';"
		sleep 0.01
	done >&7 2>/dev/null &
	pids+=" $!"
fi

part=php
cat >grow.php <<'END2'
<?php
for ($i = 0;; $i++) {
	$kept[] = str_repeat(chr($i % 256), 20000);
	usleep(10000);
}
END2
php=
if has php; then
	service php grow.php
	php=$pid
fi

part=java
cat >Shop.java <<'END2'
import java.util.*;
import java.util.zip.*;

public class Shop {
	static List<Deflater> kept = new ArrayList<>();

	static void keepDeflater() {
		Deflater deflater = new Deflater();
		deflater.setInput(new byte[100]);
		deflater.finish();
		deflater.deflate(new byte[200]);
		kept.add(deflater);
	}

	public static void main(String[] arguments) throws Exception {
		for (;;) {
			keepDeflater();
			Thread.sleep(20);
		}
	}
}
END2
java=
if has java javac jcmd && javac Shop.java >javac.log 2>&1; then
	service java -Xms64m -Xmx64m -XX:+AlwaysPreTouch -XX:+UseSerialGC \
	    -XX:+PreserveFramePointer -Xcomp Shop
	java=$pid
fi

# A service in a memory cgroup of 100 MiB, of either version.
part=hungry
cat >hungry.c <<'END2'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile kept;

static __attribute__((noinline)) int
cart_fill(void)
{
	char **cart = malloc(100000);

	if (cart == NULL)
		return 0;
	memset(cart, 1, 100000);
	*cart = kept;
	kept = cart;
	return 1;
}

int
main(void)
{
	/* At 60 MB it waits until the metrics were written. */
	for (int n = 1; cart_fill(); n++)
		while (n == 600 && access("go", F_OK) != 0)
			usleep(10000);
	puts("no memory, but alive");
	return 3;
}
END2
"$CC" -O1 -g -fno-builtin -w -o hungry hungry.c || exit 1
group=
for folder in /sys/fs/cgroup/memory /sys/fs/cgroup; do
	mkdir $folder/umem_oncall.$$ 2>/dev/null || continue
	group=$folder/umem_oncall.$$
	for limit in memory.limit_in_bytes memory.max; do
		[ ! -e "$group/$limit" ] || echo 100m >"$group/$limit" || group=
	done 2>/dev/null
	[ -z "$group" ] || break
done
# in_group COMMAND... - in the background, in the group
in_group() {
	(
		echo "$BASHPID" >"$group/cgroup.procs"
		LD_PRELOAD=$SHIM exec "$@"
	) >hungry.log 2>&1 &
	pid=$!
	pids+=" $pid"
}

# The timer of umem_service(7) writes the metrics of all, with call sites.
while :; do
	"$umem" metrics --all --sites=3 --format=prometheus -o last.prom
	cp last.prom "at.$SECONDS.prom"
	sleep 2
done >metrics.log 2>&1 &
pids+=" $!"

part="what runs here"
answer 0 '^ +all .* [0-9]+ processes' ps
for one in "$redis redis" "$gunicorn python3" "$postgres postgres" "$php php" \
    "$java java"; do
	[ -z "${one%% *}" ] || grep -Eq "^ *${one%% *} .* ${one#* }" said ||
	    wrong "no ${one#* }"
done
grep -q "sample=16k" said || wrong "no options"

if [ -n "$group" ]; then
	part="what would be killed"
	in_group ./hungry
	hungry=$pid
	ready "$umem" metrics "$hungry"
	answer 1 '^cost soft_limit +none; the process may have 100M' doctor "$hungry"
	answer 1 '^ +UMEM_OPTIONS=hard_limit=90%' doctor "$hungry"
fi

if [ -n "$redis" ]; then
	part="why redis grows"
	answer 1 ' leaked, ~?\+' diff -t 5 "$redis"
	first leaked ' session_open \(module\.c:[0-9]+\) < session_command'
	! sed -n '/ reachable, /,$p' said | grep -q session_open ||
	    wrong "a leak that is reachable"
fi

if [ -n "$gunicorn" ]; then
	part="why gunicorn grows"
	answer 1 ' leaked, ~?\+' diff -t 5 "$gunicorn"
	first leaked ' order_lose \(extension\.c:[0-9]+\) < handle'
	first reachable ' order_keep \(extension\.c:[0-9]+\) via PyBytes_From'
	part="a page for the ticket"
	answer 0 'title="reachable: ' diff -t 5 --html "$gunicorn"
	grep -q 'title="order_lose: ~\?[0-9.]* [KM]iB' said || wrong "no graph"
fi

if [ -n "$postgres" ]; then
	part="why PostgreSQL grows"
	answer 0 ' reachable, ~?\+' diff -t 5 "$postgres"
	grep -q "\`CompleteCachedPlan.* < PrepareQuery" said ||
	    wrong "no prepared statement"
fi

if [ -n "$java" ]; then
	part="whose functions these are"
	answer 0 '^Function names: jcmd [0-9]+ Compiler\.perfmap' users "$java"
	advice=$(sed -n 's/^Function names: \([^,]*\).*/\1/p' said)
	$advice >jcmd.log 2>&1 || wrong "$advice"
	answer 0 '  void Shop\.keepDeflater\(\)' users "$java"
	sed -n '/ CALL SITE$/{n;p;q;}' said | grep -q 'Shop\.keepDeflater()' ||
	    wrong "not the first row"
	part="where the rest of the JVM is"
	answer 0 '^Not ours: +files [0-9.]+M, .*others' "$java"
	"$umem" status --json "$java" >json
	python3 - json <<-'END2' || wrong "not ours"
	import json, sys
	parts = json.load(open(sys.argv[1]))["not_ours"]
	# The heap of 64 MiB, which the JVM has touched.
	assert parts["others"] > 64 << 20, parts
	assert parts["files"] > 10 << 20, parts
	assert any(p["name"] == "libjvm.so" for p in parts["largest"][:4]), parts
	END2
fi

if [ -n "$php" ]; then
	# PHP maps memory for itself: the growth is not umem's.
	part="why PHP grows"
	"$umem" status --json "$php" >before
	sleep 5
	answer 0 '^Not ours: .*largest: ' "$php"
	"$umem" status --json "$php" >after
	python3 - before after <<-'END2' || wrong "not ours"
	import json, sys
	before, after = (json.load(open(name)) for name in sys.argv[1:])
	more = (after["not_ours"]["others"] - before["not_ours"]["others"])
	assert more > 2 << 20, more
	grown = after["memory"]["live_bytes"] - before["memory"]["live_bytes"]
	assert grown < more / 2, (grown, more)
	END2
fi

if [ -n "$group" ]; then
	part="who was killed, and what it had"
	ready sh -c "grep 'pid=\"$hungry\".*cart_fill.* [3-9].......\$' at.*.prom"
	touch go
	wait "$hungry"
	status=$?
	[ $status -eq 137 ] || wrong "the group did not kill it: $status"
	last=$(grep -l "pid=\"$hungry\"" at.*.prom | sort -t . -k 2 -n | tail -n 1)
	python3 - "$last" "$hungry" <<-'END2' || wrong "$last"
	import re, sys
	text = open(sys.argv[1]).read()
	site, = re.findall(r'^umem_site_live_bytes\{pid="%s".*'
	                   r'site="(cart_fill [^"]*)"\} ([0-9]+)$' % sys.argv[2],
	                   text, re.M)
	assert int(site[1]) > 20e6, site
	END2
	part="the same service with a limit"
	UMEM_OPTIONS=sample=16k,hard_limit=80% in_group ./hungry
	wait "$pid"
	status=$?
	if [ $status -ne 3 ] || ! grep -q alive hungry.log; then
		wrong "status $status"
	fi
fi

part="which of them grew"
ls at.*.prom >said
python3 - "$redis" "$gunicorn" <<'END2' || wrong "the metrics"
import glob, re, sys
files = sorted(glob.glob("at.*.prom"), key=lambda f: int(f.split(".")[1]))
def live(name):
    return {pid: int(n) for pid, n in re.findall(
        r'^umem_live_bytes\{pid="(\d+)".*\} (\d+)$', open(name).read(), re.M)}
assert len(files) > 1, files
first, last = live(files[0]), live(files[-1])
for pid in sys.argv[1:]:
    assert not pid or last[pid] > first[pid] + 1e5, (pid, first, last)
END2
