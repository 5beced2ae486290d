/*
 * A process ends while objects wait.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 *
 * test run: exit
 * test run: last_thread
 * test args: last_thread
 * test not with: thread has a thread of its own that does not end
 * test timeout: 60
 * test stderr: ^exit handler$
 */
#include "tests/programs/rcu/rcu.h"

enum {
	N = 1000,
	NUPDATERS = 2,
	STATUS = 7
};

static umem_cache_t *cache;

static void
free_new(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		object_free(cache, counted_alloc(cache));
		block_free(malloc(30 + i));
		sized_free(umem_alloc(48, UMEM_DEFAULT), 48);
	}
}

static void
free_at_exit(void)
{
	free_new(10);
}

/* Not up to the budget: a caller would wait there, also one at exit. */
static void *
updater(void *arg)
{
	for (int i = 0; i < 100; i++)
		free_new(20);
	for (;;)
		pause();
	return arg;
}

static void *
waiter(void *arg)
{
	barrier();
	return arg;
}

static void *
call_exit(void *arg)
{
	(void)arg;
	exit(STATUS);
}

/* How a child ends; a reader stalls for good. */
static void
end(int way)
{
	check(atexit(free_at_exit) == 0);
	reader_start();
	for (int i = 0; i < NUPDATERS; i++)
		thread_start(updater, NULL);
	thread_start(waiter, NULL);
	free_new(N);
	switch (way) {
	case 0:
		exit(STATUS);
	case 1:
		_exit(STATUS);
	case 2:
		thread_start(call_exit, NULL);
		for (;;)
			pause();
	default:
		quick_exit(STATUS);
	}
}

/* Ends with a thread that has just freed, when no other is left. */
static void *
last(void *arg)
{
	free_new((unsigned)(uintptr_t)arg);
	return NULL;
}

/* At once, and with its own status, while other threads free more. */
static void
ends_by_exit(void)
{
	uint64_t begin = now_ms();

	cache = counted_cache(100);
	for (int way = 0; way < 4; way++) {
		pid_t pid = rcu_fork();
		int status;

		if (pid == 0)
			end(way);
		check(waitpid(pid, &status, 0) == pid);
		check(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
	}
	/* None waited for the reader. */
	check(now_ms() - begin < 1000 * (uint64_t)time_limit() / 2);

	/* Threads come and go. */
	for (uintptr_t i = 0; i < 100; i++)
		thread_end(thread_start(last, (void *)(i % 5)));
	barrier();
	check(counted_out(cache) == 0);
}

static void
said(void)
{
	check(write(2, "exit handler\n", 13) == 13);
}

static void *
last_of_all(void *arg)
{
	for (int i = 0; i < 500; i++) {
		object_free(cache, counted_alloc(cache));
		block_free(malloc(100));
	}
	usleep(30000);
	object_free(cache, counted_alloc(cache));
	return arg;
}

/*
 * When the last thread of the program ends: a thread of the library does not
 * keep it alive.
 */
static void
ends_with_its_threads(void)
{
	cache = counted_cache(100);
	check(atexit(said) == 0);
	thread_start(last_of_all, NULL);
	pthread_exit(NULL);
}

static void
run(void)
{
	if (rcu_args[0] == NULL)
		ends_by_exit();
	else
		ends_with_its_threads();
}
