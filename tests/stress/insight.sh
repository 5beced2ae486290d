#!/bin/bash
# test timeout: 600
# The way of a user with a server that grows, through the commands of umem: a
# redis-server with a module that leaks, a C++ server, a stripped program, a
# program in a container, and the core of a crash.  The first row of each table
# must be the planted answer, each figure must fit the plan, and each message
# must be true.  A part is left out if its programs are not installed.
#
# shellcheck disable=SC2030,SC2031 # each part has a shell of its own
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

# says REGEX WORD... - umem WORD... prints a line like this, and no error
says() {
	"$umem" "${@:2}" >said 2>err
	status=$?
	if [ "$status" -gt 1 ] || [ -s err ] || ! grep -Eq -e "$1" said; then
		wrong "umem ${*:2}: status $status, no '$1' in:"
	fi
}

# refuses REGEX WORD... - umem WORD... prints only this, on standard error
refuses() {
	"$umem" "${@:2}" >said 2>err
	status=$?
	if [ "$status" -ne 2 ] || [ -s said ] || ! grep -Eq -e "$1" err; then
		wrong "umem ${*:2}: status $status, no '$1' in:"
	fi
}

wrong() {
	echo "$part: $1"
	head -40 said err | cut -c 1-200
	exit 1
}

# first REGEX WORD... - the first row of the table is like this
first() {
	says "$@"
	sed -n '/ CALL SITE$/{n;p;q;}' said | grep -Eq -e "$1" ||
	    wrong "umem ${*:2}: not the first row"
}

# shares - no share in said exceeds 100 %, nor does the sum of a table
shares() {
	awk '/ CALL SITE$/ { sum = 0 }
	    match($0, /^ +~?[0-9.]+[KMG]? +[0-9]+% /) {
		split(substr($0, RSTART, RLENGTH), word, " ")
		sum += word[2] + 0
		# Each row is rounded by itself.
		if (word[2] + 0 > 100 || sum > 100 + ++n / 2)
			exit 1
	    }' said || wrong "shares above 100 %"
}

# number NAME - the value of a metric
number() {
	sed -n "s/^$1 //p" metrics
}

# every TARGET - commands that any target understands
every() {
	says '^(Process|Core): ' status "$1"
	says '^Sampling: +one in (16|64)K bytes;' status "$1"
	says '^umem_heap ' stat "$1"
	says '^nothing can be verified: no cache has redzones' verify "$1"
	says ', in (an allocated sample|.* allocated from) ' whatis "$1" \
	    "$("$umem" walk "$1" leak | head -1)"
	says '^# EOF$' metrics "$1"
	cp said metrics
	[ "$(tail -n 1 metrics)" = '# EOF' ] || wrong "metrics go on after EOF"
	says '^<!DOCTYPE html>' users --html "$1"
	grep -q "$2" said || wrong "--html without $2"
	says ";[^ ]*$2;[^ ]* [0-9]+\$|;[^ ]*$2 [0-9]+\$" users --folded "$1"
	"$umem" users --pprof "$1" >profile 2>err || wrong "--pprof"
	grep -aq "$2" profile || wrong "--pprof without $2"
}

# watched NAME - umem top and umem users have a call site of $pid with this
# name, and the layers of top are the resident set
watched() {
	says "^umem top  $pid " top -i 0.2 -n 2 "$pid"
	grep -Eq " +[-+~0-9.KMG]+ +~?[0-9]+  .*$1" said || wrong "top without $1"
	python3 - <<-'END' || wrong "the layers of umem top"
	import re
	first, terms = re.search(r"^RSS (\S+) =(.*\n(?: {6}.*\n)*)",
	                         open("said").read(), re.M).groups()
	def size(text):
	    unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1)
	    return float(text.rstrip("KMG")) * unit
	found = re.findall(r"([-+]?) *[a-z ]+ ([0-9.]+[KMG]?)",
	                   re.sub(r"\([^)]*\)", "", terms))
	total = sum(-size(n) if sign == "-" else size(n) for sign, n in found)
	# Each figure is rounded down to a tenth.
	assert len(found) >= 6 and abs(total - size(first)) < 2**20, found
	END
	says '^<!DOCTYPE html>' users --html "$pid"
	grep -q "<td>.*$1" said || wrong "no row with $1 in the page"
	grep -Eq "^<div [^>]* title=[^>]*$1.*</div>\$" said ||
	    wrong "no flame graph with $1"
}

# grown REGEX - umem diff has this row first when the program loses more
grown() {
	(
		sleep 1
		echo >&9
	) &
	says "$1" diff -t 3 "$pid" "$pid"
	[ "$status" -eq 1 ] || wrong "diff does not say that leaks grew"
	sed -n '/ CALL SITE$/{n;p;q;}' said | grep -Eq "$1" ||
	    wrong "not the first growth"
	wait $!
}

