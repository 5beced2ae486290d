/*
 * test_heap.c - the root arena: memory, its counts, and foreign mappings
 *
 * The heap has run since the constructor.  Each test is a process of its own.
 */
#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/time_limit.h"
#include "tests/unit/hooks.h"
#include "tests/unit/machine.h"
#include "tests/unit/step.h"
#include "vmem/arena.h"
#include "vmem/heap_inner.h"
#include "vmem/huge.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define UNIT HEAP_UNIT

static uintptr_t
heap_end(void)
{
	return heap_window.base + heap_committed();
}

static bool
is_zero(const void *at, size_t bytes)
{
	const char *c = at;

	return c[0] == 0 && memcmp(c, c + 1, bytes - 1) == 0;
}

/*
 * Allocates units until an allocation moves the watermark.  Returns the number
 * of units.
 */
static unsigned
fill_committed(void)
{
	uintptr_t end = heap_end();
	unsigned n = 0;
	bool zeroed;

	while (heap_end() == end && n < 100000) {
		ck_assert_ptr_nonnull(heap_alloc(UNIT, UNIT, &zeroed));
		n++;
	}
	return n;
}

START_TEST(blocks_are_aligned_writable_and_apart)
{
	char *at[64];
	size_t bytes[64];
	bool zeroed;

	for (unsigned i = 0; i < 64; i++) {
		size_t align = UNIT << (i % 7);

		bytes[i] = UNIT * (1 + i % 5);
		at[i] = heap_alloc(bytes[i], align, &zeroed);
		ck_assert_ptr_nonnull(at[i]);
		ck_assert_uint_eq((uintptr_t)at[i] % align, 0);
		ck_assert_uint_ge((uintptr_t)at[i], heap_window.base);
		ck_assert_uint_le((uintptr_t)at[i] + bytes[i], heap_end());
		if (zeroed)
			ck_assert(is_zero(at[i], bytes[i]));
		memset(at[i], (int)i + 1, bytes[i]);
	}
	for (unsigned i = 0; i < 64; i++) {
		ck_assert_int_eq(at[i][0], (char)(i + 1));
		ck_assert_int_eq(memcmp(at[i], at[i] + 1, bytes[i] - 1), 0);
		heap_free(at[i], bytes[i]);
	}
}
END_TEST

START_TEST(dirty_is_what_was_freed_and_not_purged)
{
	size_t dirty = heap_dirty();
	bool zeroed;
	char *at = heap_alloc(8 * UNIT, UNIT, &zeroed);

	memset(at, 1, 8 * UNIT);
	dirty = heap_dirty();
	heap_free(at, 8 * UNIT);
	ck_assert_uint_eq(heap_dirty(), dirty + 8 * UNIT);
	char *again = heap_alloc(8 * UNIT, UNIT, &zeroed);
	ck_assert_ptr_eq(again, at);
	ck_assert(!zeroed);
	ck_assert_uint_eq(heap_dirty(), dirty);
	heap_free(again, 8 * UNIT);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), dirty + 8 * UNIT);
	ck_assert_uint_eq(heap_dirty(), 0);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 0);
	again = heap_alloc(8 * UNIT, UNIT, &zeroed);
	ck_assert_ptr_eq(again, at);
	ck_assert(zeroed);
	ck_assert(is_zero(again, 8 * UNIT));
}
END_TEST

START_TEST(a_purge_keeps_to_its_limit)
{
	bool zeroed;
	char *at = heap_alloc(64 * UNIT, UNIT, &zeroed);

	heap_purge(0, SIZE_MAX);
	heap_free(at, 64 * UNIT);
	ck_assert_uint_eq(heap_purge(0, 0), 0);
	ck_assert_uint_eq(heap_purge(0, UNIT), UNIT);
	ck_assert_uint_eq(heap_dirty(), 63 * UNIT);
	ck_assert_uint_eq(heap_purge(0, 20 * UNIT), 20 * UNIT);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 43 * UNIT);
}
END_TEST

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

enum {
	NLOCKED = 20
};

/*
 * Frees dirty units that are locked in memory, none of them adjacent.  Returns
 * false if the process may not lock memory.
 * AddressSanitizer replaces mlock() by a function that does nothing, so these
 * tests make the system calls.
 */
static bool
make_locked(char *at[NLOCKED])
{
	bool zeroed;

	for (int i = 0; i < NLOCKED; i++) {
		at[i] = heap_alloc(UNIT, UNIT, &zeroed);
		ck_assert_ptr_nonnull(at[i]);
		ck_assert_ptr_nonnull(heap_alloc(UNIT, UNIT, &zeroed));
		memset(at[i], 1, UNIT);
		if (syscall(SYS_mlock, at[i], UNIT) != 0)
			return false;
	}
	heap_purge(0, SIZE_MAX);
	for (int i = 0; i < NLOCKED; i++)
		heap_free(at[i], UNIT);
	ck_assert_uint_eq(heap_dirty(), NLOCKED * UNIT);
	return true;
}

START_TEST(locked_pages_go_back_by_force)
{
	char *at[NLOCKED];
	unsigned char in[UNIT / 4096];

	if (!make_locked(at) || madvise(at[0], UNIT, MADV_DONTNEED_LOCKED) != 0)
		return;
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 0);
	os_purge_force(true);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), NLOCKED * UNIT);
	os_purge_force(false);
	ck_assert_uint_eq(heap_dirty(), 0);
	ck_assert_int_eq(mincore(at[NLOCKED - 1], UNIT, in), 0);
	ck_assert_int_eq(in[0] & 1, 0);
}
END_TEST

