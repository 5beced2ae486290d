/* test_exit_check.c - overruns of blocks that are never freed */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/child.h"
#include "umem/base/size_class.h"
#include "umem/debug/debug_inner.h"
#include "umem/debug/exit_check.h"
#include "umem/umem.h"
#include "vmem/os.h"

/* Every test has a process of its own; some classes have no cache yet. */
static unsigned
class_debugged(size_t least)
{
	debug.on = debug.hardened = true;
	for (unsigned c = 1; c <= size_classes.n; c++)
		if (size_classes.bytes[c] >= least &&
		    size_classes.bytes[c] <= 32 * KIB &&
		    class_cache_if_made(c) == NULL) {
			ck_assert_ptr_nonnull(class_cache_make(c));
			ck_assert(debug_is_hardened(class_cache[c]));
			return c;
		}
	ck_abort_msg("all classes have caches");
}

static char *
block(unsigned class, size_t size)
{
	char *p = debug_alloc(class_cache[class], size, API_MALLOC);

	/* Check's macros have a lock, which a child of fork() may inherit. */
	if (p == NULL)
		abort();
	memset(p, 0x5a, size);
	return p;
}

static struct bufctl *
bufctl_of(unsigned class, void *p)
{
	struct slab *slab;
	unsigned i;

	ck_assert_int_eq(
	    slab_find_chunk(&class_cache[class]->slabs, p, &slab, &i),
	    SLAB_FINE);
	return slab_record(slab, i);
}

static unsigned
check_all(void)
{
	return exit_check(UINT64_MAX / 2);
}

START_TEST(intact_blocks_are_not_reported)
{
	for (size_t least = 16; least < 32 * KIB; least *= 3) {
		unsigned class = class_debugged(least);
		size_t most = class_cache[class]->tag_offset;

		for (size_t i = 0; i < 400; i++) {
			char *p = block(class, most - i % (most / 2));

			if (i % 3 == 0)
				ck_assert(debug_resize(class, p, most / 2));
			if (i % 5 == 0)
				ck_assert(debug_resize(class, p, most));
			if (i % 7 == 0)
				ck_assert(debug_free(class_cache[class], p,
				    SIZE_MAX, API_MALLOC));
		}
		ck_assert_uint_eq(check_all(), 0);
	}
}
END_TEST

/*
 * The number of a block differs after its chunk was freed, also with a grace
 * period between, and allocated again: the check must not take one for another.
 */
START_TEST(a_chunk_has_another_number_each_time)
{
	unsigned class = class_debugged(64);
	struct umem_cache *cache = class_cache[class];
	char *p = block(class, 40);
	struct bufctl *bufctl = bufctl_of(class, p);
	unsigned last = 0;

	for (unsigned n = 0; n < 10; n++) {
		ck_assert_uint_gt(bufctl->number, last);
		ck_assert_uint_eq(bufctl->number % 2, 0);
		last = bufctl->number;
		ck_assert(debug_defer(cache, p, SIZE_MAX, API_MALLOC));
		debug_defer_undo(cache, p);
		ck_assert(debug_defer(cache, p, SIZE_MAX, API_MALLOC));
		debug_free_deferred(cache, p);
		for (char *q; (q = block(class, 40)) != p;)
			debug_free(cache, q, SIZE_MAX, API_MALLOC);
	}
}
END_TEST

/* A chunk with guards: its bufctl has a checksum while it waits. */
START_TEST(blocks_with_guards_are_checked_too)
{
	unsigned class = 1;
	struct umem_cache *cache;
	char *p;

	debug.on = debug.hardened = debug.noabort = true;
	debug.choice[0].flags = UMF_DEADBEEF | UMF_REDZONE;
	debug.nchoices = 1;
	while (class_cache_if_made(class) != NULL ||
	       size_classes.bytes[class] < 100)
		class ++;
	cache = class_cache_make(class);
	ck_assert_ptr_nonnull(cache);
	ck_assert_uint_eq(cache->debug, UMF_DEADBEEF | UMF_REDZONE);
	p = block(class, 90);
	ck_assert(debug_defer(cache, p, SIZE_MAX, API_MALLOC));
	ck_assert_uint_eq(check_all(), 0);
	debug_defer_undo(cache, p);
	ck_assert_uint_eq(check_all(), 0);
	p[90] ^= 1;
	ck_assert_uint_eq(check_all(), 1);
}
END_TEST

static size_t damage_at;
static unsigned nfound;

