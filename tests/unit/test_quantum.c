/* test_quantum.c - the quantum caches serve small multiples of the quantum */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "vmem/arena.h"
#include "vmem/hooks.h"

/*
 * A simulated cache that keeps one piece, and allocates from its arena when it
 * has none.
 */
struct fake {
	char name[64];
	size_t size;
	size_t quantum;
	vmem_t *arena;
	void *kept;
	unsigned nallocs;
	unsigned nfrees;
	bool refuse;
};

static struct fake fakes[ARENA_QCACHES];
static unsigned nfakes;
static unsigned ndestroyed;
static size_t refuse_size; /* fake_create() fails for this size */

static void *
fake_create(const char *name, size_t bytes, size_t quantum, vmem_t *arena)
{
	if (bytes == refuse_size)
		return NULL;
	struct fake *fake = &fakes[nfakes++];

	strncpy(fake->name, name, sizeof(fake->name) - 1);
	fake->size = bytes;
	fake->quantum = quantum;
	fake->arena = arena;
	return fake;
}

static void
fake_destroy(void *cache)
{
	struct fake *fake = cache;

	if (fake->kept != NULL)
		vmem_xfree(fake->arena, fake->kept, fake->size);
	ndestroyed++;
}

static void *
fake_alloc(void *cache, int vmflag)
{
	struct fake *fake = cache;
	void *piece = fake->kept;

	if (fake->refuse)
		return NULL;
	fake->nallocs++;
	fake->kept = NULL;
	if (piece == NULL)
		piece = vmem_xalloc(
		    fake->arena, fake->size, 0, 0, 0, NULL, NULL, vmflag);
	return piece;
}

static void
fake_free(void *cache, void *piece)
{
	struct fake *fake = cache;

	fake->nfrees++;
	if (fake->kept != NULL)
		vmem_xfree(fake->arena, fake->kept, fake->size);
	fake->kept = piece;
}

static unsigned ndrained;
static unsigned ndissolved;
static unsigned nreclaimed;

/* Return the cached piece to the arena; the gate must be closed. */
static void
fake_drain(void *cache)
{
	struct fake *fake = cache;

	lock_assert_held(&fake->arena->gate);
	ndrained++;
	if (fake->kept != NULL)
		ck_assert(vmem_piece_free(fake->arena, fake->kept, fake->size));
	fake->kept = NULL;
}

static void *
fake_take(void *cache)
{
	(void)cache;
	return NULL;
}

static void
fake_dissolve(void *cache)
{
	(void)cache;
	ndissolved++;
}

static bool
fake_reclaim(vmem_t *arena)
{
	(void)arena;
	return nreclaimed++ == 0; /* false from the second call on */
}

static const struct quantum_hooks hooks = {.create = fake_create,
    .destroy = fake_destroy,
    .alloc = fake_alloc,
    .free = fake_free,
    .drain = fake_drain,
    .take = fake_take,
    .dissolve = fake_dissolve,
    .reclaim = fake_reclaim};

static vmem_t *
arena_make(size_t qcache_max, int vmflag)
{
	return vmem_create("ids", (void *)64, 64 * 1000, 64, NULL, NULL, NULL,
	    qcache_max, vmflag);
}

START_TEST(each_multiple_of_the_quantum_has_its_cache)
{
	quantum_register(&hooks);
	vmem_t *arena = arena_make(250, VM_SLEEP);

	ck_assert_uint_eq(nfakes, 4);
	ck_assert_str_eq(fakes[0].name, "ids_64");
	ck_assert_str_eq(fakes[3].name, "ids_256");
	ck_assert_uint_eq(fakes[3].size, 256);
	ck_assert_uint_eq(fakes[3].quantum, 64);

	void *a = vmem_alloc(arena, 65, VM_SLEEP);
	void *b = vmem_alloc(arena, 257, VM_SLEEP);

	ck_assert_uint_eq(fakes[1].nallocs, 1);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 128 + 320);
	vmem_free(arena, a, 65);
	vmem_free(arena, b, 257);
	ck_assert_uint_eq(fakes[1].nfrees, 1);
	/* The cache keeps its freed piece. */
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 128);
	ck_assert_ptr_eq(vmem_alloc(arena, 128, VM_SLEEP), a);
	vmem_free(arena, a, 128);

	vmem_destroy(arena);
	ck_assert_uint_eq(ndestroyed, 4);
}
END_TEST

