/* test_arena.c - the public arena, its sources, failures and misuse */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/child.h"
#include "tests/unit/second.h"
#include "vmem/arena_inner.h"
#include "vmem/arenas.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define P(x) ((void *)(uintptr_t)(x))
#define A(p) ((uintptr_t)(p))

static vmem_t *
arena_make(uintptr_t base, size_t size, size_t quantum)
{
	vmem_t *arena = vmem_create(
	    "test", P(base), size, quantum, NULL, NULL, NULL, 0, VM_SLEEP);

	ck_assert_ptr_nonnull(arena);
	return arena;
}

static vmem_t *
child_make(vmem_t *parent, size_t quantum)
{
	vmem_t *arena = vmem_create("child", NULL, 0, quantum, vmem_alloc,
	    vmem_free, parent, 0, VM_SLEEP);

	ck_assert_ptr_nonnull(arena);
	return arena;
}

START_TEST(segments_are_disjoint_and_rounded_to_the_quantum)
{
	vmem_t *arena = arena_make(4096, 64 * 100, 64);
	void *all[100];

	for (int i = 0; i < 100; i++) {
		all[i] = vmem_alloc(arena, 1 + i % 64, VM_SLEEP);
		ck_assert_uint_eq(A(all[i]), 4096 + 64 * (uintptr_t)i);
	}
	errno = 0;
	ck_assert_ptr_null(vmem_alloc(arena, 1, VM_SLEEP));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_eq(arena->stats.nfails, 1);
	for (int i = 0; i < 100; i++)
		vmem_free(arena, all[i], 1 + i % 64);
	ck_assert(arena_check(arena));
	ck_assert_uint_eq(arena->free.nsegs, 1);
	ck_assert_ptr_nonnull(vmem_alloc(arena, 6400, VM_SLEEP));
}
END_TEST

START_TEST(a_freed_segment_comes_back_for_its_size)
{
	vmem_t *arena = arena_make(1, 1000000, 1);
	void *a = vmem_alloc(arena, 7, VM_SLEEP);
	void *wall = vmem_alloc(arena, 1, VM_SLEEP);
	void *b = vmem_alloc(arena, 7, VM_SLEEP);

	ck_assert_ptr_nonnull(vmem_alloc(arena, 1, VM_SLEEP));
	vmem_free(arena, a, 7);
	vmem_free(arena, b, 7);
	ck_assert_ptr_eq(vmem_alloc(arena, 7, VM_SLEEP), b);
	ck_assert_ptr_eq(vmem_alloc(arena, 7, VM_SLEEP), a);
	vmem_free(arena, wall, 1);
	ck_assert_ptr_eq(vmem_alloc(arena, 1, VM_SLEEP), wall);
}
END_TEST

/*
 * Allocates a row of four segments, then frees the first three in each order.
 * The fourth segment stays allocated.
 */
