#!/bin/bash
# UMEM_OPTIONS=stats writes the statistics when a process exits, also from
# another thread's exit() and in a child; not after _exit().  A file that
# cannot be written is reported.
set -eu
cat >main.c <<'END2'
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	void *volatile block = malloc(3000);

	if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() != 0)
		wait(NULL);
	if (argc > 1 && strcmp(argv[1], "_exit") == 0)
		_exit(block == NULL);
	exit(block == NULL);
}
END2
"$CC" -fno-builtin -o main main.c
run() {
	env LD_PRELOAD="$SHIM" UMEM_OPTIONS="stats=$1" ./main "${@:2}" 2>err
}

run stats
[ ! -s err ]
grep -q '^process [0-9]*$' stats
grep -q '^umem_heap_bytes [0-9]' stats
grep -qx 'umem_cache_live_objects{cache="umem_alloc_3072"} 1' stats ||
    { cat stats; exit 1; }
grep -qx '# EOF' stats
grep -qx 'end of samples' stats
# Another process appends.
run stats
[ "$(grep -c '^process ' stats)" = 2 ]
run 'of.%p' fork
[ "$(cat of.* | grep -c '^process ')" = 2 ]
[ "$(find . -name 'of.*' | wc -l)" = 2 ]
run none _exit
[ ! -e none ]
run /nosuch/stats
grep -qx 'umem: UMEM_OPTIONS: stats: cannot write /nosuch/stats' err
# A message that cannot be logged goes to standard error, like the list of
# options.
env LD_PRELOAD="$SHIM" UMEM_OPTIONS=log=/nosuch/log,hardend ./main 2>err
grep -q 'hardend' err
env UMEM_OPTIONS=log=log,hardend "$B/umem" options >list
grep -q '^  log=path$' list
grep -q "; now $TMP/log$" list
grep -q 'hardend' log