START_TEST(there_are_sixteen_caches_at_most)
{
	quantum_register(&hooks);
	vmem_t *arena = arena_make(SIZE_MAX, VM_SLEEP);

	ck_assert_uint_eq(nfakes, ARENA_QCACHES);
	void *a = vmem_alloc(arena, 64 * 16 + 1, VM_SLEEP);

	vmem_free(arena, a, 64 * 16 + 1);
	vmem_destroy(arena);
}
END_TEST

START_TEST(an_arena_can_do_without_caches)
{
	/* The state before the library has started. */
	quantum_register(NULL);
	vmem_t *early = arena_make(256, VM_SLEEP);

	quantum_register(&hooks);
	vmem_t *without = arena_make(256, VMC_NO_QCACHE);
	vmem_t *none = arena_make(0, VM_SLEEP);

	ck_assert_uint_eq(nfakes, 0);
	vmem_t *all[] = {early, without, none};

	for (unsigned i = 0; i < array_size(all); i++) {
		void *a = vmem_alloc(all[i], 64, VM_SLEEP);

		ck_assert_ptr_nonnull(a);
		vmem_free(all[i], a, 64);
		vmem_destroy(all[i]);
	}
}
END_TEST

START_TEST(a_size_whose_cache_cannot_be_made_goes_to_the_segments)
{
	refuse_size = 128;
	quantum_register(&hooks);
	vmem_t *arena = arena_make(256, VM_SLEEP);

	ck_assert_uint_eq(nfakes, 3);
	void *a = vmem_alloc(arena, 128, VM_SLEEP);

	ck_assert_ptr_nonnull(a);
	vmem_free(arena, a, 128);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	vmem_destroy(arena);
}
END_TEST

/* Allocate and free two pieces of 128 units each; the caches keep them. */
static vmem_t *
arena_of_two(void)
{
	quantum_register(&hooks);
	vmem_t *arena = vmem_create(
	    "two", (void *)64, 256, 64, NULL, NULL, NULL, 128, VM_SLEEP);
	void *a = vmem_alloc(arena, 128, VM_SLEEP);
	void *b = vmem_alloc(arena, 64, VM_SLEEP);

	ck_assert(a != NULL && b != NULL);
	vmem_free(arena, a, 128);
	vmem_free(arena, b, 64);
	ck_assert_uint_eq(vmem_size(arena, VMEM_FREE), 64);
	return arena;
}

START_TEST(a_piece_has_a_segment_of_its_own_if_its_cache_has_none)
{
	quantum_register(&hooks);
	vmem_t *arena = arena_make(256, VM_SLEEP);

	fakes[0].refuse = true;
	void *a = vmem_alloc(arena, 64, VM_SLEEP);

	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 64);
	ck_assert_uint_eq(ndrained, 0);
	vmem_free(arena, a, 64);
	vmem_destroy(arena);
}
END_TEST

START_TEST(a_request_that_fails_has_what_caches_keep)
{
	vmem_t *arena = arena_of_two();
	/*
	 * A request too large for the caches, and then a request of
	 * vmem_xalloc().
	 */
	void *a = vmem_alloc(arena, 256, VM_SLEEP);

	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(ndissolved, 0);
	vmem_free(arena, a, 256);
	vmem_destroy(arena);

	arena = arena_of_two();
	a = vmem_xalloc(arena, 256, 0, 0, 0, (void *)64, NULL, VM_SLEEP);
	ck_assert_ptr_nonnull(a);
	vmem_xfree(arena, a, 256);
	vmem_destroy(arena);
}
END_TEST

START_TEST(enomem_comes_after_all_else_was_tried)
{
	vmem_t *arena = arena_of_two();
	void *a = vmem_alloc(arena, 192, VM_SLEEP);

	ck_assert_ptr_nonnull(a);
	ndrained = ndissolved = nreclaimed = 0;
	errno = 0;
	fakes[1].refuse = true;
	ck_assert_ptr_null(vmem_alloc(arena, 128, VM_SLEEP));
	ck_assert_int_eq(errno, ENOMEM);
	/*
	 * The request drains its own cache first, then both caches, and both
	 * again after the object caches were reclaimed.
	 */
	ck_assert_uint_eq(ndrained, 6);
	ck_assert_uint_eq(ndissolved, 4);
	ck_assert_uint_eq(nreclaimed, 1);
	vmem_free(arena, a, 192);
	vmem_destroy(arena);
}
END_TEST