START_TEST(free_neighbours_become_one_in_any_order)
{
	static const int orders[6][3] = {
	    {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	vmem_t *arena = arena_make(1, 1000, 1);
	void *row[4];

	for (int i = 0; i < 4; i++)
		row[i] = vmem_alloc(arena, 10, VM_SLEEP);
	for (int i = 0; i < 3; i++) {
		vmem_free(arena, row[orders[_i][i]], 10);
		ck_assert(arena_check(arena));
	}
	ck_assert_uint_eq(arena->free.nsegs, 2);
	ck_assert_ptr_eq(vmem_alloc(arena, 30, VM_SLEEP), row[0]);
}
END_TEST

START_TEST(spans_added_by_hand_are_used_and_never_joined)
{
	vmem_t *arena =
	    vmem_create("test", NULL, 0, 1, NULL, NULL, NULL, 0, VM_SLEEP);

	ck_assert_ptr_null(vmem_alloc(arena, 1, VM_SLEEP));
	ck_assert_ptr_eq(vmem_add(arena, P(200), 100, VM_SLEEP), P(200));
	ck_assert_ptr_eq(vmem_add(arena, P(100), 100, VM_SLEEP), P(100));
	ck_assert_ptr_null(vmem_alloc(arena, 101, VM_SLEEP));
	ck_assert_ptr_eq(vmem_alloc(arena, 100, VM_FIRSTFIT), P(100));
	ck_assert_ptr_eq(vmem_alloc(arena, 100, VM_FIRSTFIT), P(200));
	vmem_free(arena, P(100), 100);
	vmem_free(arena, P(200), 100);
	ck_assert(arena_check(arena));
	ck_assert_uint_eq(arena->free.nsegs, 2);
	ck_assert_uint_eq(arena->nspans, 2);
}
END_TEST

START_TEST(bad_spans_are_einval)
{
	vmem_t *arena = arena_make(6400, 6400, 64);
	static const struct {
		uintptr_t addr;
		size_t size;
	} bad[] = {
	    {0, 64},
	    {64, 0},
	    {65, 64},
	    {64, 65},
	    {6400, 6400},
	    {6336, 128},
	    {12736, 64},
	    {6464, 64},
	    {64, 64 * 1000},
	    {-(uintptr_t)64, 128},
	    {64, -(size_t)64 + 64},
	};

	for (unsigned i = 0; i < array_size(bad); i++) {
		errno = 0;
		ck_assert_ptr_null(
		    vmem_add(arena, P(bad[i].addr), bad[i].size, VM_SLEEP));
		ck_assert_int_eq(errno, EINVAL);
	}
	/*
	 * Spans that touch others, and spans at both ends of the address space.
	 */
	ck_assert_ptr_nonnull(vmem_add(arena, P(6336), 64, VM_SLEEP));
	ck_assert_ptr_nonnull(vmem_add(arena, P(12800), 64, VM_SLEEP));
	ck_assert_ptr_nonnull(vmem_add(arena, P(-(uintptr_t)64), 64, VM_SLEEP));
	ck_assert_ptr_nonnull(vmem_add(arena, P(64), 64, VM_SLEEP));
	ck_assert(arena_check(arena));
}
END_TEST

START_TEST(bad_arguments_of_create_are_einval)
{
	static const struct {
		const char *name;
		uintptr_t base;
		size_t size, quantum;
		int vmflag;
	} bad[] = {
	    {NULL, 0, 0, 1, 0},
	    {"x", 0, 0, 0, 0},
	    {"x", 0, 0, 24, 0},
	    {"x", 0, 100, 1, 0},
	    {"x", 65, 64, 64, 0},
	    {"x", 64, 65, 64, 0},
	    {"x", UINTPTR_MAX, 2, 1, 0},
	    {"x", 1, 1, 1, VM_BESTFIT | VM_NEXTFIT},
	};

	for (unsigned i = 0; i < array_size(bad); i++) {
		errno = 0;
		ck_assert_ptr_null(
		    vmem_create(bad[i].name, P(bad[i].base), bad[i].size,
			bad[i].quantum, NULL, NULL, NULL, 0, bad[i].vmflag));
		ck_assert_int_eq(errno, EINVAL);
	}
}
END_TEST

START_TEST(a_long_name_is_cut)
{
	vmem_t *arena = vmem_create("0123456789012345678901234567890123456789",
	    P(1), 1, 1, NULL, NULL, NULL, 0, VM_SLEEP);

	ck_assert_str_eq(arena->name, "0123456789012345678901234567890");
	vmem_destroy(arena);
}
END_TEST

START_TEST(size_zero_and_two_policies_are_einval)
{
	vmem_t *arena = arena_make(64, 6400, 64);

	errno = 0;
	ck_assert_ptr_null(vmem_alloc(arena, 0, VM_SLEEP));
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_ptr_null(vmem_alloc(arena, 64, VM_BESTFIT | VM_NEXTFIT));
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_ptr_null(vmem_alloc(arena, SIZE_MAX, VM_SLEEP));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
}
END_TEST

START_TEST(success_keeps_errno)
{
	vmem_t *parent = arena_make(4096, 4096 * 10, 4096);
	vmem_t *child = child_make(parent, 16);

	errno = 77;
	for (int round = 0; round < 2; round++) {
		void *a = vmem_alloc(child, 5000, VM_SLEEP);

		ck_assert_ptr_nonnull(a);
		vmem_free(child, a, 5000);
	}
	ck_assert_int_eq(errno, 77);
	/*
	 * The import fails, and the arena's own free memory serves the request.
	 */
	ck_assert_ptr_nonnull(vmem_alloc(parent, 4096 * 8, VM_SLEEP));
	void *a = vmem_alloc(child, 4096 * 2, VM_SLEEP);

	ck_assert_ptr_nonnull(a);
	ck_assert_int_eq(errno, 77);
}
END_TEST

START_TEST(best_first_and_next_fit_choose_as_they_say)
{
	vmem_t *arena = arena_make(1000, 1000, 1);
	void *a = vmem_alloc(arena, 30, VM_SLEEP); /* 1000 */
	void *w1 = vmem_alloc(arena, 1, VM_SLEEP);
	void *b = vmem_alloc(arena, 20, VM_SLEEP); /* 1031 */
	void *w2 = vmem_alloc(arena, 1, VM_SLEEP);
	void *c = vmem_alloc(arena, 20, VM_SLEEP); /* 1052 */

	ck_assert_ptr_nonnull(vmem_alloc(arena, 1, VM_SLEEP));
	vmem_free(arena, c, 20);
	vmem_free(arena, b, 20);
	vmem_free(arena, a, 30);
	ck_assert_ptr_eq(vmem_alloc(arena, 18, VM_FIRSTFIT), a);
	vmem_free(arena, a, 18);
	void *best = vmem_alloc(arena, 18, VM_BESTFIT);

	ck_assert(best == b || best == c);
	vmem_free(arena, best, 18);
	/* Next fit does not return the segment that was freed last. */
	void *n1 = vmem_alloc(arena, 10, VM_NEXTFIT);

	vmem_free(arena, n1, 10);
	void *n2 = vmem_alloc(arena, 10, VM_NEXTFIT);

	ck_assert_uint_eq(A(n2), A(n1) + 10);
	ck_assert_ptr_nonnull(w1);
	ck_assert_ptr_nonnull(w2);
}
END_TEST

START_TEST(first_fit_finds_the_lowest_of_few_and_of_many_holes)
{
	static const unsigned counts[] = {20, 2000};
	static void *hole[2000];

	for (int i = 0; i < 2; i++) {
		unsigned n = counts[i];
		vmem_t *arena = arena_make(1000, 10000, 1);

		/* Holes of one unit, but two of them have two units. */
		for (unsigned j = 0; j < n; j++) {
			size_t size = j == 7 || j == n - 3 ? 2 : 1;

			hole[j] = vmem_alloc(arena, size, VM_FIRSTFIT);
			vmem_alloc(arena, 1, VM_FIRSTFIT);
		}
		for (unsigned j = n; j-- > 0;)
			vmem_free(arena, hole[j], j == 7 || j == n - 3 ? 2 : 1);
		ck_assert_ptr_eq(vmem_alloc(arena, 2, VM_FIRSTFIT), hole[7]);
		ck_assert_ptr_eq(
		    vmem_alloc(arena, 2, VM_FIRSTFIT), hole[n - 3]);
		ck_assert_ptr_eq(vmem_alloc(arena, 1, VM_FIRSTFIT), hole[0]);
		ck_assert_ptr_eq(vmem_alloc(arena, 1, VM_FIRSTFIT), hole[1]);
	}
}
END_TEST

START_TEST(next_fit_goes_once_around_all_identifiers)
{
	vmem_t *arena = vmem_create("ids", P(1), 100, 1, NULL, NULL, NULL, 0,
	    VM_NEXTFIT | VMC_IDENTIFIER);

	for (int round = 0; round < 3; round++) {
		for (uintptr_t id = 1; id <= 100; id++) {
			void *got = vmem_alloc(arena, 1, VM_SLEEP);

			ck_assert_uint_eq(A(got), id);
			vmem_free(arena, got, 1);
		}
	}
	ck_assert(arena_check(arena));
	vmem_destroy(arena);
}
END_TEST

START_TEST(an_arena_has_a_policy_of_its_own)
{
	vmem_t *arena = vmem_create(
	    "test", P(1), 1000, 1, NULL, NULL, NULL, 0, VM_SLEEP | VM_FIRSTFIT);
	void *a = vmem_alloc(arena, 10, VM_BESTFIT);

	ck_assert_ptr_nonnull(vmem_alloc(arena, 1, VM_SLEEP));
	void *b = vmem_alloc(arena, 10, VM_SLEEP);

	ck_assert_ptr_nonnull(vmem_alloc(arena, 1, VM_SLEEP));
	vmem_free(arena, a, 10);
	vmem_free(arena, b, 10);
	/* Instant fit would take b, the segment freed last. */
	ck_assert_ptr_eq(vmem_alloc(arena, 10, VM_SLEEP), a);
}
END_TEST

/* ---- imports ---- */

START_TEST(spans_are_imported_and_go_back_when_free)
{
	vmem_t *parent = arena_make(4096, 4096 * 100, 4096);
	vmem_t *child = child_make(parent, 16);
	void *a = vmem_alloc(child, 100, VM_SLEEP);
	void *b = vmem_alloc(child, 100, VM_SLEEP);

	/*
	 * One import, rounded up to the source's quantum, serves both
	 * allocations.
	 */
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 4096);
	ck_assert_uint_eq(vmem_size(child, VMEM_ALLOC | VMEM_FREE), 4096);
	ck_assert_uint_eq(child->stats.imported, 4096);
	void *c = vmem_alloc(child, 10000, VM_SLEEP);

	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 4096 * 4);
	vmem_free(child, a, 100);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 4096 * 4);
	vmem_free(child, b, 100);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 4096 * 3);
	vmem_free(child, c, 10000);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 0);
	ck_assert_uint_eq(child->nspans, 0);
	ck_assert(arena_check(child) && arena_check(parent));
	vmem_destroy(child);
	vmem_destroy(parent);
}
END_TEST

