/* test_lock.c - mutual exclusion, wake-ups, ranks, and locks during fork() */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/time_limit.h"
#include "tests/unit/hooks.h"
#include "vmem/lock.h"
#include "vmem/os.h"

#define NTHREADS 6

static struct lock lock = LOCK_INITIALIZER(LOCK_SLAB);
static struct lock above = LOCK_INITIALIZER(LOCK_DEPOT);
static struct lock below = LOCK_INITIALIZER(LOCK_META);
static struct lock beyond = LOCK_INITIALIZER(LOCK_FREED);
static uint32_t inside; /* not atomic: the lock guards it */
static uint64_t count;
static uint32_t flag; /* [atomic] */

static void *
count_up(void *arg)
{
	uintptr_t nwrong = 0;

	for (int i = 0; i < 20000; i++) {
		if (arg != NULL && i % 3 == 0) {
			while (!lock_try(&lock))
				sched_yield();
		} else {
			lock_take(&lock);
		}
		nwrong += inside++ != 0;
		count++;
		/* The holder is preempted here, so that other threads sleep. */
		if (i % 64 == 0)
			sched_yield();
		if (i % 5000 == 0)
			usleep(200);
		inside--;
		lock_release(&lock);
	}
	return (void *)nwrong;
}

START_TEST(one_thread_at_a_time_has_the_lock)
{
	pthread_t thread[NTHREADS];
	void *nwrong;

	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], NULL, count_up, (void *)(i % 2));
	for (unsigned i = 0; i < NTHREADS; i++) {
		pthread_join(thread[i], &nwrong);
		ck_assert_ptr_null(nwrong);
	}
	ck_assert_uint_eq(count, (uint64_t)NTHREADS * 20000);
	ck_assert_uint_eq(lock.state, 0);
}
END_TEST

static void *
take_and_release(void *arg)
{
	(void)arg;
	lock_take(&lock);
	__atomic_add_fetch(&flag, 1, __ATOMIC_RELAXED);
	lock_release(&lock);
	return NULL;
}

/*
 * All threads sleep on the lock.  After one release, they wake one after the
 * other.
 */
START_TEST(every_sleeper_is_woken)
{
	pthread_t thread[NTHREADS];

	for (int round = 0; round < 20; round++) {
		flag = 0;
		lock_take(&lock);
		for (unsigned i = 0; i < NTHREADS; i++)
			pthread_create(
			    &thread[i], NULL, take_and_release, NULL);
		usleep(2000);
		ck_assert_uint_eq(flag, 0);
		lock_release(&lock);
		for (unsigned i = 0; i < NTHREADS; i++)
			pthread_join(thread[i], NULL);
		ck_assert_uint_eq(flag, NTHREADS);
		ck_assert_uint_eq(lock.state, 0);
	}
}
END_TEST

START_TEST(a_waiter_sleeps)
{
	struct timespec cpu;
	pthread_t thread;
	clockid_t clock;

	lock_take(&lock);
	pthread_create(&thread, NULL, take_and_release, NULL);
	pthread_getcpuclockid(thread, &clock);
	usleep(200000);
	clock_gettime(clock, &cpu);
	lock_release(&lock);
	pthread_join(thread, NULL);
	ck_assert_int_eq(cpu.tv_sec, 0);
	ck_assert_int_lt(cpu.tv_nsec, 50000000);
}
END_TEST

START_TEST(a_try_says_what_it_got)
{
	ck_assert(lock_try(&lock));
	ck_assert_uint_eq(lock.state, 1);
	lock_assert_held(&lock);
	pthread_t thread;
	pthread_create(&thread, NULL, take_and_release, NULL);
	while (__atomic_load_n(&lock.state, __ATOMIC_RELAXED) != 2)
		usleep(100);
	ck_assert(!lock_try(&lock));
	lock_release(&lock);
	pthread_join(thread, NULL);
	ck_assert(lock_try(&lock));
	lock_release(&lock);
}
END_TEST

START_TEST(locks_in_the_order_of_ranks_are_fine)
{
	for (int i = 0; i < 3; i++) {
		lock_take(&above);
		lock_take(&lock);
		lock_take(&below);
		/* Locks may be released in any order. */
		lock_release(i == 1 ? &above : &lock);
		lock_release(i == 1 ? &lock : &above);
		lock_release(&below);
	}
	lock_take(&lock);
	lock_release(&lock);
	lock_take(&above);
	lock_release(&above);
}
END_TEST

