/*
 * A process ends when the last thread of the program ends, with objects that
 * wait: a thread of the library does not keep it alive.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test timeout: 60
 * test stderr: ^exit handler$
 */
#include "tests/programs/rcu/rcu.h"

static void
said(void)
{
	check(write(2, "exit handler\n", 13) == 13);
}

static void *
last(void *arg)
{
	umem_cache_t *cache = counted_cache(100);

	for (int i = 0; i < 500; i++) {
		object_free(cache, counted_alloc(cache));
		block_free(malloc(100));
	}
	usleep(30000);
	object_free(cache, counted_alloc(cache));
	return arg;
}

static void
run(void)
{
	check(atexit(said) == 0);
	thread_start(last, NULL);
	pthread_exit(NULL);
}
