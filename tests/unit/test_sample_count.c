/* test_sample_count.c - the distances from one sample to the next, in bytes */
#include <check.h>
#include <math.h>

#include "magazine/cpu_marks.h"
#include "umem/profile/sample_count.h"
#include "umem/umem.h"

/*
 * The distances between samples: mean, spread and tail of the exponential
 * distribution.
 */
START_TEST(distances_are_exponential)
{
	enum {
		N = 50000,
		MEAN = 1000
	};
	double sum = 0, squares = 0, last = 0;
	unsigned nbeyond = 0, n = 0;

	ck_assert_int_eq(umem_sample(MEAN), 0);
	for (double at = 1; n < N; at++) {
		if (!sample_count_block(1))
			continue;
		double d = at - last;

		last = at;
		n++;
		sum += d;
		squares += d * d;
		nbeyond += d > 3 * MEAN;
	}
	/*
	 * Mean and deviation are both MEAN; a fraction exp(-3) is above 3 *
	 * MEAN.
	 */
	double mean = sum / N, sigma = sqrt(squares / N - mean * mean);
	ck_assert_double_eq_tol(mean, MEAN, 5 * MEAN / sqrt(N) + 1);
	ck_assert_double_eq_tol(sigma, MEAN, MEAN / 30);
	ck_assert_double_eq_tol((double)nbeyond / N, exp(-3), 0.005);
}
END_TEST

/*
 * The mean is right even if it is far above COUNTDOWN_MAX, the longest part of
 * a distance that is counted down at once, or above all parts together, 16 GiB.
 */
START_TEST(distances_are_longer_than_a_countdown)
{
	static const struct {
		size_t mean, size;
	} cases[] = {
	    {3 * MIB, 1000}, {1000 * MIB, 1000000}, {(size_t)1 << 38, GIB}};
	const size_t mean = cases[_i].mean;
	unsigned n = 0;

	ck_assert_int_eq(umem_sample(mean), 0);
	for (size_t at = 0; at < 3000 * mean; at += cases[_i].size)
		n += sample_count_block(cases[_i].size);
	ck_assert_uint_ge(n, 3000 - 5 * 55);
	ck_assert_uint_le(n, 3000 + 5 * 55);
}
END_TEST

START_TEST(a_changed_mean_is_used_soon)
{
	unsigned n = 0;

	ck_assert_int_eq(umem_sample((size_t)1 << 40), 0);
	for (int i = 0; i < 10000; i++)
		ck_assert(!sample_count_block(100));
	ck_assert_int_eq(umem_sample(1), 0);
	while (!sample_count_block(100))
		ck_assert_uint_lt(n++, 256 * KIB / 100 + 1);
	ck_assert_int_eq(umem_sample(0), 0);
	for (int i = 0; i < 10000; i++)
		ck_assert(!sample_count_block(1000));
}
END_TEST

/* Another mean cuts a distance, so no sample is due at its end. */
START_TEST(a_mean_that_returns_does_not_find_its_distance)
{
	const size_t mean = (size_t)1 << 36;

	ck_assert_int_eq(umem_sample(mean), 0);
	/* Until the distance is short enough to end with a sample. */
	do {
		sample_count = (struct sample_count){0};
		ck_assert(!sample_count_block(100));
	} while (sample_count.nmore == UINT16_MAX);
	ck_assert_int_eq(umem_sample(2 * mean), 0);
	ck_assert(!sample_count_block(100));
	ck_assert_int_eq(umem_sample(mean), 0);
	for (int i = 0; i < 300; i++)
		ck_assert(!sample_count_block(1000));
	ck_assert_int_eq(umem_sample(0), 0);
}
END_TEST

/*
 * Between the two steps of a count that passes the end of the countdown, a
 * signal handler may allocate: it counts, too, and begins a countdown.
 */
START_TEST(a_count_can_be_interrupted_by_another)
{
	int32_t before;

	ck_assert_int_eq(umem_sample((size_t)1 << 40), 0);
	while (sample_count_within(1000))
		continue;
	/* The handler. */
	ck_assert(!sample_count_within(2000));
	sample_count_undo(2000);
	ck_assert_int_lt(sample_count.bytes_more, 0);
	ck_assert(!sample_count_block(2000));
	while (sample_count.bytes_more < 10000)
		ck_assert(!sample_count_block(10000));
	before = sample_count.bytes_more;
	/* The handler has returned. */
	sample_count_undo(1000);
	ck_assert_int_eq(sample_count.bytes_more, before);
	ck_assert(!sample_count_block(1000));
	ck_assert_int_eq(sample_count.bytes_more, before - 1000);
	ck_assert_int_eq(umem_sample(0), 0);
}
END_TEST