START_TEST(a_source_of_a_smaller_quantum_is_asked_for_aligned_spans)
{
	vmem_t *parent = arena_make(16, 1 << 20, 16);
	vmem_t *child = child_make(parent, 4096);

	ck_assert_ptr_nonnull(vmem_alloc(parent, 48, VM_SLEEP));
	for (int i = 0; i < 10; i++) {
		void *a = vmem_alloc(child, 4096, VM_SLEEP);

		ck_assert_ptr_nonnull(a);
		ck_assert_uint_eq(A(a) % 4096, 0);
		vmem_free(child, a, 4096);
	}
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 48);
}
END_TEST

START_TEST(constraints_are_met_by_imports_too)
{
	vmem_t *parent = arena_make(4096, 4096 * 1000, 4096);
	vmem_t *child = child_make(parent, 16);

	for (size_t align = 16; align <= 1 << 18; align *= 2) {
		void *a = vmem_xalloc(child, 100, align, align / 2 & ~15ul,
		    align > 4096 ? align : 0, NULL, NULL, VM_SLEEP);

		ck_assert_ptr_nonnull(a);
		ck_assert_uint_eq(A(a) % align, align / 2 & ~15ul);
		vmem_xfree(child, a, 100);
		ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 0);
	}
	errno = 0;
	ck_assert_ptr_null(
	    vmem_xalloc(child, 16, 0, 0, 0, P(4096), NULL, VM_SLEEP));
	ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

/*
 * Imports spans that start at a multiple of 64, but not of the source's quantum
 * of 4096 bytes.
 */
static void *
import_shifted(vmem_t *source, size_t size, int vmflag)
{
	char *span = vmem_alloc(source, size + 4096, vmflag);

	return span == NULL ? NULL : span + 64;
}

static void
release_shifted(vmem_t *source, void *addr, size_t size)
{
	vmem_free(source, (char *)addr - 64, size + 4096);
}

START_TEST(imports_are_aligned_as_the_arena_not_as_its_source)
{
	vmem_t *source = arena_make(4096, 4096 * 4096, 4096);
	vmem_t *arena = vmem_create("shifted", NULL, 0, 64, import_shifted,
	    release_shifted, source, 0, VM_NOSLEEP);

	for (size_t align = 64; align <= 16384; align *= 2) {
		void *p = vmem_xalloc(
		    arena, 4096, align, 0, 0, NULL, NULL, VM_NOSLEEP);

		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq((uintptr_t)p % align, 0);
		vmem_xfree(arena, p, 4096);
	}
	ck_assert_uint_eq(vmem_size(source, VMEM_ALLOC), 0);
}
END_TEST

START_TEST(without_import_every_segment_is_searched_before_failing)
{
	vmem_t *arena = arena_make(1, 7 * 100, 1);
	void *seven = vmem_alloc(arena, 7, VM_SLEEP);
	void *small[40];

	for (int i = 0; i < 40; i++) {
		ck_assert_ptr_nonnull(vmem_alloc(arena, 1, VM_SLEEP));
		small[i] = vmem_alloc(arena, 4, VM_SLEEP);
	}
	ck_assert_ptr_nonnull(vmem_alloc(arena, 1, VM_SLEEP));
	while (vmem_alloc(arena, 1, VM_SLEEP) != NULL)
		;
	vmem_free(arena, seven, 7);
	for (int i = 0; i < 40; i++)
		vmem_free(arena, small[i], 4);
	ck_assert_ptr_eq(vmem_alloc(arena, 6, VM_SLEEP), seven);
}
END_TEST

static unsigned nximports;
static size_t ximport_align;

