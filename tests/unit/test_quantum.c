/* test_quantum.c - the quantum caches serve small multiples of the quantum */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/child.h"
#include "tests/unit/stay.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "vmem/arena.h"
#include "vmem/os.h"

static vmem_t *
arena_make(size_t qcache_max, int vmflag)
{
	vmem_t *arena = vmem_create("ids", (void *)64, 64 * 1000, 64, NULL,
	    NULL, NULL, qcache_max, vmflag);

	ck_assert_ptr_nonnull(arena);
	return arena;
}

static unsigned
ncaches(void)
{
	unsigned n = 0;

	lock_take(&cache_list_lock);
	list_foreach (cache, &cache_list, struct umem_cache, link)
		n += strncmp(cache->name, "ids_", 4) == 0;
	lock_release(&cache_list_lock);
	return n;
}

static const char *
cache_name(vmem_t *arena, size_t size)
{
	return arena_qcache(arena, size)->cache->name;
}

START_TEST(each_multiple_of_the_quantum_has_its_cache)
{
	vmem_t *arena = arena_make(250, VM_SLEEP);

	ck_assert_uint_eq(ncaches(), 4);
	ck_assert_str_eq(cache_name(arena, 1), "ids_64");
	ck_assert_str_eq(cache_name(arena, 65), "ids_128");
	ck_assert_str_eq(cache_name(arena, 256), "ids_256");

	void *a = vmem_alloc(arena, 65, VM_SLEEP);
	void *b = vmem_alloc(arena, 257, VM_SLEEP);

	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 128 + 320);
	vmem_free(arena, a, 65);
	vmem_free(arena, b, 257);
	/* The cache keeps its freed segment. */
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 128);
	umem_reap();
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	a = vmem_alloc(arena, 128, VM_SLEEP);
	vmem_free(arena, a, 65);
	vmem_destroy(arena);
	ck_assert_uint_eq(ncaches(), 0);
}
END_TEST

START_TEST(there_are_sixteen_caches_at_most)
{
	vmem_t *arena = arena_make(SIZE_MAX, VM_SLEEP);

	ck_assert_uint_eq(ncaches(), ARENA_QCACHES);
	ck_assert_str_eq(cache_name(arena, 1024), "ids_1024");
	void *a = vmem_alloc(arena, 64 * 16 + 1, VM_SLEEP);

	vmem_free(arena, a, 64 * 16 + 1);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	vmem_destroy(arena);
}
END_TEST

START_TEST(an_arena_can_do_without_caches)
{
	vmem_t *without = arena_make(256, VMC_NO_QCACHE);
	vmem_t *none = arena_make(0, VM_SLEEP);
	vmem_t *all[] = {without, none};

	ck_assert_uint_eq(ncaches(), 0);
	for (unsigned i = 0; i < array_size(all); i++) {
		void *a = vmem_alloc(all[i], 64, VM_SLEEP);

		ck_assert_ptr_nonnull(a);
		vmem_free(all[i], a, 64);
		ck_assert_uint_eq(vmem_size(all[i], VMEM_ALLOC), 0);
		vmem_destroy(all[i]);
	}
}
END_TEST

START_TEST(constrained_requests_use_no_cache)
{
	vmem_t *arena = arena_make(256, VM_SLEEP);
	void *a = vmem_xalloc(arena, 64, 0, 0, 0, NULL, NULL, VM_SLEEP);

	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 64);
	vmem_xfree(arena, a, 64);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	vmem_destroy(arena);
}
END_TEST

/*
 * Spans that an arena of a larger quantum imports are constrained requests, so
 * their release may not go to a quantum cache of the source either.
 */
START_TEST(aligned_imports_use_no_cache)
{
	vmem_t *source = arena_make(256, VM_SLEEP);
	vmem_t *arena = vmem_create(
	    "child", NULL, 0, 128, vmem_alloc, vmem_free, source, 0, VM_SLEEP);
	void *a = vmem_alloc(arena, 128, VM_SLEEP);

	ck_assert_ptr_nonnull(a);
	vmem_free(arena, a, 128);
	ck_assert_uint_eq(vmem_size(source, VMEM_ALLOC), 0);
	vmem_destroy(arena);
	vmem_destroy(source);
}
END_TEST

START_TEST(a_size_whose_cache_cannot_be_made_goes_to_the_segments)
{
	vmem_t *arenas[200];
	unsigned n = 0;
	void *a;

	/* Some arena exists, but not all of its caches. */
	do {
		arenas[n] = arena_make(0, VM_SLEEP);
		os_fail_nth(1, 1u << 30);
		errno = 77;
		quantum_create(arenas[n], 1024);
		os_fail_nth(0, 0);
		ck_assert_int_eq(errno, 77);
	} while (arenas[n]->qcache_max == 1024 && ++n < array_size(arenas));
	ck_assert_uint_lt(n, array_size(arenas));
	a = vmem_alloc(arenas[n], arenas[n]->qcache_max + 1, VM_SLEEP);
	ck_assert_ptr_nonnull(a);
	vmem_free(arenas[n], a, arenas[n]->qcache_max + 1);
	ck_assert_uint_eq(vmem_size(arenas[n], VMEM_ALLOC), 0);
	do
		vmem_destroy(arenas[n]);
	while (n-- != 0);
}
END_TEST

/* Allocates and frees two segments; the caches keep them. */
static vmem_t *
arena_of_two(void)
{
	vmem_t *arena = vmem_create(
	    "two", (void *)64, 256, 64, NULL, NULL, NULL, 128, VM_SLEEP);
	void *a = vmem_alloc(arena, 128, VM_SLEEP);
	void *b = vmem_alloc(arena, 64, VM_SLEEP);

	ck_assert(a != NULL && b != NULL);
	vmem_free(arena, a, 128);
	vmem_free(arena, b, 64);
	ck_assert_uint_le(vmem_size(arena, VMEM_FREE), 64);
	errno = 77;
	return arena;
}

