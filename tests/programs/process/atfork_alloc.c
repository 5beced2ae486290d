/*
 * A program's own fork handlers allocate, on both sides, whether they were
 * registered before the first malloc or after.
 *
 * test not with: musl calls no function of .preinit_array
 */
#include "tests/programs/check.h"

enum {
	NTHREADS = 3
};
static volatile bool stop;
static char *passed;
static unsigned ncalls;

static void
prepare(void)
{
	ncalls++;
	churn(ncalls, 300, 300000);
	free(passed);
	check((passed = malloc(1000)) != NULL);
	stamp(passed, 1000, ncalls);
}

static void
after(void)
{
	check(is_stamped(passed, 1000, ncalls));
	free(passed);
	check((passed = malloc(1000)) != NULL);
	stamp(passed, 1000, ncalls);
	churn(ncalls, 300, 300000);
}

static void
register_early(void)
{
	check(pthread_atfork(prepare, after, after) == 0);
}

__attribute__((section(".preinit_array"), used)) static void (*entry)(
    void) = register_early;

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (!stop)
		churn(++seed, 500, 100000);
	return NULL;
}

static void *
once(void *arg)
{
	churn((uintptr_t)arg, 500, 100000);
	return NULL;
}

int
main(void)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(load, (void *)i);
	for (uintptr_t i = 0; i < 120; i++) {
		pid_t pid;

		if (i == 60)
			check(pthread_atfork(prepare, after, after) == 0);
		if ((pid = fork()) == 0) {
			limit_time();
			churn(i, 300, 300000);
			thread_end(thread_start(once, (void *)i));
			_exit(0);
		}
		child_end(pid);
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	check(ncalls >= 180);
	return 0;
}
