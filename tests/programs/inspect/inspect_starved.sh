#!/bin/bash
# A thread that gets no processor does not stop for seconds.  The command waits
# for it, because it may change memory at any moment.  If it stops between two
# looks of the command at it, it has stopped.
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

# The command's request to stop comes after three seconds, and behind its call
# of waitpid().
cat >late.c <<'END2'
#include <linux/ptrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static time_t asked;

static int
is_worker(int pid)
{
	return pid == atoi(getenv("WORKER"));
}

long
ptrace(int request, int pid, void *at, void *data)
{
	if (request != PTRACE_INTERRUPT || !is_worker(pid))
		return syscall(SYS_ptrace, request, pid, at, data);
	asked = time(NULL);
	return 0;
}

pid_t
waitpid(pid_t pid, int *status, int options)
{
	long got = syscall(SYS_wait4, pid, status, options, NULL);
	char path[64], text[64];
	FILE *file;

	if (asked == 0 || !is_worker(pid) || time(NULL) < asked + 4)
		return got;
	asked = 0;
	syscall(SYS_ptrace, PTRACE_INTERRUPT, pid, NULL, NULL);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	do {
		file = fopen(path, "re");
		fgets(text, sizeof(text), file);
		fclose(file);
	} while (strstr(text, ") t ") == NULL);
	puts("late");
	return got;
}
END2
"$CC" -shared -fPIC -w -o late.so late.c || exit 1
LD_PRELOAD=$PWD/late.so WORKER=$worker "$umem" verify "$pid" >said 2>&1 ||
    { cat said; exit 1; }
if ! grep -qx late said || grep 'does not stop' said; then
	exit 1
fi

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
