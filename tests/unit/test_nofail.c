/* test_nofail.c - UMEM_NOFAIL requests, and failures on demand */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/live.h"
#include "tests/unit/child.h"
#include "umem/malloc/alloc.h"
#include "umem/cache/cache.h"
#include "umem/malloc/nofail.h"
#include "vmem/os.h"

/* More memory than any machine has. */
#define TOO_MUCH ((size_t)1 << 60)

static unsigned nasked;
static jmp_buf away;

static void
want_too_much(void)
{
	umem_alloc(TOO_MUCH, UMEM_NOFAIL);
}

static void
fail_aligned(void)
{
	umem_alloc_align(TOO_MUCH, 4096, UMEM_NOFAIL);
}

static void
fail_zeroed(void)
{
	umem_zalloc(TOO_MUCH, UMEM_NOFAIL);
}

static void
fail_object(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "huge", TOO_MUCH, 0, NULL, NULL, NULL, NULL, NULL, 0);

	umem_cache_alloc(cache, UMEM_NOFAIL);
}

static int
say_exit_42(void)
{
	return UMEM_CALLBACK_EXIT(42);
}

static int
say_exit_of_many_bits(void)
{
	return UMEM_CALLBACK_EXIT(0x7f07);
}

static int
say_odd(void)
{
	return 0x5123;
}

static int
say_minus(void)
{
	return -1;
}

static int
say_again(void)
{
	if (++nasked == 3)
		longjmp(away, 1);
	return UMEM_CALLBACK_RETRY;
}

static void
with(umem_nofail_callback_t *callback, void (*f)(void), int status,
    const char *text)
{
	umem_nofail_callback(callback);
	ck_assert_str_eq(child_writes(f), text);
	ck_assert_msg(child_exited(status), "status %x", child_status);
}

START_TEST(without_a_callback_the_process_ends)
{
	with(NULL, want_too_much, 255, "");
	with(NULL, fail_aligned, 255, "");
	with(NULL, fail_zeroed, 255, "");
	with(NULL, fail_object, 255, "");
}
END_TEST

START_TEST(the_callback_says_how_it_ends)
{
	with(say_exit_42, want_too_much, 42, "");
	with(say_exit_42, fail_object, 42, "");
	with(say_exit_of_many_bits, want_too_much, 7, "");
	with(say_odd, want_too_much, 255,
	    "umem: nofail callback returned 5123\n");
	with(say_minus, want_too_much, 255,
	    "umem: nofail callback returned ffffffff\n");
	/* NULL removes the callback. */
	with(NULL, want_too_much, 255, "");
}
END_TEST

START_TEST(the_callback_may_jump_away)
{
	umem_nofail_callback(say_again);
	if (setjmp(away) == 0) {
		want_too_much();
		ck_abort_msg("came back");
	}
	ck_assert_uint_eq(nasked, 3);
	nasked = 0;
	if (setjmp(away) == 0)
		fail_object();
	ck_assert_uint_eq(nasked, 3);
	/* No lock is held after the jump. */
	umem_free(umem_alloc(100, UMEM_NOFAIL), 100);
	umem_reap();
}
END_TEST

static int
say_never(void)
{
	nasked++;
	return UMEM_CALLBACK_EXIT(1);
}

START_TEST(only_failures_ask)
{
	static const volatile size_t odd = 3; /* compilers warn of a constant */

	umem_nofail_callback(say_never);
	errno = 0;
	ck_assert_ptr_null(umem_alloc(TOO_MUCH, UMEM_DEFAULT));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_ptr_null(umem_alloc(0, UMEM_NOFAIL));
	ck_assert_ptr_null(umem_alloc_align(TOO_MUCH, odd, UMEM_NOFAIL));
	ck_assert_ptr_nonnull(umem_alloc(1000, UMEM_NOFAIL));
	ck_assert_uint_eq(nasked, 0);
}
END_TEST

/* The callback runs with no lock held.  Its own requests may fail too. */
static int
say_deep(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "in callback", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

	umem_cache_free(cache, umem_cache_alloc(cache, UMEM_NOFAIL));
	umem_cache_destroy(cache);
	umem_reap();
	if (++nasked < 5)
		want_too_much();
	return UMEM_CALLBACK_EXIT((int)nasked);
}

START_TEST(the_callback_may_do_anything)
{
	with(say_deep, want_too_much, 5, "");
}
END_TEST

static void
fail_at_exit(void)
{
	atexit(want_too_much);
	want_too_much();
}

START_TEST(a_second_exit_from_within_exit_aborts)
{
	umem_nofail_callback(say_exit_42);
	ck_assert_str_eq(child_writes_first(fail_at_exit),
	    "umem: recursive UMEM_CALLBACK_EXIT()\n");
	ck_assert(child_aborted());
}
END_TEST