/* Damages a block of 1000 bytes, or of all its class has, at an offset. */
static void
damage_one(void)
{
	unsigned class = class_debugged(1000);
	bool in_slack = damage_at < 1000;
	size_t size = in_slack ? 900 : class_cache[class]->tag_offset;
	char *p;

	for (unsigned i = 0; i < 100; i++)
		block(class, size);
	p = block(class, size);
	for (unsigned i = 0; i < 100; i++)
		block(class, size);
	p[in_slack ? damage_at : size + damage_at - 1000] ^= 1;
	nfound = check_all();
	_exit(nfound == 1 && check_all() == 1 ? 0 : 1);
}

/* The slack and the tag.  The check itself changes nothing. */
START_TEST(a_damaged_block_is_reported_as_often_as_looked_at)
{
	static const struct {
		size_t at;
		const char *text;
	} cases[] = {
	    {900, "write past end of buffer\n"
		  "detected at exit; the buffer was not freed\n"
		  "first byte changed is at offset 0x384, "
		  "behind the 900 asked for\n"},
	    {999, "first byte changed is at offset 0x3e7, "},
	    {1000, "write past end of buffer\n"},
	    {1003, "write past end of buffer\n"},
	    {1007, "write past end of buffer\n"},
	};

	damage_at = cases[_i].at;
	child_writes(damage_one);
	ck_assert_int_eq(WEXITSTATUS(child_status), 0);
	ck_assert_ptr_nonnull(strstr(child_text, cases[_i].text));
}
END_TEST

static void
damage_many(void)
{
	unsigned class = class_debugged(100);

	for (unsigned i = 0; i < 3 * EXIT_REPORTS; i++)
		block(class, 90)[90] = 1;
	_exit((int)check_all());
}

START_TEST(reports_are_limited)
{
	const char *at = child_writes(damage_many);
	unsigned n = 0;

	ck_assert_int_eq(WEXITSTATUS(child_status), EXIT_REPORTS);
	while ((at = strstr(at, "detected at exit")) != NULL) {
		at++;
		n++;
	}
	ck_assert_uint_ge(n, 3);
}
END_TEST

/* Another thread may free a block before its kind is set. */
START_TEST(kind_of_a_freed_block_is_reported)
{
	unsigned class = class_debugged(100);
	char *p = block(class, 90);

	debug.noabort = true;
	debug_set_api(p, API_UMEM);
	ck_assert_uint_eq(bufctl_of(class, p)->api, API_UMEM);
	ck_assert(debug_free(class_cache[class], p, SIZE_MAX, API_UMEM));
	debug_set_api(p, API_MALLOC);
	ck_assert_uint_eq(bufctl_of(class, p)->api, API_UMEM);
	ck_assert_uint_eq(umem_abort_info.code, UMERR_DUPFREE);
}
END_TEST

/* Freed, retired, waiting for a grace period, or in the middle of a resize. */
START_TEST(only_live_blocks_are_checked)
{
	unsigned class = class_debugged(100);
	struct umem_cache *cache = class_cache[class];
	char *p[4];

	debug.noabort = true;
	for (unsigned i = 0; i < 4; i++)
		p[i] = block(class, 90);
	ck_assert(debug_free(cache, p[0], SIZE_MAX, API_MALLOC));
	p[0][90] = 1;
	p[1][90] = 1;
	__atomic_store_n(
	    &bufctl_of(class, p[1])->state, BUFCTL_RETIRED, __ATOMIC_RELAXED);
	ck_assert(debug_defer(cache, p[2], SIZE_MAX, API_MALLOC));
	p[2][90] = 1;
	p[3][90] = 1;
	bufctl_of(class, p[3])->number |= 1;
	ck_assert_uint_eq(check_all(), 0);

	/* A child of fork() can resize the last one. */
	p[3][90] = (char)PATTERN_END;
	bufctl_of(class, p[3])->number |= 1;
	ck_assert_uint_eq(bufctl_of(class, p[3])->number % 2, 1);
	bufctl_of(class, p[3])->number++;
	ck_assert_uint_eq(bufctl_of(class, p[3])->number % 2, 0);
	ck_assert_uint_eq(check_all(), 0);
}
END_TEST

/* A deferred free that was undone leaves a block that is checked. */
START_TEST(an_undone_free_is_checked)
{
	unsigned class = class_debugged(100);
	char *p = block(class, 90);

	ck_assert(debug_defer(class_cache[class], p, SIZE_MAX, API_MALLOC));
	debug_defer_undo(class_cache[class], p);
	ck_assert_uint_eq(check_all(), 0);
	p[90] = 1;
	ck_assert_uint_eq(check_all(), 1);
}
END_TEST