START_TEST(a_failed_try_counts_for_nothing)
{
	pthread_t thread;

	lock_take(&lock);
	pthread_create(&thread, NULL, take_and_release, NULL);
	usleep(1000);
	ck_assert(!lock_try(&lock));
	lock_release(&lock);
	pthread_join(thread, NULL);
	lock_take(&above);
	lock_take(&lock);
	lock_release(&lock);
	lock_release(&above);
}
END_TEST

START_TEST(the_atfork_handler_holds_many_of_one_rank)
{
	struct lock same = LOCK_INITIALIZER(LOCK_SLAB);

	lock_take_for_fork(&below);
	lock_take_for_fork(&lock);
	lock_take_for_fork(&same);
	ck_assert_uint_eq(lock.state, 1);
	lock_release_for_fork(&same);
	lock_release_for_fork(&lock);
	lock_release_for_fork(&below);
	ck_assert_uint_eq(lock.state, 0);
}
END_TEST

static void *
try_it(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)lock_try(&lock);
}

START_TEST(between_fork_begin_and_end_the_thread_holds_all)
{
	pthread_t thread;
	void *had;
	int status;

	lock_take_for_fork(&lock);
	lock_fork_begin();
	/*
	 * The forking thread may take locks in any order, any number of times.
	 * The state of the locks does not change.
	 */
	lock_take(&below);
	lock_take(&lock);
	lock_take(&above);
	lock_assert_held(&beyond);
	ck_assert(lock_try(&lock));
	lock_release(&lock);
	lock_release(&lock);
	lock_release(&above);
	lock_release(&below);
	ck_assert_uint_eq(lock.state, 1);
	ck_assert_uint_eq(below.state, 0);
	/* Other threads are excluded as before. */
	pthread_create(&thread, NULL, try_it, NULL);
	pthread_join(thread, &had);
	ck_assert_ptr_null(had);
	/*
	 * The child counts as the same thread.  As with vfork(), no fork
	 * handlers run.
	 */
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		limit_time();
		lock_take(&lock);
		lock_release(&lock);
		if (lock.state != 1)
			_exit(1);
		lock_fork_end();
		lock_release_for_fork(&lock);
		lock_take(&lock);
		_exit(lock.state == 1 ? 0 : 2);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	lock_fork_end();
	lock_release_for_fork(&lock);
	ck_assert_uint_eq(lock.state, 0);
	lock_take(&lock);
	ck_assert_uint_eq(lock.state, 1);
	lock_release(&lock);
}
END_TEST

/* fork() must not make the kernel copy the pages of locks. */
START_TEST(fork_writes_to_no_lock_of_a_shut_rank)
{
	struct lock *only = mmap(NULL, os_page_size(), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(only, MAP_FAILED);
	lock_init(only, LOCK_SLAB);
	ck_assert_int_eq(mprotect(only, os_page_size(), PROT_READ), 0);
	for (int child = 0; child < 2; child++) {
		lock_shut_for_fork(LOCK_SLAB);
		lock_await_for_fork(only);
		if (child)
			lock_free_in_child(only);
		lock_open_after_fork();
	}
	munmap(only, os_page_size());
}
END_TEST

static void *
take_others_and_try(void *arg)
{
	(void)arg;
	lock_take(&above);
	lock_take(&below);
	lock_release(&below);
	lock_release(&above);
	return (void *)(uintptr_t)lock_try(&lock);
}

START_TEST(no_thread_gets_a_lock_of_a_shut_rank)
{
	pthread_t thread, waiter;
	void *had;

	flag = 0;
	lock_shut_for_fork(LOCK_SLAB);
	pthread_create(&waiter, NULL, take_and_release, NULL);
	for (int i = 0; i < 20; i++) {
		pthread_create(&thread, NULL, take_others_and_try, NULL);
		pthread_join(thread, &had);
		ck_assert_ptr_null(had);
		usleep(1000);
		lock_await_for_fork(&lock);
		ck_assert_uint_eq(__atomic_load_n(&flag, __ATOMIC_RELAXED), 0);
	}
	lock_open_after_fork();
	pthread_join(waiter, NULL);
	ck_assert_uint_eq(flag, 1);
	ck_assert_uint_eq(lock.state, 0);
}
END_TEST

/*
 * Holds the lock until the forking thread sleeps, and takes one below it after
 * its own rank is shut.
 */
static void *
hold_for_a_while(void *arg)
{
	(void)arg;
	lock_take(&lock);
	__atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) != 2)
		usleep(100);
	usleep(5000);
	lock_take(&below);
	count++;
	lock_release(&below);
	lock_release(&lock);
	return NULL;
}

static unsigned nsleeps, nsleeps_on_lock;

static void
count_sleep(const uint32_t *word)
{
	nsleeps++;
	nsleeps_on_lock += word == &lock.state;
	__atomic_store_n(&flag, 2, __ATOMIC_RELEASE);
}

