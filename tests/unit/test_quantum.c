/* test_quantum.c - small multiples of the quantum go to the caches */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "vmem/arena.h"
#include "vmem/hooks.h"

/* A cache that keeps one piece, and sees to its arena when it has none. */
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
static size_t refuse_size; /* create() fails for it */

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

static const struct quantum_hooks hooks = {
    fake_create, fake_destroy, fake_alloc, fake_free};

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
	/* The cache keeps its piece. */
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
	/* As it is before the library has started. */
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

START_TEST(a_cache_with_nothing_to_give_means_enomem)
{
	quantum_register(&hooks);
	vmem_t *arena = arena_make(256, VM_SLEEP);

	fakes[0].refuse = true;
	errno = 0;
	ck_assert_ptr_null(vmem_alloc(arena, 64, VM_SLEEP));
	ck_assert_int_eq(errno, ENOMEM);
	vmem_destroy(arena);
}
END_TEST

START_TEST(a_cache_with_nothing_to_give_panics_if_told_so)
{
	quantum_register(&hooks);
	vmem_t *arena = arena_make(256, VM_SLEEP);

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
	tcase_add_test(tc, a_cache_with_nothing_to_give_means_enomem);
	tcase_add_test_raise_signal(
	    tc, a_cache_with_nothing_to_give_panics_if_told_so, SIGABRT);
	tcase_add_test(tc, pieces_of_a_cache_are_not_resized_in_place);
	suite_add_tcase(suite, tc);
	return suite;
}
