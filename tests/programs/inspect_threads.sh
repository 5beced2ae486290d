#!/bin/bash
# A process with many threads is not stopped for work that each stack repeats:
# the kernel's list of pages is opened a few times, not once for each stack.
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
command -v strace >/dev/null || { echo "no strace"; exit 77; }
cat >main.c <<'END2'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t ready;

static void *
rest(void *arg)
{
	void *volatile block = malloc(777);

	pthread_barrier_wait(&ready);
	for (;;)
		pause();
	return block;
}

int
main(void)
{
	pthread_attr_t small;
	char c;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	pthread_barrier_init(&ready, NULL, 401);
	for (int i = 0; i < 400; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &small, rest, NULL) != 0)
			return 1;
	}
	pthread_barrier_wait(&ready);
	puts("ready");
	fflush(stdout);
	return read(0, &c, 1) != 0;
}
END2
"$CC" -O1 -fno-builtin -o main main.c -pthread
start ./main
strace -f -o calls -e trace=openat "$umem" leaks "$pid" >said 2>&1
status=$?
if [ $status -ne 0 ] || ! grep -q '^no leaks found' said; then
	echo "status $status"
	cat said
	exit 1
fi
n=$(grep -c '/pagemap"' calls)
if [ "$n" -gt 20 ]; then
	echo "opened $n times"
	exit 1
fi
finish 0