START_TEST(a_locked_unit_does_not_keep_its_neighbours)
{
	bool zeroed;
	char *at = heap_alloc(16 * UNIT, UNIT, &zeroed);

	ck_assert_ptr_nonnull(at);
	memset(at, 1, 16 * UNIT);
	if (syscall(SYS_mlock, at + 4 * UNIT, UNIT) != 0)
		return;
	heap_purge(0, SIZE_MAX);
	heap_free(at, 16 * UNIT);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 15 * UNIT);
	ck_assert_uint_eq(heap_dirty(), UNIT);
	ck_assert_int_eq(at[4 * UNIT], 1);
}
END_TEST

START_TEST(a_forbidden_purge_is_made_by_force)
{
	bool zeroed;
	char *at = heap_alloc(4 * UNIT, UNIT, &zeroed);

	ck_assert_ptr_nonnull(at);
	heap_purge(0, SIZE_MAX);
	heap_free(at, 4 * UNIT);
	os_purge_forbid(true);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 0);
	ck_assert(!os_may_purge());
	os_purge_force(true);
	ck_assert_uint_eq(heap_purge(0, UNIT), UNIT);
	os_purge_force(false);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 0);
	os_purge_forbid(false);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 3 * UNIT);
}
END_TEST

/* Where address space is limited, a purge also releases the free end. */
START_TEST(a_forbidden_purge_keeps_the_end_of_the_heap)
{
	bool zeroed;
	size_t committed;

	heap_free(heap_alloc(64 * UNIT, UNIT, &zeroed), 64 * UNIT);
	heap_purge(0, SIZE_MAX);
	committed = heap_committed();
	heap_reserve_ahead = UNIT;
	os_purge_forbid(true);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 0);
	ck_assert_uint_eq(heap_committed(), committed);
	os_purge_forbid(false);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 0);
	ck_assert_uint_lt(heap_committed(), committed);
}
END_TEST

