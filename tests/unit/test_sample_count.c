/* test_sample_count.c - the distances from one sample to the next, in bytes */
#include <check.h>
#include <math.h>

#include "umem/malloc/sample_count.h"
#include "umem/umem.h"

/*
 * The distances between samples: mean, spread and tail of the exponential
 * distribution.
 */
START_TEST(distances_are_exponential)
{
	enum {
		N = 200000,
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
	ck_assert_double_eq_tol(sigma, MEAN, MEAN / 50);
	ck_assert_double_eq_tol((double)nbeyond / N, exp(-3), 0.003);
}
END_TEST

/*
 * The mean is right even if it is far above COUNTDOWN_MAX, the longest part
 * of a distance that is counted down at once.
 */
START_TEST(distances_are_longer_than_a_countdown)
{
	const size_t mean = 3 * MIB;
	unsigned n = 0;

	ck_assert_int_eq(umem_sample(mean), 0);
	for (size_t at = 0; at < 3000 * mean; at += 1000)
		n += sample_count_block(1000);
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

Suite *
sample_count_suite(void)
{
	Suite *s = suite_create("sample_count");
	TCase *tc = tcase_create("sample_count");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, distances_are_exponential);
	tcase_add_test(tc, distances_are_longer_than_a_countdown);
	tcase_add_test(tc, a_changed_mean_is_used_soon);
	suite_add_tcase(s, tc);
	return s;
}