cat >module.c <<'END'
#include <stdlib.h>
#include <string.h>

/* Declared here because redismodule.h is not packaged. */
typedef int (*command_t)(void *, void **, int);
static int (*get_api)(const char *, void *);
static int (*create_command)(void *, const char *, command_t, const char *,
    int, int, int);
static int (*set_attributes)(void *, const char *, int, int);
static int (*reply_long)(void *, long long);
static void *(*redis_alloc)(size_t);

struct session {
	struct session *next;
	char *user;
	char state[1484];
};
static struct session *kept;

static int
session_open(void *ctx, void **argv, int argc)
{
	struct session *volatile session = malloc(sizeof(*session));

	memset(session, 0, sizeof(*session));
	session->user = strdup("a user with a name");
	session = NULL;
	return reply_long(ctx, argc);
}

static int
session_keep(void *ctx, void **argv, int argc)
{
	struct session *session = redis_alloc(sizeof(*session));

	memset(session, 0, sizeof(*session));
	session->next = kept;
	kept = session;
	return reply_long(ctx, argc);
}

static int
session_lose(void *ctx, void **argv, int argc)
{
	memset(redis_alloc(2500), 1, 2500);
	return reply_long(ctx, argc);
}

int
RedisModule_OnLoad(void *ctx, void **argv, int argc)
{
	get_api = *(int (**)(const char *, void *))ctx;
	get_api("RedisModule_CreateCommand", &create_command);
	get_api("RedisModule_SetModuleAttribs", &set_attributes);
	get_api("RedisModule_ReplyWithLongLong", &reply_long);
	get_api("RedisModule_Alloc", &redis_alloc);
	set_attributes(ctx, "session", 1, 1);
	create_command(ctx, "session.open", session_open, "", 0, 0, 0);
	create_command(ctx, "session.keep", session_keep, "", 0, 0, 0);
	return create_command(ctx, "session.lose", session_lose, "", 0, 0, 0);
}
END

cat >server.cc <<'END'
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace shop {

struct Order {
	std::string customer;
	std::vector<char> body;
	virtual ~Order() {}
};

class Server {
public:
	void handle(int n);
	void audit(int n);
	void work(int first, int count);

private:
	std::mutex lock;
	std::map<int, std::shared_ptr<Order>> orders;
};

__attribute__((noinline)) void
Server::audit(int n)
{
	Order *volatile copy = new Order;

	copy->customer = "customer " + std::to_string(n) + " of this shop";
	copy->body.assign(1300, 'x');
	copy = nullptr;
}

__attribute__((noinline)) void
Server::handle(int n)
{
	auto order = std::make_shared<Order>();

	order->customer = "customer " + std::to_string(n) + " of this shop";
	order->body.assign(600, 'y');
	std::lock_guard<std::mutex> guard(lock);
	orders[n % 4000] = order;
	if (n % 2 == 0)
		audit(n);
}

__attribute__((noinline)) void
Server::work(int first, int count)
{
	for (int i = 0; i < count; i++)
		handle(first + i);
}

}

int
main()
{
	static shop::Server server;
	std::vector<std::thread> threads;
	char c;

	std::thread idle([] { pause(); });
	for (int t = 0; t < 4; t++)
		threads.emplace_back([t] { server.work(t * 5000, 5000); });
	for (auto &thread : threads)
		thread.join();
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1) {
		std::thread([] { server.work(0, 10000); }).join();
		puts("more");
		fflush(stdout);
	}
	_exit(0);
}
END

cat >lose.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static void
session_open(void)
{
	void *volatile p = malloc(1000);

	memset(p, 1, 1000);
	p = NULL;
}

__attribute__((noinline)) static void
wipe(void)
{
	volatile char stack[16384];

	memset((void *)stack, 0, sizeof(stack));
}

int
main(int argc, char **argv)
{
	char c;

	for (int i = 0; i < 5000; i++)
		session_open();
	wipe();
	if (write(1, "ready\n", 6) != 6)
		return 9;
	if (argc > 1)
		abort();
	return (int)read(0, &c, 1);
}
END

