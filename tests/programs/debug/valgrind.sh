#!/bin/bash
# test not with: coverage, in which valgrind takes records of it for functions
# test timeout: 300
# valgrind runs programs on our malloc: in locked mode, without complaints.
set -eu
command -v valgrind >/dev/null || { echo "no valgrind"; exit 77; }
cat >main.c <<'END'
#include "tests/programs/check.h"

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 2000, 20000);
	return NULL;
}

int
main(void)
{
	struct umem_mode mode;
	pthread_t thread[3];
	pid_t pid;

	check(umem_mode != NULL && umem_mode(&mode, sizeof(mode)) == 0);
	check(mode.mode == UMEM_MODE_LOCKED && mode.reason[0] != '\0');
	for (uintptr_t i = 0; i < 3; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
	pid = fork();
	if (pid == 0)
		_exit(0);
	child_end(pid);
	return 0;
}
END
"$CC" -g -D_GNU_SOURCE -fno-builtin -I"$TOP" -o main main.c -pthread
under() {
	LD_PRELOAD=$SHIM valgrind -q --error-exitcode=9 "$@" \
	    >said 2>&1 || {
		echo "status $?: valgrind $*"
		cat said
		exit 1
	}
	[ ! -s said ] || {
		echo "valgrind $* says:"
		cat said
		exit 1
	}
}
under --tool=none ./main
# memcheck left with our malloc, and with its own in place of ours.
under --soname-synonyms=somalloc=nouserintercepts ./main
under ./main
