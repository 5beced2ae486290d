/*
 * umem_rcu_barrier() returns when every object that any thread had passed to
 * umem_cache_free_rcu() before the call is free; umem_cache_destroy() waits for
 * the objects of its cache.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test no stderr: not empty
 */
#include "tests/programs/rcu/rcu.h"

enum {
	N = 1000,
	NTHREADS = 4,
	NROUNDS = 40
};

static umem_cache_t *cache;
static unsigned nfreed;

static void
free_new(umem_cache_t *from, unsigned n)
{
	void *object[N];

	for (unsigned i = 0; i < n; i++)
		object[i] = counted_alloc(from);
	for (unsigned i = 0; i < n; i++)
		object_free(from, object[i]);
}

/* Without objects, for a thread that never freed one, and twice in a row. */
static void
nothing_to_wait_for(void)
{
	struct task task;

	barrier();
	barrier();
	task_start(&task, barrier);
	task_end(&task);
}

static void
a_barrier_waits_for_a_reader(void)
{
	struct task tasks[2];

	cache = counted_cache(100);
	reader_start();
	free_new(cache, N);
	for (int i = 0; i < 2; i++)
		task_start(&tasks[i], barrier);
	usleep(100000);
	for (int i = 0; i < 2; i++)
		check(!task_is_done(&tasks[i]));
	check(counted_out(cache) >= N);
	reader_end();
	for (int i = 0; i < 2; i++)
		task_end(&tasks[i]);
	check(counted_out(cache) == 0);
}

static void
a_second_batch_does_not_free_itself(void)
{
	free_new(cache, N / 2);
	barrier();
	reader_start();
	free_new(cache, 7);
	check(counted_out(cache) >= 7);
	reader_end();
	barrier();
	check(counted_out(cache) == 0);
}

static void *
free_some(void *arg)
{
	free_new(cache, 1 + (unsigned)(uintptr_t)arg * 30);
	add(&nfreed, 1 + (unsigned)(uintptr_t)arg * 30);
	return NULL;
}

static void
frees_of_ended_threads_count(void)
{
	for (int round = 0; round < NROUNDS; round++) {
		pthread_t thread[NTHREADS];

		for (uintptr_t i = 0; i < NTHREADS; i++)
			thread[i] = thread_start(free_some, (void *)i);
		for (int i = 0; i < NTHREADS; i++)
			thread_end(thread[i]);
		barrier();
		if (round % 8 == 0)
			check(counted_out(cache) == 0);
	}
	check(counted_out(cache) == 0);
	check(nfreed > 0);
}

static void *
free_and_wait(void *arg)
{
	for (int i = 0; i < NROUNDS; i++) {
		free_new(cache, 1 + (unsigned)(uintptr_t)arg * 30);
		barrier();
	}
	return NULL;
}

static void
barriers_meet(void)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(free_and_wait, (void *)i);
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	check(counted_out(cache) == 0);
}

static void
destroy(void)
{
	umem_cache_destroy(cache);
}

static void
a_destroy_waits_for_a_reader(void)
{
	struct task task;
	unsigned ngone = load(&ncounted_gone);

	reader_start();
	free_new(cache, N);
	task_start(&task, destroy);
	usleep(50000);
	check(!task_is_done(&task));
	check(load(&ncounted_made) - load(&ncounted_gone) >= N);
	reader_end();
	task_end(&task);
	check(load(&ncounted_gone) > ngone);
	check(load(&ncounted_made) == load(&ncounted_gone));
}

/* Caches come and go while the library's thread works on others. */
static void *
create_and_destroy(void *arg)
{
	for (unsigned i = 0; i < NROUNDS; i++) {
		umem_cache_t *own = counted_cache(64 + i % 4 * 500);

		free_new(own, (unsigned)(uintptr_t)arg * 100 + i);
		if (i % 16 == 0)
			usleep(12000);
		if (i % 8 == 0)
			barrier();
		umem_cache_destroy(own);
	}
	return NULL;
}

static void
destroys_meet(void)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(create_and_destroy, (void *)i);
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	check(load(&ncounted_made) == load(&ncounted_gone));
}

static void
run(void)
{
	nothing_to_wait_for();
	a_barrier_waits_for_a_reader();
	a_second_batch_does_not_free_itself();
	frees_of_ended_threads_count();
	barriers_meet();
	a_destroy_waits_for_a_reader();
	destroys_meet();
}