START_TEST(a_slab_is_no_segment_that_can_be_freed)
{
	quantum_register(&hooks);
	vmem_t *arena = arena_make(128, VM_SLEEP);
	vmem_gate_close(arena);
	void *slab = vmem_slab_alloc(arena, 256);

	ck_assert(!vmem_piece_free(arena, slab, 256));
	vmem_gate_open(arena);
	vmem_xfree(arena, slab, 256);
}
END_TEST

START_TEST(a_segment_in_the_place_of_a_slab_is_no_slab)
{
	vmem_t *arena =
	    vmem_create("a", (void *)16, 64, 1, NULL, NULL, NULL, 8, 0);
	uint64_t free = 0xff;

	vmem_gate_close(arena);
	void *slab = vmem_slab_alloc(arena, 64);

	vmem_slab_free(arena, slab, 64);
	ck_assert_ptr_eq(vmem_xalloc(arena, 64, 0, 0, 0, NULL, NULL, 0), slab);
	vmem_xfree(arena, slab, 64);
	ck_assert_ptr_eq(vmem_slab_alloc(arena, 64), slab);
	ck_assert(vmem_slab_split(arena, slab, 8, &free));
	ck_assert_ptr_eq(vmem_xalloc(arena, 64, 0, 0, 0, NULL, NULL, 0), slab);
	vmem_xfree(arena, slab, 64);
	vmem_gate_open(arena);
	vmem_destroy(arena);
}
END_TEST

START_TEST(a_slab_is_cut_into_its_chunks)
{
	quantum_register(&hooks);
	vmem_t *arena = vmem_create(
	    "cut", (void *)64, 64 * 8, 64, NULL, NULL, NULL, 64, VM_SLEEP);

	/* Try each pattern of free chunks, with and without free neighbours. */
	for (uint64_t bits = 0; bits < 32; bits++) {
		bool alone = bits >= 16;
		void *before = alone ? vmem_xalloc(arena, 64, 0, 0, 0, NULL,
					   NULL, VM_FIRSTFIT)
				     : NULL;
		vmem_gate_close(arena);
		uintptr_t slab = (uintptr_t)vmem_slab_alloc(arena, 256);
		void *behind = alone ? vmem_xalloc(arena, 64, 0, 0, 0,
					   (void *)(slab + 256), NULL, 0)
				     : NULL;

		ck_assert(vmem_slab_split(arena, (void *)slab, 64, &bits));
		vmem_gate_open(arena);
		ck_assert(arena_check(arena));
		for (unsigned i = 0; i < 4; i++)
			if ((bits >> i & 1) == 0)
				vmem_xfree(arena, (void *)(slab + i * 64), 64);
		if (alone) {
			vmem_xfree(arena, before, 64);
			vmem_xfree(arena, behind, 64);
		}
		ck_assert(arena_check(arena));
		ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	}
	vmem_destroy(arena);
}
END_TEST

static vmem_t *child;
static bool gate_was_open;

static void *
import_and_look(vmem_t *source, size_t size, int vmflag)
{
	gate_was_open = lock_try(&child->gate);
	if (gate_was_open)
		lock_release(&child->gate);
	return vmem_alloc(source, size, vmflag);
}

static void
release_and_look(vmem_t *source, void *addr, size_t size)
{
	gate_was_open = lock_try(&child->gate);
	if (gate_was_open)
		lock_release(&child->gate);
	vmem_free(source, addr, size);
}

