#!/bin/bash
# umem verify: a buffer that was written to after it was freed, while it is
# held back or since it went to its slab; one that is overrun; and umem whatis
# of each.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
umem=$(readlink -f "$B")/umem
cat >main.c <<'END_C'
#include "tests/programs/check.h"

enum {
	N = 5000
};

static char *volatile p[N];

int
main(void)
{
	for (int i = 0; i < N; i++)
		check((p[i] = malloc(90)) != NULL);
	/* The first has left the places to wait at by the time of the last. */
	for (int i = 1; i < N - 1; i++)
		free(p[i]);
	p[1][8]++;
	p[N - 2][16]++;
	p[N - 1][90]++;
	printf("%lx %lx %lx %lx\n", (long)p[0], (long)p[1], (long)p[N - 2],
	    (long)p[N - 1]);
	fflush(stdout);
	pause();
	return 0;
}
END_C
$CC -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o main main.c
mkfifo ready
UMEM_DEBUG=default LD_PRELOAD="$SHIM" ./main >ready &
pid=$!
trap 'kill $pid' EXIT
read -r whole first last over <ready

bad() {
	echo "$1:"
	cat said
	exit 1
}
status=0
"$umem" verify "$pid" umem_alloc_96 >said || status=$?
for line in "$first (free) seems corrupted, at $(printf %x $((0x$first + 8)))" \
    "$last (free) seems corrupted, at $(printf %x $((0x$last + 16)))" \
    "$over (allocated) has a corrupt redzone"; do
	grep -qF "buffer $line" said || bad "status $status, no $line"
done
[ "$(grep -c ' buffer ' said)" = 3 ] || bad "not three"

"$umem" whatis "$pid" "$whole" "$first" "$last" >said
for line in "$whole is .* allocated from umem_alloc_96" \
    "$first is .* freed from umem_alloc_96" \
    "$last is .* freed from umem_alloc_96 (held back)"; do
	grep -q "^$line$" said || bad "no $line"
done