START_TEST(a_request_that_fails_has_what_caches_keep)
{
	vmem_t *arena = arena_of_two();
	/*
	 * A request too large for the caches, one of vmem_xalloc(), and those
	 * of a size that another cache keeps.
	 */
	void *a = vmem_alloc(arena, 256, VM_SLEEP);

	ck_assert(a != NULL && errno == 77);
	vmem_free(arena, a, 256);
	vmem_destroy(arena);

	arena = arena_of_two();
	a = vmem_xalloc(arena, 256, 0, 0, 0, (void *)64, NULL, VM_SLEEP);
	ck_assert(a != NULL && errno == 77);
	vmem_xfree(arena, a, 256);
	vmem_destroy(arena);

	arena = arena_of_two();
	for (unsigned i = 0; i < 4; i++)
		ck_assert_ptr_nonnull(vmem_alloc(arena, 64, VM_SLEEP));
	ck_assert_int_eq(errno, 77);
	ck_assert_uint_eq(vmem_size(arena, VMEM_FREE), 0);
}
END_TEST

/* A cache that has nothing is no allocation that fails. */
START_TEST(a_request_that_succeeds_reports_no_failure)
{
	vmem_t *arena = arena_of_two();

	debug.checknull = true;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_ptr_nonnull(vmem_alloc(arena, 64, VM_SLEEP));
	ck_assert_ptr_null(vmem_alloc(arena, 64, VM_NOSLEEP));
	debug.checknull = false;
}
END_TEST

START_TEST(enomem_comes_after_all_else_was_tried)
{
	vmem_t *arena = arena_of_two();
	void *a = vmem_alloc(arena, 192, VM_SLEEP);

	ck_assert_ptr_nonnull(a);
	ck_assert_ptr_null(vmem_alloc(arena, 128, VM_SLEEP));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_ptr_null(vmem_alloc(arena, 192, VM_SLEEP));
	ck_assert_uint_eq(arena->stats.nfails, 2);
	vmem_free(arena, a, 192);
	vmem_destroy(arena);
}
END_TEST

START_TEST(an_arena_with_nothing_to_give_panics_if_told_so)
{
	vmem_t *arena = arena_make(256, VM_SLEEP);

	vmem_alloc(arena, 64 * 1000, VM_PANIC);
	vmem_alloc(arena, 64, VM_PANIC);
}
END_TEST

static void
free_nothing(void)
{
	vmem_free(arena_make(64, VM_SLEEP), NULL, 64);
}

static void
free_twice(void)
{
	vmem_t *arena = arena_make(64, VM_SLEEP);
	void *a = vmem_alloc(arena, 64, VM_SLEEP);

	vmem_free(arena, a, 64);
	vmem_free(arena, a, 64);
}

static void
free_twice_apart(void)
{
	vmem_t *arena = arena_make(64, VM_SLEEP);
	void *a = vmem_alloc(arena, 64, VM_SLEEP);
	void *b = vmem_alloc(arena, 64, VM_SLEEP);

	vmem_free(arena, a, 64);
	vmem_free(arena, b, 64);
	vmem_free(arena, a, 64);
	vmem_destroy(arena);
}

static void
leak(void)
{
	vmem_t *arena = arena_make(64, VM_SLEEP);

	vmem_alloc(arena, 64, VM_SLEEP);
	vmem_destroy(arena);
}

/* Without checks, the magazine of one CPU shows the second free. */
START_TEST(misuse_is_reported)
{
	stay_here();
	ck_assert_ptr_nonnull(
	    strstr(child_writes_first(free_nothing), ", 0, 64): bad free\n"));
	ck_assert(child_aborted());
	ck_assert_str_eq(child_writes_first(free_twice),
	    "umem: umem_cache_free(ids_64, 0x40): block freed twice\n");
	ck_assert(child_aborted());
	/* With checks, whatever was freed in between. */
	debug.on = debug.hardened = true;
	ck_assert_str_eq(child_writes_first(free_twice_apart),
	    "umem: umem_cache_free(ids_64, 0x40): block freed twice\n");
	ck_assert(child_aborted());
	ck_assert_ptr_nonnull(strstr(child_writes(leak),
	    "umem: vmem_destroy('ids'): leaked 64 bytes\n"));
	ck_assert(child_exited(0));
}
END_TEST

Suite *
quantum_suite(void)
{
	Suite *suite = suite_create("quantum");
	TCase *tc = tcase_create("quantum");

	tcase_add_test(tc, each_multiple_of_the_quantum_has_its_cache);
	tcase_add_test(tc, there_are_sixteen_caches_at_most);
	tcase_add_test(tc, an_arena_can_do_without_caches);
	tcase_add_test(tc, constrained_requests_use_no_cache);
	tcase_add_test(tc, aligned_imports_use_no_cache);
	tcase_add_test(
	    tc, a_size_whose_cache_cannot_be_made_goes_to_the_segments);
	tcase_add_test(tc, a_request_that_fails_has_what_caches_keep);
	tcase_add_test(tc, a_request_that_succeeds_reports_no_failure);
	tcase_add_test(tc, enomem_comes_after_all_else_was_tried);
	tcase_add_test_raise_signal(
	    tc, an_arena_with_nothing_to_give_panics_if_told_so, SIGABRT);
	tcase_add_test(tc, misuse_is_reported);
	suite_add_tcase(suite, tc);
	return suite;
}