static void *
ximport(vmem_t *source, size_t *size, size_t align, int vmflag)
{
	nximports++;
	ximport_align = align;
	*size = align_up(*size, 65536);
	return vmem_xalloc(source, *size, align, 0, 0, NULL, NULL, vmflag);
}

START_TEST(an_ximport_may_enlarge_the_request)
{
	vmem_t *parent = arena_make(4096, 1 << 24, 4096);
	vmem_t *child = vmem_xcreate(
	    "child", NULL, 0, 16, ximport, vmem_xfree, parent, 0, VMC_XALIGN);
	void *all[16];

	for (int i = 0; i < 16; i++) {
		all[i] = vmem_alloc(child, 4096, VM_SLEEP);
		ck_assert_ptr_nonnull(all[i]);
	}
	ck_assert_uint_eq(nximports, 1);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 65536);

	void *big =
	    vmem_xalloc(child, 65536, 1 << 20, 0, 0, NULL, NULL, VM_SLEEP);

	ck_assert_uint_eq(A(big) % (1 << 20), 0);
	ck_assert_uint_eq(ximport_align, 1 << 20);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 2 * 65536);
	vmem_xfree(child, big, 65536);
	for (int i = 0; i < 16; i++)
		vmem_free(child, all[i], 4096);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 0);
	vmem_destroy(child);
	vmem_destroy(parent);
}
END_TEST

/* Aligns to the quantum of the importing arena, and no more. */
static void *
ximport_from_pool(vmem_t *source, size_t *size, size_t align, int vmflag)
{
	static char pool[1 << 16] __attribute__((aligned(4096)));
	static size_t used = 64;
	char *at = pool + used;

	(void)source, (void)align, (void)vmflag;
	if (*size > sizeof(pool) - used)
		return NULL;
	used += *size;
	return at;
}

static void
keep_in_pool(vmem_t *source, void *at, size_t size)
{
	(void)source, (void)at, (void)size;
}

START_TEST(an_ximport_need_not_align_to_the_quantum_of_its_source)
{
	vmem_t *parent = arena_make(4096, 1 << 24, 4096);
	vmem_t *child = vmem_xcreate("child", NULL, 0, 64, ximport_from_pool,
	    keep_in_pool, parent, 0, VM_NOSLEEP);
	void *at = vmem_xalloc(child, 4096, 4096, 0, 0, NULL, NULL, VM_NOSLEEP);

	ck_assert_ptr_nonnull(at);
	ck_assert_uint_eq(A(at) % 4096, 0);
	vmem_xfree(child, at, 4096);
	vmem_destroy(child);
	vmem_destroy(parent);
}
END_TEST

static void *
import_misaligned(vmem_t *source, size_t size, int vmflag)
{
	(void)source, (void)size, (void)vmflag;
	return P(4097);
}

START_TEST(a_misaligned_import_panics)
{
	vmem_t *arena = vmem_create(
	    "bad", NULL, 0, 4096, import_misaligned, NULL, NULL, 0, VM_SLEEP);

	vmem_alloc(arena, 4096, VM_SLEEP);
}
END_TEST

static sigjmp_buf after_panic;

static void
leave_panic(int signal)
{
	(void)signal;
	siglongjmp(after_panic, 1);
}

/* A program that leaves a panic by longjmp() can use the arena. */
START_TEST(a_panic_holds_no_lock)
{
	vmem_t *arena = vmem_create("bad", P(64), 64, 64,
	    _i == 0 ? import_misaligned : NULL, NULL, NULL, 0, VM_SLEEP);

	signal(SIGABRT, leave_panic);
	if (sigsetjmp(after_panic, /* savesigs */ 1) == 0) {
		if (_i == 0)
			vmem_alloc(arena, 4096, VM_SLEEP);
		else
			vmem_free(arena, P(64), 64);
		ck_abort_msg("no panic");
	}
	ck_assert_uint_eq(arena->lock.state, 0);
	ck_assert_ptr_eq(vmem_alloc(arena, 64, VM_SLEEP), P(64));
}
END_TEST

/* The import function uses the arena for which it imports. */
static vmem_t *reentered;

static void *
import_reentrant(vmem_t *source, size_t size, int vmflag)
{
	ck_assert_uint_eq(vmem_size(reentered, VMEM_ALLOC), 0);
	return vmem_alloc(source, size, vmflag);
}

static void
release_reentrant(vmem_t *source, void *addr, size_t size)
{
	ck_assert(!vmem_contains(reentered, addr, size));
	vmem_free(source, addr, size);
}

START_TEST(no_lock_is_held_while_the_source_is_called)
{
	vmem_t *parent = arena_make(64, 6400, 64);

	reentered = vmem_create("child", NULL, 0, 64, import_reentrant,
	    release_reentrant, parent, 0, VM_SLEEP);
	void *a = vmem_alloc(reentered, 64, VM_SLEEP);

	ck_assert_ptr_nonnull(a);
	vmem_free(reentered, a, 64);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 0);
}
END_TEST

/* Does not align the span as VMC_XALIGN promises. */
static void *
ximport_unaligned(vmem_t *source, size_t *size, size_t align, int vmflag)
{
	(void)source, (void)size, (void)align, (void)vmflag;
	return P(64);
}

/* Other threads may do so meanwhile: add a span, and use up all tags. */
static void
release_and_use_tags(vmem_t *source, void *addr, size_t size)
{
	(void)source, (void)addr, (void)size;
	ck_assert_ptr_nonnull(vmem_add(reentered, P(4096), 8192, VM_SLEEP));
	segment_reserve_free(&reentered->reserve);
}

START_TEST(tags_that_are_used_up_during_a_release_are_replaced)
{
	reentered = vmem_xcreate("child", NULL, 0, 64, ximport_unaligned,
	    release_and_use_tags, NULL, 0, VMC_XALIGN);
	ck_assert_ptr_eq(
	    vmem_xalloc(reentered, 64, 4096, 0, 0, NULL, NULL, VM_SLEEP),
	    P(4096));
	ck_assert(arena_check(reentered));
	ck_assert_uint_eq(vmem_size(reentered, VMEM_FREE), 8192 - 64);
}
END_TEST