/* The part of rounds that are marked is the part of blocks to be sampled. */
START_TEST(rounds_are_marked_with_the_chance_of_their_bytes)
{
	const size_t mean = MIB, bytes = 512;
	const double want = -expm1(-(double)bytes / (double)mean);
	unsigned nrounds = 0, nmarked = 0, n;

	ck_assert_int_eq(umem_sample(mean), 0);
	for (unsigned i = 0; nrounds < 8000000; i++) {
		unsigned most = 1 + i % 90;

		n = cpu_marks.chooser->find(bytes, most);
		nrounds += n < most ? n + 1 : n;
		nmarked += n < most;
	}
	ck_assert_double_eq_tol(
	    nmarked, nrounds * want, 5 * sqrt(nrounds * want));
	ck_assert_uint_eq(
	    cpu_marks.chooser->find(mean / CANDIDATE_EVERY + 1, 1000), 1000);
	umem_sample(0);
	ck_assert_uint_eq(cpu_marks.chooser->find(bytes, 1000), 1000);
	ck_assert(!cpu_marks.chooser->accept(bytes));
	ck_assert(!sample_count_marked(bytes, bytes));
}
END_TEST

/* The distances have no memory, so no pattern of pushes can fall into step. */
START_TEST(candidates_are_marked_with_the_chance_of_their_bytes)
{
	enum {
		N = 1000000
	};
	const size_t mean = MIB, bytes = 512;
	const double want = -expm1(-(double)bytes / (double)mean);
	double pushes = 0, nbeyond = 0;
	unsigned nmarked = 0, ntaken = 0;

	ck_assert_int_eq(umem_sample(mean), 0);
	for (unsigned i = 0; i < N; i++) {
		uint32_t distance = cpu_marks.chooser->candidate_distance();

		pushes += distance + 1;
		nbeyond += distance >= CANDIDATE_EVERY;
		if (!cpu_marks.chooser->accept(bytes))
			continue;
		nmarked++;
		ntaken += sample_count_marked(bytes / 4, bytes);
	}
	ck_assert_double_eq_tol(nbeyond / N, exp(-1), 5 * 0.5 / sqrt(N));
	ck_assert_double_eq_tol(
	    nmarked, pushes * want, 5 * sqrt(pushes * want));
	ck_assert_double_eq_tol(ntaken, nmarked / 4., 5 * sqrt(nmarked / 4.));
}
END_TEST

START_TEST(a_weight_is_the_size_by_the_probability)
{
	for (size_t mean = 1; mean <= (size_t)1 << 40; mean *= 8)
		for (size_t size = 1; size <= (size_t)1 << 40; size *= 4) {
			double x = (double)size / (double)mean;
			double weight = (double)size / -expm1(-x);

			ck_assert_double_eq_tol(
			    (double)sample_weight(size, mean), weight,
			    1 + weight * 1e-9);
		}
	ck_assert_uint_eq(sample_weight(0, 1000), 1000);
	ck_assert_uint_eq(sample_weight(100, 0), 100);
}
END_TEST

Suite *
sample_count_suite(void)
{
	Suite *s = suite_create("sample_count");
	TCase *tc = tcase_create("sample_count");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, distances_are_exponential);
	tcase_add_loop_test(tc, distances_are_longer_than_a_countdown, 0, 3);
	tcase_add_test(tc, a_changed_mean_is_used_soon);
	tcase_add_test(tc, a_mean_that_returns_does_not_find_its_distance);
	tcase_add_test(tc, a_count_can_be_interrupted_by_another);
	tcase_add_test(tc, rounds_are_marked_with_the_chance_of_their_bytes);
	tcase_add_test(
	    tc, candidates_are_marked_with_the_chance_of_their_bytes);
	tcase_add_test(tc, a_weight_is_the_size_by_the_probability);
	suite_add_tcase(s, tc);
	return s;
}