redis() {
	local n cli=(redis-cli -s "$TMP/redis.socket")

	"$CC" -O1 -g -fno-builtin -w -shared -fPIC -o module.so module.c || exit 1
	LD_PRELOAD=$SHIM redis-server --port 0 --unixsocket \
	    "$TMP/redis.socket" --save '' --loadmodule "$TMP/module.so" \
	    >redis.log 2>&1 &
	pid=$!
	# shellcheck disable=SC2064 # this process
	trap "kill $pid 2>/dev/null" EXIT
	until [ "$("${cli[@]}" ping 2>/dev/null)" = PONG ]; do
		kill -0 "$pid" 2>/dev/null || wrong "no server"
		sleep 0.05
	done

	# It was started without any option: the sizes are known.
	for ((n = 0; n < 2000; n++)); do
		echo session.open
	done | "${cli[@]}" >/dev/null
	first ' (199[0-9]|2000) +[0-9.]+K +- +- +unknown: blocks of umem_alloc_1536$' \
	    leaks "$pid"
	shares
	says "\"umem ctl $pid sample=default\" records it" leaks "$pid"
	refuses "^umem: users: no callers are recorded; \"umem ctl $pid " \
	    users "$pid"

	# Its advice is followed.
	says '^sample=64k \(before: off\)$' ctl "$pid" sample=64k
	says '^sample +64k +off$' ctl "$pid"
	"$umem" leaks --save=before "$pid" >/dev/null
	for ((n = 0; n < 4000; n++)); do
		echo session.open
		echo session.keep
	done | "${cli[@]}" >/dev/null
	for ((n = 0; n < 1000; n++)); do
		echo session.lose
		echo "set key:$n $n"
	done | "${cli[@]}" >/dev/null
	first '^ +~?\+[0-9.]+M .* session_open \(module\.c:[0-9]+\)' \
	    diff before "$pid"
	says ' session_lose \(module\.c:[0-9]+\) via zmalloc' \
	    diff before "$pid"
	says '^ +~?[0-9.]+M +.* session_open \(module\.c:[0-9]+\) ' leaks "$pid"
	shares
	says ' session_lose \(module\.c:[0-9]+\) via zmalloc' leaks "$pid"
	! grep -q session_keep said || wrong "leaks has a kept session"
	says 'session_keep \(module\.c:[0-9]+\) via zmalloc' users "$pid"
	shares
	every "$pid" session_open
	"$umem" leaks --json "$pid" >json
	# 6000 sessions with a name, 1000 blocks; the server itself loses none.
	python3 - json <<-'END' || exit 1
	import json, sys
	report = json.load(open(sys.argv[1]))
	assert 12990 <= report["blocks"] <= 13010, report["blocks"]
	END
	watched session_open
	timeout $((120 * ${TEST_TIME_FACTOR:-1})) \
	    "${cli[@]}" shutdown nosave >said 2>err
	status=$?
	# The server closes the connection instead of an answer.
	if [ "$status" -ne 0 ] || grep -q . said; then
		wrong "shutdown: status $status:"
	fi
	ended 0
}

server() {
	"$CXX" -O1 -g -pthread -w -o server server.cc || exit 1
	start env UMEM_OPTIONS=sample=16k "$TMP/server"
	first ' shop::Server::audit \(server\.cc:[0-9]+\) < shop::Server::handle' \
	    leaks "$pid"
	shares
	says '^~[0-9.]+M leaked in ~30000 blocks, ~' leaks "$pid"
	says '^    server`shop::Server::audit\+0x.* \(server\.cc:' leaks -d "$pid"
	first ' shop::Server::audit \(server\.cc:[0-9]+\) via std::vector<char' \
	    users "$pid"
	shares
	every "$pid" 'shop::Server::audit'
	[ "$(number umem_failures_total)" = 0 ] || wrong "failures"
	n=$(number umem_live_bytes)
	# 10000 lost orders of 1.4 KiB, and 4000 kept of 0.8 KiB
	if [ "$n" -lt 15000000 ] || [ "$n" -gt 30000000 ]; then
		wrong "live: $n"
	fi
	watched shop::Server::audit
	grown '^ +~?\+[0-9.]+M .* shop::Server::audit \(server\.cc:'

	# While threads run.
	for _ in 1 2 3 4 5 6 7 8; do
		echo >&9
	done
	for _ in 1 2 3; do
		first ' shop::Server::audit \(server\.cc:' leaks "$pid"
		shares
		says '^~[0-9.]+[KM] allocated, ' diff -u "$pid" "$pid"
	done
	until [ "$(grep -c more told)" -eq 9 ]; do
		kill -0 "$pid" 2>/dev/null || wrong "the server is gone"
		sleep 0.05
	done
	gcore -o core "$pid" >/dev/null 2>&1
	first ' shop::Server::audit \(server\.cc:' leaks "core.$pid"
	finish 0
	says '^0 .*|leaked, ~?0 since' diff "core.$pid" "core.$pid"
	every "core.$pid" 'shop::Server::audit'
	rm "core.$pid"
}