/* Imitates kernels before 5.18, which cannot drop locked pages. */
static bool
refuse_dontneed_locked(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		offsetof(struct seccomp_data, args[2])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_DONTNEED_LOCKED, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {array_size(code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

START_TEST(a_kernel_that_refuses_to_purge_is_not_asked_for_ever)
{
	char *at[NLOCKED];
	unsigned before, asked;

	if (!make_locked(at) || !refuse_dontneed_locked())
		return;
	before = os_requests();
	for (int i = 0; i < 500; i++)
		ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 0);
	asked = os_requests() - before;
	ck_assert_uint_gt(asked, 0);
	/* On a slow machine several back-off intervals may have passed. */
	ck_assert_uint_le(asked, 30);
	ck_assert_uint_eq(heap_dirty(), NLOCKED * UNIT);

	/*
	 * Once unlocked, all units are purged: after the back-off or at once.
	 */
	for (int i = 0; i < NLOCKED; i++)
		syscall(SYS_munlock, at[i], UNIT);
	if (_i == 0)
		os_purge_resume();
	while (heap_purge(0, SIZE_MAX) != NLOCKED * UNIT) {
		ck_assert_int_eq(_i, 1);
		ck_assert_uint_eq(heap_dirty(), NLOCKED * UNIT);
		usleep(20000);
	}
	ck_assert_uint_eq(heap_dirty(), 0);
	ck_assert(os_may_purge());
}
END_TEST

START_TEST(a_purge_spares_what_is_young)
{
	bool zeroed;
	char *at = heap_alloc(4 * UNIT, UNIT, &zeroed);

	heap_purge(0, SIZE_MAX);
	heap_free(at, 4 * UNIT);
	ck_assert_uint_eq(heap_purge((uint64_t)10000000000, SIZE_MAX), 0);
	usleep(600000);
	ck_assert_uint_eq(heap_purge(300000000, SIZE_MAX), 4 * UNIT);
}
END_TEST

START_TEST(a_purge_that_is_refused_changes_nothing)
{
	bool zeroed;
	char *at = heap_alloc(40 * UNIT, UNIT, &zeroed);

	memset(at, 7, 40 * UNIT);
	heap_purge(0, SIZE_MAX);
	heap_free(at, 40 * UNIT);
	os_fail_nth(1, 1000);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 0);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(heap_dirty(), 40 * UNIT);
	char *again = heap_alloc(40 * UNIT, UNIT, &zeroed);
	ck_assert_ptr_eq(again, at);
	ck_assert(!zeroed);
	ck_assert_uint_eq(heap_dirty(), 0);
}
END_TEST

START_TEST(a_request_beyond_the_hard_limit_is_refused)
{
	bool zeroed;
	char *at = heap_alloc(40 * UNIT, UNIT, &zeroed);
	size_t held = heap_held(), old = heap_committed();

	heap_limits.hard = held + 8 * UNIT;
	ck_assert_ptr_null(heap_alloc(9 * UNIT, UNIT, &zeroed));
	ck_assert_ptr_null(heap_alloc((size_t)1 << 40, UNIT, &zeroed));
	ck_assert_uint_eq(heap_limits.nhard, 0);
	heap_limit_blame(9 * UNIT);
	heap_limit_blame(8 * UNIT);
	ck_assert_uint_eq(heap_limits.nhard, 1);
	ck_assert_uint_eq(heap_committed(), old);
	ck_assert_uint_eq(heap_held(), held);
	ck_assert_ptr_nonnull(heap_alloc(8 * UNIT, UNIT, &zeroed));
	ck_assert_ptr_null(heap_alloc(UNIT, UNIT, &zeroed));
	heap_limit_blame(UNIT);
	ck_assert_uint_eq(heap_limits.nhard, 2);
	heap_limits.hard = 0;
	heap_limit_blame(UNIT);
	ck_assert_uint_eq(heap_limits.nhard, 2);
	ck_assert_ptr_nonnull(heap_alloc(9 * UNIT, UNIT, &zeroed));
	heap_free(at, 40 * UNIT);
}
END_TEST

START_TEST(dirty_units_are_purged_for_a_request_at_the_hard_limit)
{
	bool zeroed;
	char *at[20], *large;

	for (unsigned i = 0; i < 20; i++)
		at[i] = heap_alloc(2 * UNIT, UNIT, &zeroed);
	heap_limits.hard = heap_held();
	for (unsigned i = 0; i < 20; i += 2)
		heap_free(at[i], 2 * UNIT);
	ck_assert_uint_eq(heap_held(), heap_limits.hard);
	/* The free pieces are too small for it. */
	large = heap_alloc(16 * UNIT, UNIT, &zeroed);
	ck_assert_ptr_nonnull(large);
	ck_assert_uint_le(heap_held(), heap_limits.hard);
	ck_assert_ptr_null(heap_alloc(16 * UNIT, UNIT, &zeroed));
	heap_free(large, 16 * UNIT);
	ck_assert_uint_le(heap_held(), heap_limits.hard);
}
END_TEST

START_TEST(a_kernel_that_refuses_to_purge_does_not_lift_the_hard_limit)
{
	bool zeroed;
	char *at[20];
	size_t held;

	for (unsigned i = 0; i < 20; i++)
		at[i] = heap_alloc(2 * UNIT, UNIT, &zeroed);
	for (unsigned i = 0; i < 20; i += 2)
		heap_free(at[i], 2 * UNIT);
	held = heap_limits.hard = heap_held();
	for (unsigned nth = 1; nth < 20; nth++) {
		char *large;

		os_fail_nth(nth, 1000);
		large = heap_alloc(16 * UNIT, UNIT, &zeroed);
		os_fail_nth(0, 0);
		os_purge_resume();
		ck_assert_uint_le(heap_held(), held);
		if (large != NULL)
			heap_free(large, 16 * UNIT);
	}
	ck_assert_ptr_nonnull(heap_alloc(16 * UNIT, UNIT, &zeroed));
}
END_TEST

START_TEST(a_block_does_not_grow_beyond_the_hard_limit)
{
	bool zeroed;
	char *at = heap_alloc(16 * UNIT, UNIT, &zeroed);

	heap_limits.hard = heap_held() + 4 * UNIT;
	ck_assert(!heap_grow(at, 16 * UNIT, 21 * UNIT, &zeroed));
	ck_assert(heap_grow(at, 16 * UNIT, 20 * UNIT, &zeroed));
	ck_assert(!heap_grow(at, 20 * UNIT, 21 * UNIT, &zeroed));
	ck_assert(heap_shrink(at, 20 * UNIT, 10 * UNIT));
	ck_assert(heap_grow(at, 10 * UNIT, 20 * UNIT, &zeroed));
	ck_assert_uint_le(heap_held(), heap_limits.hard);
}
END_TEST

START_TEST(a_block_grows_and_shrinks_where_it_is)
{
	bool zeroed;
	char *at = heap_alloc(16 * UNIT, UNIT, &zeroed);
	size_t dirty = heap_dirty();

	for (size_t i = 0; i < 16; i++)
		memset(at + i * UNIT, (int)i + 1, UNIT);
	ck_assert(heap_shrink(at, 16 * UNIT, 5 * UNIT));
	ck_assert_uint_eq(heap_dirty(), dirty + 11 * UNIT);
	ck_assert(heap_grow(at, 5 * UNIT, 7 * UNIT, &zeroed));
	ck_assert(!zeroed);
	ck_assert_uint_eq(heap_dirty(), dirty + 9 * UNIT);
	heap_purge(0, SIZE_MAX);
	ck_assert(heap_grow(at, 7 * UNIT, 16 * UNIT, &zeroed));
	ck_assert(zeroed);
	ck_assert(is_zero(at + 7 * UNIT, 9 * UNIT));
	for (size_t i = 0; i < 5; i++) {
		ck_assert_int_eq(at[i * UNIT], (int)i + 1);
		ck_assert_int_eq(at[i * UNIT + UNIT - 1], (int)i + 1);
	}
	ck_assert(heap_shrink(at, 16 * UNIT, 15 * UNIT));
	char *next = heap_alloc(UNIT, UNIT, &zeroed);
	ck_assert_ptr_eq(next, at + 15 * UNIT);
	ck_assert(!heap_grow(at, 15 * UNIT, 16 * UNIT, &zeroed));
	heap_free(next, UNIT);
	heap_free(at, 15 * UNIT);
}
END_TEST

/* The last block below the watermark grows over it or stays as it was. */
START_TEST(growing_over_the_watermark_fails_or_works)
{
	bool zeroed, done = false;
	char *at = NULL;

	fill_committed();
	at = heap_alloc(4 * UNIT, UNIT, &zeroed);
	memset(at, 9, 4 * UNIT);
	for (unsigned nth = 1; !done; nth++) {
		size_t old = heap_committed();

		ck_assert_uint_lt(nth, 20);
		os_fail_nth(nth, 1u << 20);
		done = heap_grow(at, 4 * UNIT, 2048 * UNIT, &zeroed);
		os_fail_nth(0, 0);
		ck_assert(done || heap_committed() == old);
	}
	ck_assert(zeroed);
	ck_assert(is_zero(at + 4 * UNIT, 2044 * UNIT));
	ck_assert_int_eq(at[4 * UNIT - 1], 9);
}
END_TEST

/*
 * Each request for a block beyond the watermark fails in turn, alone or with
 * all later ones.  heap_alloc() returns a block or NULL, and the next attempt
 * gets a block.
 */
START_TEST(a_refused_request_is_no_memory_and_nothing_else)
{
	unsigned burst = _i == 0 ? 1 : 1u << 20;
	unsigned nrequests;
	bool zeroed;

	for (unsigned nth = 1, last = 2; nth <= last; nth++) {
		fill_committed();
		ck_assert_uint_lt(nth, 40);
		size_t bytes = align_up(heap_committed() / 2, UNIT);
		nrequests = os_requests();
		os_fail_nth(nth, burst);
		char *at = heap_alloc(bytes, UNIT, &zeroed);
		os_fail_nth(0, 0);
		last = os_requests() - nrequests;
		if (at == NULL)
			at = heap_alloc(bytes, UNIT, &zeroed);
		ck_assert_ptr_nonnull(at);
		ck_assert(zeroed);
		ck_assert_uint_le((uintptr_t)at + bytes, heap_end());
		at[0] = at[bytes - 1] = 1;
		heap_free(at, bytes);
		heap_purge(0, SIZE_MAX);
	}
}
END_TEST

/* Reserves and returns the first unit beyond the heap's reserved range. */
static char *
first_beyond(void)
{
	char *at = (void *)heap_end();

	while (!os_reserve_at(at, UNIT))
		at += UNIT;
	return at;
}

/*
 * Allocates until a block lies beyond the foreign unit.  The heap meets it only
 * after it has used up its reserved range.
 */
static char *
alloc_over(char *foreign, unsigned nth, unsigned burst)
{
	char *at;
	bool zeroed;

	do {
		if (nth != 0)
			os_fail_nth(nth, burst);
		at = heap_alloc(16 * UNIT, UNIT, &zeroed);
		os_fail_nth(0, 0);
		if (at == NULL)
			return NULL;
		ck_assert(at + 16 * UNIT <= foreign || at > foreign);
		at[0] = at[16 * UNIT - 1] = 1;
	} while (at < foreign);
	return at;
}

START_TEST(a_mapping_in_the_way_is_gone_around)
{
	char *foreign = first_beyond();

	ck_assert_int_eq(mprotect(foreign, UNIT, PROT_READ | PROT_WRITE), 0);
	memset(foreign, 0x5a, UNIT);
	ck_assert(alloc_over(foreign, 0, 0) >= foreign + UNIT);
	for (unsigned i = 0; i < 200; i++)
		alloc_over(foreign, 0, 0);
	for (size_t i = 0; i < UNIT; i++)
		ck_assert_int_eq(foreign[i], 0x5a);
	/* The heap never purges a foreign unit. */
	heap_purge(0, SIZE_MAX);
	ck_assert_int_eq(foreign[77], 0x5a);
}
END_TEST

START_TEST(several_mappings_in_the_way_are_gone_around)
{
	char *foreign = first_beyond();
	char *at = NULL;
	bool zeroed;

	/* Some mappings lie a little beyond the reserved range. */
	for (size_t i = 1; i < 40; i++)
		ck_assert(os_reserve_at(foreign + 7 * i * UNIT, 2 * UNIT));
	while (at < foreign + 300 * UNIT) {
		at = heap_alloc(3 * UNIT, UNIT, &zeroed);
		ck_assert_ptr_nonnull(at);
		memset(at, 1, 3 * UNIT);
	}
	/* The heap has the units between them. */
	ck_assert_uint_eq(heap_foreign(), (1 + 39 * 2) * UNIT);
}
END_TEST

/* After a refusal beside a foreign unit the heap must not retry forever. */
START_TEST(a_refusal_at_a_hole_is_no_memory)
{
	unsigned burst = _i % 2 == 0 ? 1 : 1u << 20;
	char *foreign = first_beyond();
	char *at;

	limit_time();
	at = alloc_over(foreign, (unsigned)_i / 2 + 1, burst);
	while (at == NULL || at < foreign)
		at = alloc_over(foreign, 0, 0);
	ck_assert(at >= foreign + UNIT);
}
END_TEST

/* As with strict overcommit, address space is available and memory is not. */
START_TEST(a_foreign_unit_where_commit_is_refused_for_long)
{
	char *foreign = first_beyond();
	struct rlimit limit = {64 * MIB, RLIM_INFINITY};
	bool zeroed;

	ck_assert_int_eq(mprotect(foreign, UNIT, PROT_READ | PROT_WRITE), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_DATA, &limit), 0);
	limit_time();
	while (heap_alloc(4 * UNIT, UNIT, &zeroed) != NULL)
		ck_assert_uint_lt(heap_end(), (uintptr_t)foreign + GIB);
	limit.rlim_cur = RLIM_INFINITY;
	ck_assert_int_eq(setrlimit(RLIMIT_DATA, &limit), 0);
	ck_assert(alloc_over(foreign, 0, 0) >= foreign + UNIT);
}
END_TEST

