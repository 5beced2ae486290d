/*
 * Without further calls, an object is free after the delay and a grace period;
 * and a process that frees nothing waits for no grace period.
 *
 *	rcu_delay [long]
 *
 *	long	run with rcu_delay=10000: an object lies on its CPU
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 *
 * test run: plain
 * test run: long
 * test args: long
 * test env: UMEM_OPTIONS=rcu_delay=10000
 */
#include "tests/programs/rcu/rcu.h"

enum {
	SIZE = 2000,
	N = 20000,
	DELAY_MS = 10 /* the default */
};

static umem_cache_t *cache;

/* A new object lies where the freed one did. */
static bool
is_free(const void *object)
{
	static void *other[N];
	static unsigned n;

	check(n < N);
	check((other[n] = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	return other[n++] == object;
}

/* Nothing waits within any time that a test can take. */
static void
lies_on_its_cpu(void)
{
	object_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
	usleep(150000);
	check(load(&rcu_nperiods) == 0);
	barrier();
	check(load(&rcu_nperiods) == 1);
}

static void
run(void)
{
	void *object;
	unsigned before;
	uint64_t freed;

	rcu_watch();
	check((cache = umem_cache_create(
		   "delay", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0)) != NULL);
	if (rcu_args[0] != NULL) {
		lies_on_its_cpu();
		return;
	}
	for (int i = 0; i < 3; i++) {
		check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
		before = load(&rcu_nperiods);
		freed = now_ms();
		object_free(cache, object);
		if (is_free(object)) {
			/* On a busy machine, the look may come after that. */
			check(now_ms() - freed >= DELAY_MS / 2 - 1);
			continue;
		}
		wait_until(load(&rcu_nperiods) != before);
		check(load(&rcu_nperiods) != before);
		wait_until(is_free(object));
	}
	/* One period may have begun for nothing. */
	before = load(&rcu_nperiods);
	usleep(150000);
	check(load(&rcu_nperiods) <= before + 1);
	/* A block of each other kind. */
	before = load(&rcu_nperiods);
	block_free(malloc(100));
	wait_until(load(&rcu_nperiods) != before);
	check(load(&rcu_nperiods) != before);
	usleep(50000);
	before = load(&rcu_nperiods);
	sized_free(umem_alloc(100, UMEM_DEFAULT), 100);
	wait_until(load(&rcu_nperiods) != before);
	check(load(&rcu_nperiods) != before);
}