stripped() {
	local at frame

	strip -o stripped server
	start env UMEM_OPTIONS=sample=16k "$TMP/stripped"
	first ' stripped\+0x[0-9a-f]+ < stripped\+0x[0-9a-f]+ < ' leaks "$pid"
	shares
	at=$(grep -o 'stripped+0x[0-9a-f]*' said | head -1)
	# It is a return address: the call ends before it.
	at=$(printf %x $((${at#*+} - 1)))
	frame=$(addr2line -C -f -e server "$at")
	[[ $frame = 'shop::Server::audit(int)'* ]] || wrong "$at is $frame"
	# A program on another malloc, and targets that do not exist.
	sleep 100 &
	refuses "^umem: $!: does not run on umem; \"umem run\" starts" leaks $!
	kill $!
	refuses '^umem: 99999999: no such process$' leaks 99999999
	refuses '^umem: nosuch: No such file' leaks nosuch
	refuses '^umem: .*lose\.c: not a core file$' leaks "$TMP/lose.c"
	refuses "^umem: no option nosuch" ctl "$pid" nosuch=1
	finish 0
}

container() {
	local file libraries

	mkdir -p tree/app inside
	"$CC" -O1 -g -fno-builtin -w -o tree/app/lose lose.c || exit 1
	cp "$SHIM" "$(command -v env)" tree/app
	libraries=$(ldd tree/app/lose tree/app/env "$SHIM" |
	    sed -n 's/.* \(\/[^ ]*\) (0x.*/\1/p; s/^\t\(\/[^ ]*\) (0x.*/\1/p')
	for file in $libraries; do
		mkdir -p "tree$(dirname "$file")"
		cp -L "$file" "tree$file"
	done
	mkfifo in
	: >told
	# shellcheck disable=SC2016 # for the other shell
	unshare -m bash -c 'mount -t tmpfs none inside &&
	    cp -a tree/. inside && exec chroot inside /app/env \
	    UMEM_OPTIONS=sample=64k LD_PRELOAD=/app/libumem_malloc.so.1 \
	    /app/lose' <in >told 2>err &
	pid=$!
	exec 9>in
	until grep -q ready told; do
		kill -0 "$pid" 2>/dev/null || wrong "no container"
		sleep 0.05
	done
	[ ! -e inside/app/lose ] || wrong "the files are not in the container"
	first '^ +~[0-9.]+M +[0-9]+% +~?[0-9]+ .* session_open \(lose\.c:[0-9]+\) < main$' \
	    leaks "$pid"
	says '^    lose`session_open\+0x[0-9a-f]+ \(lose\.c:' leaks -d "$pid"
	first ' session_open \(lose\.c:[0-9]+\) < main$' users "$pid"
	every "$pid" session_open

	# Its core has names below --sysroot only, and says so.
	gcore -o core "$pid" >/dev/null 2>&1
	"$umem" leaks "core.$pid" >said 2>err
	if [ $? -ne 1 ] || ! grep -Eq '~?[0-9]+ .* lose\+0x[0-9a-f]+' said ||
	    ! grep -q 'app/lose: No such file .*; --sysroot=DIR ' err ||
	    [ "$(wc -l <err)" -ne 1 ]; then
		wrong "the core without its files"
	fi
	mkdir -p "root$TMP"
	mv tree "root$TMP/inside"
	first ' session_open \(lose\.c:[0-9]+\) < main$' \
	    leaks --sysroot=root "core.$pid"
	finish 0
}

crash() {
	local core

	mkdir crashed
	cd crashed || exit 1
	"$CC" -O1 -g -fno-builtin -w -o lose ../lose.c || exit 1
	(
		ulimit -c unlimited
		UMEM_OPTIONS=sample=64k LD_PRELOAD=$SHIM exec ./lose abort
	) >told 2>&1
	core=$(find . -name 'core*')
	if [ -z "$core" ]; then
		echo "$part: the kernel writes cores elsewhere"
		return
	fi
	first '^ +~[0-9.]+M +[0-9]+% +~?[0-9]+ .* session_open \(lose\.c:[0-9]+\) < main$' \
	    leaks "$core"
	every "$core" session_open
	says '^signal 6 \(Aborted\) in thread [0-9]+ of [0-9]+$' crash "$core"
	grep -q '^    lose`main+0x.* (lose\.c:' said || wrong "no stack of main"
	refuses '^umem: .*core.*: is a core file$' ctl "$core"
	head -c 100000 "$core" >short
	refuses '^umem: short: ' leaks short
}

# has PROGRAM... - are they all installed?
has() {
	local program

	for program in "$@"; do
		command -v "$program" >/dev/null || {
			echo "$part: no $program"
			return 1
		}
	done
}

for tool in gcore python3 strip addr2line; do
	command -v "$tool" >/dev/null || {
		echo "no $tool"
		exit 77
	}
done
: >said
: >err
# run_tests.sh ends a test that takes too long.
trap 'echo "$part: not finished in time; the last output:"; head said err
exit 1' TERM
part=redis
if has redis-server redis-cli; then
	(redis) || exit 1
fi
part="C++ server"
(server) || exit 1
part="stripped program"
(stripped) || exit 1
part=container
if has unshare chroot && unshare -m true 2>/dev/null; then
	(container) || exit 1
fi
part=crash
(crash) || exit 1
