#!/bin/bash
# test timeout: 120
# UMEM_OPTIONS=hardened: blocks that are overrun and never freed are reported at
# exit, in a child, too, and nothing is reported of blocks that are in use.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >main.c <<'END'
#include "tests/programs/check.h"

static const char *what;

static bool
is(const char *name)
{
	return strstr(what, name) != NULL;
}

static void
overrun(size_t n)
{
	char *p = keep(malloc(n));

	check(p != NULL);
	p[n] ^= 1;
}

/* Allocates, resizes and frees until the process ends. */
static void *
work(void *arg)
{
	uint64_t n = (uintptr_t)arg;

	for (;;) {
		size_t size;
		char *p = NULL;

		for (int i = 0; i < 2; i++) {
			n = n * 6364136223846793005u + 1;
			size = (n >> 54) + 1;
			p = keep(realloc(p, size));
			check(p != NULL);
			memset(p, 1, size);
		}
		free(p);
	}
	return NULL;
}

static void
late(void)
{
	char *p = keep(malloc(100));

	memset(p, 1, 100);
	for (int i = 0; i < 1000; i++)
		free(keep(malloc((size_t)i)));
	if (is("late"))
		overrun(200);
}

static void *volatile kept[1000];

int
main(int argc, char **argv)
{
	what = argc > 1 ? argv[1] : "";
	for (size_t i = 0; i < 1000; i++)
		kept[i] = calloc(1, i * i / 10);
	if (is("threads"))
		for (uintptr_t i = 1; i <= 3; i++)
			thread_start(work, (void *)i);
	if (is("handler"))
		check(atexit(late) == 0);
	if (is("overrun"))
		overrun(100);
	if (is("many"))
		for (size_t n = 10; n < 20; n++)
			overrun(n);
	if (is("child")) {
		pid_t child = fork();
		int status;

		if (child == 0)
			exit(0);
		check(waitpid(child, &status, 0) == child);
		_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status)
					  : WEXITSTATUS(status));
	}
	if (is("_exit"))
		_exit(0);
	return 0;
}
END
$CC -O1 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o main main.c

# look STATUS REPORTS MODE
look() {
	local status=0 n

	env LD_PRELOAD="$SHIM" UMEM_OPTIONS="$options" ./main "$3" 2>err ||
	    status=$?
	n=$(grep -c '^detected at exit; the buffer was not freed$' err) || :
	if [ "$status $n" != "$1 $2" ]; then
		echo "$options: $3: status $status, $n reports"
		cat err
		exit 1
	fi
}

ulimit -c 0
for options in hardened hardened,mode=locked; do
	look 0 0 fine
	look 134 1 overrun
	grep -q 'first byte changed is at offset 0x64, behind the 100' err
	look 134 10 many
	look 0 0 "overrun _exit"
	look 0 0 handler
	look 134 1 "late handler"
	look 0 0 child
	look 134 1 "overrun child"
	for _ in $(seq 15); do
		look 0 0 "threads handler"
		look 0 0 "threads child"
	done
	look 134 1 "overrun threads child"
done
options=hardened
UMEM_DEBUG=noabort look 0 10 many
UMEM_DEBUG=audit:umem_alloc_112 look 134 1 overrun
grep -q 'previous transaction on buffer' err
# Without the option nothing is checked.
options=
look 0 0 overrun
