/*
 * Descriptors of an import cache are freed after a grace period, so none is
 * closed while a reader has it in its section.  max_idle holds after the
 * grace period, and the end of the cache closes all.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test timeout: 60
 * test no stderr: .
 */
#include <sys/stat.h>

#include "tests/programs/rcu/rcu.h"

enum {
	MAX_FD = 1024,
	ROUNDS = 300,
	MAX_IDLE = 16
};

static umem_cache_t *cache;
static void *shared;             /* [atomic] resource of the readers */
static uint32_t nopen;           /* [atomic] */
static uint32_t is_ended;        /* [atomic] */
static uint32_t nclosed[MAX_FD]; /* [atomic] how often each was closed */

static size_t
import(void *path, void **store, size_t n, int flags)
{
	int fd = open((const char *)path, O_RDONLY | O_CLOEXEC);

	(void)n;
	(void)flags;
	if (fd < 0)
		return 0;
	check(fd < MAX_FD);
	add(&nopen, 1);
	*store = (void *)(intptr_t)(fd + 1);
	return 1;
}

static void
release(void *path, void *const *store, size_t n)
{
	(void)path;
	for (size_t i = 0; i < n; i++) {
		int fd = (int)(intptr_t)store[i] - 1;

		add(&nclosed[fd], 1);
		check(close(fd) == 0);
	}
	add(&nopen, -(uint32_t)n);
}

static void *
read_all_the_time(void *arg)
{
	rcu_true->register_thread();
	while (!load(&is_ended)) {
		uint32_t before;
		intptr_t fd;

		section_begin();
		fd = (intptr_t)load(&shared) - 1;
		before = load(&nclosed[fd]);
		for (int i = 0; i < 20; i++) {
			usleep(20);
			check(load(&nclosed[fd]) == before);
		}
		section_end();
	}
	rcu_true->unregister_thread();
	return arg;
}

static void *
replace(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		void *resource = umem_cache_alloc(cache, UMEM_DEFAULT);

		check(resource != NULL);
		resource =
		    __atomic_exchange_n(&shared, resource, __ATOMIC_SEQ_CST);
		object_free(cache, resource);
		if (i % 100 == 99)
			barrier();
	}
	store(&is_ended, 1);
	return arg;
}

static void
run(void)
{
	pthread_t reader, updater;

	cache = umem_import_cache_create("descriptors", import, release,
	    (void *)(uintptr_t) "/dev/null", MAX_IDLE, 0);
	check(cache != NULL);
	shared = umem_cache_alloc(cache, UMEM_DEFAULT);
	check(shared != NULL);
	reader = thread_start(read_all_the_time, NULL);
	updater = thread_start(replace, NULL);
	thread_end(updater);
	thread_end(reader);
	barrier();
	check(load(&nopen) <= MAX_IDLE + 1);
	umem_cache_free(cache, shared);
	umem_cache_destroy(cache);
	check(load(&nopen) == 0);
}
