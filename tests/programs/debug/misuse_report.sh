#!/bin/bash
# The report of misuse without UMEM_DEBUG: the error, the kind of the address
# (a block or not), the program with its process and thread, the stack of the
# call, the stacks of a sample, and the command that prints lines of the source.
# That command is run, too.
# test timeout: 120
set -u
cat >wrong.c <<'END2'
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int variable;

__attribute__((noinline)) void *
maker(size_t size)
{
	void *p = malloc(size);

	__asm__ volatile("" : "+r"(p));
	return p;
}

__attribute__((noinline)) void
giver(void *p)
{
	free(p);
	__asm__ volatile("");
}

static void *
run(void *arg)
{
	const char *what = arg;
	char *p = maker(100), *large;
	int local;

	pthread_setname_np(pthread_self(), "worker");
	printf("%d\n", gettid());
	fflush(stdout);
	if (strcmp(what, "twice") == 0) {
		giver(p);
		giver(p);
	} else if (strcmp(what, "inside") == 0) {
		giver(p + 16);
	} else if (strcmp(what, "large") == 0) {
		large = maker(20000000);
		giver(large + 64);
	} else if (strcmp(what, "stack") == 0) {
		giver(&local);
	} else if (strcmp(what, "static") == 0) {
		giver(&variable);
	} else if (strcmp(what, "overrun") == 0) {
		p[100] = 1;
		giver(p);
		sleep(60);
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t thread;

	pthread_create(&thread, NULL, run, argv[1]);
	pthread_join(thread, NULL);
	return 0;
}
END2
"$CC" -O1 -g -fno-builtin -w -o wrong wrong.c -pthread
hex='0x[0-9a-f]+'
where='in wrong, process [0-9]+, thread [0-9]+ \(worker\)$'
crash='umem crash CORE prints these stacks with lines of the source$'
ulimit -S -c 0

# says FILE REGEX... - the file has such lines in this order, among others
says() {
	local file=$1 text

	shift
	cp "$file" rest
	for text; do
		if ! grep -Eq "^$text" rest; then
			echo "no '$text' in this order:"
			cat "$file"
			exit 1
		fi
		sed -i -E "0,/^${text//\//\\/}/d" rest
	done
}

# run SETTING WHAT - an aborted program; its standard error is in err
run() {
	env LD_PRELOAD="$SHIM" "$1" ./wrong "$2" >out 2>err
	status=$?
	if [ $status -ne 134 ]; then
		echo "$1 wrong $2: status $status instead of 134"
		cat err
		exit 1
	fi
}

run a=b twice
says err "umem: free\\($hex\\): block freed twice$" \
    "umem: $hex is a block of at most 112 bytes, of cache umem_alloc_112$" \
    "umem: $where" 'umem:     wrong`giver\+0x' 'umem:     wrong`run\+0x' \
    'umem: nothing recorded who allocated and freed it; UMEM_DEBUG=default does$' \
    "umem: $crash" 'umem: the limit for core files is 0; "ulimit -c unlimited"'
says err "umem: in wrong, process [0-9]+, thread $(cat out) "
run a=b inside
says err "umem: $hex is at offset 16 of the block at $hex of at most 112 bytes"
run a=b large
says err "umem: $hex is at offset 64 of the block at $hex of at most 2[0-9]{7} bytes$"
run a=b stack
says err "umem: $hex is on the stack of this thread$"
run a=b static
says err "umem: $hex is a variable or code of wrong$"
if grep recorded err; then
	echo "a variable is no block"
	exit 1
fi
run UMEM_OPTIONS=sample=1 inside
says err "umem: $hex is at offset 16 of the block at $hex of 100 bytes$" \
    "umem: $where" 'umem:     wrong`giver\+0x' \
    "umem: allocated by thread $(cat out), 0.[0-9] s ago:$" \
    'umem:     wrong`maker\+0x' 'umem:     wrong`run\+0x' "umem: $crash"
run UMEM_OPTIONS=log=told twice
[ ! -s err ] || { cat err; exit 1; }
says told 'umem: free' "umem: $where" 'umem:     wrong`giver\+0x'

# Reports of UMEM_DEBUG and of hardened end with the command, too.
run UMEM_DEBUG=default twice
says err 'umem allocator: duplicate free' "$where" 'wrong`giver\+0x' \
    'buffer was allocated by:$' 'wrong`maker\+0x' 'stack trace:$' \
    'wrong`giver\+0x' "$crash"
run UMEM_OPTIONS=hardened twice
says err 'umem allocator: duplicate free' "$where" \
    'nothing recorded who allocated' 'stack trace:$' 'wrong`giver' "$crash"

# A process that goes on: the command is run.
env LD_PRELOAD="$SHIM" UMEM_DEBUG=default,noabort ./wrong overrun >out 2>err &
pid=$!
command="whatis $pid $hex prints the stacks"
until grep -Eq "^umem $command" err; do
	kill -0 $pid || { cat err; exit 1; }
	sleep 0.1
done
says err 'umem allocator: redzone' "$where" 'stack trace:$' 'wrong`giver'
read -r _ command process address _ < <(grep -E "^umem $command" err)
"$B/umem" "$command" "$process" "$address" >said 2>&1
status=$?
kill $pid
if [ $status -ne 0 ]; then
	cat said
	exit 1
fi
says said ' +allocated by thread [0-9]+, [0-9.]+ s ago:$' \
    ' +wrong`maker\+0x[0-9a-f]+ \(wrong.c:[0-9]+\)$'