/* ---- queries ---- */

START_TEST(contains_knows_the_borders_of_spans)
{
	vmem_t *arena = arena_make(100, 100, 1);

	vmem_add(arena, P(200), 50, VM_SLEEP);
	vmem_add(arena, P(UINTPTR_MAX), 1, VM_SLEEP);
	ck_assert(vmem_contains(arena, P(100), 1));
	ck_assert(vmem_contains(arena, P(100), 100));
	ck_assert(!vmem_contains(arena, P(100), 101));
	ck_assert(!vmem_contains(arena, P(99), 2));
	ck_assert(!vmem_contains(arena, P(99), 1));
	ck_assert(vmem_contains(arena, P(249), 1));
	ck_assert(!vmem_contains(arena, P(250), 1));
	ck_assert(!vmem_contains(arena, P(100), 0));
	ck_assert(!vmem_contains(arena, P(100), SIZE_MAX));
	ck_assert(vmem_contains(arena, P(UINTPTR_MAX), 1));
	ck_assert(!vmem_contains(arena, P(UINTPTR_MAX), 2));
}
END_TEST

struct seen {
	vmem_t *arena;
	unsigned n;
	uintptr_t sum;
	uintptr_t last;
};

static void
see(void *arg, void *start, size_t size)
{
	struct seen *seen = arg;

	seen->n++;
	seen->sum += size;
	ck_assert_uint_ge(A(start), seen->last);
	seen->last = A(start);
}

START_TEST(a_walk_sees_what_it_asks_for_in_order)
{
	vmem_t *arena = arena_make(1000, 1000, 8);
	struct seen seen = {.n = 0};

	vmem_add(arena, P(8), 96, VM_SLEEP);
	for (int i = 0; i < 10; i++)
		vmem_xalloc(arena, 10, 64 * 2, 0, 0, NULL, NULL, VM_SLEEP);
	vmem_alloc(arena, 20, VM_FIRSTFIT);
	vmem_walk(arena, VMEM_SPAN, see, &seen);
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_uint_eq(seen.sum, 1096);

	for (int reentrant = 0; reentrant < 2; reentrant++) {
		int flag = reentrant ? VMEM_REENTRANT : 0;
		struct seen allocated = {.n = 0}, all = {.n = 0};

		vmem_walk(arena, VMEM_ALLOC | flag, see, &allocated);
		ck_assert_uint_eq(allocated.sum, vmem_size(arena, VMEM_ALLOC));
		vmem_walk(arena, VMEM_ALLOC | VMEM_FREE | flag, see, &all);
		ck_assert_uint_eq(all.sum, 1096);
	}
}
END_TEST

static void
replace(void *arg, void *start, size_t size)
{
	struct seen *seen = arg;

	seen->n++;
	vmem_free(seen->arena, start, size);
	ck_assert_ptr_nonnull(vmem_alloc(seen->arena, size, VM_BESTFIT));
}

START_TEST(a_reentrant_walk_may_replace_what_it_sees)
{
	vmem_t *arena = arena_make(1, 1000, 1);
	struct seen seen = {.arena = arena};

	for (int i = 0; i < 20; i++)
		vmem_alloc(arena, 5, VM_SLEEP);
	vmem_walk(arena, VMEM_ALLOC | VMEM_REENTRANT, replace, &seen);
	ck_assert_uint_eq(seen.n, 20);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 100);
	ck_assert(arena_check(arena));
}
END_TEST

static void
drop(void *arg, void *start, size_t size)
{
	struct seen *seen = arg;

	seen->n++;
	vmem_free(seen->arena, start, size);
}

START_TEST(a_reentrant_walk_may_free_all_and_the_spans_go_back)
{
	vmem_t *parent = arena_make(64, 64 * 100, 64);
	vmem_t *child = child_make(parent, 16);
	struct seen seen = {.arena = child};

	for (int i = 0; i < 50; i++)
		vmem_alloc(child, 48, VM_SLEEP);
	vmem_walk(child, VMEM_ALLOC | VMEM_REENTRANT, drop, &seen);
	ck_assert_uint_eq(seen.n, 50);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 0);
	ck_assert(arena_check(child));
}
END_TEST

START_TEST(sizes_count_allocated_and_free)
{
	vmem_t *arena = arena_make(64, 6400, 64);

	vmem_alloc(arena, 65, VM_SLEEP);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 128);
	ck_assert_uint_eq(vmem_size(arena, VMEM_FREE), 6272);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC | VMEM_FREE), 6400);
	ck_assert_uint_eq(vmem_size(arena, 0), 0);
}
END_TEST

START_TEST(a_segment_grows_and_shrinks_in_place)
{
	vmem_t *arena = arena_make(64, 6400, 64);
	void *a = vmem_alloc(arena, 64, VM_SLEEP);
	void *b = vmem_alloc(arena, 64, VM_SLEEP);

	ck_assert(vmem_grow(arena, a, 10, 64));
	ck_assert(!vmem_grow(arena, a, 64, 65));
	vmem_free(arena, b, 64);
	ck_assert(vmem_grow(arena, a, 64, 6400));
	ck_assert(!vmem_grow(arena, a, 6400, 6401));
	ck_assert(!vmem_grow(arena, a, 6400, SIZE_MAX));
	ck_assert(!vmem_grow(arena, a, 6400, 64));
	ck_assert_uint_eq(vmem_size(arena, VMEM_FREE), 0);
	ck_assert(vmem_shrink(arena, a, 6400, 100));
	ck_assert(vmem_shrink(arena, a, 100, 64));
	ck_assert(!vmem_shrink(arena, a, 64, 0));
	ck_assert(arena_check(arena));
	ck_assert_uint_eq(arena->free.nsegs, 1);
	vmem_free(arena, a, 64);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
}
END_TEST

/* ---- misuse ---- */

