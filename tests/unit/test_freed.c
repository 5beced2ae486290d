/* test_freed.c - records that outlive the memory of their buffers */
#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/time_limit.h"
#include "tests/unit/hooks.h"
#include "tests/unit/machine.h"
#include "umem/debug/freed.h"
#include "umem/options.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define N 4000

static struct umem_cache *
make(const char *words)
{
	struct umem_cache *cache;

	debug.nchoices = 0;
	memset(debug.choice, 0, sizeof(debug.choice));
	options_parse_debug(words);
	cache =
	    umem_cache_create("freed", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	ck_assert_ptr_nonnull(cache);
	ck_assert((cache->debug & UMF_FIREWALL) != 0);
	return cache;
}

START_TEST(a_ring_keeps_the_newest_records)
{
	struct bufctl_audit *place[4] = {0}, record[7] = {0};
	struct freed_ring ring = {LOCK_INITIALIZER(LOCK_FREED), place, 4, 0};

	ck_assert_ptr_null(freed_find(&ring, &record[0]));
	for (unsigned i = 0; i < 7; i++) {
		record[i] = (struct bufctl_audit){.addr = &record[i]};
		ck_assert_ptr_eq(freed_put(&ring, &record[i]),
		    i < 4 ? NULL : &record[i - 4]);
		for (unsigned j = 0; j < 7; j++)
			ck_assert_ptr_eq(freed_find(&ring, &record[j]),
			    j <= i && j + 4 > i ? &record[j] : NULL);
	}
}
END_TEST

START_TEST(of_two_records_of_an_address_the_newer_counts)
{
	struct bufctl_audit *place[4] = {0}, record[6] = {0};
	struct freed_ring ring = {LOCK_INITIALIZER(LOCK_FREED), place, 4, 0};

	for (unsigned i = 0; i < 6; i++) {
		record[i] = (struct bufctl_audit){.addr = &ring};
		freed_put(&ring, &record[i]);
		ck_assert_ptr_eq(freed_find(&ring, &ring), &record[i]);
	}
}
END_TEST

/* A block that ends on the last page of a unit. */
START_TEST(the_guard_page_is_near_in_the_next_unit_too)
{
	struct bufctl_audit *place[1] = {0}, record = {.size = HEAP_UNIT - 100};
	struct freed_ring ring = {LOCK_INITIALIZER(LOCK_FREED), place, 1, 0};
	char *block = (char *)(16 * HEAP_UNIT);

	record.addr = block;
	freed_put(&ring, &record);
	ck_assert_ptr_null(freed_near(&ring, block - 1));
	ck_assert_ptr_eq(freed_near(&ring, block), &record);
	ck_assert_ptr_eq(freed_near(&ring, block + HEAP_UNIT), &record);
	ck_assert_ptr_null(freed_near(&ring, block + 2 * HEAP_UNIT));
}
END_TEST

/* The cache in the record of a freed buffer. */
static const struct umem_cache *
cache_of_freed(void *p)
{
	return freed_find(&freed_firewall, p)->cache;
}

START_TEST(the_record_of_a_free_outlives_the_memory)
{
	struct umem_cache *cache = make("firewall=1,audit");
	void *p = umem_cache_alloc(cache, UMEM_DEFAULT);
	const struct bufctl_audit *audit;

	ck_assert_ptr_null(freed_find(&freed_firewall, p));
	umem_cache_free(cache, p);
	audit = freed_find(&freed_firewall, p);
	ck_assert_ptr_nonnull(audit);
	ck_assert_ptr_eq(audit->cache, cache);
	ck_assert_uint_eq(audit->head.state, BUFCTL_FREE);
	ck_assert_uint_eq(audit->size, 100);
	ck_assert_uint_eq(audit->thread, os_thread_id());
	ck_assert(audit->depth > 0 || !machine_has_stacks());
	ck_assert_uint_gt(audit->timestamp, 0);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(a_cache_that_was_destroyed_is_named_no_more)
{
	struct umem_cache *one = make("firewall=1"), *two = make("firewall=1");
	void *p = umem_cache_alloc(one, UMEM_DEFAULT);
	void *q = umem_cache_alloc(two, UMEM_DEFAULT);

	umem_cache_free(one, p);
	umem_cache_free(two, q);
	umem_cache_destroy(one);
	ck_assert_ptr_null(cache_of_freed(p));
	ck_assert_ptr_eq(cache_of_freed(q), two);
	umem_cache_destroy(two);
}
END_TEST

static struct umem_cache *ending, *next;
static void *freed_by_next;

/* Another thread creates a cache at the address of the one that ends. */
static void
create_there(void *at, size_t bytes)
{
	(void)bytes;
	if (at != ending)
		return;
	hook_meta_freed = NULL;
	next = make("firewall=1");
	freed_by_next = umem_cache_alloc(next, UMEM_DEFAULT);
	umem_cache_free(next, freed_by_next);
}

START_TEST(a_cache_at_the_address_of_one_that_ended_is_named)
{
	ending = make("firewall=1");
	hook_meta_freed = create_there;
	umem_cache_destroy(ending);
	ck_assert_ptr_eq(next, ending);
	ck_assert_ptr_eq(cache_of_freed(freed_by_next), next);
	umem_cache_destroy(next);
}
END_TEST

START_TEST(without_memory_for_the_record_the_free_succeeds)
{
	struct umem_cache *cache = make("firewall=1,audit");
	void *p = umem_cache_alloc(cache, UMEM_DEFAULT);
	size_t bytes = bufctl_audit_bytes(debug.nframes);
	void *all = NULL, *block;

	os_fail_nth(1, 1u << 30);
	while ((block = meta_alloc_best_effort(bytes)) != NULL) {
		*(void **)block = all;
		all = block;
	}
	umem_cache_free(cache, p);
	os_fail_nth(0, 0);
	ck_assert_ptr_null(freed_find(&freed_firewall, p));
	while ((block = all) != NULL) {
		all = *(void **)block;
		meta_free(block, bytes);
	}
	p = umem_cache_alloc(cache, UMEM_DEFAULT);
	umem_cache_free(cache, p);
	ck_assert_ptr_nonnull(freed_find(&freed_firewall, p));
	umem_cache_destroy(cache);
}
END_TEST

static struct bufctl_audit *shared_place[8];
static struct freed_ring shared = {
    LOCK_INITIALIZER(LOCK_FREED), shared_place, 8, 0};
static struct bufctl_audit records[4 * N];
static unsigned char nout[4 * N];

static void *
put_all(void *arg)
{
	struct bufctl_audit *from = arg, *old;

	for (unsigned i = 0; i < N; i++) {
		from[i].addr = &from[i];
		old = freed_put(&shared, &from[i]);
		if (old != NULL)
			nout[old - records]++;
		old = freed_find(&shared, &from[i]);
		ck_assert(old == NULL || old == &from[i]);
	}
	return NULL;
}

START_TEST(each_record_leaves_the_ring_once)
{
	pthread_t thread[4];
	unsigned n = 0;

	for (unsigned i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, put_all, &records[i * N]);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < 8; i++)
		nout[shared_place[i] - records]++;
	for (unsigned i = 0; i < 4 * N; i++)
		n += nout[i] == 1;
	ck_assert_uint_eq(n, 4 * N);
}
END_TEST

static struct umem_cache *common;
static bool stop; /* [a] */

static void *
free_many(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		umem_cache_free(common, umem_cache_alloc(common, UMEM_DEFAULT));
	return unused;
}

/* Runs in a child: the ring is there, consistent and not locked. */
static void
use_in_child(void)
{
	void *p;

	limit_time();
	p = umem_cache_alloc(common, UMEM_DEFAULT);
	umem_cache_free(common, p);
	_exit(freed_find(&freed_firewall, p) == NULL);
}

START_TEST(a_child_of_fork_has_the_ring)
{
	pthread_t thread[2];
	int status;

	common = make("firewall=1,audit");
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, free_many, NULL);
	for (unsigned i = 0; i < 50; i++) {
		pid_t child = fork();

		ck_assert_int_ge(child, 0);
		if (child == 0)
			use_in_child();
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert_int_eq(status, 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	umem_cache_destroy(common);
}
END_TEST

Suite *
freed_suite(void)
{
	Suite *suite = suite_create("freed");
	TCase *tc = tcase_create("freed");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_ring_keeps_the_newest_records);
	tcase_add_test(tc, of_two_records_of_an_address_the_newer_counts);
	tcase_add_test(tc, the_guard_page_is_near_in_the_next_unit_too);
	tcase_add_test(tc, the_record_of_a_free_outlives_the_memory);
	tcase_add_test(tc, a_cache_that_was_destroyed_is_named_no_more);
	tcase_add_test(tc, a_cache_at_the_address_of_one_that_ended_is_named);
	tcase_add_test(tc, without_memory_for_the_record_the_free_succeeds);
	tcase_add_test(tc, each_record_leaves_the_ring_once);
	tcase_add_test(tc, a_child_of_fork_has_the_ring);
	suite_add_tcase(suite, tc);
	return suite;
}
