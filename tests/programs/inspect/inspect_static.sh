#!/bin/bash
# A static program with libumem_malloc.a is audited from libc's first
# allocation, and the command finds its leaks and their callers, also where the
# linker has left out the sections that nothing uses.  The lists of threads of a
# static libc have no head in a mapping of a file; the command soon gives up the
# search for one.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >main.c <<'END2'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Initialised data comes before that of the library. */
char before[3 << 20] = {1};

static __attribute__((noinline)) void
lose(void)
{
	for (int i = 0; i < 100; i++)
		malloc(77777);
}

static void *
sleep_on(void *unused)
{
	pause();
	return unused;
}

int
main(void)
{
	pthread_t thread;
	char c;

	lose();
	for (int i = 0; i < 100; i++)
		pthread_create(&thread, NULL, sleep_on, NULL);
	puts("ready");
	fflush(stdout);
	return read(0, &c, 1) != 0;
}
END2
echo 'int main(void) { return 0; }' >empty.c
"$CC" -static -o empty empty.c 2>/dev/null ||
    { echo "no static libc"; exit 77; }
export UMEM_DEBUG=audit
for flags in "-static -no-pie" "-static-pie" "-static -Wl,--gc-sections" \
    "-Wl,--gc-sections"; do
	read -ra words <<<"$flags"
	"$CC" "${words[@]}" -o empty empty.c 2>/dev/null || continue
	"$CC" -O1 -g -fno-builtin -w "${words[@]}" -o main main.c \
	    "$B/libumem_malloc.a" -pthread -ldl || exit 1
	start env -u LD_PRELOAD ./main
	expect 1 'lose \(main.c:13\)' leaks "$pid"
	finish 0
done
