/*
 * Threads free as fast as they can under readers, one of which stalls at times:
 * memory stays within a bound that follows from the budget, and one grace
 * period serves many objects.
 *
 *	rcu_load NFREES
 *
 * NFREES is the number of frees of each thread.  Run with rcu_budget=4m.
 *
 * test not with: thread needs more memory than the bound
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: 30000
 * test env: UMEM_OPTIONS=rcu_budget=4m
 * test no stderr: not empty
 */
#include <malloc.h>

#include "tests/programs/rcu/rcu.h"

enum {
	NUPDATERS = 8,
	NREADERS = 8,
	NSLOTS = 64,
	SIZE = 256,
	LEAST_PER_PERIOD = 100
};
/*
 * Twice the budget, the default of depot_bytes, and 16 MiB for magazines, slabs
 * that are partly used, and 16 threads.
 */
#define MOST (2 * 4 * MIB + 16 * MIB + 16 * MIB)

static umem_cache_t *cache;
static unsigned nfrees, nreads;
static unsigned *slot[NSLOTS];
static bool stop;

static void *
reader(void *arg)
{
	uint64_t r = (uintptr_t)arg + 1;
	unsigned nsections = 0;

	rcu_true->register_thread();
	while (!load(&stop)) {
		section_begin();
		for (int i = 0; i < 100; i++) {
			unsigned *object =
			    load(&slot[next_random(&r) % NSLOTS]);

			check(object == NULL ||
			      __atomic_load_n(object, __ATOMIC_RELAXED) ==
				  COUNTED_MARK);
		}
		if (next_random(&r) % 4 == 0)
			usleep(5000);
		/* Long enough that the updaters come to the budget. */
		if (arg == NULL && nsections++ % 64 == 0)
			usleep(100000);
		section_end();
		add(&nreads, 1);
	}
	rcu_true->unregister_thread();
	return NULL;
}

static void *
updater(void *arg)
{
	uint64_t r = (uintptr_t)arg + 9;

	for (unsigned i = 0; i < nfrees; i++) {
		unsigned *object = counted_alloc(cache);

		memset(object + 1, (int)i, SIZE - sizeof(*object));
		object = __atomic_exchange_n(
		    &slot[next_random(&r) % NSLOTS], object, __ATOMIC_SEQ_CST);
		if (object != NULL)
			object_free(cache, object);
	}
	return NULL;
}

static void *
update_all(void *arg)
{
	pthread_t thread[NUPDATERS];

	for (uintptr_t i = 0; i < NUPDATERS; i++)
		thread[i] = thread_start(updater, (void *)i);
	for (int i = 0; i < NUPDATERS; i++)
		thread_end(thread[i]);
	store(&stop, true);
	return arg;
}

static void
run(void)
{
	pthread_t readers[NREADERS], all;
	long before, most = 0;

	check(rcu_args[0] != NULL);
	nfrees = (unsigned)atoi(rcu_args[0]);
	rcu_watch();
	cache = counted_cache(SIZE);
	object_free(cache, counted_alloc(cache));
	barrier();
	store(&rcu_nperiods, 0);
	before = rss_kib();
	for (uintptr_t i = 0; i < NREADERS; i++)
		readers[i] = thread_start(reader, (void *)i);
	all = thread_start(update_all, NULL);
	while (!load(&stop)) {
		long now = rss_kib();

		most = now > most ? now : most;
		usleep(2000);
	}
	thread_end(all);
	for (int i = 0; i < NREADERS; i++)
		thread_end(readers[i]);
	dprintf(2, "%u frees, %u grace periods, %ld KiB\n", NUPDATERS * nfrees,
	    load(&rcu_nperiods), most - before);
	check(nreads > 0);
	check((size_t)(most - before) * KIB < MOST);
	check(load(&rcu_nperiods) > 0);
	check(NUPDATERS * nfrees / load(&rcu_nperiods) >= LEAST_PER_PERIOD);
	barrier();
	for (int i = 0; i < NSLOTS; i++)
		object_free(cache, slot[i]);
	umem_cache_destroy(cache);
	check(load(&ncounted_made) == load(&ncounted_gone));
}
