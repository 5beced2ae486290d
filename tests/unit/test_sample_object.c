/*
 * test_sample_object.c - objects of caches that are samples
 *
 * Each test is a separate process.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "tests/unit/live.h"
#include "tests/unit/child.h"
#include "umem/base/page_map.h"
#include "umem/cache/cache.h"
#include "umem/malloc/alloc.h"
#include "umem/profile/sample.h"
#include "umem/rcu/defer_api.h"

static unsigned nmade, ngone; /* [a] */

static uint32_t
index_of(const void *p)
{
	void *owner = page_map_owner(p);

	return page_map_large_bytes(owner) == 0 ? 0
						: page_map_sample_index(owner);
}

static int
construct(void *buf, void *priv, int flags)
{
	(void)flags;
	*(void **)buf = priv;
	__atomic_add_fetch(&nmade, 1, __ATOMIC_RELAXED);
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	ck_assert_ptr_eq(*(void **)buf, priv);
	*(void **)buf = NULL;
	__atomic_add_fetch(&ngone, 1, __ATOMIC_RELAXED);
}

static umem_cache_t *
create(size_t size, size_t align)
{
	umem_cache_t *cache = umem_cache_create(
	    "objects", size, align, construct, destruct, NULL, &nmade, NULL, 0);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

/* Are the fast paths of the cache open? */
static bool
is_open(const umem_cache_t *cache)
{
	return cache->fast_at == cache_header_at(cache);
}

START_TEST(the_chance_is_that_of_a_block)
{
	static const struct {
		size_t size, mean;
		unsigned n;
	} cases[] = {{20, 1, 100}, {48, 1024, 60000}, {300, 10000, 60000},
	    {40000, 100000, 4000}};

	for (unsigned i = 0; i < array_size(cases); i++) {
		double want =
		    1 - exp(-(double)cases[i].size / (double)cases[i].mean);
		double sigma = sqrt(want * (1 - want) / cases[i].n);
		umem_cache_t *cache = create(cases[i].size, 0);
		unsigned nsampled = 0;

		ck_assert_int_eq(umem_sample(cases[i].mean), 0);
		for (unsigned j = 0; j < cases[i].n; j++) {
			void *p = umem_cache_alloc(cache, UMEM_DEFAULT);

			nsampled += index_of(p) != 0;
			umem_cache_free(cache, p);
		}
		ck_assert_double_eq_tol(
		    (double)nsampled / cases[i].n, want, 5 * sigma + 1e-9);
		ck_assert_uint_eq(cache_live(cache), 0);
		umem_cache_destroy(cache);
	}
	ck_assert_uint_eq(nmade, ngone);
}
END_TEST

enum {
	N = 200
};

/* The state of an object is that in which the program has left it. */
START_TEST(a_sample_is_a_constructed_object)
{
	static const size_t aligns[] = {0, 8, 64, 256, 4096};
	void *p[N];

	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < array_size(aligns); i++) {
		size_t align = aligns[i], mask = align == 0 ? 7 : align - 1;
		umem_cache_t *cache = create(100 + 24 * i, align);

		for (unsigned j = 0; j < N; j++) {
			p[j] = umem_cache_alloc(cache, UMEM_DEFAULT);
			ck_assert_uint_ne(index_of(p[j]), 0);
			ck_assert_uint_eq((uintptr_t)p[j] & mask, 0);
			ck_assert_ptr_eq(*(void **)p[j], &nmade);
			memset((char *)p[j] + 8, (int)j, 92 + 24 * i);
		}
		ck_assert_uint_eq(cache_live(cache), N);
		ck_assert_int_eq(umem_cache_shrink(cache), 1);
		for (unsigned j = 0; j < N; j++)
			umem_cache_free(cache, p[j]);
		ck_assert_uint_eq(cache_live(cache), 0);
		ck_assert_int_eq(umem_cache_shrink(cache), 0);
		umem_cache_destroy(cache);
		ck_assert_uint_eq(nmade, ngone);
	}
}
END_TEST

static int
refuse(void *buf, void *priv, int flags)
{
	(void)buf;
	(void)priv;
	(void)flags;
	return nmade++ % 2;
}

/* The program gets the object that the slabs have. */
START_TEST(a_constructor_that_refuses_a_sample_refuses_no_object)
{
	umem_cache_t *cache = umem_cache_create(
	    "objects", 100, 0, refuse, NULL, NULL, NULL, NULL, 0);
	void *p;

	ck_assert_int_eq(umem_sample(1), 0);
	p = umem_cache_alloc(cache, UMEM_DEFAULT);
	ck_assert_uint_eq(nmade, 2);
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(index_of(p), 0);
	ck_assert_uint_eq(cache_live(cache), 1);
	umem_cache_free(cache, p);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(bulk_calls_take_and_free_samples)
{
	umem_cache_t *cache = create(100, 0);
	void *p[N];

	ck_assert_int_eq(umem_sample(1000), 0);
	for (unsigned n = 1; n <= N; n++) {
		ck_assert_uint_eq(
		    umem_cache_alloc_bulk(cache, n, p, UMEM_DEFAULT), n);
		for (unsigned i = 0; i < n; i++)
			ck_assert_ptr_eq(*(void **)p[i], &nmade);
		ck_assert_uint_eq(cache_live(cache), n);
		umem_cache_free_bulk(cache, n, p);
		ck_assert_uint_eq(cache_live(cache), 0);
	}
	ck_assert_uint_gt(sample_ntaken, N);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nmade, ngone);
}
END_TEST

