#!/bin/bash
# The memory hooks of UCX, which patch libc, see the pages that blocks lose.
set -eu
cat >events.c <<'END'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucm/api/ucm.h>

static volatile size_t nevents, nbytes;

static void
unmapped(ucm_event_type_t type, ucm_event_t *event, void *arg)
{
	(void)type;
	(void)arg;
	nevents++;
	nbytes += event->vm_unmapped.size;
}

int
main(void)
{
	static char *held[20000];
	size_t big = 64 << 20;
	char *p, *wall;

	if (ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 1000, unmapped, NULL) != 0)
		return 77;
	p = malloc(big);
	memset(p, 1, big);
	free(p);
	malloc_trim(0);
	printf("a large block freed: %zu events, %zu MiB\n", nevents, nbytes >> 20);
	if (nbytes < big)
		return 1;
	nevents = nbytes = 0;
	for (int i = 0; i < 20000; i++) {
		held[i] = malloc(3000);
		memset(held[i], 1, 3000);
	}
	for (int i = 0; i < 20000; i++)
		if (i % 200 != 0)
			free(held[i]);
	malloc_trim(0);
	printf("small blocks freed: %zu events, %zu MiB\n", nevents, nbytes >> 20);
	if (nbytes < 50 << 20)
		return 1;
	nevents = nbytes = 0;
	p = malloc(big);
	wall = malloc(big);
	memset(p, 1, big);
	p = realloc(p, 4 * big);
	malloc_trim(0);
	printf("a large block moved: %zu events, %zu MiB\n", nevents, nbytes >> 20);
	free(p);
	free(wall);
	return nbytes < big - (4 << 20);
}
END
"$CC" -O1 -fno-builtin -o events events.c -lucm -lucs || { echo "no UCX"; exit 77; }
for options in UMEM_OPTIONS=mode=rseq UMEM_OPTIONS=mode=locked \
    UMEM_OPTIONS=hardened UMEM_DEBUG=default; do
	env "$options" LD_PRELOAD="$SHIM" ./events || {
		echo "$options: exit $?"
		exit 1
	}
done
