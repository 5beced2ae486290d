#!/bin/bash
# UMEM_OPTIONS=stats_signal: the statistics are written at the signal, in a
# process that waits, in one with threads, in a child of fork(), and without the
# upkeep thread.  A handler of the program stays the program's.
# test timeout: 120
set -u
# A signal that the caller ignores, such as SIGHUP under nohup, would be ignored
# in all programs of this test.
[ -n "${default_signals-}" ] ||
    default_signals=yes exec env --default-signal=HUP,USR2 bash "$0"
cat >main.c <<'END2'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *
allocate(void *arg)
{
	for (;;) {
		for (int i = 0; i < 1000; i++) {
			void *volatile p = malloc(100 + i);

			free(p);
		}
		usleep(1000);
	}
	return arg;
}

static void
handler(int number)
{
	(void)number;
	write(1, "handled\n", 8);
}

int
main(int argc, char **argv)
{
	const char *what = argv[1];
	pthread_t thread;

	free(malloc(3000));
	if (strcmp(what, "handler") == 0)
		signal(SIGUSR2, handler);
	if (strcmp(what, "fork") == 0 && fork() != 0) {
		wait(NULL);
		return 0;
	}
	if (strcmp(what, "threads") == 0)
		pthread_create(&thread, NULL, allocate, NULL);
	printf("ready %d\n", getpid());
	fflush(stdout);
	if (strcmp(what, "fork") == 0 || strcmp(what, "alone") == 0)
		allocate(NULL);
	for (;;)
		pause();
}
END2
"$CC" -fno-builtin -w -o main main.c -pthread
umem_pid=
trap '[ -z "$umem_pid" ] || kill -9 "$umem_pid"' EXIT

# start OPTIONS WORD - starts the program; the process to signal is umem_pid
start() {
	rm -f stats out
	env LD_PRELOAD="$SHIM" UMEM_OPTIONS="stats=stats,$1" ./main "$2" \
	    >out 2>err &
	started=$!
	until grep -q ready out; do
		kill -0 $started || { cat err; exit 1; }
		sleep 0.05
	done
	umem_pid=$(sed -n 's/^ready //p' out)
}

# stop SIGNAL - ends it
stop() {
	kill -9 "$umem_pid"
	wait "$started" 2>/dev/null
	umem_pid=
}

# until_there FILE REGEX N - waits for N such lines
until_there() {
	local i

	for ((i = 0; i < 600 * ${TEST_TIME_FACTOR:-1}; i++)); do
		[ "$(grep -csE "$2" "$1")" = "$3" ] && return
		sleep 0.1
	done
	echo "not $3 lines '$2' in $1:"
	cat "$1" err
	exit 1
}

for run in 'stats_signal=usr2 wait' 'stats_signal=usr2 threads' \
    'stats_signal=usr2 fork' 'stats_signal=usr2,thread=no alone'; do
	read -r options word <<<"$run"
	start "$options" "$word"
	[ ! -e stats ] || { echo "$run: statistics too early"; exit 1; }
	kill -USR2 "$umem_pid"
	until_there stats "^process $umem_pid at signal 12$" 1
	until_there stats '^end of samples$' 1
	kill -USR2 "$umem_pid"
	until_there stats "^process $umem_pid at signal 12$" 2
	[ ! -s err ] || { cat err; exit 1; }
	stop
done

# A handler of the program replaces that of the library.
start stats_signal=usr2 handler
kill -USR2 "$umem_pid"
until_there out '^handled$' 1
[ ! -e stats ] || { echo "the library's handler ran, too"; exit 1; }
stop
# A signal that is ignored stays ignored, which is said.
rm out
env LD_PRELOAD="$SHIM" UMEM_OPTIONS=stats=stats,stats_signal=hup \
    bash -c 'trap "" HUP; exec ./main no' >out 2>err &
umem_pid=$!
until_there out ready 1
kill -HUP $umem_pid
until_there err '^umem: UMEM_OPTIONS: stats_signal: signal 1 has another action$' 1
stop
env LD_PRELOAD="$SHIM" UMEM_OPTIONS=stats_signal=usr2 true 2>err
until_there err '^umem: UMEM_OPTIONS: stats_signal: needs stats=PATH$' 1
