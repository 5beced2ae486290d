/*
 * Readers use pointers to objects of a type-stable cache that was told of their
 * flavour, also after the object was freed at once.  Until its section ends, a
 * reader finds an object of the cache there, perhaps another one.  Meanwhile
 * slabs are released and another cache of the same size takes memory.
 *
 *	rcu_stale [broken]
 *
 *	broken	grace periods end at once: a reader must see another type, and
 *		the status is 3
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test no stderr: not empty
 *
 * test run: plain
 * test run: broken
 * test args: broken
 * test exit: 3
 * test not with: address reports the use after free
 */
#include <signal.h>

#include "tests/programs/rcu/rcu.h"

enum {
	NSLOTS = 3000,
	SIZE = 500,
	NREADERS = 3,
	NROUNDS = 15,
	STATUS_SEEN = 3
};
#define MINE   0x6d696e65u
#define OTHERS 0x6f746872u

static unsigned *slot[NSLOTS];
static umem_cache_t *stable, *other;
static bool stop, broken;
static unsigned nsections, ngone;

static int
make(void *object, void *priv, int flags)
{
	(void)flags;
	__atomic_store_n(
	    (unsigned *)object, (unsigned)(uintptr_t)priv, __ATOMIC_RELAXED);
	return 0;
}

static void
unmake(void *object, void *priv)
{
	if ((uintptr_t)priv == MINE)
		add(&ngone, 1);
	__atomic_store_n((unsigned *)object, 0, __ATOMIC_RELAXED);
}

static void
on_other_type(void)
{
	if (broken)
		_exit(STATUS_SEEN);
	check_failed("an object changes its type", __FILE__, __LINE__);
}

/* The slab was unmapped. */
static void
on_fault(int signal)
{
	(void)signal;
	on_other_type();
}

static void *
reader(void *arg)
{
	uint64_t r = (uintptr_t)arg + 3;

	rcu_true->register_thread();
	while (!load(&stop)) {
		unsigned *seen[50];

		section_begin();
		for (int i = 0; i < 50; i++)
			seen[i] = load(&slot[next_random(&r) % NSLOTS]);
		for (int again = 0; again < 5; again++) {
			for (int i = 0; i < 50; i++)
				if (seen[i] != NULL &&
				    __atomic_load_n(
					seen[i], __ATOMIC_RELAXED) != MINE)
					on_other_type();
			usleep(next_random(&r) % 1000);
		}
		section_end();
		add(&nsections, 1);
	}
	rcu_true->unregister_thread();
	return NULL;
}

static void
take_others(void)
{
	static void *object[NSLOTS];

	for (int i = 0; i < NSLOTS; i++)
		check((object[i] = umem_cache_alloc(other, UMEM_DEFAULT)));
	for (int i = 0; i < NSLOTS; i++)
		umem_cache_free(other, object[i]);
	umem_cache_reap_now(other);
}

static void
no_grace_period(void)
{
}

static umem_cache_t *
typed(const char *name, unsigned type, int flags)
{
	umem_cache_t *cache = umem_cache_create(name, SIZE, 0, make, unmake,
	    NULL, (void *)(uintptr_t)type, NULL, flags);

	check(cache != NULL);
	return cache;
}

static bool
have_slabs_gone(void)
{
	umem_cache_reap_now(stable);
	return load(&ngone) > 0;
}

static void
run(void)
{
	pthread_t readers[NREADERS];

	rcu_watch();
	if (rcu_args[0] != NULL) {
		broken = true;
		rcu_copy.update_synchronize_rcu = no_grace_period;
	}
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	stable = typed("stable", MINE, UMC_TYPESAFE_BY_RCU);
	other = typed("other", OTHERS, 0);
	check(umem_cache_rcu_flavor(stable, rcu) == 0);
	for (uintptr_t i = 0; i < NREADERS; i++)
		readers[i] = thread_start(reader, (void *)i);
	for (int round = 0; broken || round < NROUNDS; round++) {
		for (int i = 0; i < NSLOTS; i++)
			store(&slot[i], umem_cache_alloc(stable, UMEM_DEFAULT));
		usleep(3000);
		/* Pointers to objects that the cache has back stay visible. */
		for (int i = 0; i < NSLOTS; i++) {
			unsigned *object = __atomic_exchange_n(
			    &slot[i], NULL, __ATOMIC_SEQ_CST);

			check(object != NULL);
			if (i % 3 == 0)
				object_free(stable, object);
			else
				umem_cache_free(stable, object);
		}
		/* All objects are free; the next cycle releases the slabs. */
		barrier();
		umem_cache_reap_now(stable);
		barrier();
		take_others();
	}
	/* Slabs are released under the readers. */
	wait_until(load(&nsections) > 30 && have_slabs_gone());
	check(load(&ngone) > 0);
	store(&stop, true);
	for (int i = 0; i < NREADERS; i++)
		thread_end(readers[i]);
	barrier();
	umem_cache_destroy(stable);
	umem_cache_destroy(other);
}
