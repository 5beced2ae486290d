/*
 * System calls fail from some moment on, one kind at a time and all of them:
 * each deferred free succeeds, or fails with EAGAIN and leaves the object to
 * the caller; a barrier frees all.
 *
 * test account: no
 * test not with: address needs memory that is refused
 * test not with: thread needs memory that is refused
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 */
#include "tests/programs/rcu/rcu.h"
#include "tests/programs/seccomp.h"

enum {
	N = 3000,
	NTHREADS = 3
};
static const int calls[] = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise,
    SYS_mremap, SYS_brk, SYS_prctl, SYS_clone, SYS_clone3};

static umem_cache_t *cache;
static void *object[N];

/*
 * libumem_malloc sees the prctl() before the filter and then calls no
 * membarrier(), so it cannot empty the magazines of other CPUs.
 */
static bool
is_confined(void)
{
	struct umem_mode mode;

	check(umem_mode(&mode, sizeof(mode)) == 0);
	return is_preloaded() && mode.mode != UMEM_MODE_LOCKED;
}

static void
free_object(void *p)
{
	errno = 77;
	if (umem_cache_free_rcu_flavor(cache, p, rcu) == 0) {
		check(errno == 77);
		return;
	}
	check(errno == EAGAIN);
	check(*(unsigned *)p == COUNTED_MARK);
	umem_cache_free(cache, p);
}

static void *
free_third(void *arg)
{
	for (unsigned i = (unsigned)(uintptr_t)arg; i < N; i += NTHREADS)
		free_object(object[i]);
	return NULL;
}

static void
child(unsigned first, unsigned n, bool is_first_use)
{
	pthread_t thread[NTHREADS] = {0};
	void *block[100];

	for (int i = 0; i < 100; i++)
		check((block[i] = malloc(1 + (size_t)i * 500)) != NULL);
	for (int i = 0; i < N; i++)
		object[i] = counted_alloc(cache);
	if (!is_first_use) {
		object_free(cache, counted_alloc(cache));
		barrier();
	}
	/* bp takes memory for its first readers, or aborts. */
	check(!rcu_true->read_ongoing());
	refuse(calls + first, n, ENOMEM);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		if (pthread_create(&thread[i], NULL, free_third, (void *)i)) {
			thread[i] = 0;
			free_third((void *)i);
		}
	for (int i = 0; i < 100; i++) {
		errno = 78;
		if (free_rcu_flavor(block[i], rcu) == 0) {
			check(errno == 78);
		} else {
			check(errno == EAGAIN);
			free(block[i]);
		}
	}
	for (int i = 0; i < NTHREADS; i++)
		if (thread[i] != 0)
			thread_end(thread[i]);
	if (is_confined()) {
		check(umem_rcu_barrier_flavor(rcu) == 0 || errno == EAGAIN);
		umem_cache_destroy(cache);
		exit(0);
	}
	check(umem_rcu_barrier_flavor(rcu) == 0);
	umem_cache_destroy(cache);
	check(load(&ncounted_made) == load(&ncounted_gone));
	exit(0);
}

static void
child_of(unsigned first, unsigned n, bool is_first_use)
{
	pid_t pid = rcu_fork();

	if (pid == 0)
		child(first, n, is_first_use);
	child_end(pid);
}

static void
run(void)
{
	enum {
		NCALLS = sizeof(calls) / sizeof(calls[0])
	};

	cache = counted_cache(120);
	for (unsigned i = 0; i < NCALLS; i++)
		child_of(i, 1, i % 2);
	child_of(0, NCALLS, false);
	child_of(0, NCALLS, true);
}