#if !defined(UMEM_DEBUG) && !defined(__SANITIZE_THREAD__)
enum {
#if defined(__SANITIZE_ADDRESS__) || defined(UMEM_COVERAGE)
	GIGABYTES_STEPS_MAX = 131072 /* most count, or are the sanitizer's */
#else
	GIGABYTES_STEPS_MAX = 32768
#endif
};

static const size_t gigabytes = 4 * GIB;

static void
alloc_and_free_gigabytes(void)
{
	bool zeroed;
	void *at = heap_alloc(gigabytes, UNIT, &zeroed);

	if (at == NULL)
		_exit(1);
	heap_free(at, gigabytes);
}

/*
 * The block has 65,536 units, which is more than twice the instructions.
 * Assertions of a debug build read the states of all, and ThreadSanitizer adds
 * instructions.
 */
START_TEST(a_block_of_gigabytes_takes_few_instructions)
{
	unsigned nsteps = 0;
	pid_t child;

	/* The first time, the heap grows. */
	alloc_and_free_gigabytes();
	child = step_start(alloc_and_free_gigabytes);
	if (child == 0)
		return;
	while (nsteps <= GIGABYTES_STEPS_MAX && step_one(child))
		nsteps++;
	if (nsteps > GIGABYTES_STEPS_MAX)
		step_end(child);
	ck_assert_uint_le(nsteps, GIGABYTES_STEPS_MAX);
}
END_TEST
#endif