/*
 * It sleeps, but not with the threads that wait for the lock: a release wakes
 * one sleeper, which must be one that takes the lock.
 */
START_TEST(fork_waits_for_the_holder_of_a_lock)
{
	pthread_t thread;

	nsleeps = nsleeps_on_lock = 0;
	flag = 0;
	count = 0;
	pthread_create(&thread, NULL, hold_for_a_while, NULL);
	while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) != 1)
		usleep(100);
	lock_shut_for_fork(LOCK_SLAB);
	hook_os_futex_wait = count_sleep;
	lock_await_for_fork(&lock);
	hook_os_futex_wait = NULL;
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_ge(nsleeps, 1);
	ck_assert_uint_eq(nsleeps_on_lock, 0);
	lock_open_after_fork();
	pthread_join(thread, NULL);
}
END_TEST

/* Two numbers that are equal while no thread holds the lock. */
#define NGUARDED 8
static struct guarded {
	struct lock upper; /* LOCK_DEPOT */
	struct lock lower; /* LOCK_SLAB */
	uint64_t of_upper[2];
	uint64_t of_lower[2];
} guarded[NGUARDED];

static void
add_one(uint64_t n[2])
{
	n[0]++;
	/* The holder is preempted here now and then. */
	if (n[0] % 64 == 0)
		sched_yield();
	n[1]++;
}

static void *
change_guarded(void *arg)
{
	for (uintptr_t i = (uintptr_t)arg;
	     !__atomic_load_n(&flag, __ATOMIC_RELAXED); i += 3) {
		struct guarded *g = &guarded[i % NGUARDED];

		if (i % 2 == 0)
			lock_take(&g->upper);
		else if (!lock_try(&g->upper))
			continue;
		lock_take(&g->lower);
		add_one(g->of_lower);
		lock_release(&g->lower);
		add_one(g->of_upper);
		lock_release(&g->upper);
	}
	return NULL;
}

static void
await_guarded(enum lock_rank rank)
{
	lock_shut_for_fork(rank);
	for (int i = 0; i < NGUARDED; i++)
		lock_await_for_fork(
		    rank == LOCK_DEPOT ? &guarded[i].upper : &guarded[i].lower);
}

START_TEST(everything_is_at_rest_while_the_ranks_are_shut)
{
	pthread_t thread[NTHREADS];

	flag = 0;
	for (int i = 0; i < NGUARDED; i++) {
		lock_init(&guarded[i].upper, LOCK_DEPOT);
		lock_init(&guarded[i].lower, LOCK_SLAB);
	}
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], NULL, change_guarded, (void *)i);
	for (int round = 0; round < 300; round++) {
		uint64_t before[NGUARDED];

		await_guarded(LOCK_DEPOT);
		await_guarded(LOCK_SLAB);
		for (int i = 0; i < NGUARDED; i++)
			before[i] =
			    guarded[i].of_upper[0] + guarded[i].of_lower[0];
		for (int i = 0; i < 5; i++)
			sched_yield();
		for (int i = 0; i < NGUARDED; i++) {
			struct guarded *g = &guarded[i];

			ck_assert_uint_eq(g->of_upper[0], g->of_upper[1]);
			ck_assert_uint_eq(g->of_lower[0], g->of_lower[1]);
			ck_assert_uint_eq(
			    g->of_upper[0] + g->of_lower[0], before[i]);
		}
		lock_open_after_fork();
		usleep(100);
	}
	__atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < NGUARDED; i++)
		ck_assert_uint_eq(
		    guarded[i].upper.state + guarded[i].lower.state, 0);
}
END_TEST

/* At the fork, the thread had set the state and not yet read shut_ranks. */
START_TEST(a_child_frees_the_lock_of_a_thread_that_was_turned_away)
{
	for (uint32_t state = 1; state <= 2; state++) {
		lock_shut_for_fork(LOCK_SLAB);
		lock_await_for_fork(&lock);
		lock.state = state;
		lock_free_in_child(&lock);
		lock_open_after_fork();
		ck_assert(lock_try(&lock));
		lock_release(&lock);
	}
}
END_TEST

/* A signal handler may have interrupted a function with locks. */
START_TEST(a_try_without_order_gets_a_lock_of_any_rank)
{
	lock_take(&below);
	ck_assert(!lock_try_unordered(&below));
	ck_assert(lock_try_unordered(&above));
	lock_assert_held(&above);
	lock_assert_held(&below);
	lock_release(&above);
	lock_release(&below);
	lock_take(&above);
	lock_take(&below);
	lock_release(&below);
	lock_release(&above);
}
END_TEST

