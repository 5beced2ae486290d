#!/bin/bash
# A thread that gets no processor does not stop for seconds.  The command waits
# for it, because it may change memory at any moment.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
[ "$(nproc)" -ge 2 ] || { echo "one processor"; exit 77; }
cat >main.c <<'END2'
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *
work(void *arg)
{
	for (;;)
		free(malloc(100));
	return arg;
}

int
main(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, work, NULL);
	pthread_setname_np(thread, "worker");
	puts("ready");
	fflush(stdout);
	return getchar() != EOF;
}
END2
"$CC" -O1 -fno-builtin -o main main.c -pthread
start ./main
worker=$(grep -lx worker "/proc/$pid/task"/*/comm | cut -d / -f 5)

# The other thread has so little weight beside the busy one that it does not
# run.
first=$(taskset -cp "$pid" | sed 's/.*: //; s/[,-].*//')
chrt -i -p 0 "$worker" && taskset -cp "$first" "$worker" >said || exit 77
busy=
trap '[ -z "$busy" ] || kill "$busy"' EXIT
keep_busy() {
	taskset -c "$first" nice -n -20 timeout "$1" bash -c 'while :; do :; done' &
	busy=$!
	sleep 0.5
}

# Longer than a thread may take to stop.
keep_busy 5
"$umem" verify "$pid" >said 2>&1 || { cat said; exit 1; }
if grep 'does not stop' said; then
	exit 1
fi
wait "$busy"
keep_busy 100
# If it has run all the same, there is an answer.
"$umem" verify "$pid" >said 2>&1
status=$?
said=$(cat said)
if [[ $said == *'does not stop'* || ($status -ne 0 && ($status -ne 2 || $said != \
    "umem: thread $worker gets no processor, so it cannot stop; try again") ) ]]; then
	echo "status $status: $said"
	exit 1
fi
kill "$busy"
wait "$busy"
busy=
"$umem" verify "$pid" >said 2>&1 || { cat said; exit 1; }
finish 0
