/*
 * limited.c - a program that is at the limits of its caches, for umem stat
 *
 * Prints "ready" when a thread waits at the limit of "calls", and waits until
 * its standard input ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "umem/umem.h"

static umem_cache_t *calls, *notes;
static void *call[9];

static void *
wait_for_one(void *arg)
{
	call[8] = umem_cache_alloc(calls, UMEM_DEFAULT);
	return arg;
}

static void
take(void)
{
	struct umem_cache_args args = {
	    .size = 500, .limit = 8, .limit_wait = -1};

	calls = umem_cache_create_args("calls", &args, sizeof(args));
	for (int i = 0; i < 8; i++)
		call[i] = umem_cache_alloc(calls, UMEM_DEFAULT);
	if (umem_cache_alloc(calls, UMEM_NOWAIT) != NULL)
		exit(2);
	args = (struct umem_cache_args){.size = 300, .reserve = 20};
	notes = umem_cache_create_args("notes", &args, sizeof(args));
}

int
main(void)
{
	struct umem_cache_limits now = {0};
	pthread_t thread;
	char c;

	take();
	if (pthread_create(&thread, NULL, wait_for_one, NULL) != 0)
		return 2;
	while (now.waits == 0)
		umem_cache_limits(calls, &now, sizeof(now));
	if (write(1, "ready\n", 6) != 6)
		return 2;
	while (read(0, &c, 1) == 1)
		;
	umem_cache_free(calls, call[0]);
	pthread_join(thread, NULL);
	return 0;
}
