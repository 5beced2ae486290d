/*
 * imports.c - a program with import caches, for the command umem to look at
 *
 * The cache "numbers" has 2000 resources of which 500 are in use, and those of
 * "buffers" are blocks of malloc(), each of which has the only address of
 * another block: 300 are idle, in magazines and elsewhere, and 10 in use.
 * Prints "leak ADDRESS" for a block that nothing points to, "idle ADDRESS" for
 * one of "buffers", then "ready", and waits until its standard input ends.
 * Addresses of blocks are in no other memory of the program.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "umem/umem.h"

static void *number[2000], *buffer[310];
static uintptr_t last;

static void
tell(const char *what, void *p)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%s %lx\n", what, (long)p);

	if (write(1, line, (size_t)n) != n)
		_exit(9);
}

static size_t
import_numbers(void *arg, void **store, size_t n, int flags)
{
	for (size_t i = 0; i < n; i++)
		store[i] = (void *)++last;
	return n;
}

static size_t
import_buffers(void *arg, void **store, size_t n, int flags)
{
	for (size_t i = 0; i < n; i++) {
		void **block = malloc(1000);

		if (block == NULL || (*block = malloc(2000)) == NULL)
			_exit(8);
		store[i] = block;
	}
	return n;
}

static void
release(void *arg, void *const *store, size_t n)
{
}

static void
use(umem_cache_t *cache, void **resource, int n, int nleft)
{
	for (int i = 0; i < n; i++)
		resource[i] = umem_cache_alloc(cache, UMEM_NOFAIL);
	for (int i = nleft; i < n; i++) {
		umem_cache_free(cache, resource[i]);
		if (i == n - 1 && resource == buffer)
			tell("idle", resource[i]);
		resource[i] = NULL;
	}
}

/* A thread that ends, so that no stack has an address by chance. */
static void *
plant(void *arg)
{
	use(umem_import_cache_create(
		"numbers", import_numbers, release, NULL, 0, 0),
	    number, 2000, 500);
	use(umem_import_cache_create(
		"buffers", import_buffers, release, NULL, 0, 0),
	    buffer, 310, 10);
	tell("leak", memset(malloc(3000), 0x5a, 3000));
	return NULL;
}

int
main(void)
{
	pthread_t thread;
	char c;

	pthread_create(&thread, NULL, plant, NULL);
	pthread_join(thread, NULL);
	if (write(1, "ready\n", 6) != 6 || read(0, &c, 1) < 0)
		return 1;
	return 0;
}
