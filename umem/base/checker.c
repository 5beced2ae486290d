/*
 * checker.c - annotations for valgrind and sanitizers
 *
 * A memory checker may watch a process: valgrind, or the sanitizers that the
 * program is built with.  Checkers know malloc(), but not the library's
 * objects, so the library annotates them.  A cache is a memory pool of
 * memcheck, a block of umem_alloc() is like a block of malloc(), and free
 * memory is poisoned.
 *
 * checker_start() detects a checker when the library starts.  Then there are no
 * magazines and no fast paths, because a stale pointer in a magazine would make
 * a leaked object look referenced, and because the fast paths have no
 * annotations.  Objects of caches get a redzone between them.  Debugged caches
 * (debug.h) check themselves and are not annotated.
 *
 * The sanitizers' functions are weak references, which a program that is built
 * with a sanitizer resolves.  Slabs are registered as root regions, so that the
 * leak sanitizer finds pointers to blocks of malloc() in them, too.
 *
 * The build needs the headers of valgrind.  Otherwise the library would depend
 * on the machine that built it, and memcheck would silently find less.  A
 * library that is itself built with a sanitizer makes no annotations, because
 * its tests are meant for the code that runs without a checker.
 */
#include <valgrind/memcheck.h>

#include "umem/base/checker.h"

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
	/* Memcheck searches no leaks unless there is a block of malloc(). */
	seen = &seed;
	VALGRIND_MALLOCLIKE_BLOCK(seen, 1, 0, 1);
	checker_on = RUNNING_ON_VALGRIND ||
		     __asan_poison_memory_region != NULL ||
		     __msan_poison != NULL;
}

static void
region_poison(void *at, size_t bytes)
{
	if (__asan_poison_memory_region != NULL)
		__asan_poison_memory_region(at, bytes);
	if (__msan_poison != NULL)
		__msan_poison(at, bytes);
}

static void
region_unpoison(void *at, size_t bytes, bool defined)
{
	if (__asan_unpoison_memory_region != NULL)
		__asan_unpoison_memory_region(at, bytes);
	if (defined && __msan_unpoison != NULL)
		__msan_unpoison(at, bytes);
	else if (__msan_poison != NULL)
		__msan_poison(at, bytes);
}

void
checker_pool_create(const void *pool)
{
	VALGRIND_CREATE_MEMPOOL(pool, CHECKER_REDZONE, 0);
}

void
checker_pool_destroy(const void *pool)
{
	VALGRIND_DESTROY_MEMPOOL(pool);
}

void
checker_slab_create(void *at, size_t bytes)
{
	VALGRIND_MAKE_MEM_NOACCESS(at, bytes);
	region_poison(at, bytes);
	if (__lsan_register_root_region != NULL)
		__lsan_register_root_region(at, bytes);
}

void
checker_slab_destroy(void *at, size_t bytes)
{
	if (__lsan_unregister_root_region != NULL)
		__lsan_unregister_root_region(at, bytes);
	VALGRIND_MAKE_MEM_DEFINED(at, bytes);
	region_unpoison(at, bytes, /* defined */ true);
}

void
checker_object(const void *pool, void *object, size_t bytes, bool constructed)
{
	VALGRIND_MEMPOOL_ALLOC(pool, object, bytes);
	if (constructed)
		VALGRIND_MAKE_MEM_DEFINED(object, bytes);
	region_unpoison(object, bytes, constructed);
}

void
checker_object_end(const void *pool, void *object, size_t bytes)
{
	VALGRIND_MEMPOOL_FREE(pool, object);
	region_poison(object, bytes);
}

/*
 * The requests that allocate and free an object of a pool change the state of
 * its bytes, and another thread could run before a further request has restored
 * it.  Therefore these requests are made for an address without memory, and the
 * pool is then told that its object has moved, which changes no state.  Two
 * addresses keep an allocation and a free apart.  Two allocations at a time do
 * no harm, because either object may be the one that moves.
 */
#define NOWHERE_ALLOC ((void *)1024)
#define NOWHERE_FREE  ((void *)2048)

void
checker_stable_object(const void *pool, void *object, size_t bytes)
{
	VALGRIND_MEMPOOL_ALLOC(pool, NOWHERE_ALLOC, 0);
	VALGRIND_MEMPOOL_CHANGE(pool, NOWHERE_ALLOC, object, bytes);
	/* This changes the state at the object's first allocation only. */
	VALGRIND_MAKE_MEM_DEFINED(object, bytes);
	region_unpoison(object, bytes, /* defined */ true);
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
	region_poison(p, room);
	region_unpoison(p, size, zeroed);
}

void
checker_block_end(void *p, size_t room)
{
	VALGRIND_FREELIKE_BLOCK(p, 0);
	region_poison(p, room);
}

void
checker_unpoison(void *at, size_t bytes, bool defined)
{
	if (defined)
		VALGRIND_MAKE_MEM_DEFINED(at, bytes);
	else
		VALGRIND_MAKE_MEM_UNDEFINED(at, bytes);
	region_unpoison(at, bytes, defined);
}

void
checker_poison(void *at, size_t bytes)
{
	VALGRIND_MAKE_MEM_NOACCESS(at, bytes);
	region_poison(at, bytes);
}

/*
 * A request to free makes the bytes inaccessible until the next request.
 * Another thread may read them meanwhile.  Therefore memcheck is told to report
 * no access to them until they are accessible again.
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
