#!/bin/bash
# Without randomisation of addresses by the kernel, each run of a program has
# its blocks at the same addresses, in every mode.  The runs are on one CPU,
# because each has magazines of its own.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
setarch -R true 2>/dev/null || exit 77
cpu=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')
cat >main.c <<'END'
#include <stdio.h>
#include <stdlib.h>

int
main(void)
{
	static void *kept[2000];
	unsigned long sum = 0;

	for (int i = 0; i < 10000; i++) {
		void **p = &kept[(i * 7919) % 2000];

		free(*p);
		*p = malloc((size_t)(i * 31 % 5000));
		sum = sum * 31 + (unsigned long)*p;
	}
	printf("%p %p %p %p %lx\n", malloc(100), malloc(5000), malloc(300000),
	    malloc(20000000), sum);
	return 0;
}
END
"$CC" -O1 -fno-builtin main.c -o main

# runs COMMAND... - prints how many different lines four runs print
runs() {
	for _ in 1 2 3 4; do
		taskset -c "$cpu" env LD_PRELOAD="$SHIM" "$setting" "$@"
	done | sort -u | wc -l
}

for setting in UMEM_OPTIONS= UMEM_OPTIONS=mode=locked UMEM_OPTIONS=hardened \
    UMEM_OPTIONS=sample=64k UMEM_DEBUG=default UMEM_DEBUG=firewall=1; do
	n=$(runs setarch -R ./main)
	[ "$n" -eq 1 ] || { echo "$setting: $n results"; exit 1; }
	n=$(runs ./main)
	[ "$n" -eq 4 ] || { echo "$setting, random: $n results"; exit 1; }
done