#ifdef UMEM_DEBUG
START_TEST(a_try_without_order_gets_no_second_lock_of_one_rank)
{
	struct lock same = LOCK_INITIALIZER(LOCK_SLAB);

	lock_take(&lock);
	ck_assert(!lock_try_unordered(&same));
	ck_assert_uint_eq(same.state, 0);
	lock_assert_held(&lock);
	lock_release(&lock);
	ck_assert(lock_try_unordered(&same));
	lock_release(&same);
}
END_TEST

START_TEST(a_lock_of_higher_rank_taken_later_aborts)
{
	lock_take(&lock);
	lock_take(&above);
}
END_TEST

START_TEST(a_second_lock_of_one_rank_aborts)
{
	struct lock same = LOCK_INITIALIZER(LOCK_SLAB);

	lock_take(&lock);
	lock_take(&same);
}
END_TEST

START_TEST(a_try_of_higher_rank_aborts)
{
	lock_take(&below);
	lock_try(&above);
}
END_TEST

START_TEST(a_lock_that_should_be_held_aborts)
{
	lock_assert_held(&lock);
}
END_TEST

static void *
assert_held(void *arg)
{
	(void)arg;
	lock_assert_held(&lock);
	return NULL;
}

START_TEST(a_lock_that_another_thread_holds_aborts)
{
	pthread_t thread;

	lock_take(&lock);
	pthread_create(&thread, NULL, assert_held, NULL);
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(a_lock_of_the_rank_of_a_held_lock_is_not_held)
{
	struct lock same = LOCK_INITIALIZER(LOCK_SLAB);

	lock_take(&same);
	lock_assert_held(&lock);
}
END_TEST

START_TEST(a_lock_below_a_leaf_aborts)
{
	lock_take(&below);
	lock_take(&beyond);
}
END_TEST

START_TEST(a_lock_that_another_thread_took_is_not_released)
{
	pthread_t thread;

	pthread_create(&thread, NULL, try_it, NULL);
	pthread_join(thread, NULL);
	lock_release(&lock);
}
END_TEST

static void
add_debug_tests(TCase *tcase)
{
	tcase_add_test(
	    tcase, a_try_without_order_gets_no_second_lock_of_one_rank);
	tcase_add_test_raise_signal(
	    tcase, a_lock_of_higher_rank_taken_later_aborts, SIGABRT);
	tcase_add_test_raise_signal(
	    tcase, a_second_lock_of_one_rank_aborts, SIGABRT);
	tcase_add_test_raise_signal(
	    tcase, a_try_of_higher_rank_aborts, SIGABRT);
	tcase_add_test_raise_signal(
	    tcase, a_lock_that_should_be_held_aborts, SIGABRT);
	tcase_add_test_raise_signal(
	    tcase, a_lock_that_another_thread_holds_aborts, SIGABRT);
	tcase_add_test_raise_signal(
	    tcase, a_lock_of_the_rank_of_a_held_lock_is_not_held, SIGABRT);
	tcase_add_test_raise_signal(tcase, a_lock_below_a_leaf_aborts, SIGABRT);
	tcase_add_test_raise_signal(
	    tcase, a_lock_that_another_thread_took_is_not_released, SIGABRT);
}
#else
static void
add_debug_tests(TCase *tcase)
{
	(void)tcase;
}
#endif

Suite *
lock_suite(void)
{
	Suite *suite = suite_create("lock");
	TCase *tcase = tcase_create("lock");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, one_thread_at_a_time_has_the_lock);
	tcase_add_test(tcase, every_sleeper_is_woken);
	tcase_add_test(tcase, a_waiter_sleeps);
	tcase_add_test(tcase, a_try_says_what_it_got);
	tcase_add_test(tcase, locks_in_the_order_of_ranks_are_fine);
	tcase_add_test(tcase, a_failed_try_counts_for_nothing);
	tcase_add_test(tcase, the_atfork_handler_holds_many_of_one_rank);
	tcase_add_test(tcase, between_fork_begin_and_end_the_thread_holds_all);
	tcase_add_test(tcase, fork_writes_to_no_lock_of_a_shut_rank);
	tcase_add_test(tcase, no_thread_gets_a_lock_of_a_shut_rank);
	tcase_add_test(tcase, fork_waits_for_the_holder_of_a_lock);
	tcase_add_test(tcase, everything_is_at_rest_while_the_ranks_are_shut);
	tcase_add_test(
	    tcase, a_child_frees_the_lock_of_a_thread_that_was_turned_away);
	tcase_add_test(tcase, a_try_without_order_gets_a_lock_of_any_rank);
	add_debug_tests(tcase);
	suite_add_tcase(suite, tcase);
	return suite;
}
