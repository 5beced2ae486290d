/*
 * A child of fork() in which no grace period can end: a reader of its parent
 * stays in its section.  Deferred frees fail there, and nothing else does: the
 * child has no thread of the library, it forks at once, and it ends when its
 * only thread ends.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 */
#include <dirent.h>

#include "tests/programs/rcu/rcu.h"

enum {
	N = 1000
};

static umem_cache_t *cache;

static unsigned
nthreads(void)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned n = 0;

	check(folder != NULL);
	while ((entry = readdir(folder)) != NULL)
		n += entry->d_name[0] != '.';
	closedir(folder);
	return n;
}

/* Leaves empty slabs, and has the library notice them. */
static void
use_and_reap(void)
{
	void *object[N];

	for (int i = 0; i < N; i++)
		check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
	for (int i = 0; i < N; i++)
		umem_cache_free(cache, object[i]);
	umem_cache_reap_now(cache);
	umem_reap();
}

static void
work_in_child(void)
{
	uint64_t least = UINT64_MAX;

	check(umem_free_rcu_flavor(umem_alloc(64, 0), 64, rcu) == -1);
	check(errno == ENOTSUP);
	check(umem_cache_rcu_flavor(cache, rcu) == -1 && errno == ENOTSUP);
	check(umem_rcu_barrier_flavor(rcu) == -1 && errno == ENOTSUP);
	use_and_reap();
	usleep(50000);
	check(nthreads() == 1);
	for (int i = 0; i < 5; i++) {
		uint64_t before = now_ms();
		pid_t pid = fork();

		if (pid == 0)
			_exit(nthreads() == 1 ? 0 : 1);
		child_end(pid);
		if (now_ms() - before < least)
			least = now_ms() - before;
	}
	/* With such a thread each of them waits for a second. */
	check(least < 1000);
	pthread_exit(NULL);
}

static void
run(void)
{
	pid_t pid;

	/* Its grace periods end in the child, too. */
	if (is_bp())
		return;
	rcu_watch();
	cache = umem_cache_create("stable", 512, 0, NULL, NULL, NULL, NULL,
	    NULL, UMC_TYPESAFE_BY_RCU);
	check(cache != NULL && umem_cache_rcu_flavor(cache, rcu) == 0);
	reader_start();
	block_free(malloc(100));
	wait_until(load(&rcu_nperiods) != 0);
	use_and_reap();
	if ((pid = rcu_fork()) == 0)
		work_in_child();
	child_end(pid);
	reader_end();
	barrier();
	umem_cache_destroy(cache);
}
