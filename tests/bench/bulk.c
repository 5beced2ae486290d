/*
 * bulk.c - objects in groups of N, by single calls and by bulk calls
 *
 *	bulk.own.N		N allocations, then N frees, one by one
 *	bulk.cache.N		umem_cache_alloc_bulk() of N objects, then
 *				umem_cache_free_bulk()
 *	bulk.limit.N		bulk.own.N of a cache with a limit
 *	bulk.limits.N		bulk.cache.N of a cache with a limit
 *	bulk.allocs.N		N calls of umem_cache_alloc(), then a bulk free
 *	bulk.blocks.N		single calls of umem_alloc() and umem_free()
 *	bulk.sized.N		by umem_alloc_bulk() and umem_free_bulk()
 *
 * in ns an object of 64 bytes, allocated and freed; an object is not touched.
 * Single calls are umem_cache_alloc() and umem_cache_free(), or under another
 * allocator malloc() and free(); there the other rows are absent.
 *
 * The program looks up the functions of umem at run time, so that under another
 * allocator no code of umem is in the process.
 *
 * Source: the groups in which network stacks and maple trees of Linux take
 * objects by kmem_cache_alloc_bulk().
 *
 * Usage: bulk [scale]
 */
#include <dlfcn.h>

#include "tests/bench/bench.h"
#include "umem/umem.h"

#define BYTES 64
#define NMOST 1024

static const size_t groups[] = {4, 16, 64, 256, 1024};

static umem_cache_t *cache, *plain, *limited;
static __typeof__(&umem_cache_create) cache_create;
static __typeof__(&umem_cache_create_args) cache_create_args;
static __typeof__(&umem_cache_alloc) cache_alloc;
static __typeof__(&umem_cache_free) cache_free;
static __typeof__(&umem_cache_alloc_bulk) cache_alloc_bulk;
static __typeof__(&umem_cache_free_bulk) cache_free_bulk;
static __typeof__(&umem_alloc) sized_alloc;
static __typeof__(&umem_free) sized_free;
static __typeof__(&umem_alloc_bulk) sized_alloc_bulk;
static __typeof__(&umem_free_bulk) sized_free_bulk;

static void *objects[NMOST];

static void
singles(void *arg, size_t n)
{
	size_t group = *(size_t *)arg;

	while (n-- > 0) {
		for (size_t i = 0; i < group; i++)
			objects[i] = cache_alloc(cache, UMEM_DEFAULT);
		bench_keep(objects);
		for (size_t i = 0; i < group; i++)
			cache_free(cache, objects[i]);
	}
}

static void
blocks(void *arg, size_t n)
{
	size_t group = *(size_t *)arg;

	while (n-- > 0) {
		for (size_t i = 0; i < group; i++)
			objects[i] = sized_alloc(BYTES, UMEM_DEFAULT);
		bench_keep(objects);
		for (size_t i = 0; i < group; i++)
			sized_free(objects[i], BYTES);
	}
}

static void
mallocs(void *arg, size_t n)
{
	size_t group = *(size_t *)arg;

	while (n-- > 0) {
		for (size_t i = 0; i < group; i++)
			objects[i] = bench_alloc(BYTES);
		bench_keep(objects);
		for (size_t i = 0; i < group; i++)
			free(objects[i]);
	}
}

static void
cache_bulks(void *arg, size_t n)
{
	size_t group = *(size_t *)arg;

	while (n-- > 0) {
		if (cache_alloc_bulk(cache, group, objects, UMEM_DEFAULT) !=
		    group)
			bench_die("umem_cache_alloc_bulk");
		bench_keep(objects);
		cache_free_bulk(cache, group, objects);
	}
}

static void
allocs(void *arg, size_t n)
{
	size_t group = *(size_t *)arg;

	while (n-- > 0) {
		for (size_t i = 0; i < group; i++)
			objects[i] = cache_alloc(cache, UMEM_DEFAULT);
		bench_keep(objects);
		cache_free_bulk(cache, group, objects);
	}
}

static void
sized_bulks(void *arg, size_t n)
{
	size_t group = *(size_t *)arg;

	while (n-- > 0) {
		if (sized_alloc_bulk(BYTES, group, objects, UMEM_DEFAULT) !=
		    group)
			bench_die("umem_alloc_bulk");
		bench_keep(objects);
		sized_free_bulk(group, objects, BYTES);
	}
}

/* False if no library of this process has bulk calls. */
static bool
find_bulk(void)
{
	cache_create = dlsym(RTLD_DEFAULT, "umem_cache_create");
	cache_create_args = dlsym(RTLD_DEFAULT, "umem_cache_create_args");
	cache_alloc = dlsym(RTLD_DEFAULT, "umem_cache_alloc");
	cache_free = dlsym(RTLD_DEFAULT, "umem_cache_free");
	cache_alloc_bulk = dlsym(RTLD_DEFAULT, "umem_cache_alloc_bulk");
	cache_free_bulk = dlsym(RTLD_DEFAULT, "umem_cache_free_bulk");
	sized_alloc = dlsym(RTLD_DEFAULT, "umem_alloc");
	sized_free = dlsym(RTLD_DEFAULT, "umem_free");
	sized_alloc_bulk = dlsym(RTLD_DEFAULT, "umem_alloc_bulk");
	sized_free_bulk = dlsym(RTLD_DEFAULT, "umem_free_bulk");
	return sized_free_bulk != NULL;
}

static void
measure(const char *name, void (*f)(void *, size_t), size_t group, double scale)
{
	bench_print(bench_ns_each(f, &group, scale) / (double)group, "ns",
	    "bulk.%s.%zu", name, group);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	bool bulk = find_bulk();
	struct umem_cache_args limit = {.size = BYTES, .limit = 2 * NMOST};

	if (bulk) {
		cache = plain = cache_create(
		    "bulk", BYTES, 0, NULL, NULL, NULL, NULL, NULL, 0);
		limited = cache_create_args("limited", &limit, sizeof(limit));
		if (plain == NULL || limited == NULL)
			bench_die("umem_cache_create");
	}
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
		measure("own", bulk ? singles : mallocs, groups[i], scale);
		if (!bulk)
			continue;
		measure("cache", cache_bulks, groups[i], scale);
		cache = limited;
		measure("limit", singles, groups[i], scale);
		measure("limits", cache_bulks, groups[i], scale);
		cache = plain;
		measure("allocs", allocs, groups[i], scale);
		measure("blocks", blocks, groups[i], scale);
		measure("sized", sized_bulks, groups[i], scale);
	}
	return 0;
}