/* Blocks that were freed as one are allocated in parts, and purged in parts. */
START_TEST(a_large_dirty_block_is_allocated_and_purged_in_parts)
{
	size_t n = 4096, nfree = n;
	bool zeroed;
	char *at = heap_alloc(n * UNIT, UNIT, &zeroed);

	ck_assert_ptr_nonnull(at);
	heap_purge(0, SIZE_MAX);
	for (size_t i = 0; i < n; i++)
		at[i * UNIT] = 1;
	heap_free(at, n * UNIT);
	ck_assert_uint_eq(heap_dirty(), n * UNIT);
	ck_assert_uint_eq(heap_purge((uint64_t)8000000000, SIZE_MAX), 0);
	for (size_t part = 1; part < 1000; part *= 3) {
		ck_assert_ptr_eq(heap_alloc(part * UNIT, UNIT, &zeroed), at);
		ck_assert(!zeroed);
		at += part * UNIT;
		nfree -= part;
		ck_assert_uint_eq(heap_dirty(), nfree * UNIT);
	}
	ck_assert_uint_eq(heap_purge(0, 5 * UNIT), 5 * UNIT);
	ck_assert_uint_eq(heap_dirty(), (nfree - 5) * UNIT);
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), (nfree - 5) * UNIT);
	ck_assert_ptr_eq(heap_alloc(nfree * UNIT, UNIT, &zeroed), at);
	ck_assert(zeroed);
	for (size_t i = 0; i < nfree; i++)
		ck_assert_int_eq(at[i * UNIT], 0);
}
END_TEST

/*
 * Blocks of each length begin at each place in a word of states, where the
 * units from dirty on are dirty, and the others clean.  The states of the
 * neighbours stay.
 */
START_TEST(blocks_begin_and_end_anywhere_in_a_word_of_states)
{
	const size_t n = 48;
	bool zeroed;
	char *at = heap_alloc(n * UNIT, UNIT, &zeroed), *part;

	ck_assert_ptr_nonnull(at);
	heap_free(at, n * UNIT);
	for (size_t i = 0; i < 8 * 20 * 4; i++) {
		size_t from = i % 8, len = i / 8 % 20 + 1, dirty = i / 160 * 8;

		heap_purge(0, SIZE_MAX);
		ck_assert_ptr_eq(heap_alloc(n * UNIT, UNIT, &zeroed), at);
		ck_assert(zeroed);
		heap_free(at, n * UNIT);
		ck_assert_uint_eq(heap_purge(0, dirty * UNIT), dirty * UNIT);
		ck_assert_uint_eq(heap_dirty(), (n - dirty) * UNIT);
		if (from != 0)
			ck_assert_ptr_eq(
			    heap_alloc(from * UNIT, UNIT, &zeroed), at);
		part = heap_alloc(len * UNIT, UNIT, &zeroed);
		ck_assert_ptr_eq(part, at + from * UNIT);
		ck_assert_int_eq(zeroed, from + len <= dirty);
		size_t end = from + len > dirty ? from + len : dirty;
		ck_assert_uint_eq(heap_dirty(), (n - end) * UNIT);
		heap_free(part, len * UNIT);
		ck_assert_uint_eq(heap_dirty(), (n - end + len) * UNIT);
		if (from != 0)
			heap_free(at, from * UNIT);
	}
}
END_TEST

static uint32_t stop; /* [atomic] */
static size_t nwrong; /* [atomic] */

/* The bytes of a block that threads write and check: this distance apart. */
static size_t stride = 1;

static bool
is_filled(const char *at, size_t bytes, int with)
{
	for (size_t i = 0; i < bytes; i += stride)
		if (at[i] != (char)with)
			return false;
	return true;
}

static void
fill(char *at, size_t bytes, int with)
{
	for (size_t i = 0; i < bytes; i += stride)
		at[i] = (char)with;
}

/* Zeroed blocks must be zero, and blocks must keep their contents. */
static void *
churn(void *arg)
{
	size_t most = stride == 1 ? 10 : 300;
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	char *at[8] = {NULL};
	size_t bytes[8];
	bool zeroed;

	while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
		x = x * 1664525 + 1013904223;
		unsigned i = x >> 29;
		if (at[i] != NULL) {
			if (!is_filled(at[i], bytes[i], (int)i))
				__atomic_add_fetch(
				    &nwrong, 1, __ATOMIC_RELAXED);
			heap_free(at[i], bytes[i]);
			at[i] = NULL;
			continue;
		}
		/* One block in eight fills whole groups of states. */
		bytes[i] = (1 + (x >> 20) % 4) * (i == 0 ? most * UNIT : UNIT);
		at[i] = heap_alloc(bytes[i], UNIT, &zeroed);
		if (at[i] == NULL || (zeroed && !is_filled(at[i], bytes[i], 0)))
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		if (at[i] != NULL)
			fill(at[i], bytes[i], (int)i);
	}
	for (unsigned i = 0; i < 8; i++)
		if (at[i] != NULL)
			heap_free(at[i], bytes[i]);
	return NULL;
}

static void *
purge_always(void *arg)
{
	bool refuse = arg != NULL;

	for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		if (refuse && i % 2 == 0)
			os_fail_nth(1, 1);
		heap_purge(0, SIZE_MAX);
	}
	return NULL;
}

START_TEST(purges_and_allocations_do_not_meet)
{
	pthread_t thread[5];
	size_t dirty;

	/*
	 * All memory that the threads want is committed.  The kernel refuses
	 * only purges.
	 */
	fill_committed();
	bool zeroed;
	bool large = _i % 2 == 1;
	size_t bytes = large ? 8192 * UNIT : 1024 * UNIT;
	char *room = heap_alloc(bytes, UNIT, &zeroed);
	heap_free(room, bytes);
	stride = large ? 64 * UNIT : 1;
	hook_charges_all = _i >= 2;
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, churn, (void *)i);
	pthread_create(&thread[3], NULL, purge_always, NULL);
	pthread_create(&thread[4], NULL, purge_always, NULL);
	usleep(400000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 5; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	/* The count of dirty bytes is still exact. */
	dirty = heap_dirty();
	ck_assert_uint_le(dirty, heap_committed());
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), dirty);
	ck_assert_uint_eq(heap_dirty(), 0);
}
END_TEST

