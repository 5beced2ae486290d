/*
 * checker.c - what valgrind and sanitizers are told
 *
 * A process may be watched from outside: by valgrind, or by the sanitizers
 * that its program is built with.  They know malloc(), but not our objects.
 * So they are told: a cache is a pool to memcheck, a block of umem_alloc() is
 * like one of malloc(), and what is free is poisoned.
 *
 * It is found out when the library starts.  Then there are no magazines and
 * no fast paths: a stale pointer in a magazine would make a leaked object
 * look as if somebody had it, and the fast paths tell nobody.  Objects of
 * caches get room between them.  Debugged caches (debug.h) check themselves,
 * and are not told of.
 *
 * The sanitizers' functions are weak references, which a program that is
 * built with one resolves.  Leak sanitizer looks for pointers to blocks of
 * malloc() in our slabs, too: they are root regions.
 *
 * The headers of valgrind are needed to build.  Otherwise the library would
 * depend on the machine that built it, and memcheck would silently find less.
 * A library that is itself built with a sanitizer tells none: its tests are
 * of what runs without.
 */
#include <valgrind/memcheck.h>

#include "umem/checker.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILT_WITH_SANITIZER true
#else
#define BUILT_WITH_SANITIZER false
#endif

#define weak __attribute__((weak))

extern void __asan_poison_memory_region(const volatile void *, size_t) weak;
extern void __asan_unpoison_memory_region(const volatile void *, size_t) weak;
extern void __msan_poison(const volatile void *, size_t) weak;
extern void __msan_unpoison(const volatile void *, size_t) weak;
extern void __lsan_register_root_region(const void *, size_t) weak;
extern void __lsan_unregister_root_region(const void *, size_t) weak;

bool checker_on;

void
checker_start(void)
{
	static char seed, *volatile seen;

	if (BUILT_WITH_SANITIZER)
		return;
	/* Without a block of malloc(), memcheck looks for no leak at all. */
	seen = &seed;
	VALGRIND_MALLOCLIKE_BLOCK(seen, 1, 0, 1);
	checker_on = RUNNING_ON_VALGRIND ||
		     __asan_poison_memory_region != NULL ||
		     __msan_poison != NULL;
}

static void
shut(void *at, size_t bytes)
{
	if (__asan_poison_memory_region != NULL)
		__asan_poison_memory_region(at, bytes);
	if (__msan_poison != NULL)
		__msan_poison(at, bytes);
}

static void
allow(void *at, size_t bytes, bool defined)
{
	if (__asan_unpoison_memory_region != NULL)
		__asan_unpoison_memory_region(at, bytes);
	if (defined && __msan_unpoison != NULL)
		__msan_unpoison(at, bytes);
	else if (__msan_poison != NULL)
		__msan_poison(at, bytes);
}

void
checker_pool(const void *pool)
{
	VALGRIND_CREATE_MEMPOOL(pool, CHECKER_REDZONE, 0);
}

void
checker_pool_end(const void *pool)
{
	VALGRIND_DESTROY_MEMPOOL(pool);
}

void
checker_slab(void *at, size_t bytes)
{
	VALGRIND_MAKE_MEM_NOACCESS(at, bytes);
	shut(at, bytes);
	if (__lsan_register_root_region != NULL)
		__lsan_register_root_region(at, bytes);
}

void
checker_slab_end(void *at, size_t bytes)
{
	if (__lsan_unregister_root_region != NULL)
		__lsan_unregister_root_region(at, bytes);
	VALGRIND_MAKE_MEM_DEFINED(at, bytes);
	allow(at, bytes, /* defined */ true);
}

void
checker_object(const void *pool, void *object, size_t bytes, bool constructed)
{
	VALGRIND_MEMPOOL_ALLOC(pool, object, bytes);
	if (constructed)
		VALGRIND_MAKE_MEM_DEFINED(object, bytes);
	allow(object, bytes, constructed);
}

void
checker_object_end(const void *pool, void *object, size_t bytes)
{
	VALGRIND_MEMPOOL_FREE(pool, object);
	shut(object, bytes);
}

/*
 * The requests to allocate and to free an object of a pool change the state of
 * its bytes, and another thread could run before a further request has mended
 * it.  Therefore these are made for an address where no memory is, and the pool
 * is told that its object has moved, which changes no state.  Two addresses
 * keep an allocation and a free apart; two allocations at once do no harm,
 * because either object may move.
 */
#define NOWHERE_ALLOC ((void *)1024)
#define NOWHERE_FREE  ((void *)2048)

void
checker_stable_object(const void *pool, void *object, size_t bytes)
{
	VALGRIND_MEMPOOL_ALLOC(pool, NOWHERE_ALLOC, 0);
	VALGRIND_MEMPOOL_CHANGE(pool, NOWHERE_ALLOC, object, bytes);
	/* No change but for the first allocation of the object. */
	VALGRIND_MAKE_MEM_DEFINED(object, bytes);
	allow(object, bytes, /* defined */ true);
}

void
checker_stable_object_end(const void *pool, void *object)
{
	VALGRIND_MEMPOOL_CHANGE(pool, object, NOWHERE_FREE, 0);
	VALGRIND_MEMPOOL_FREE(pool, NOWHERE_FREE);
}

void
checker_block(void *p, size_t size, size_t room, bool zeroed)
{
	VALGRIND_MAKE_MEM_NOACCESS(p, room);
	VALGRIND_MALLOCLIKE_BLOCK(p, size, 0, zeroed);
	shut(p, room);
	allow(p, size, zeroed);
}

void
checker_block_end(void *p, size_t room)
{
	VALGRIND_FREELIKE_BLOCK(p, 0);
	shut(p, room);
}

void
checker_open(void *at, size_t bytes, bool defined)
{
	if (defined)
		VALGRIND_MAKE_MEM_DEFINED(at, bytes);
	else
		VALGRIND_MAKE_MEM_UNDEFINED(at, bytes);
	allow(at, bytes, defined);
}

void
checker_close(void *at, size_t bytes)
{
	VALGRIND_MAKE_MEM_NOACCESS(at, bytes);
	shut(at, bytes);
}

/*
 * A request to free makes the bytes inaccessible for a moment, in which another
 * thread may read them.  Until they are accessible again, memcheck reports no
 * access to them.
 */
void
checker_object_defer(const void *pool, void *object, size_t bytes)
{
	VALGRIND_DISABLE_ADDR_ERROR_REPORTING_IN_RANGE(object, bytes);
	VALGRIND_MEMPOOL_FREE(pool, object);
	VALGRIND_MAKE_MEM_DEFINED(object, bytes);
	VALGRIND_ENABLE_ADDR_ERROR_REPORTING_IN_RANGE(object, bytes);
}

void
checker_block_defer(void *p, size_t room)
{
	VALGRIND_DISABLE_ADDR_ERROR_REPORTING_IN_RANGE(p, room);
	VALGRIND_FREELIKE_BLOCK(p, 0);
	VALGRIND_MAKE_MEM_DEFINED(p, room);
	VALGRIND_ENABLE_ADDR_ERROR_REPORTING_IN_RANGE(p, room);
}