START_TEST(the_source_is_called_with_the_gate_open)
{
	quantum_register(NULL);
	vmem_t *source = arena_make(0, VM_SLEEP);

	quantum_register(&hooks);
	child = vmem_create("child", NULL, 0, 64, import_and_look,
	    release_and_look, source, 64, VM_SLEEP);
	void *span = vmem_slab_import(child, 256);

	ck_assert_ptr_nonnull(span);
	ck_assert(gate_was_open);
	/* The unused imported span is returned to the source. */
	gate_was_open = false;
	vmem_slab_import_end(child, span);
	ck_assert(gate_was_open);
	ck_assert_uint_eq(vmem_size(source, VMEM_ALLOC), 0);

	span = vmem_slab_import(child, 256);
	gate_was_open = false;
	vmem_gate_close(child);
	void *slab = vmem_slab_alloc(child, 256);

	ck_assert_ptr_nonnull(slab);
	vmem_slab_import_end(child, span);
	ck_assert_uint_eq(vmem_size(child, VMEM_ALLOC), 256);
	vmem_slab_free(child, slab, 256);
	/* The span is available to all callers until the gate opens. */
	ck_assert_uint_eq(vmem_size(child, VMEM_FREE), 256);
	vmem_gate_open(child);
	ck_assert(gate_was_open);
	ck_assert_uint_eq(vmem_size(child, VMEM_FREE), 0);
	ck_assert_uint_eq(vmem_size(source, VMEM_ALLOC), 0);
	vmem_destroy(child);
	vmem_destroy(source);
}
END_TEST

START_TEST(a_span_that_is_used_again_before_the_gate_opens_stays)
{
	quantum_register(NULL);
	vmem_t *source = arena_make(0, VM_SLEEP);

	quantum_register(&hooks);
	child = vmem_create(
	    "child", NULL, 0, 64, vmem_alloc, vmem_free, source, 64, VM_SLEEP);
	ck_assert(vmem_slab_import(child, 256));
	vmem_gate_close(child);
	void *slab = vmem_slab_alloc(child, 256);

	vmem_slab_free(child, slab, 256);
	void *used = vmem_xalloc(child, 64, 0, 0, 0, NULL, NULL, VM_SLEEP);

	/* The span is completely free twice, and must be released once. */
	vmem_xfree(child, used, 64);
	used = vmem_xalloc(child, 64, 0, 0, 0, NULL, NULL, VM_SLEEP);
	vmem_gate_open(child);
	ck_assert_uint_eq(vmem_size(child, VMEM_FREE), 192);
	ck_assert(arena_check(child));
	vmem_xfree(child, used, 64);
	ck_assert_uint_eq(vmem_size(source, VMEM_ALLOC), 0);
	vmem_destroy(child);
	vmem_destroy(source);
}
END_TEST

START_TEST(an_arena_with_nothing_to_give_panics_if_told_so)
{
	quantum_register(&hooks);
	vmem_t *arena = arena_make(256, VM_SLEEP);

	vmem_alloc(arena, 64 * 1000, VM_PANIC);
	fakes[0].refuse = true;
	vmem_alloc(arena, 64, VM_PANIC);
}
END_TEST

START_TEST(pieces_of_a_cache_are_not_resized_in_place)
{
	quantum_register(&hooks);
	vmem_t *arena = arena_make(256, VM_SLEEP);
	void *a = vmem_alloc(arena, 64, VM_SLEEP);
	void *b = vmem_alloc(arena, 512, VM_SLEEP);

	ck_assert(!vmem_grow(arena, a, 64, 128));
	ck_assert(!vmem_shrink(arena, b, 512, 256));
	ck_assert(vmem_shrink(arena, b, 512, 320));
	vmem_free(arena, a, 64);
	vmem_free(arena, b, 320);
	vmem_destroy(arena);
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
	tcase_add_test(
	    tc, a_size_whose_cache_cannot_be_made_goes_to_the_segments);
	tcase_add_test(
	    tc, a_piece_has_a_segment_of_its_own_if_its_cache_has_none);
	tcase_add_test(tc, a_request_that_fails_has_what_caches_keep);
	tcase_add_test(tc, enomem_comes_after_all_else_was_tried);
	tcase_add_test_raise_signal(
	    tc, a_slab_is_no_segment_that_can_be_freed, SIGABRT);
	tcase_add_test(tc, a_segment_in_the_place_of_a_slab_is_no_slab);
	tcase_add_test(tc, a_slab_is_cut_into_its_chunks);
	tcase_add_test(tc, the_source_is_called_with_the_gate_open);
	tcase_add_test(
	    tc, a_span_that_is_used_again_before_the_gate_opens_stays);
	tcase_add_test_raise_signal(
	    tc, an_arena_with_nothing_to_give_panics_if_told_so, SIGABRT);
	tcase_add_test(tc, pieces_of_a_cache_are_not_resized_in_place);
	suite_add_tcase(suite, tc);
	return suite;
}
