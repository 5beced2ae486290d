/* test_snapshot.c - copies of the process, made for the command umem */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/unit/machine.h"
#include "tests/unit/suites.h"
#include "tests/unit/stay.h"
#include "umem/base/ready.h"
#include "umem/upkeep/snapshot.h"
#include "vmem/describe.h"
#include "vmem/os.h"
#include "vmem/syscall.h"

#define SEC ((uint64_t)1000000000)

extern struct describe_entry __start_umem_describe[];
extern struct describe_entry __stop_umem_describe[];

/* The command finds the word of the protocol, and its values, like this. */
static const struct describe_entry *
described(const char *name)
{
	for (const struct describe_entry *e = __start_umem_describe;
	     e != __stop_umem_describe; e++)
		if (strcmp(e->name, name) == 0)
			return e;
	ck_abort_msg("%s is missing", name);
}

static uint32_t
value_of(const char *name)
{
	return (uint32_t)described(name)->value;
}

static uint32_t *
state(void)
{
	const struct describe_entry *snapshot = described("&snapshot");

	return (uint32_t *)((uintptr_t)snapshot + snapshot->value +
			    value_of("snapshot.state"));
}

static uint32_t
state_now(void)
{
	return __atomic_load_n(state(), __ATOMIC_ACQUIRE);
}

static void
ask(void)
{
	stay_here();
	ck_assert(umem_ready());
	__atomic_store_n(
	    state(), value_of("=SNAPSHOT_ASKED"), __ATOMIC_RELEASE);
}

START_TEST(without_a_request_there_is_no_copy)
{
	ck_assert(umem_ready());
	ck_assert(!snapshot_serve(SEC));
	ck_assert_uint_eq(state_now(), value_of("=SNAPSHOT_NONE"));
}
END_TEST

START_TEST(a_request_of_a_command_that_has_ended_is_dropped)
{
	ask();
	ck_assert(!snapshot_serve(10 * SEC / 1000));
	ck_assert_uint_eq(state_now(), value_of("=SNAPSHOT_NONE"));
}
END_TEST

START_TEST(a_confined_process_makes_no_copy)
{
	uint64_t began = os_now_ns();

	ask();
	os_confine();
	ck_assert(!snapshot_serve(100 * SEC));
	ck_assert_uint_eq(state_now(), value_of("=SNAPSHOT_NONE"));
	ck_assert_uint_lt(os_now_ns() - began, 50 * SEC);
}
END_TEST

static void *
let_go(void *arg)
{
	while (state_now() != value_of("=SNAPSHOT_READY"))
		os_futex_wait(state(), state_now(), SEC / 1000);
	__atomic_store_n(state(), value_of("=SNAPSHOT_GO"), __ATOMIC_RELEASE);
	return arg;
}

START_TEST(a_copy_that_nobody_traces_ends_and_wait_does_not_see_it)
{
	pthread_t command;

	ask();
	ck_assert_int_eq(pthread_create(&command, NULL, let_go, NULL), 0);
	/* It has ended by now, or not; it is released later in any case. */
	ck_assert(snapshot_serve(100 * SEC));
	ck_assert_uint_eq(state_now(), value_of("=SNAPSHOT_NONE"));
	ck_assert_int_eq(waitpid(-1, NULL, 0), -1);
	ck_assert_int_eq(errno, ECHILD);
	while (snapshot_serve(0))
		os_futex_wait(state(), state_now(), SEC / 1000);
	ck_assert_int_eq(waitpid(-1, NULL, __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
	pthread_join(command, NULL);
}
END_TEST

/* Threads that serve one request, and rounds of that. */
#define SERVERS       4
#define SERVER_ROUNDS 300

static pthread_barrier_t round_begins, round_ends;
static uint32_t nserving; /* [a] threads in snapshot_serve() */
static uintptr_t server;  /* [a] thread pointer of the last one in it */
static uintptr_t servers; /* [a] sum of all thread pointers */

static void *
serve_rounds(void *arg)
{
	uintptr_t self = thread_self();

	__atomic_add_fetch(&servers, self, __ATOMIC_RELAXED);
	pthread_barrier_wait(&round_ends);
	for (int i = 0; i < SERVER_ROUNDS; i++) {
		pthread_barrier_wait(&round_begins);
		snapshot_serve(SEC / 200);
		__atomic_sub_fetch(&server, self, __ATOMIC_SEQ_CST);
		__atomic_sub_fetch(&nserving, 1, __ATOMIC_SEQ_CST);
		pthread_barrier_wait(&round_ends);
	}
	return arg;
}

/* The command lets the thread run that the request names. */
START_TEST(of_several_threads_the_one_that_waits_is_named)
{
	uintptr_t *named =
	    (uintptr_t *)(state() -
			  value_of("snapshot.state") / sizeof(uint32_t) +
			  value_of("snapshot.thread") / sizeof(uint32_t));
	pthread_t thread[SERVERS];
	uintptr_t one, left;
	int nchecked = 0;
	bool is_ready;

	ck_assert(umem_ready());
	pthread_barrier_init(&round_begins, NULL, SERVERS + 1);
	pthread_barrier_init(&round_ends, NULL, SERVERS + 1);
	for (int i = 0; i < SERVERS; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, serve_rounds, NULL), 0);
	pthread_barrier_wait(&round_ends);
	for (int i = 0; i < SERVER_ROUNDS; i++) {
		/* server is the sum of the threads that are in the call. */
		__atomic_store_n(&server,
		    __atomic_load_n(&servers, __ATOMIC_RELAXED),
		    __ATOMIC_SEQ_CST);
		__atomic_store_n(&nserving, SERVERS, __ATOMIC_SEQ_CST);
		__atomic_store_n(
		    state(), value_of("=SNAPSHOT_ASKED"), __ATOMIC_RELEASE);
		pthread_barrier_wait(&round_begins);
		while (__atomic_load_n(&nserving, __ATOMIC_SEQ_CST) > 1)
			sched_yield();
		is_ready = __atomic_load_n(state(), __ATOMIC_SEQ_CST) ==
			   value_of("=SNAPSHOT_READY");
		one = is_ready ? *named : 0;
		left = __atomic_load_n(&server, __ATOMIC_SEQ_CST);
		/* It has waited all the time if it waits still. */
		if (is_ready && __atomic_load_n(state(), __ATOMIC_SEQ_CST) ==
				    value_of("=SNAPSHOT_READY")) {
			ck_assert_uint_eq(one, left);
			nchecked++;
		}
		pthread_barrier_wait(&round_ends);
	}
	for (int i = 0; i < SERVERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_gt(nchecked, 0);
}
END_TEST

Suite *
snapshot_suite(void)
{
	Suite *suite = suite_create("snapshot");
	TCase *snapshot = tcase_create("snapshot");

	tcase_add_test(snapshot, without_a_request_there_is_no_copy);
	tcase_add_test(
	    snapshot, a_request_of_a_command_that_has_ended_is_dropped);
	tcase_add_test(snapshot, a_confined_process_makes_no_copy);
	tcase_add_test(
	    snapshot, of_several_threads_the_one_that_waits_is_named);
	if (!machine_is_emulated()) {
		tcase_add_test(snapshot,
		    a_copy_that_nobody_traces_ends_and_wait_does_not_see_it);
	}
	suite_add_tcase(suite, snapshot);
	return suite;
}