/* Stores the flags that the kernel shows for the mapping at an address. */
static void
vm_flags(const void *at, char *flags, size_t room)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	bool here = false;
	char line[512];
	uintptr_t from, to;

	flags[0] = '\0';
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= (uintptr_t)at && (uintptr_t)at < to;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			snprintf(flags, room, "%.200s", line);
	}
	if (maps != NULL)
		fclose(maps);
}

static bool
is_writable(const void *at)
{
	char flags[256];

	vm_flags(at, flags, sizeof(flags));
	return strstr(flags, " wr ") != NULL;
}

/* Returns the number of writable units. */
static unsigned
count_writable(const char *at, size_t nunits)
{
	unsigned n = 0;

	for (size_t i = 0; i < nunits; i++)
		n += is_writable(at + i * UNIT);
	return n;
}

START_TEST(free_windows_are_not_charged_and_may_be_refused)
{
	bool zeroed, grow = _i == 1;
	char *low = heap_alloc(130 * UNIT, UNIT, &zeroed);
	char *at = low + UNIT;

	ck_assert_ptr_nonnull(low);
	ck_assert_ptr_nonnull(heap_alloc(UNIT, UNIT, &zeroed));
	memset(low, 1, 130 * UNIT);
	hook_charges_all = true;
	ck_assert(heap_shrink(low, 130 * UNIT, UNIT));
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 129 * UNIT);
	ck_assert_uint_le(count_writable(at, 129), 129 - 3 * 32);
	ck_assert_uint_eq(heap_dirty(), 0);
	os_fail_nth(1, 1u << 20);
	if (grow)
		ck_assert(!heap_grow(low, UNIT, 130 * UNIT, &zeroed));
	else
		ck_assert_ptr_null(heap_alloc(129 * UNIT, UNIT, &zeroed));
	os_fail_nth(0, 0);
	if (grow)
		ck_assert(heap_grow(low, UNIT, 130 * UNIT, &zeroed));
	else
		ck_assert_ptr_eq(heap_alloc(129 * UNIT, UNIT, &zeroed), at);
	ck_assert_uint_eq(count_writable(at, 129), 129);
	ck_assert(is_zero(at, 129 * UNIT));
	memset(at, 1, 129 * UNIT);
	ck_assert_int_eq(low[0], 1);
}
END_TEST

/* The progress of a thread that asks for a span which another thread purges. */
enum wanting {
	ASKS = 1,
	WAITS, /* for the purge to end */
	HAS
};

static char *wanted; /* 8 units, behind one that is in use */
static bool want_by_growing;
static pthread_t wanting_thread;
static __thread bool is_wanting;
static uint32_t wanting; /* [atomic] enum wanting */

static void
notice_wait(const uint32_t *word)
{
	(void)word;
	if (is_wanting)
		__atomic_store_n(&wanting, WAITS, __ATOMIC_RELEASE);
}

static void *
want_span(void *arg)
{
	bool zeroed = false, done;

	(void)arg;
	is_wanting = true;
	__atomic_store_n(&wanting, ASKS, __ATOMIC_RELEASE);
	if (want_by_growing)
		done = heap_grow(wanted - UNIT, UNIT, 9 * UNIT, &zeroed);
	else
		done = heap_alloc(8 * UNIT, UNIT, &zeroed) == wanted;
	__atomic_store_n(&wanting, HAS, __ATOMIC_RELEASE);
	if (!done || !zeroed || !is_zero(wanted, 8 * UNIT))
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	return NULL;
}

/*
 * At this point the units are marked as being purged.  The other thread must
 * wait for the end of the purge.  Otherwise the purge would discard its first
 * stores.
 */
static void
let_another_want(void *at, size_t bytes)
{
	hook_os_purge = NULL;
	ck_assert_ptr_eq(at, wanted);
	ck_assert_uint_eq(bytes, 8 * UNIT);
	hook_os_futex_wait = notice_wait;
	ck_assert_int_eq(
	    pthread_create(&wanting_thread, NULL, want_span, NULL), 0);
	while (__atomic_load_n(&wanting, __ATOMIC_ACQUIRE) < WAITS)
		usleep(100);
	ck_assert_uint_eq(__atomic_load_n(&wanting, __ATOMIC_ACQUIRE), WAITS);
}

START_TEST(a_span_is_had_only_after_its_purge)
{
	bool zeroed;
	char *at = heap_alloc(9 * UNIT, UNIT, &zeroed);

	heap_purge(0, SIZE_MAX);
	memset(at, 1, 9 * UNIT);
	wanted = at + UNIT;
	want_by_growing = _i == 1;
	ck_assert(heap_shrink(at, 9 * UNIT, UNIT));
	hook_os_purge = let_another_want;
	ck_assert_uint_eq(heap_purge(0, SIZE_MAX), 8 * UNIT);
	ck_assert_int_eq(pthread_join(wanting_thread, NULL), 0);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(wanting, HAS);
	ck_assert_uint_eq(heap_dirty(), 0);
}
END_TEST

START_TEST(committed_grows_only_with_need)
{
	size_t committed = heap_committed();
	bool zeroed;

	for (int i = 0; i < 1000; i++) {
		char *at = heap_alloc(4 * UNIT, UNIT, &zeroed);

		at[0] = 1;
		heap_free(at, 4 * UNIT);
	}
	ck_assert_uint_le(heap_committed(), committed + 2 * MIB);
	char *at = heap_alloc(100 * MIB, UNIT, &zeroed);
	ck_assert_uint_ge(heap_committed(), 100 * MIB);
	ck_assert_uint_le(heap_committed(), committed + 170 * MIB);
	heap_free(at, 100 * MIB);
}
END_TEST

