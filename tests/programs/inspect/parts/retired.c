/*
 * retired.c - slabs that wait for a grace period, which a reader lets not end
 *
 * With an argument the slabs are of a source, otherwise of the heap.
 */
#define URCU_API_MAP
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <urcu/urcu-memb.h>

#include <umem.h>
#include <umem_rcu.h>
#include "vmem/vmem.h"

#define N    1000
#define MORE 1000 /* a slab has fewer objects */
#define MOST 100000
#define SIZE 200

static void *first[N], *again[MOST];

static int
by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

static void
fill(umem_cache_t *cache, void **object, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((object[i] = umem_cache_alloc(cache, UMEM_DEFAULT)) == NULL)
			abort();
	qsort(object, n, sizeof(object[0]), by_address);
}

static void
empty(umem_cache_t *cache, void **object, size_t n)
{
	for (size_t i = 0; i < n; i++)
		umem_cache_free(cache, object[i]);
	umem_cache_reap_now(cache);
}

/* One of the first objects that is not among n others, or NULL. */
static void *
missing(size_t n)
{
	for (int i = 0; i < N; i++)
		if (bsearch(&first[i], again, n, sizeof(again[0]),
			by_address) == NULL)
			return first[i];
	return NULL;
}

/*
 * Returns a free object of a retired slab: more objects than all slabs can
 * have had before do not include it.
 */
static void *
retire(umem_cache_t *cache)
{
	size_t n = N;

	fill(cache, first, n);
	empty(cache, first, n);
	while ((n += MORE) <= MOST) {
		void *p;

		usleep(5000);
		fill(cache, again, n);
		p = missing(n);
		empty(cache, again, n);
		if (p != NULL)
			return p;
	}
	abort();
}

int
main(int argc, char **argv)
{
	size_t bytes = 128 << 20;
	umem_cache_t *cache;
	vmem_t *source = NULL;
	char c;

	if (argc > 1)
		source = vmem_create("mapped",
		    mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		    bytes, 65536, NULL, NULL, NULL, 0, VM_NOSLEEP);
	cache = umem_cache_create("stable", SIZE, 0, NULL, NULL, NULL, NULL,
	    source, UMC_TYPESAFE_BY_RCU | UMC_NOMAGAZINE);
	rcu_register_thread();
	rcu_read_lock();
	if (umem_cache_rcu(cache) != 0)
		abort();
	printf("object %lx\nready\n", (unsigned long)retire(cache));
	fflush(stdout);
	read(0, &c, 1);
	rcu_read_unlock();
	rcu_unregister_thread();
	return 0;
}
