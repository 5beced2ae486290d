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

static void
count_one(const struct sample_stack *stack, void *arg)
{
	(void)stack;
	++*(uint32_t *)arg;
}

static uint32_t
count_stacks(void)
{
	uint32_t n = 0;

	sample_stack_each(count_one, &n);
	return n;
}

START_TEST(equal_stacks_are_one)
{
	struct sample_stack *stack[4];
	uint32_t before = count_stacks();
	/* The compiler must not unroll the loop: each call is another frame. */
	volatile unsigned n = 4;

	sample_stacks_kept = 0;
	for (unsigned i = 0; i < n; i++)
		stack[i] = take_below(i % 2);
	ck_assert_uint_eq(count_stacks(), before + 2);
	ck_assert_ptr_eq(stack[0], stack[2]);
	ck_assert_ptr_eq(stack[1], stack[3]);
	ck_assert_ptr_ne(stack[0], stack[1]);
	ck_assert_uint_eq(stack[0]->nrefs, 2);
	ck_assert_uint_eq(stack[0]->depth + 1, stack[1]->depth);
	sample_stack_drop(stack[0]);
	ck_assert_uint_eq(count_stacks(), before + 2);
	for (unsigned i = 1; i < 4; i++)
		sample_stack_drop(stack[i]);
	ck_assert_uint_eq(count_stacks(), before);
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

static void
double_mean(struct sample *s, void *unused)
{
	(void)unused;
	s->mean *= 2;
}

/* A record gives its stack back when it is filled again. */
START_TEST(there_are_no_more_stacks_than_records_need)
{
	uint32_t nstacks;
	void *p[200];

	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < 200; i++)
		p[i] = alloc_below(3);
	nstacks = count_stacks();
	ck_assert_uint_le(nstacks, 3);
	sample_each(find_newest, NULL);
	ck_assert_uint_ge(newest->stack->depth, 4);
	for (unsigned i = 0; i < 200; i++)
		umem_free(p[i], 100);
	for (unsigned i = 0; i < 2000; i++)
		umem_free(alloc_below(i % 50), 100);
	/* Guarded records have a stack of the free, too. */
	ck_assert_uint_le(count_stacks(), 200 + 2 * SAMPLES_GUARDED);
	ck_assert_uint_gt(count_stacks(), nstacks);
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

START_TEST(so_many_stacks_stay_without_a_reference)
{
	sample_stacks_kept = count_stacks() + 5;
	for (volatile unsigned i = 0; i < 50; i++)
		sample_stack_drop(take_below(i));
	ck_assert_uint_eq(count_stacks(), sample_stacks_kept);
}
END_TEST

static void
expect_sum(struct sample_sum sum, unsigned blocks, unsigned bytes)
{
	ck_assert_uint_eq(sample_sum_blocks(sum), blocks);
	ck_assert_uint_eq(sum.bytes, bytes);
}

START_TEST(the_sums_know_what_was_allocated_and_how_long_it_lived)
{
	struct sample_stack *stack = take_below(1);

	sample_stack_allocated(stack, 100, 50000);
	sample_stack_allocated(stack, 100, 50000);
	sample_stack_allocated(stack, 0, 1000);
	sample_stack_allocated(stack, 4000, 4000);
	sample_stack_freed(stack, 100, 50000, 999999);
	sample_stack_freed(stack, 0, 1000, 1000000);
	sample_stack_freed(stack, 4000, 4000, 1000000000);
	expect_sum(stack->sums.allocated, 1002, 105000);
	expect_sum(stack->sums.freed, 502, 55000);
	expect_sum(stack->sums.lived_ms, 500, 50000);
	expect_sum(stack->sums.lived_s, 501, 51000);
	expect_sum(sample_sums_live(&stack->sums), 500, 50000);
	/* A second stack has sums of its own. */
	expect_sum(take_below(2)->sums.allocated, 0, 0);
}
END_TEST

/* Returns the sums of a stack at the last peak. */
static struct sample_sum
peak_of(const struct sample_stack *stack, uint64_t npeaks)
{
	return stack->sums.npeaks == npeaks ? stack->sums.peak
					    : sample_sums_live(&stack->sums);
}

START_TEST(the_sums_of_the_peak_are_kept)
{
	struct sample_stack *a = take_below(1), *b = take_below(2);
	uint64_t npeaks;

	sample_stack_allocated(a, 100, 1000);
	/* The second peak; 3000 bytes are live. */
	sample_stack_allocated(b, 200, 2000);
	npeaks = a->sums.npeaks + 2;
	expect_sum(peak_of(a, npeaks), 10, 1000);
	expect_sum(peak_of(b, npeaks), 10, 2000);
	sample_stack_freed(b, 200, 2000, 0);
	sample_stack_freed(a, 100, 1000, 0);
	expect_sum(peak_of(a, npeaks), 10, 1000);
	expect_sum(peak_of(b, npeaks), 10, 2000);
	/* This exceeds the peak, but by less than a twentieth. */
	sample_stack_allocated(a, 100, 3100);
	expect_sum(peak_of(a, npeaks), 10, 1000);
	sample_stack_allocated(a, 100, 100);
	expect_sum(peak_of(a, npeaks + 1), 32, 3200);
	expect_sum(peak_of(b, npeaks + 1), 0, 0);
	sample_stack_freed(a, 100, 100, 0);
	expect_sum(peak_of(a, npeaks + 1), 32, 3200);
}
END_TEST

/* Each free subtracts the amount that its allocation has added. */
START_TEST(halved_samples_leave_the_sums_right)
{
	static void *p[200];
	struct sample_stack *stack;

	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < 200; i++)
		p[i] = alloc_below(3);
	newest = NULL;
	sample_each(find_newest, NULL);
	stack = newest->stack;
	expect_sum(sample_sums_live(&stack->sums), 200, 20000);
	for (unsigned i = 0; i < 200; i += 2)
		umem_free(p[i], 100);
	expect_sum(sample_sums_live(&stack->sums), 100, 10000);
	sample_each(double_mean, NULL);
	for (unsigned i = 1; i < 200; i += 2)
		umem_free(p[i], 100);
	expect_sum(sample_sums_live(&stack->sums), 0, 0);
	expect_sum(stack->sums.allocated, 200, 20000);
	expect_sum(stack->sums.lived_s, 200, 20000);
}
END_TEST

static unsigned nwrong; /* [a] */

static void *
take_and_drop(void *unused)
{
	for (unsigned i = 0; i < 30000; i++) {
		struct sample_stack *stack = take_below(i % 7);

		if (stack->depth < i % 7)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		sample_stack_drop(stack);
	}
	return unused;
}

START_TEST(threads_share_and_free_stacks)
{
	pthread_t thread[4];
	uint32_t before = count_stacks();

	sample_stacks_kept = 0;
	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_create(&thread[i], NULL, take_and_drop, NULL);
	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(count_stacks(), before);
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
	tcase_add_test(tc, so_many_stacks_stay_without_a_reference);
	tcase_add_test(
	    tc, the_sums_know_what_was_allocated_and_how_long_it_lived);
	tcase_add_test(tc, the_sums_of_the_peak_are_kept);
	tcase_add_test(tc, halved_samples_leave_the_sums_right);
	tcase_add_test(tc, without_memory_for_a_stack_there_is_no_sample);
	tcase_add_test(tc, threads_share_and_free_stacks);
	return suite;
}