START_TEST(second_free_of_one_range_panics)
{
	vmem_t *arena = arena_make(64, 6400, 64);
	void *a = vmem_alloc(arena, 64, VM_SLEEP);

	vmem_free(arena, a, 64);
	vmem_free(arena, a, 64);
}
END_TEST

START_TEST(free_of_a_range_never_allocated_panics)
{
	vmem_free(arena_make(64, 6400, 64), P(128), 64);
}
END_TEST

START_TEST(free_of_the_middle_of_a_range_panics)
{
	vmem_t *arena = arena_make(64, 6400, 64);
	void *a = vmem_alloc(arena, 256, VM_SLEEP);

	vmem_free(arena, P(A(a) + 64), 192);
}
END_TEST

START_TEST(free_of_null_panics)
{
	vmem_free(arena_make(64, 6400, 64), NULL, 64);
}
END_TEST

START_TEST(free_with_a_wrong_size_panics)
{
	vmem_t *arena = arena_make(64, 6400, 64);

	vmem_free(arena, vmem_alloc(arena, 64, VM_SLEEP), 65);
}
END_TEST

START_TEST(free_to_another_arena_panics)
{
	vmem_t *arena = arena_make(64, 6400, 64);
	vmem_t *other = arena_make(64, 6400, 64);

	vmem_xfree(other, vmem_alloc(arena, 64, VM_SLEEP), 64);
}
END_TEST

START_TEST(a_mandatory_allocation_that_fails_panics)
{
	vmem_alloc(arena_make(64, 6400, 64), 6401, VM_PANIC);
}
END_TEST

START_TEST(growing_what_is_not_allocated_panics)
{
	vmem_grow(arena_make(64, 6400, 64), P(64), 64, 128);
}
END_TEST

static vmem_t *victim;

static void
do_bad_free(void)
{
	vmem_free(victim, P(0xabc0), 64);
}

static void
do_wrong_size(void)
{
	vmem_free(victim, P(0x40), 192);
}

static void
do_leak(void)
{
	vmem_destroy(victim);
}

START_TEST(misuse_is_told_in_libumems_words)
{
	char want[512];

	victim = arena_make(64, 6400, 64);
	vmem_alloc(victim, 128, VM_SLEEP);
	snprintf(want, sizeof(want),
	    "umem: vmem_hash_delete(%p, abc0, 64): bad free\n", (void *)victim);
	ck_assert_str_eq(child_writes_first(do_bad_free), want);
	snprintf(want, sizeof(want),
	    "umem: vmem_hash_delete(%p, 40, 192): "
	    "wrong size (expect 128)\n",
	    (void *)victim);
	ck_assert_str_eq(child_writes_first(do_wrong_size), want);
	ck_assert_str_eq(child_writes_first(do_leak),
	    "umem: vmem_destroy('test'): leaked 128 bytes\n");
}
END_TEST

/* ---- the kernel refuses memory ---- */

#define NALLOCS 10000

/*
 * Creates, uses and destroys a child arena and its parent, while any request to
 * the kernel may fail.  Returns the number of allocations that failed.  Nothing
 * may be lost.
 */
static unsigned
life(void)
{
	static void *all[NALLOCS];
	unsigned nfails = 0;
	vmem_t *parent = vmem_create("parent", P(4096), (size_t)1 << 40, 4096,
	    NULL, NULL, NULL, 0, VM_SLEEP);
	vmem_t *child = parent == NULL
			    ? NULL
			    : vmem_create("child", NULL, 0, 16, vmem_alloc,
				  vmem_free, parent, 0, VM_SLEEP);

	if (child == NULL) {
		ck_assert_int_eq(errno, ENOMEM);
		vmem_destroy(parent);
		return 1;
	}
	for (int i = 0; i < NALLOCS; i++) {
		errno = 0;
		all[i] = vmem_alloc(child, 4000 + (size_t)i % 5000, VM_SLEEP);
		if (all[i] != NULL)
			continue;
		ck_assert_int_eq(errno, ENOMEM);
		nfails++;
		if (nfails < 10)
			ck_assert(arena_check(child) && arena_check(parent));
	}
	ck_assert(arena_check(child) && arena_check(parent));
	/* Freeing needs no memory from the kernel. */
	os_fail_nth(1, 1u << 30);
	for (int i = 0; i < NALLOCS; i++) {
		int k = i * 7919 % NALLOCS;

		if (all[k] != NULL)
			vmem_free(child, all[k], 4000 + (size_t)k % 5000);
	}
	os_fail_nth(0, 0);
	ck_assert(arena_check(child) && arena_check(parent));
	ck_assert_uint_eq(vmem_size(child, VMEM_ALLOC | VMEM_FREE), 0);
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 0);
	vmem_destroy(child);
	vmem_destroy(parent);
	return nfails;
}

#define MAX_REQUESTS 16

/* Each iteration is a process of its own, so its metadata store is empty. */
START_TEST(nothing_is_lost_when_one_request_fails)
{
	unsigned before = os_requests();
	size_t used = meta_used();

	os_fail_nth((unsigned)_i, 1);
	unsigned nfails = life();

	ck_assert_uint_eq(meta_used(), used);
	ck_assert_uint_le(nfails, 1);
	/* MAX_REQUESTS iterations are enough to have each request fail once. */
	ck_assert_uint_lt(os_requests() - before, MAX_REQUESTS);
}
END_TEST

