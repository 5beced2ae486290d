/*
 * The kernel refuses rseq, membarrier or both once the program runs.  Then new
 * threads have no rseq, and a thread cannot reach the magazines of other CPUs.
 * The library keeps its mode, and everything works.
 *
 * glibc ends the program when a new thread cannot register its rseq area after
 * earlier threads could.  In that case the test starts no thread.
 *
 * test account: no
 * test modes: rseq own locked
 * test env: UMEM_OPTIONS=thread=no
 * test no stderr: .
 */
#include <malloc.h>

#include "tests/programs/seccomp.h"

#pragma weak umem_cache_create
#pragma weak umem_cache_alloc
#pragma weak umem_cache_free
#pragma weak umem_cache_reap_now
#pragma weak umem_cache_destroy
#pragma weak umem_reap

static volatile bool stop;
static bool no_threads;
static int nstarted;

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 5000, 20000);
	return NULL;
}

static void *
load_on(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	__atomic_add_fetch(&nstarted, 1, __ATOMIC_RELEASE);
	while (!stop)
		churn(++seed, 500, 5000);
	return NULL;
}

static void
use(void)
{
	pthread_t thread[8];

	for (uintptr_t i = 0; i < 8 && !no_threads; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	load((void *)9);
	for (int i = 0; i < 5; i++)
		malloc_trim(0);
	for (int i = 0; i < 8 && !no_threads; i++)
		thread_end(thread[i]);
}

/* Caches that are drained, resized and ended meanwhile. */
static void
use_caches(void)
{
	static void *object[2000];

	if (umem_cache_create == NULL)
		return;
	for (int round = 0; round < 10; round++) {
		umem_cache_t *cache = umem_cache_create(
		    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

		check(cache != NULL);
		for (int i = 0; i < 2000; i++)
			check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
		for (int i = 0; i < 2000; i++)
			umem_cache_free(cache, object[i]);
		umem_cache_reap_now(cache);
		umem_reap();
		umem_cache_destroy(cache);
	}
}

static void
child(int which)
{
	static const int both[] = {SYS_rseq, SYS_membarrier};
	struct umem_mode before, after;
	pthread_t old[4];
	pid_t pid;

	check(umem_mode != NULL && umem_mode(&before, sizeof(before)) == 0);
	for (uintptr_t i = 0; i < 4; i++)
		old[i] = thread_start(load_on, (void *)(i * 10000 + 1));
	use();
	while (__atomic_load_n(&nstarted, __ATOMIC_ACQUIRE) < 4)
		usleep(1000);
	no_threads = which != 1 && before.mode != UMEM_MODE_RSEQ_OWN;
	refuse(which == 1 ? both + 1 : both, which == 2 ? 2 : 1, ENOSYS);
	use();
	use_caches();
	pid = fork();
	if (pid == 0) {
		use();
		use_caches();
		_exit(0);
	}
	child_end(pid);
	check(umem_mode(&after, sizeof(after)) == 0);
	check(before.mode == after.mode && before.index == after.index);
	stop = true;
	for (int i = 0; i < 4; i++)
		thread_end(old[i]);
}

int
main(void)
{
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			child(i);
			_exit(0);
		}
		child_end(pid);
	}
	return 0;
}
