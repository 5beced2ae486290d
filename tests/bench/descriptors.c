/*
 * descriptors.c - descriptors of /dev/null, opened and closed for each use, or
 * kept open by an import cache
 *
 *	descriptors.open.N	open() and close(), by N threads
 *	descriptors.own.N	the best the program can do: an import cache of
 *				umem if the preloaded library has them, else as
 *				before
 *
 * in ns for a pair, of processor time.  The cost of open() and close() is the
 * kernel's and depends on the file; that of /dev/null is among the lowest.  A
 * program that needs one descriptor again and again would keep it in a
 * variable: the figure is the cost of a use, not of a clever program.
 *
 * Usage: descriptors [scale]
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "umem/umem.h"

#define NTHREADS 2
#define NPAIRS   400000

static umem_cache_t *cache;
static __typeof__(&umem_import_cache_create) import_cache_create;
static __typeof__(&umem_cache_destroy) cache_destroy;
static __typeof__(&umem_cache_alloc) cache_alloc;
static __typeof__(&umem_cache_free) cache_free;

static int
open_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		bench_die("open /dev/null");
	return fd;
}

static size_t
import(void *arg, void **store, size_t n, int flags)
{
	(void)arg;
	(void)n;
	(void)flags;
	store[0] = (void *)(intptr_t)(open_null() + 1);
	return 1;
}

static void
release(void *arg, void *const *store, size_t n)
{
	(void)arg;
	for (size_t i = 0; i < n; i++)
		close((int)(intptr_t)store[i] - 1);
}

static void
open_pairs(struct bench_thread *thread)
{
	for (size_t i = *(size_t *)thread->shared; i > 0; i--)
		close(open_null());
}

static void
cache_pairs(struct bench_thread *thread)
{
	for (size_t i = *(size_t *)thread->shared; i > 0; i--) {
		void *resource = cache_alloc(cache, UMEM_DEFAULT);

		bench_keep(resource);
		cache_free(cache, resource);
	}
}

static void
measure(const char *name, void (*run)(struct bench_thread *), int nthreads,
    size_t npairs)
{
	double start = bench_cpu_ns();

	bench_threads(nthreads, run, &npairs, 0);
	bench_print((bench_cpu_ns() - start) / ((double)npairs * nthreads),
	    "ns", "descriptors.%s.%d", name, nthreads);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	import_cache_create = dlsym(RTLD_DEFAULT, "umem_import_cache_create");
	cache_destroy = dlsym(RTLD_DEFAULT, "umem_cache_destroy");
	cache_alloc = dlsym(RTLD_DEFAULT, "umem_cache_alloc");
	cache_free = dlsym(RTLD_DEFAULT, "umem_cache_free");
	for (int n = 1; n <= NTHREADS; n++)
		measure("open", open_pairs, n, bench_count(NPAIRS, scale));
	if (import_cache_create == NULL) {
		for (int n = 1; n <= NTHREADS; n++)
			measure(
			    "own", open_pairs, n, bench_count(NPAIRS, scale));
		return 0;
	}
	cache =
	    import_cache_create("descriptors", import, release, NULL, 64, 0);
	if (cache == NULL)
		bench_die("umem_import_cache_create");
	for (int n = 1; n <= NTHREADS; n++)
		measure("own", cache_pairs, n, bench_count(20 * NPAIRS, scale));
	cache_destroy(cache);
	return 0;
}