START_TEST(nothing_is_lost_when_all_requests_fail_from_one_on)
{
	size_t used = meta_used();

	os_fail_nth((unsigned)_i, 1u << 30);
	life();
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

START_TEST(a_shrink_that_has_no_tag_changes_nothing)
{
	vmem_t *arena = arena_make(64, (size_t)64 * 1000000, 64);
	void *a = vmem_alloc(arena, 6400, VM_SLEEP);

	ck_assert_ptr_nonnull(vmem_alloc(arena, 64, VM_SLEEP));
	os_fail_nth(1, 1u << 30);
	while (vmem_alloc(arena, 64, VM_SLEEP) != NULL)
		;
	segment_reserve_free(&arena->reserve);
	while (meta_alloc(sizeof(struct segment)) != NULL)
		;
	ck_assert(!vmem_shrink(arena, a, 6400, 64));
	ck_assert(arena_check(arena));
	vmem_free(arena, a, 6400);
	ck_assert(arena_check(arena));
}
END_TEST

START_TEST(what_is_taken_for_records_comes_back_on_destroy)
{
	size_t used = meta_used();

	for (int round = 0; round < 3; round++) {
		vmem_t *arena = arena_make(1, 1000000, 1);

		for (int i = 0; i < 10000; i++)
			vmem_alloc(arena, 3, VM_SLEEP);
		/*
		 * All segments are leaked, so vmem_destroy() reports them on
		 * stderr.
		 */
		ck_assert_int_ge(dup2(STDERR_FILENO, 9), 0);
		close(STDERR_FILENO);
		vmem_destroy(arena);
		dup2(9, STDERR_FILENO);
		ck_assert_uint_eq(meta_used(), used);
	}
}
END_TEST

/* ---- threads and processes ---- */

#define NTHREADS 4
#define NSTEPS   30000
#define NHELD    64

static vmem_t *shared;
static uint8_t *owner; /* for each unit of the span, the thread that holds it */

/* Returns the number of units that another thread held. */
static void *
churn(void *arg)
{
	uintptr_t me = A(arg), nclashes = 0;
	uint64_t seed = 88172645463325252 * me;
	struct {
		uintptr_t at;
		size_t size;
	} held[NHELD] = {{0, 0}};

	for (int step = 0; step < NSTEPS; step++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		unsigned k = seed % NHELD;
		uint8_t was = held[k].at != 0 ? (uint8_t)me : 0;
		uint8_t is = (uint8_t)me - was;

		if (held[k].at == 0) {
			held[k].size = 1 + (seed >> 20) % 50;
			held[k].at =
			    A(vmem_alloc(shared, held[k].size, VM_SLEEP));
			if (held[k].at == 0)
				continue;
		}
		for (size_t i = 0; i < held[k].size; i++)
			nclashes +=
			    was != __atomic_exchange_n(&owner[held[k].at + i],
				       is, __ATOMIC_RELAXED);
		if (was == 0)
			continue;
		vmem_free(shared, P(held[k].at), held[k].size);
		held[k].at = 0;
	}
	for (unsigned k = 0; k < NHELD; k++) {
		if (held[k].at == 0)
			continue;
		memset(owner + held[k].at, 0, held[k].size);
		vmem_free(shared, P(held[k].at), held[k].size);
	}
	return P(nclashes);
}

static void
see_nothing(void *arg, void *start, size_t size)
{
	(void)arg, (void)start, (void)size;
}

static void *
observe(void *arg)
{
	volatile bool *stop = arg;

	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		vmem_walk(shared, VMEM_ALLOC | VMEM_FREE | VMEM_REENTRANT,
		    see_nothing, NULL);
	}
	return NULL;
}

START_TEST(threads_never_get_the_same_range)
{
	vmem_t *parent = arena_make(256, 256 * 400, 256);
	pthread_t threads[NTHREADS], observer;
	bool stop = false;

	shared = child_make(parent, 1);
	owner = calloc(256, 401);
	pthread_create(&observer, NULL, observe, &stop);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&threads[i], NULL, churn, P(i + 1));
	for (int i = 0; i < NTHREADS; i++) {
		void *nclashes;

		pthread_join(threads[i], &nclashes);
		ck_assert_uint_eq(A(nclashes), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(observer, NULL);
	ck_assert(arena_check(shared) && arena_check(parent));
	ck_assert_uint_eq(vmem_size(parent, VMEM_ALLOC), 0);
	vmem_destroy(shared);
	vmem_destroy(parent);
	free(owner);
}
END_TEST

/* The walk stops inside its callback until the test resumes it. */
static int walk_reached[2], walk_resume[2];

static void
pause_walk(void *arg, void *start, size_t size)
{
	char c = 0;

	(void)arg, (void)start, (void)size;
	if (write(walk_reached[1], &c, 1) != 1 ||
	    read(walk_resume[0], &c, 1) != 1)
		abort();
}

static void *
walk_slowly(void *arg)
{
	vmem_walk(arg, VMEM_ALLOC | VMEM_REENTRANT, pause_walk, NULL);
	return NULL;
}

static unsigned nreported;

/* The walk goes on in a child of a child. */
static void
fork_in_walk(void *arena, void *start, size_t size)
{
	int status;

	if (++nreported != 2)
		return;
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (pid != 0) {
			ck_assert_int_eq(waitpid(pid, &status, 0), pid);
			_exit(status != 0);
		}
		/* fork() takes the locks in a process with threads only. */
		second_start();
	}
	ck_assert(!list_empty(&((vmem_t *)arena)->walkers));
	vmem_free(arena, start, size);
}

