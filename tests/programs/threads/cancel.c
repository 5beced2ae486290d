/*
 * malloc and free are no cancellation points: a thread that is cancelled
 * within them runs on until it reaches one, and no memory is lost.
 * Asynchronous cancelling is allowed outside of malloc only, and works there.
 */
#include <malloc.h>

#include "tests/programs/check.h"

static volatile int spin;

struct job {
	bool asynchronous;
	unsigned at; /* the loop it is in */
	bool ended;
};

static void
cleanup(void *arg)
{
	free(arg);
}

static void *
run(void *arg)
{
	struct job *job = arg;
	char *volatile held = malloc(300);
	int old;

	check(held != NULL);
	pthread_cleanup_push(cleanup, held);
	__atomic_store_n(&job->at, 1, __ATOMIC_RELEASE);
	if (job->asynchronous) {
		for (;;) {
			churn(7, 20, 300000);
			pthread_setcanceltype(
			    PTHREAD_CANCEL_ASYNCHRONOUS, &old);
			for (int i = 0; i < 200; i++)
				spin = i;
			pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old);
		}
	}
	/*
	 * The cancel arrives within a millisecond, somewhere in here, and
	 * waits.
	 */
	for (unsigned i = 0; i < 5; i++)
		churn(i, 500, 2000000);
	malloc_trim(0);
	job->ended = true;
	for (;;)
		pthread_testcancel();
	pthread_cleanup_pop(1);
	return NULL;
}

int
main(void)
{
	for (int i = 0; i < 200; i++) {
		struct job job = {i % 4 != 0, 0, false};
		pthread_t thread = thread_start(run, &job);
		void *result;

		while (__atomic_load_n(&job.at, __ATOMIC_ACQUIRE) == 0)
			sched_yield();
		usleep((useconds_t)i * 5);
		check(pthread_cancel(thread) == 0);
		check(pthread_join(thread, &result) == 0);
		check(result == PTHREAD_CANCELED);
		check(job.ended || job.asynchronous);
		churn((uint64_t)i, 500, 100000);
	}
	return 0;
}
