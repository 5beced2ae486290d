/*
 * Descriptors in an import cache, used by threads and in forked children.
 *
 * No descriptor has two users, and each is open as long as it has one.  The
 * table of descriptors has room for those that all threads hold at most and for
 * no more, so an allocation that failed although a descriptor is idle would be
 * noticed.  A child that is forked meanwhile uses and ends its copy of the
 * cache.  In the end all descriptors are closed.
 *
 * test link: umem
 * test modes: rseq locked own
 * test no stderr: .
 * test not with: thread reports the stores of a child after fork()
 */
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/programs/check.h"

enum {
	NTHREADS = 4,
	EACH = 5,   /* descriptors that a thread holds at most */
	SPARE = 16, /* the program's own */
	ROUNDS = 3000,
	NFORKS = 20,
	MAX_FD = 1024
};

static umem_cache_t *cache;
static uint32_t owner[MAX_FD];            /* [atomic] thread, or 0 */
static uint32_t nopen, nfailed, nrunning; /* [atomic] */
static bool deliver_many;

static size_t
import(void *path, void **store, size_t n, int flags)
{
	size_t got = 0;

	(void)flags;
	while (got < n && got < (deliver_many ? n : 1)) {
		int fd = open((const char *)path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			break;
		check(fd < MAX_FD);
		store[got++] = (void *)(intptr_t)(fd + 1);
	}
	__atomic_add_fetch(&nopen, (uint32_t)got, __ATOMIC_RELAXED);
	return got;
}

static void
release(void *path, void *const *store, size_t n)
{
	(void)path;
	for (size_t i = 0; i < n; i++) {
		int fd = (int)(intptr_t)store[i] - 1;

		check(__atomic_load_n(&owner[fd], __ATOMIC_RELAXED) == 0);
		check(close(fd) == 0);
	}
	__atomic_sub_fetch(&nopen, (uint32_t)n, __ATOMIC_RELAXED);
}

static void
own(void *resource, uint32_t me)
{
	int fd = (int)(intptr_t)resource - 1;
	struct stat stat;

	check(__atomic_exchange_n(&owner[fd], me, __ATOMIC_RELAXED) == 0);
	check(fstat(fd, &stat) == 0 && S_ISCHR(stat.st_mode));
}

static void
disown(void *resource, uint32_t me)
{
	int fd = (int)(intptr_t)resource - 1;

	check(__atomic_exchange_n(&owner[fd], 0, __ATOMIC_RELAXED) == me);
}

static void *
use(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;
	uint64_t random = me;
	void *mine[EACH];
	size_t n = 0;

	for (int i = 0; i < ROUNDS; i++) {
		size_t want = next_random(&random) % (EACH + 1);

		if (want > n && want - n > 1 && next_random(&random) % 2) {
			if (umem_cache_alloc_bulk(
				cache, want - n, mine + n, 0) != 0)
				while (n < want)
					own(mine[n++], me);
			else
				check(errno == EMFILE && n < EACH);
		}
		while (n < want) {
			mine[n] = umem_cache_alloc(cache, UMEM_DEFAULT);
			if (mine[n] == NULL) {
				__atomic_add_fetch(
				    &nfailed, 1, __ATOMIC_RELAXED);
				break;
			}
			own(mine[n++], me);
		}
		while (n > want) {
			disown(mine[--n], me);
			umem_cache_free(cache, mine[n]);
		}
		if (next_random(&random) % 512 == 0)
			umem_cache_reap_now(cache);
	}
	for (size_t i = 0; i < n; i++)
		disown(mine[i], me);
	umem_cache_free_bulk(cache, n, mine);
	__atomic_sub_fetch(&nrunning, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void
child(void)
{
	void *some[3];

	/* Those of other threads are never freed here. */
	for (int i = 0; i < 100; i++) {
		size_t n = 0;

		while (n < 3 && (some[n] = umem_cache_alloc(
				     cache, UMEM_DEFAULT)) != NULL)
			check(
			    fcntl((int)(intptr_t)some[n++] - 1, F_GETFD) >= 0);
		check(n == 3 || errno == EMFILE);
		umem_cache_free_bulk(cache, n, some);
	}
	check(umem_cache_shrink(cache) <= 1);
	_exit(0);
}

static void
run(size_t max_idle)
{
	/* As many as there are descriptors to be had at the same time. */
	struct rlimit limit = {NTHREADS * EACH + SPARE, MAX_FD};
	int filler[SPARE], nfiller = 0;
	pthread_t thread[NTHREADS];

	cache = umem_import_cache_create("descriptors", import, release,
	    (void *)(uintptr_t) "/dev/null", max_idle, 0);
	check(cache != NULL);
	check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	/* Other descriptors of the process take the spare room. */
	for (int fd = 0; fd < SPARE; fd++)
		if (fcntl(fd, F_GETFD) < 0) {
			check(open("/dev/null", O_RDONLY) == fd);
			filler[nfiller++] = fd;
		}
	nrunning = NTHREADS;
	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(use, (void *)(i + 1));
	for (int i = 0; i < NFORKS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			child();
		child_end(pid);
	}
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	check(nfailed == 0);
	check(max_idle == 0 || nopen <= max_idle);
	umem_cache_destroy(cache);
	check(nopen == 0);
	while (nfiller > 0)
		check(close(filler[--nfiller]) == 0);
}

int
main(void)
{
	for (int many = 0; many < 2; many++) {
		deliver_many = many;
		run(0);
		run(2);
		run(500);
	}
	return 0;
}
