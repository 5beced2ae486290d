#!/bin/bash
# umem leaks of a hardened process: blocks in a quarantine are free, and lost
# blocks are found.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
umem=$(readlink -f "$B")/umem
cat >main.c <<'END'
#include "tests/programs/check.h"

int
main(void)
{
	char *volatile lost;

	for (size_t n = 1; n < 3000; n++) {
		char *p = malloc(n);

		check(p != NULL);
		free(p);
	}
	lost = malloc(20 * MIB);
	free(lost);
	lost = malloc(77);
	lost = NULL;
	check(write(1, "\n", 1) == 1);
	pause();
	return lost != NULL;
}
END
$CC -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o main main.c
mkfifo ready
UMEM_OPTIONS=hardened LD_PRELOAD="$SHIM" ./main >ready &
pid=$!
trap 'kill $pid' EXIT
read -r <ready
status=0
"$umem" leaks "$pid" >said 2>&1 || status=$?
if [ $status != 1 ] || ! grep -q '^80 leaked in 1 block$' said; then
	echo "status $status"
	cat said
	exit 1
fi
