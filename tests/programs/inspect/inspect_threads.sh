#!/bin/bash
# A process with many threads is stopped for few system calls a thread: four of
# ptrace(), and a fifth for the vector registers where a search for pointers
# needs them.  The kernel's list of pages is opened once and read for many
# stacks at once, and the copies of stacks share mappings.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
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
main(int argc, char **argv)
{
	int nthreads = atoi(argv[argc - 1]);
	pthread_attr_t small;
	char c;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	pthread_barrier_init(&ready, NULL, nthreads + 1);
	for (int i = 0; i < nthreads; i++) {
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
start ./main 400
traced=ptrace,openat,mmap,pread64,process_vm_readv

# at_most N PATTERN WHAT - so many system calls were made from the first stop to
# the last release of a thread.
at_most() {
	n=$(sed -n '/PTRACE_SEIZE/,$p' calls |
	    tac | sed -n '/PTRACE_DETACH/,$p' | grep -v resumed | grep -c "$2")
	[ "$n" -le "$1" ] && return
	echo "$3: $n times, at most $1 expected"
	exit 1
}

# The first thread and the library's are two more, and so are the calls that do
# not depend on the number of threads.
nthreads=402
few=300
strace -f -o calls -e trace=$traced "$umem" status "$pid" >said 2>&1 || exit 1
at_most $((4 * nthreads)) 'ptrace(' "status: ptrace"
at_most $few 'pread64(\|mmap(\|process_vm_readv(' "status: reads"
strace -f -o calls -e trace=$traced "$umem" leaks "$pid" >said 2>&1
status=$?
if [ $status -ne 0 ] || ! grep -q '^no leaks found' said; then
	echo "status $status"
	cat said
	exit 1
fi
at_most 1 '/pagemap"' "pagemap opened"
at_most $((5 * nthreads)) 'ptrace(' "leaks: ptrace"
at_most $((3 * nthreads + few)) 'pread64(\|mmap(\|process_vm_readv(' \
	"leaks: reads"
finish 0

# With thousands of threads, a search reads a copy of the process, although it
# has little memory.  On a busy machine, the library may get a CPU too late.
start ./main 1000
for ((i = 0; i < 20; i++)); do
	"$umem" leaks -v "$pid" >said 2>&1 || exit 1
	grep -q '^searched: a copy of the process' said && break
	sleep 0.1
done
if [ $i -eq 20 ]; then
	echo "1000 threads: not copied:"
	cat said
	exit 1
fi
finish 0