START_TEST(what_cannot_be_had_is_null)
{
	size_t slot = heap_window.units << HEAP_UNIT_SHIFT;
	bool zeroed;

	ck_assert_ptr_null(heap_alloc(slot + UNIT, UNIT, &zeroed));
	ck_assert_ptr_null(
	    heap_alloc(align_down(SIZE_MAX, UNIT), UNIT, &zeroed));
	ck_assert_ptr_null(heap_alloc(UNIT, (size_t)1 << 62, &zeroed));
	ck_assert_ptr_nonnull(heap_alloc(UNIT, UNIT, &zeroed));
}
END_TEST

static char *under_limit[4096];

static __attribute__((unused)) unsigned
take_till_refused(void)
{
	unsigned n = 0;
	bool zeroed;

	while (n < array_size(under_limit) &&
	       (under_limit[n] = heap_alloc(16 * UNIT, UNIT, &zeroed)) != NULL)
		under_limit[n++][0] = 1;
	return n;
}

/*
 * Memory that was allocated under the limit can be freed and allocated again.
 * The thread sanitizer itself needs memory all the time.  The address sanitizer
 * needs memory for assertions, which follow after the limit is lifted.
 */
START_TEST(under_rlimit_as_memory_ends_and_comes_back)
{
#ifndef __SANITIZE_THREAD__
	struct rlimit limit = {1 * MIB, RLIM_INFINITY};
	unsigned n, again;

	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	n = take_till_refused();
	for (unsigned i = 0; i < n; i++)
		heap_free(under_limit[i], 16 * UNIT);
	again = take_till_refused();
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_AS, &limit);
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_lt(n, array_size(under_limit));
	ck_assert_uint_eq(again, n);
#endif
}
END_TEST

static bool
is_huge(const void *at)
{
	char flags[256];

	vm_flags(at, flags, sizeof(flags));
	/* The heap sets one of the two flags for any kernel default. */
	ck_assert(
	    (strstr(flags, " hg") != NULL) != (strstr(flags, " nh") != NULL));
	return strstr(flags, " hg") != NULL;
}

/* Returns false if the kernel has no huge pages. */
static bool
huge_pages_are_known(void)
{
	void *at = os_map(4 * MIB);

	return at != NULL && madvise(at, 4 * MIB, MADV_HUGEPAGE) == 0;
}

START_TEST(only_growth_of_a_large_heap_by_small_blocks_is_huge)
{
	bool zeroed;
	char *at, *large;

	if (!huge_pages_are_known())
		return;
	at = heap_alloc(UNIT, UNIT, &zeroed);
	ck_assert(!is_huge(at));
	large = heap_alloc(256 * MIB, UNIT, &zeroed);
	ck_assert(!is_huge(large));
	ck_assert(!is_huge(large + 255 * MIB));
	fill_committed();
	for (size_t bytes = 0; bytes < 24 * MIB; bytes += UNIT) {
		at = heap_alloc(UNIT, UNIT, &zeroed);
		memset(at, 1, UNIT);
	}
	ck_assert(is_huge(at));
	ck_assert_uint_eq(heap_end() % (2 * MIB), 0);
	large = heap_alloc(256 * MIB, UNIT, &zeroed);
	ck_assert(!is_huge(large + 255 * MIB));
	/* The kernel must not bring purged memory back. */
	heap_free(large, 256 * MIB);
	ck_assert_uint_ne(heap_purge(0, SIZE_MAX), 0);
	ck_assert(!is_huge(at));
	large = heap_alloc(256 * MIB, UNIT, &zeroed);
	/* Huge pages are advice only.  The memory works like any other. */
	memset(at, 1, UNIT);
	memset(large + 255 * MIB, 1, MIB);
}
END_TEST

/* For small blocks and large ones, which no program has touched. */
START_TEST(all_growth_is_huge_if_the_option_demands_it)
{
	bool zeroed;
	char *at, *large;

	if (!huge_pages_are_known())
		return;
	huge_use = HUGE_ALWAYS;
	fill_committed();
	at = heap_alloc(UNIT, UNIT, &zeroed);
	ck_assert(is_huge(at));
	ck_assert_uint_eq(heap_end() % (2 * MIB), 0);
	large = heap_alloc(256 * MIB, UNIT, &zeroed);
	ck_assert(is_huge(large));
	ck_assert(is_huge(large + 255 * MIB));
	/* Memory that a purge took comes back as small pages. */
	memset(at, 1, UNIT);
	heap_free(large, 256 * MIB);
	ck_assert_uint_ne(heap_purge(0, SIZE_MAX), 0);
	ck_assert(!is_huge(at));
}
END_TEST

static char *grown;

/* Another thread may do so as soon as heap_lock is free. */
static void
grow_huge(struct lock *lock)
{
	bool zeroed;

	if (lock != &heap_lock)
		return;
	hook_lock_released = NULL;
	fill_committed();
	grown = heap_alloc(UNIT, UNIT, &zeroed);
	ck_assert(is_huge(grown));
}

START_TEST(growth_right_after_huge_pages_were_forbidden_is_known)
{
	if (!huge_pages_are_known())
		return;
	huge_use = HUGE_ALWAYS;
	fill_committed();
	hook_lock_released = grow_huge;
	heap_forbid_huge();
	ck_assert_ptr_nonnull(grown);
	heap_forbid_huge();
	ck_assert(!is_huge(grown));
}
END_TEST

