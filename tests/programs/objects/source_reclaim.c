/*
 * source_reclaim.c - memory of a source that one cache does not use goes to
 * another cache, also if the heap is small; a call that succeeds does not
 * change errno
 *
 * test link: umem
 * test no stderr: .
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "umem/umem.h"
#include "vmem/vmem.h"

#define NOBJECTS 2000

static char memory[1 << 20] __attribute__((aligned(65536)));
static void *objects[NOBJECTS];
static int nasked;

static void
ask(void *arg)
{
	(void)arg;
	nasked++;
}

/* A destructor may change errno; a successful call that runs it must not. */
static void
destruct(void *buf, void *arg)
{
	(void)buf;
	(void)arg;
	errno = 55;
}

int
main(void)
{
	vmem_t *source = vmem_create(
	    "static", memory, sizeof(memory), 4096, NULL, NULL, NULL, 0, 0);
	umem_cache_t *first, *second;
	void *object;
	int n = 0;

	first = umem_cache_create(
	    "first", 1000, 0, NULL, destruct, ask, NULL, source, 0);
	second = umem_cache_create(
	    "second", 3000, 0, NULL, NULL, NULL, NULL, source, 0);
	errno = 77;
	while (n < NOBJECTS && (objects[n] = umem_cache_alloc(first, 0))) {
		if (errno != 77) {
			fprintf(stderr, "object %d: errno %d\n", n, errno);
			return 1;
		}
		n++;
	}
	if (n < 900 || n == NOBJECTS || errno != ENOMEM || nasked == 0) {
		fprintf(stderr, "%d objects, errno %d, asked %d times\n", n,
		    errno, nasked);
		return 2;
	}
	while (n > 0)
		umem_cache_free(first, objects[--n]);
	errno = 77;
	object = umem_cache_alloc(second, 0);
	if (object == NULL || errno != 77) {
		fprintf(stderr, "%p, errno %d\n", object, errno);
		return 3;
	}
	umem_cache_free(second, object);
	umem_cache_destroy(second);
	umem_cache_destroy(first);
	vmem_destroy(source);
	return 0;
}