static void *
fail_too(void *arg)
{
	umem_nofail_callback(say_odd);
	want_too_much();
	/* Not reached. */
	_exit(99);
	return arg;
}

/*
 * While exit handlers run, a request of another thread fails.  That thread must
 * wait.
 */
static void
let_another_fail(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, fail_too, NULL);
	usleep(50000);
}

static void
fail_and_let_another_fail(void)
{
	atexit(let_another_fail);
	want_too_much();
}

START_TEST(one_thread_exits_and_others_wait)
{
	umem_nofail_callback(say_exit_42);
	child_writes(fail_and_let_another_fail);
	ck_assert_msg(child_exited(42), "status %x", child_status);
}
END_TEST

START_TEST(mtbf_of_1_fails_all_that_may_fail)
{
	umem_cache_t *cache = umem_cache_create(
	    "objects", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *kept = umem_cache_alloc(cache, UMEM_DEFAULT);
	void *p;

	/*
	 * The magazine has an object, so the request does not fail for want of
	 * memory.
	 */
	umem_cache_free(cache, kept);
	umem_setmtbf(1);
	for (int i = 0; i < 1000; i++) {
		errno = 0;
		ck_assert_ptr_null(umem_alloc(100, UMEM_DEFAULT));
		ck_assert_int_eq(errno, ENOMEM);
		ck_assert_ptr_null(umem_zalloc(100000, UMEM_DEFAULT));
		ck_assert_ptr_null(umem_alloc_align(100, 64, UMEM_DEFAULT));
		errno = 0;
		ck_assert_ptr_null(umem_cache_alloc(cache, UMEM_DEFAULT));
		ck_assert_int_eq(errno, ENOMEM);
		p = umem_alloc(100, UMEM_NOFAIL);
		ck_assert_ptr_nonnull(p);
		umem_free(p, 100);
		p = umem_cache_alloc(cache, UMEM_NOFAIL);
		ck_assert_ptr_nonnull(p);
		umem_cache_free(cache, p);
		/* The path of malloc(). */
		errno = 0;
		ck_assert_ptr_null(alloc_get(100));
		ck_assert_int_eq(errno, ENOMEM);
		ck_assert_ptr_null(alloc_get_zeroed(100));
		ck_assert_ptr_null(alloc_get_aligned(100, 64));
	}
	ck_assert_ptr_null(umem_alloc(0, UMEM_DEFAULT));
	umem_setmtbf(1);
	umem_setmtbf(0);
	umem_setmtbf(0);
	for (int i = 0; i < 1000; i++) {
		p = umem_alloc(100, UMEM_DEFAULT);
		ck_assert_ptr_nonnull(p);
		umem_free(p, 100);
	}
	/* The fast paths are open again, in modes that have them. */
	ck_assert_int_eq(
	    alloc_fast.units != 0, cpu_layer.rseq.owner != RSEQ_NONE);
	ck_assert_int_eq(
	    alloc_fast.small_end != 0, cpu_layer.rseq.owner != RSEQ_NONE);
	ck_assert_uint_eq(cache_live(cache), 0);
}
END_TEST

START_TEST(mtbf_of_n_fails_about_one_in_n)
{
	static const unsigned n[] = {2, 7, 10, 64, 100};
	unsigned nfailed = 0, nperiod = 0;

	umem_setmtbf(n[_i]);
	for (unsigned i = 0; i < 100 * n[_i]; i++) {
		void *p = umem_alloc(64, UMEM_DEFAULT);

		nfailed += p == NULL;
		nperiod += p == NULL && i % n[_i] == 0;
		umem_free(p, p == NULL ? 0 : 64);
	}
	umem_setmtbf(0);
	ck_assert_uint_ge(nfailed, 60);
	ck_assert_uint_le(nfailed, 140);
	/* The failures do not always hit the same request of a loop of n. */
	ck_assert_uint_lt(nperiod, n[_i] == 2 ? 90 : 50);
}
END_TEST

Suite *
nofail_suite(void)
{
	Suite *suite = suite_create("nofail");
	TCase *tc = tcase_create("nofail");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, without_a_callback_the_process_ends);
	tcase_add_test(tc, the_callback_says_how_it_ends);
	tcase_add_test(tc, the_callback_may_jump_away);
	tcase_add_test(tc, only_failures_ask);
	tcase_add_test(tc, the_callback_may_do_anything);
	tcase_add_test(tc, a_second_exit_from_within_exit_aborts);
	tcase_add_test(tc, one_thread_exits_and_others_wait);
	tcase_add_test(tc, mtbf_of_1_fails_all_that_may_fail);
	tcase_add_loop_test(tc, mtbf_of_n_fails_about_one_in_n, 0, 5);
	suite_add_tcase(suite, tc);
	return suite;
}
