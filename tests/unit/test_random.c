/* test_random.c - generators, and the hash behind them */
#include <check.h>

#include "umem/base/random.h"

START_TEST(numbers_below_n_are_all_of_them)
{
	struct random r = {0};
	bool seen[7] = {false};

	for (int i = 0; i < 1000; i++) {
		uint64_t n = random_below(&r, array_size(seen));

		ck_assert_uint_lt(n, array_size(seen));
		seen[n] = true;
	}
	for (size_t i = 0; i < array_size(seen); i++)
		ck_assert(seen[i]);
	ck_assert_uint_eq(random_below(&r, 1), 0);
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_le(random_below(&r, UINT32_MAX), UINT32_MAX - 1);
}
END_TEST

START_TEST(without_a_seed_the_numbers_repeat)
{
	struct random a = {0}, b = {0}, c = {0};

	random_seed(&c);
	for (int i = 0; i < 100; i++) {
		uint64_t n = random_next(&a);

		ck_assert_uint_eq(n, random_next(&b));
		ck_assert_uint_ne(n, random_next(&c));
	}
}
END_TEST

START_TEST(a_second_seed_does_nothing)
{
	struct random r = {0};
	uint64_t counter;

	random_seed(&r);
	random_next(&r);
	counter = r.counter;
	ck_assert_uint_ne(counter, 0);
	random_seed(&r);
	ck_assert_uint_eq(r.counter, counter);
}
END_TEST

/* Each bit of the hash changes for about half of the changes of one bit. */
START_TEST(every_bit_of_the_hash_depends_on_every_bit)
{
	for (unsigned in = 0; in < 64; in++) {
		unsigned changed[64] = {0};

		for (uint64_t x = 1; x <= 256; x++) {
			uint64_t d =
			    hash_mix(x * HASH_FACTOR) ^
			    hash_mix(x * HASH_FACTOR ^ (uint64_t)1 << in);

			for (unsigned out = 0; out < 64; out++)
				changed[out] += d >> out & 1;
		}
		for (unsigned out = 0; out < 64; out++) {
			ck_assert_uint_gt(changed[out], 64);
			ck_assert_uint_lt(changed[out], 192);
		}
	}
}
END_TEST

Suite *
random_suite(void)
{
	Suite *s = suite_create("random");
	TCase *c = tcase_create("all");

	suite_add_tcase(s, c);
	tcase_add_test(c, numbers_below_n_are_all_of_them);
	tcase_add_test(c, without_a_seed_the_numbers_repeat);
	tcase_add_test(c, a_second_seed_does_nothing);
	tcase_add_test(c, every_bit_of_the_hash_depends_on_every_bit);
	return s;
}