START_TEST(foreign_mappings_in_the_heap_keep_their_advice)
{
	char *foreign[2], *at, *before = NULL;
	bool zeroed;

	if (!huge_pages_are_known())
		return;
	for (int i = 0; i < 2; i++) {
		foreign[i] = first_beyond();
		ck_assert_int_eq(madvise(foreign[i], UNIT, MADV_HUGEPAGE), 0);
	}
	/*
	 * The second is adjacent to the first, so they form a foreign range of
	 * two units.
	 */
	ck_assert_ptr_eq(foreign[1], foreign[0] + UNIT);
	ck_assert_uint_eq(heap_foreign(), 0);
	do {
		at = heap_alloc(UNIT, UNIT, &zeroed);
		ck_assert_ptr_nonnull(at);
		memset(at, 1, UNIT);
		if (at < foreign[0])
			before = at;
	} while (at < foreign[1] + 16 * MIB);
	ck_assert_uint_eq(heap_foreign(), 2 * UNIT);
	ck_assert(is_huge(at) || is_huge(before));
	heap_forbid_huge();
	ck_assert(!is_huge(at));
	ck_assert(!is_huge(before));
	ck_assert(is_huge(foreign[0]));
	ck_assert(is_huge(foreign[1]));
}
END_TEST

/* Its size is the next power of two, and a limit makes it smaller only. */
START_TEST(the_window_is_for_8_times_the_memory_of_the_machine)
{
	size_t want = size_max(8 * os_ram(), GIB);

	ck_assert_uint_lt(heap_window.units << HEAP_UNIT_SHIFT, 2 * want);
}
END_TEST

START_TEST(the_public_arena_gives_whole_writable_pages)
{
	vmem_t *arena = heap_public_arena();
	size_t page = os_page_size();

	ck_assert_ptr_nonnull(arena);
	ck_assert_ptr_eq(heap_public_arena(), arena);
	char *at = vmem_alloc(arena, 3 * page, VM_NOSLEEP);
	ck_assert_ptr_nonnull(at);
	ck_assert_uint_eq((uintptr_t)at % page, 0);
	memset(at, 1, 3 * page);
	vmem_free(arena, at, 3 * page);
	ck_assert_ptr_null(
	    vmem_alloc(arena, heap_window.units * 2 * UNIT, VM_NOSLEEP));
	/* Later calls need no memory. */
	os_fail_nth(1, 1u << 30);
	while (meta_alloc(sizeof(struct vmem)) != NULL)
		continue;
	ck_assert_ptr_eq(heap_public_arena(), arena);
}
END_TEST

Suite *
heap_suite(void)
{
	Suite *suite = suite_create("heap");
	TCase *tcase = tcase_create("heap");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, blocks_are_aligned_writable_and_apart);
	tcase_add_test(tcase, dirty_is_what_was_freed_and_not_purged);
	tcase_add_test(tcase, a_purge_keeps_to_its_limit);
	tcase_add_test(tcase, a_locked_unit_does_not_keep_its_neighbours);
	tcase_add_test(tcase, a_forbidden_purge_is_made_by_force);
	tcase_add_test(tcase, a_forbidden_purge_keeps_the_end_of_the_heap);
	tcase_add_loop_test(
	    tcase, a_kernel_that_refuses_to_purge_is_not_asked_for_ever, 0, 2);
	tcase_add_test(tcase, a_purge_spares_what_is_young);
	tcase_add_test(tcase, a_purge_that_is_refused_changes_nothing);
	tcase_add_test(tcase, a_request_beyond_the_hard_limit_is_refused);
	tcase_add_test(
	    tcase, dirty_units_are_purged_for_a_request_at_the_hard_limit);
	tcase_add_test(
	    tcase, a_kernel_that_refuses_to_purge_does_not_lift_the_hard_limit);
	tcase_add_test(tcase, a_block_does_not_grow_beyond_the_hard_limit);
	tcase_add_test(tcase, a_block_grows_and_shrinks_where_it_is);
	tcase_add_test(tcase, growing_over_the_watermark_fails_or_works);
	tcase_add_loop_test(
	    tcase, a_refused_request_is_no_memory_and_nothing_else, 0, 2);
	tcase_add_test(tcase, a_mapping_in_the_way_is_gone_around);
	tcase_add_test(tcase, several_mappings_in_the_way_are_gone_around);
	tcase_add_loop_test(tcase, a_refusal_at_a_hole_is_no_memory, 0, 32);
#if !defined(UMEM_DEBUG) && !defined(__SANITIZE_THREAD__)
	tcase_add_test(tcase, a_block_of_gigabytes_takes_few_instructions);
#endif
	tcase_add_test(
	    tcase, a_large_dirty_block_is_allocated_and_purged_in_parts);
	tcase_add_test(
	    tcase, blocks_begin_and_end_anywhere_in_a_word_of_states);
	tcase_add_loop_test(tcase, purges_and_allocations_do_not_meet, 0, 4);
	tcase_add_loop_test(
	    tcase, free_windows_are_not_charged_and_may_be_refused, 0, 2);
	tcase_add_loop_test(tcase, a_span_is_had_only_after_its_purge, 0, 2);
	tcase_add_test(tcase, committed_grows_only_with_need);
	tcase_add_test(tcase, what_cannot_be_had_is_null);
	tcase_add_test(
	    tcase, the_window_is_for_8_times_the_memory_of_the_machine);
	tcase_add_test(tcase, the_public_arena_gives_whole_writable_pages);
	if (!machine_is_emulated()) {
		tcase_add_test(tcase, locked_pages_go_back_by_force);
		tcase_add_test(
		    tcase, a_foreign_unit_where_commit_is_refused_for_long);
		tcase_add_test(
		    tcase, under_rlimit_as_memory_ends_and_comes_back);
		tcase_add_test(
		    tcase, all_growth_is_huge_if_the_option_demands_it);
		tcase_add_test(tcase,
		    growth_right_after_huge_pages_were_forbidden_is_known);
		tcase_add_test(
		    tcase, foreign_mappings_in_the_heap_keep_their_advice);
		tcase_add_test(
		    tcase, only_growth_of_a_large_heap_by_small_blocks_is_huge);
	}
	suite_add_tcase(suite, tcase);
	return suite;
}
