#!/bin/bash
# A program of gcc's ThreadSanitizer runs in each mode with the library
# preloaded.  It reports the program's races, and none of the library's.
set -eu
cat >threads.c <<'EOF'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int shared;

static void *
run(void *is_racing)
{
	char *blocks[200];

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 200; i++) {
			size_t size = 16 + (size_t)(i * round) % 5000;

			blocks[i] = malloc(size);
			memset(blocks[i], 1, size);
		}
		for (int i = 0; i < 200; i++)
			free(blocks[i]);
		if (is_racing != NULL)
			shared++;
	}
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, run, argc > 1 ? argv : NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	free(calloc(1, 1 << 22));
	return 0;
}
EOF
gcc -g -O1 -fsanitize=thread threads.c -o threads 2>said ||
    { cat said; exit 77; }
# ThreadSanitizer wants less random addresses than some kernels give.
setarch -R ./threads >said 2>&1 || { cat said; exit 77; }
for mode in UMEM_OPTIONS= UMEM_OPTIONS=hardened UMEM_OPTIONS=sample=1 \
    UMEM_OPTIONS=stats=stats UMEM_DEBUG=default UMEM_DEBUG=guards; do
	setarch -R env LD_PRELOAD="$SHIM" "$mode" ./threads >said 2>&1 || {
		echo "$mode: status $?"
		cat said
		exit 1
	}
	[ ! -s said ] || { cat said; exit 1; }
	setarch -R env LD_PRELOAD="$SHIM" "$mode" ./threads race >said 2>&1 &&
	    { echo "$mode: no race was reported"; exit 1; }
	grep -q 'data race' said || { echo "$mode:"; cat said; exit 1; }
	! grep -q 'libumem.*\.so' <(grep '#0' said) || { cat said; exit 1; }
done
[ -s stats ]
