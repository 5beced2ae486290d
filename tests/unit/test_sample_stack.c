/*
 * test_sample_stack.c - the distinct stacks of samples
 *
 * Each test is a separate process.
 */
#include <check.h>
#include <pthread.h>

#include "tests/unit/machine.h"
#include "umem/malloc/alloc.h"
#include "umem/profile/sample.h"
#include "umem/profile/sample_stack.h"
#include "vmem/meta.h"
#include "vmem/os.h"

static noinline struct sample_stack *
take_below(unsigned depth)
{
	struct sample_stack *stack;

	if (depth == 0)
		return sample_stack_take();
	stack = take_below(depth - 1);
	/* No tail call. */
	__asm__ volatile("" : : "r"(stack) : "memory");
	return stack;
}

START_TEST(equal_stacks_are_one)
{
	struct sample_stack *stack[4];
	uint32_t before = sample_stack_count();
	/* The compiler must not unroll the loop: each call is another frame. */
	volatile unsigned n = 4;

	for (unsigned i = 0; i < n; i++)
		stack[i] = take_below(i % 2);
	ck_assert_uint_eq(sample_stack_count(), before + 2);
	ck_assert_ptr_eq(stack[0], stack[2]);
	ck_assert_ptr_eq(stack[1], stack[3]);
	ck_assert_ptr_ne(stack[0], stack[1]);
	ck_assert_uint_eq(stack[0]->nrefs, 2);
	ck_assert_uint_eq(stack[0]->depth + 1, stack[1]->depth);
	sample_stack_drop(stack[0]);
	ck_assert_uint_eq(sample_stack_count(), before + 2);
	for (unsigned i = 1; i < 4; i++)
		sample_stack_drop(stack[i]);
	ck_assert_uint_eq(sample_stack_count(), before);
}
END_TEST

START_TEST(the_innermost_64_frames_are_kept)
{
	struct sample_stack *deep = take_below(100), *deeper = take_below(40);

	ck_assert_uint_eq(SAMPLE_FRAMES, 64);
	ck_assert_uint_eq(deep->depth, SAMPLE_FRAMES);
	/* The frames of the recursion are the same address. */
	for (unsigned i = 2; i < SAMPLE_FRAMES; i++)
		ck_assert_uint_eq(deep->pc[i], deep->pc[1]);
	ck_assert_uint_gt(deeper->depth, 40);
	ck_assert_uint_ne(deeper->pc[deeper->depth - 1], deeper->pc[1]);
	sample_stack_drop(deep);
	sample_stack_drop(deeper);
}
END_TEST

static noinline void *
alloc_below(unsigned depth)
{
	void *p =
	    depth == 0 ? umem_alloc(100, UMEM_DEFAULT) : alloc_below(depth - 1);

	__asm__ volatile("" : : "r"(p) : "memory");
	return p;
}

static const struct sample *newest;

static void
find_newest(struct sample *s, void *unused)
{
	(void)unused;
	if (newest == NULL || s->time >= newest->time)
		newest = s;
}

/* A record gives its stack back when it is filled again. */
START_TEST(there_are_no_more_stacks_than_records_need)
{
	uint32_t nstacks;
	void *p[200];

	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < 200; i++)
		p[i] = alloc_below(3);
	nstacks = sample_stack_count();
	ck_assert_uint_le(nstacks, 3);
	sample_each(find_newest, NULL);
	ck_assert_uint_ge(newest->stack->depth, 4);
	for (unsigned i = 0; i < 200; i++)
		umem_free(p[i], 100);
	for (unsigned i = 0; i < 2000; i++)
		umem_free(alloc_below(i % 50), 100);
	/* Guarded records have a stack of the free, too. */
	ck_assert_uint_le(sample_stack_count(), 200 + 2 * SAMPLES_GUARDED);
	ck_assert_uint_gt(sample_stack_count(), nstacks);
}
END_TEST

/* Such a sample is not kept, and the block is an ordinary one. */
START_TEST(without_memory_for_a_stack_there_is_no_sample)
{
	static struct sample_stack *stack[400];
	uint64_t ntaken, nlost;
	unsigned n = 0;
	void *p;

	/* Its size class has free objects. */
	umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
	ck_assert_int_eq(umem_sample(1), 0);
	umem_free(alloc_below(1), 100);
	os_fail_nth(1, 1u << 30);
	/* The stacks of one size use up the memory that the library has. */
	while (meta_alloc_best_effort(64) != NULL)
		;
	while (n < array_size(stack) && (stack[n] = take_below(n % 60)) != NULL)
		n++;
	ck_assert_uint_lt(n, array_size(stack));
	ntaken = sample_ntaken;
	nlost = sample_nlost;
	p = alloc_below(n % 60);
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(sample_ntaken, ntaken);
	ck_assert_uint_eq(sample_nlost, nlost + 1);
	os_fail_nth(0, 0);
	umem_free(p, 100);
	while (n > 0)
		sample_stack_drop(stack[--n]);
}
END_TEST

static unsigned nwrong; /* [a] */

static void *
take_and_drop(void *unused)
{
	for (unsigned i = 0; i < 30000; i++) {
		struct sample_stack *stack = take_below(i % 7);

		if (__atomic_load_n(&stack->nrefs, __ATOMIC_RELAXED) == 0 ||
		    stack->depth < i % 7)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		sample_stack_drop(stack);
	}
	return unused;
}

START_TEST(threads_share_and_free_stacks)
{
	pthread_t thread[4];
	uint32_t before = sample_stack_count();

	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_create(&thread[i], NULL, take_and_drop, NULL);
	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(sample_stack_count(), before);
}
END_TEST

Suite *
sample_stack_suite(void)
{
	Suite *suite = suite_create("sample_stack");
	TCase *tc = tcase_create("sample_stack");

	suite_add_tcase(suite, tc);
	if (!machine_has_stacks())
		return suite;
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, equal_stacks_are_one);
	tcase_add_test(tc, the_innermost_64_frames_are_kept);
	tcase_add_test(tc, there_are_no_more_stacks_than_records_need);
	tcase_add_test(tc, without_memory_for_a_stack_there_is_no_sample);
	tcase_add_test(tc, threads_share_and_free_stacks);
	return suite;
}