/* As in a signal handler that has interrupted an allocation. */
START_TEST(a_lock_that_stays_is_passed_over)
{
	unsigned class = class_debugged(100);
	struct lock *lock = &class_cache[class]->slabs.lock;

	block(class, 90)[90] = 1;
	lock_take(lock);
	ck_assert_uint_eq(check_all(), 0);
	lock_release(lock);
	ck_assert_uint_eq(check_all(), 1);
}
END_TEST

/* The handler has interrupted a function with a lock of another rank. */
START_TEST(a_lock_that_was_interrupted_hides_nothing)
{
	static struct lock locks[] = {
	    LOCK_INITIALIZER(LOCK_DEFER), LOCK_INITIALIZER(LOCK_META)};
	unsigned class = class_debugged(100);

	block(class, 90)[90] = 1;
	for (unsigned i = 0; i < array_size(locks); i++) {
		lock_take(&locks[i]);
		ck_assert_uint_eq(check_all(), 1);
		lock_release(&locks[i]);
	}
}
END_TEST

START_TEST(the_time_is_limited)
{
	unsigned small = class_debugged(100), large = class_debugged(5000);

	for (unsigned i = 0; i < 10; i++)
		block(large, 4900);
	block(small, 90)[90] = 1;
	ck_assert_uint_eq(exit_check(0), 0);
	ck_assert_uint_eq(check_all(), 1);
}
END_TEST

#define THREADS 3
#define KEPT    40

static unsigned churned[2];
static bool ending; /* [atomic] */

/* Allocates, writes to every byte, resizes and frees. */
static void *
churn(void *arg)
{
	char *kept[KEPT] = {NULL};
	unsigned seed = (unsigned)(uintptr_t)arg;

	while (!__atomic_load_n(&ending, __ATOMIC_RELAXED)) {
		unsigned which = (unsigned)rand_r(&seed) % KEPT;
		unsigned class = churned[which % 2];
		size_t most = class_cache[class]->tag_offset;
		size_t size = most - (size_t)rand_r(&seed) % (most / 2);

		if (kept[which] == NULL) {
			kept[which] = block(class, size);
		} else if (rand_r(&seed) % 8 != 0) {
			if (!debug_resize(class, kept[which], size))
				abort();
			memset(kept[which], 0x5a, size);
		} else {
			if (!debug_free(class_cache[class], kept[which],
				SIZE_MAX, API_MALLOC))
				abort();
			kept[which] = NULL;
		}
	}
	return NULL;
}

/* Whatever other threads do at the time, their blocks are not reported. */
START_TEST(threads_may_go_on)
{
	pthread_t thread[THREADS];
	uint64_t end;
	unsigned n;
	char *p;

	churned[0] = class_debugged(60);
	churned[1] = class_debugged(3000);
	debug.noabort = true;
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, churn, (void *)(i + 1)),
		    0);
	end = os_exact_ns() + 2000000000;
	while (os_exact_ns() < end)
		ck_assert_uint_eq(check_all(), 0);
	p = block(churned[0], 40);
	p[40] = 1;
	/* A cache whose lock was held all the time is passed over. */
	while ((n = check_all()) == 0)
		;
	ck_assert_uint_eq(n, 1);
	__atomic_store_n(&ending, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(check_all(), 1);
}
END_TEST

/* A child that was forked in the middle of the work of other threads. */
START_TEST(children_find_nothing)
{
	pthread_t thread[THREADS];

	churned[0] = class_debugged(60);
	churned[1] = class_debugged(3000);
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, churn, (void *)(i + 1)),
		    0);
	for (unsigned i = 0; i < 200; i++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			limit_time();
			_exit((int)check_all());
		}
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert_int_eq(status, 0);
	}
	__atomic_store_n(&ending, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}
END_TEST

Suite *
exit_check_suite(void)
{
	Suite *suite = suite_create("exit_check");
	TCase *tc = tcase_create("exit_check");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, intact_blocks_are_not_reported);
	tcase_add_test(tc, a_chunk_has_another_number_each_time);
	tcase_add_test(tc, blocks_with_guards_are_checked_too);
	tcase_add_loop_test(
	    tc, a_damaged_block_is_reported_as_often_as_looked_at, 0, 5);
	tcase_add_test(tc, reports_are_limited);
	tcase_add_test(tc, kind_of_a_freed_block_is_reported);
	tcase_add_test(tc, only_live_blocks_are_checked);
	tcase_add_test(tc, an_undone_free_is_checked);
	tcase_add_test(tc, a_lock_that_stays_is_passed_over);
	tcase_add_test(tc, a_lock_that_was_interrupted_hides_nothing);
	tcase_add_test(tc, the_time_is_limited);
	tcase_add_test(tc, threads_may_go_on);
	tcase_add_test(tc, children_find_nothing);
	suite_add_tcase(suite, tc);
	return suite;
}