START_TEST(the_fast_paths_are_closed_while_there_are_samples)
{
	umem_cache_t *cache = create(100, 0);
	void *p[2];

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return;
	p[0] = umem_cache_alloc(cache, UMEM_DEFAULT);
	umem_cache_free(cache, p[0]);
	ck_assert(is_open(cache));
	ck_assert_int_eq(umem_sample(1), 0);
	/* The fast path allocates the rounds that the magazine has. */
	do
		p[0] = umem_cache_alloc(cache, UMEM_DEFAULT);
	while (is_open(cache));
	p[1] = umem_cache_alloc(cache, UMEM_DEFAULT);
	ck_assert_uint_eq(cache->nsamples, 2);
	ck_assert_int_eq(umem_sample(0), 0);
	umem_cache_free(cache, p[0]);
	ck_assert(!is_open(cache));
	p[0] = umem_cache_alloc(cache, UMEM_DEFAULT);
	ck_assert_uint_eq(index_of(p[0]), 0);
	umem_cache_free(cache, p[1]);
	ck_assert(is_open(cache));
	umem_cache_free(cache, p[0]);
}
END_TEST

START_TEST(a_cache_with_a_limit_counts_its_samples)
{
	struct umem_cache_args args = {.size = 100, .limit = 3};
	umem_cache_t *cache =
	    umem_cache_create_args("objects", &args, sizeof(args));
	void *p[4];

	ck_assert_ptr_nonnull(cache);
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3; i++)
			p[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		ck_assert_uint_eq(cache->nsamples, 3);
		ck_assert_ptr_null(umem_cache_alloc(cache, UMEM_DEFAULT));
		if (round == 1)
			umem_cache_free_bulk(cache, 3, p);
		else
			for (unsigned i = 0; i < 3; i++)
				umem_cache_free(cache, p[i]);
		ck_assert_uint_eq(cache->nsamples, 0);
	}
	umem_cache_destroy(cache);
}
END_TEST

static umem_cache_t *one, *other;
static void *sampled;

static void
destroy_in_use(void)
{
	umem_cache_destroy(one);
	ck_assert(one->destroyed);
	umem_cache_free(one, sampled);
}

static void
free_to_other(void)
{
	umem_cache_free(other, umem_cache_alloc(other, UMEM_DEFAULT));
	umem_cache_free(other, sampled);
	cache_reap(other);
}

static void
free_as_block(void)
{
	ck_assert_uint_eq(alloc_usable(sampled, "malloc_usable_size"), 0);
	alloc_free(sampled);
}

static void
free_inside(void)
{
	umem_cache_free(one, (char *)sampled + 16);
}

static void
free_twice(void)
{
	/* A guarded sample remains known after its free. */
	while (sample_guarded_count() == 0)
		sampled = umem_cache_alloc(one, UMEM_DEFAULT);
	umem_cache_free(one, sampled);
	umem_cache_free(one, sampled);
}

static const struct {
	void (*misuse)(void);
	const char *text;
} misuses[] = {{destroy_in_use, "umem_cache_free(one): cache was destroyed"},
    {free_to_other, "object of another cache"},
    {free_as_block, "object of a cache, not a block"},
    {free_inside, "not the start of a block"},
    {free_twice, "block freed twice"}};

