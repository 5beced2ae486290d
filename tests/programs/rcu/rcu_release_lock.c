/*
 * Functions of the program that a free may call take a lock: release() of an
 * import cache with a limit, a destructor under UMEM_DEBUG=guards, and the free
 * function of a source.  A thread that holds the lock may defer frees, also
 * beyond the budget: no such function runs in that thread, and it does not wait
 * for one.  umem_rcu_barrier() waits for them, without the lock.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test env: UMEM_DEBUG=guards
 * test env: UMEM_OPTIONS=rcu_budget=64k
 * test no stderr: not empty
 */
#include "tests/programs/rcu/rcu.h"
#include "vmem/vmem.h"

enum {
	N = 300,
	NLARGE = 500
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool holds_lock;
static umem_cache_t *resources, *objects, *sourced, *plain;
static uint32_t ncalls, nout; /* [atomic] calls of any; resources in use */

static void
take_lock(void)
{
	check(!holds_lock);
	pthread_mutex_lock(&lock);
	holds_lock = true;
}

static void
drop_lock(void)
{
	holds_lock = false;
	pthread_mutex_unlock(&lock);
}

static void
called(void)
{
	take_lock();
	add(&ncalls, 1);
	/* The program may defer there, but waits for nothing. */
	block_free(malloc(100));
	drop_lock();
}

static size_t
import(void *arg, void **store, size_t n, int flags)
{
	static uintptr_t last;

	(void)arg;
	(void)flags;
	for (size_t i = 0; i < n; i++)
		store[i] = (void *)add(&last, 16);
	add(&nout, (uint32_t)n);
	return n;
}

static void
release(void *arg, void *const *store, size_t n)
{
	(void)arg;
	(void)store;
	called();
	add(&nout, -(uint32_t)n);
}

static void
destruct(void *object, void *arg)
{
	(void)object;
	(void)arg;
	called();
}

static void *
source_alloc(vmem_t *source, size_t size, int flags)
{
	return vmem_alloc(source, size, flags);
}

static void
source_free(vmem_t *source, void *p, size_t size)
{
	take_lock();
	add(&ncalls, 1);
	drop_lock();
	vmem_free(source, p, size);
}

static void
defer_n(umem_cache_t *cache, unsigned n)
{
	void *p[NLARGE];

	for (unsigned i = 0; i < n; i++)
		check((p[i] = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	for (unsigned i = 0; i < n; i++)
		object_free(cache, p[i]);
}

static void
defer_with_calls(void)
{
	defer_n(resources, N);
	defer_n(objects, N);
	defer_n(sourced, N);
}

static void
run(void)
{
	vmem_t *heap = vmem_heap_arena(NULL, NULL);
	vmem_t *source = vmem_create("source", NULL, 0, 4096, source_alloc,
	    source_free, heap, 0, VM_SLEEP);
	uint32_t before;

	check(source != NULL);
	resources =
	    umem_import_cache_create("resources", import, release, NULL, 8, 0);
	objects = umem_cache_create(
	    "objects", 100, 0, NULL, destruct, NULL, NULL, NULL, 0);
	sourced = umem_cache_create(
	    "sourced", 1000, 0, NULL, NULL, NULL, NULL, source, 0);
	plain = umem_cache_create(
	    "plain", 4096, 0, NULL, NULL, NULL, NULL, NULL, 0);
	check(resources != NULL && objects != NULL && sourced != NULL &&
	      plain != NULL);
	take_lock();
	for (int i = 0; i < 3; i++) {
		/* Some frees beyond the budget, before and in the functions. */
		defer_with_calls();
		defer_n(plain, NLARGE);
		usleep(20000);
		defer_n(plain, NLARGE);
	}
	before = load(&ncalls);
	drop_lock();
	check(before == 0);
	barrier();
	check(load(&ncalls) > 0 && load(&nout) <= 8);
	for (int i = 0; i < 3; i++) {
		defer_with_calls();
		barrier();
		check(load(&nout) <= 8);
	}
	umem_cache_destroy(resources);
	check(load(&nout) == 0);
	umem_cache_destroy(objects);
	umem_cache_destroy(sourced);
	umem_cache_destroy(plain);
	barrier();
	vmem_destroy(source);
}
