/*
 * libc's thrd_create() does not call pthread_create(), so the library does not
 * count such threads.  They create threads after the initial thread has ended.
 * The thread of the library ends with the last counted thread, while another
 * thread begins, which ends only after that thread was joined.
 */
#include <threads.h>

#include "tests/programs/check.h"

enum {
	NROUNDS = 1500
};
static pthread_barrier_t round_begins;
static int njoined; /* [atomic] */

static void *
return_at_once(void *arg)
{
	return arg;
}

static void *
return_after_the_other(void *arg)
{
	while (__atomic_load_n(&njoined, __ATOMIC_ACQUIRE) <= *(int *)arg)
		sched_yield();
	return NULL;
}

static int
create_short(void *arg)
{
	for (int i = 0; i < NROUNDS; i++) {
		pthread_barrier_wait(&round_begins);
		thread_end(thread_start(return_at_once, arg));
		__atomic_store_n(&njoined, i + 1, __ATOMIC_RELEASE);
	}
	return 0;
}

static int
create_long(void *arg)
{
	thrd_t other;

	check(thrd_create(&other, create_short, arg) == thrd_success);
	for (int i = 0; i < NROUNDS; i++) {
		pthread_barrier_wait(&round_begins);
		for (int spin = 0; spin < i % 300 * 30; spin++)
			keep(&spin);
		thread_end(thread_start(return_after_the_other, &i));
	}
	thrd_join(other, NULL);
	_exit(0);
}

int
main(void)
{
	thrd_t creator;

	check(pthread_barrier_init(&round_begins, NULL, 2) == 0);
	check(thrd_create(&creator, create_long, NULL) == thrd_success);
	pthread_exit(NULL);
}