START_TEST(misuse_of_a_sample_is_told)
{
	const char *text;

	one = umem_cache_create("one", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	other =
	    umem_cache_create("other", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	ck_assert_int_eq(umem_sample(1), 0);
	sampled = umem_cache_alloc(one, UMEM_DEFAULT);
	ck_assert_uint_ne(index_of(sampled), 0);
	text = child_writes(misuses[_i].misuse);
	ck_assert(child_aborted());
	ck_assert_msg(strstr(text, misuses[_i].text) != NULL, "%s", text);
}
END_TEST

START_TEST(objects_that_cannot_be_samples_are_none)
{
	vmem_t *arena =
	    vmem_create("own", NULL, 0, 4096, NULL, NULL, NULL, 0, VM_SLEEP);
	static char memory[65536] __attribute__((aligned(4096)));
	umem_cache_t *cache[2];

	ck_assert_ptr_nonnull(vmem_add(arena, memory, sizeof(memory), 0));
	cache[0] =
	    umem_cache_create("own", 100, 0, NULL, NULL, NULL, NULL, arena, 0);
	cache[1] = umem_cache_create("stable", 100, 0, NULL, NULL, NULL, NULL,
	    NULL, UMC_TYPESAFE_BY_RCU);
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_ptr_nonnull(cache[i]);
		for (unsigned j = 0; j < N; j++) {
			void *p = umem_cache_alloc(cache[i], UMEM_DEFAULT);

			ck_assert_ptr_nonnull(p);
			ck_assert_uint_eq(index_of(p), 0);
		}
		ck_assert(is_open(cache[i]));
	}
}
END_TEST

static void
no_wait(void)
{
}

static int
no_reader(void)
{
	return 0;
}

static void
grace_of(const void *key, struct umem_grace *grace)
{
	(void)key;
	*grace = (struct umem_grace){.synchronize = no_wait,
	    .reading = no_reader,
	    .offline = no_wait,
	    .online = no_wait};
}

/* Samples that there are already are freed after a grace period. */
START_TEST(a_cache_with_deferred_frees_is_not_sampled)
{
	static const char key;
	umem_cache_t *cache = create(100, 0);
	void *p[N];

	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < N; i++)
		p[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	ck_assert_uint_eq(cache->nsamples, N);
	for (unsigned i = 0; i < N; i++)
		ck_assert_int_eq(
		    umem_defer_object(cache, p[i], &key, grace_of), 0);
	ck_assert_int_eq(umem_defer_barrier(&key), 0);
	ck_assert_uint_eq(cache->nsamples, 0);
	ck_assert_uint_eq(ngone, N);
	ck_assert(is_open(cache));
	p[0] = umem_cache_alloc(cache, UMEM_DEFAULT);
	ck_assert_uint_eq(index_of(p[0]), 0);
	umem_cache_free(cache, p[0]);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nmade, ngone);
}
END_TEST

static bool has_ended; /* [a] */
static umem_cache_t *shared;
static void *slot[64];

static void *
turn(void *unused)
{
	static const size_t means[] = {0, 1, 1000, 0, 100000, 10};

	for (unsigned i = 0; !__atomic_load_n(&has_ended, __ATOMIC_RELAXED);
	     i++)
		umem_sample(means[i % array_size(means)]);
	return unused;
}

/* Exchanges objects with the other threads, so that others free them. */
static void *
exchange(void *unused)
{
	for (unsigned i = 0; i < 100000; i++) {
		void *p = umem_cache_alloc(shared, UMEM_DEFAULT);

		ck_assert_ptr_eq(*(void **)p, &nmade);
		p = __atomic_exchange_n(
		    &slot[i * 7 % array_size(slot)], p, __ATOMIC_ACQ_REL);
		if (p != NULL)
			umem_cache_free(shared, p);
	}
	return unused;
}

static void
use_in_child(void)
{
	for (unsigned i = 0; i < array_size(slot); i++)
		umem_cache_free(shared, slot[i]);
	for (unsigned i = 0; i < N; i++)
		umem_cache_free(shared, umem_cache_alloc(shared, UMEM_DEFAULT));
	_exit(cache_live(shared) != 0);
}

START_TEST(on_and_off_while_threads_and_a_child_free_samples)
{
	pthread_t thread[3], turner;

	shared = create(100, 0);
	pthread_create(&turner, NULL, turn, NULL);
	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_create(&thread[i], NULL, exchange, NULL);
	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&has_ended, true, __ATOMIC_RELAXED);
	pthread_join(turner, NULL);
	child_writes(use_in_child);
	ck_assert(child_exited(0));
	for (unsigned i = 0; i < array_size(slot); i++)
		umem_cache_free(shared, slot[i]);
	ck_assert_uint_eq(cache_live(shared), 0);
	ck_assert_uint_eq(shared->nsamples, 0);
	umem_cache_destroy(shared);
	ck_assert_uint_eq(nmade, ngone);
}
END_TEST

Suite *
sample_object_suite(void)
{
	Suite *suite = suite_create("sample_object");
	TCase *tc = tcase_create("sample_object");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, the_chance_is_that_of_a_block);
	tcase_add_test(tc, a_sample_is_a_constructed_object);
	tcase_add_test(
	    tc, a_constructor_that_refuses_a_sample_refuses_no_object);
	tcase_add_test(tc, bulk_calls_take_and_free_samples);
	tcase_add_test(tc, the_fast_paths_are_closed_while_there_are_samples);
	tcase_add_test(tc, a_cache_with_a_limit_counts_its_samples);
	tcase_add_loop_test(
	    tc, misuse_of_a_sample_is_told, 0, array_size(misuses));
	tcase_add_test(tc, objects_that_cannot_be_samples_are_none);
	tcase_add_test(tc, a_cache_with_deferred_frees_is_not_sampled);
	tcase_add_test(tc, on_and_off_while_threads_and_a_child_free_samples);
	suite_add_tcase(suite, tc);
	return suite;
}