START_TEST(a_walk_goes_on_in_a_forked_child_that_forks)
{
	vmem_t *arena = arena_make(64, 6400, 64);
	int status;
	pid_t pid;

	for (int i = 0; i < 10; i++)
		ck_assert_ptr_nonnull(vmem_alloc(arena, 64, VM_NOSLEEP));
	pid = fork();
	if (pid == 0) {
		second_start();
		vmem_walk(
		    arena, VMEM_ALLOC | VMEM_REENTRANT, fork_in_walk, arena);
		_exit(nreported != 10 || !list_empty(&arena->walkers) ||
		      !arena_check(arena) ||
		      vmem_size(arena, VMEM_ALLOC) != 9 * 64);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_forked_child_goes_on_without_the_walks_of_other_threads)
{
	vmem_t *arena = arena_make(64, 6400, 64);
	void *a = vmem_alloc(arena, 64, VM_SLEEP);
	pthread_t walker;
	char c = 0;
	int status;

	ck_assert_int_eq(pipe(walk_reached), 0);
	ck_assert_int_eq(pipe(walk_resume), 0);
	pthread_create(&walker, NULL, walk_slowly, arena);
	ck_assert_int_eq(read(walk_reached[0], &c, 1), 1);

	/* The library's fork handlers take the locks and repair the child. */
	pid_t pid = fork();

	if (pid == 0) {
		bool sound = list_empty(&arena->walkers) &&
			     arena->head.anext->type != VMEM_WALKER;

		vmem_free(arena, a, 64);
		sound = sound && arena_check(arena) &&
			vmem_alloc(arena, 6400, VM_SLEEP) != NULL;
		_exit(sound ? 0 : 1);
	}
	ck_assert(!list_empty(&arena->walkers));
	ck_assert_int_eq(write(walk_resume[1], &c, 1), 1);
	pthread_join(walker, NULL);
	ck_assert(list_empty(&arena->walkers));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

static TCase *
ordinary_case(void)
{
	TCase *tc = tcase_create("ordinary");

	tcase_add_test(tc, segments_are_disjoint_and_rounded_to_the_quantum);
	tcase_add_test(tc, a_freed_segment_comes_back_for_its_size);
	tcase_add_loop_test(tc, free_neighbours_become_one_in_any_order, 0, 6);
	tcase_add_test(tc, spans_added_by_hand_are_used_and_never_joined);
	tcase_add_test(tc, bad_spans_are_einval);
	tcase_add_test(tc, bad_arguments_of_create_are_einval);
	tcase_add_test(tc, a_long_name_is_cut);
	tcase_add_test(tc, size_zero_and_two_policies_are_einval);
	tcase_add_test(tc, success_keeps_errno);
	tcase_add_test(tc, best_first_and_next_fit_choose_as_they_say);
	tcase_add_test(tc, first_fit_finds_the_lowest_of_few_and_of_many_holes);
	tcase_add_test(tc, next_fit_goes_once_around_all_identifiers);
	tcase_add_test(tc, an_arena_has_a_policy_of_its_own);
	tcase_add_test(tc, contains_knows_the_borders_of_spans);
	tcase_add_test(tc, a_walk_sees_what_it_asks_for_in_order);
	tcase_add_test(tc, a_reentrant_walk_may_replace_what_it_sees);
	tcase_add_test(tc, a_reentrant_walk_may_free_all_and_the_spans_go_back);
	tcase_add_test(tc, sizes_count_allocated_and_free);
	tcase_add_test(tc, a_segment_grows_and_shrinks_in_place);
	return tc;
}

static TCase *
import_case(void)
{
	TCase *tc = tcase_create("imports");

	tcase_add_test(tc, spans_are_imported_and_go_back_when_free);
	tcase_add_test(
	    tc, a_source_of_a_smaller_quantum_is_asked_for_aligned_spans);
	tcase_add_test(tc, constraints_are_met_by_imports_too);
	tcase_add_test(tc, imports_are_aligned_as_the_arena_not_as_its_source);
	tcase_add_test(
	    tc, without_import_every_segment_is_searched_before_failing);
	tcase_add_test(tc, an_ximport_may_enlarge_the_request);
	tcase_add_test(
	    tc, an_ximport_need_not_align_to_the_quantum_of_its_source);
	tcase_add_test_raise_signal(tc, a_misaligned_import_panics, SIGABRT);
	tcase_add_loop_test(tc, a_panic_holds_no_lock, 0, 2);
	tcase_add_test(tc, no_lock_is_held_while_the_source_is_called);
	tcase_add_test(tc, tags_that_are_used_up_during_a_release_are_replaced);
	return tc;
}

static TCase *
misuse_case(void)
{
	TCase *tc = tcase_create("misuse");

	tcase_add_test_raise_signal(
	    tc, second_free_of_one_range_panics, SIGABRT);
	tcase_add_test_raise_signal(
	    tc, free_of_a_range_never_allocated_panics, SIGABRT);
	tcase_add_test_raise_signal(
	    tc, free_of_the_middle_of_a_range_panics, SIGABRT);
	tcase_add_test_raise_signal(tc, free_of_null_panics, SIGABRT);
	tcase_add_test_raise_signal(tc, free_with_a_wrong_size_panics, SIGABRT);
	tcase_add_test_raise_signal(tc, free_to_another_arena_panics, SIGABRT);
	tcase_add_test_raise_signal(
	    tc, a_mandatory_allocation_that_fails_panics, SIGABRT);
	tcase_add_test_raise_signal(
	    tc, growing_what_is_not_allocated_panics, SIGABRT);
	tcase_add_test(tc, misuse_is_told_in_libumems_words);
	return tc;
}

static TCase *
failure_case(void)
{
	TCase *tc = tcase_create("failures");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(
	    tc, nothing_is_lost_when_one_request_fails, 1, MAX_REQUESTS);
	tcase_add_loop_test(tc,
	    nothing_is_lost_when_all_requests_fail_from_one_on, 1,
	    MAX_REQUESTS);
	tcase_add_test(tc, a_shrink_that_has_no_tag_changes_nothing);
	tcase_add_test(tc, what_is_taken_for_records_comes_back_on_destroy);
	return tc;
}

static TCase *
thread_case(void)
{
	TCase *tc = tcase_create("threads");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, threads_never_get_the_same_range);
	tcase_add_test(tc, a_walk_goes_on_in_a_forked_child_that_forks);
	tcase_add_test(
	    tc, a_forked_child_goes_on_without_the_walks_of_other_threads);
	return tc;
}

Suite *
arena_suite(void)
{
	Suite *suite = suite_create("arena");

	suite_add_tcase(suite, ordinary_case());
	suite_add_tcase(suite, import_case());
	suite_add_tcase(suite, misuse_case());
	suite_add_tcase(suite, failure_case());
	suite_add_tcase(suite, thread_case());
	return suite;
}
