/* test_grace.c - deferred frees of flavours whose grace periods the test makes */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "umem/defer.h"
#include "umem/init.h"

/* A flavour; the fields are atomic. */
struct flavour {
	unsigned ngraces; /* calls of synchronize() */
	int reading;      /* the answer of reading() */
};

static struct flavour one, two;

static void
one_synchronize(void)
{
	__atomic_add_fetch(&one.ngraces, 1, __ATOMIC_SEQ_CST);
}

static void
two_synchronize(void)
{
	__atomic_add_fetch(&two.ngraces, 1, __ATOMIC_SEQ_CST);
}

static int
one_reading(void)
{
	return __atomic_load_n(&one.reading, __ATOMIC_SEQ_CST);
}

static int
two_reading(void)
{
	return __atomic_load_n(&two.reading, __ATOMIC_SEQ_CST);
}

static void
ignore(void)
{
}

static void
grace_of(const void *key, struct umem_grace *grace)
{
	*grace = (struct umem_grace){
	    .synchronize = key == &one ? one_synchronize : two_synchronize,
	    .reading = key == &one ? one_reading : two_reading,
	    .offline = ignore,
	    .online = ignore};
}

static umem_cache_t *
cache_new(const char *name, size_t bytes)
{
	umem_cache_t *cache =
	    umem_cache_create(name, bytes, 0, NULL, NULL, NULL, NULL, NULL, 0);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

/* Frees a new object of the cache; returns the domain of the flavour. */
static struct domain *
defer_new(umem_cache_t *cache, struct flavour *flavour)
{
	void *object = umem_cache_alloc(cache, UMEM_DEFAULT);

	ck_assert_ptr_nonnull(object);
	ck_assert_int_eq(
	    umem_defer_object(cache, object, flavour, grace_of), 0);
	return domain_find(flavour);
}

static void
stay_on_this_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

static uint64_t
nreleased(const struct domain *domain)
{
	return __atomic_load_n(&domain->nreleased, __ATOMIC_SEQ_CST);
}

/* Waits until n objects have been released, ten seconds at most. */
static bool
are_released(const struct domain *domain, uint64_t n)
{
	for (int i = 0; i < 1000 && nreleased(domain) < n; i++)
		usleep(10000);
	return nreleased(domain) == n;
}

/*
 * The header is owned whenever the domain's thread looks, as it is while a
 * thread that pushes is preempted.
 */
START_TEST(an_object_behind_an_owned_header_is_not_forgotten)
{
	umem_cache_t *cache = cache_new("owned", 64);
	struct cpu_owned own;
	struct domain *domain;
	struct defer *layer;
	uint64_t tick, now;
	int nticks = 0;

	defer_delay_ns = 2000000;
	stay_on_this_cpu();
	domain = defer_new(cache, &one);
	layer = cache->defers;
	ck_assert(cpu_own(layer->mags.hot, layer->mags.cold, &own));
	tick = __atomic_load_n(&domain->tick_ns, __ATOMIC_RELAXED);
	/* A thread that has fallen asleep makes no further tick. */
	for (int i = 0; i < 200 && nticks < 4; i++) {
		usleep(1000);
		now = __atomic_load_n(&domain->tick_ns, __ATOMIC_RELAXED);
		nticks += now != tick;
		tick = now;
	}
	cpu_disown(&own);
	ck_assert(are_released(domain, 1));
	umem_cache_destroy(cache);
}
END_TEST

Suite *
grace_suite(void)
{
	Suite *suite = suite_create("grace");
	TCase *tcase = tcase_create("grace");

	tcase_add_test(
	    tcase, an_object_behind_an_owned_header_is_not_forgotten);
	suite_add_tcase(suite, tcase);
	return suite;
}
