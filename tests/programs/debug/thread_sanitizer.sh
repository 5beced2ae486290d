#!/bin/bash
# A program of gcc's ThreadSanitizer runs in each mode with the library
# preloaded.  It reports the program's races, and none of the library's.  One
# line says what it cannot know.
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
# A block that goes from thread to thread may be reported; the library's own
# accesses are not.
export TSAN_OPTIONS=exitcode=0
for mode in UMEM_OPTIONS= UMEM_OPTIONS=hardened UMEM_OPTIONS=sample=1 \
    UMEM_OPTIONS=stats=stats UMEM_DEBUG=default UMEM_DEBUG=guards; do
	for race in "" race; do
		# shellcheck disable=SC2086 # none or one word
		setarch -R env LD_PRELOAD="$SHIM" "$mode" ./threads $race \
		    >said 2>&1 || {
			echo "$mode: status $?"
			cat said
			exit 1
		}
		grep -q '^umem: ThreadSanitizer does not know' said ||
		    { cat said; exit 1; }
		! grep -E '^SUMMARY.* (vmem|magazine|umem)/' said ||
		    { cat said; exit 1; }
	done
	grep -q 'data race' said || { echo "$mode: no race was reported"; exit 1; }
done
[ -s stats ]
