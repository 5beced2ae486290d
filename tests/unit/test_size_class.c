/*
 * test_size_class.c - every size and its class
 *
 * The tables are global, so each test is a separate process.
 */
#include <check.h>

#include "umem/base/page_map.h"
#include "umem/base/size_class.h"

/*
 * Find by linear search the class that the tables must give.  The sizes of
 * successive calls must ascend.
 */
static unsigned
least_class_from(unsigned c, size_t size)
{
	while (c <= size_classes.n && size_classes.bytes[c] < size)
		c++;
	return c <= size_classes.n ? c : 0;
}

static void
check_sizes(size_t first, size_t last, size_t step)
{
	unsigned c = 1;

	for (size_t size = first; size <= last; size += step) {
		c = least_class_from(c, size);
		if (size_class_of(size) != c)
			ck_abort_msg("size %zu is of class %u, not %u", size,
			    size_class_of(size), c);
	}
}

/* Check all small sizes, and the sizes near each class and each step. */
static void
check_table(void)
{
	const struct size_classes *t = &size_classes;

	ck_assert_uint_ge(t->n, 1);
	ck_assert_uint_lt(t->n, SIZE_CLASSES);
	ck_assert_uint_eq(t->bytes[t->n], SIZE_CLASS_MAX);
	for (unsigned c = 1; c <= t->n; c++) {
		ck_assert_uint_gt(t->bytes[c], t->bytes[c - 1]);
		ck_assert_uint_eq(
		    size_class_of(t->bytes[c] + 1), c == t->n ? 0 : c + 1);
		ck_assert_uint_eq(size_class_of(t->bytes[c]), c);
	}
	check_sizes(1, SIZE_SMALL + 64, 1);
	for (size_t base = SIZE_SMALL; base < SIZE_CLASS_MAX; base *= 2)
		for (size_t i = 0; i < 8; i++)
			check_sizes(base + base / 8 * i - 1,
			    base + base / 8 * i + 2, 1);
}

START_TEST(every_size_has_the_least_class_that_holds_it)
{
	ck_assert_uint_eq(size_class_of(0), 1);
	check_table();
	check_sizes(1, SIZE_CLASS_MAX, 1);
}
END_TEST

START_TEST(above_the_largest_there_is_no_class)
{
	/* volatile: a compiler that knows them warns of the table's bounds. */
	static const volatile size_t sizes[] = {SIZE_CLASS_MAX + 1,
	    SIZE_CLASS_MAX * 2, SIZE_CLASS_MAX * 4 + 1, PTRDIFF_MAX,
	    (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 7, SIZE_MAX};

	for (unsigned i = 0; i < array_size(sizes); i++)
		ck_assert_uint_eq(size_class_of(sizes[i]), 0);
}
END_TEST

/*
 * The limit of a quarter allows the waste of alignment to 16.  The averages
 * include it; they are computed relative to the size and to the chunk.
 */
START_TEST(waste_is_a_fourth_at_most_and_an_eighth_on_average)
{
	double of_size = 0, of_chunk = 0;

	for (size_t size = 1; size <= SIZE_CLASS_MAX; size++) {
		size_t chunk = size_classes.bytes[size_class_of(size)];
		size_t waste = chunk - size;

		if (waste > 15 && waste * 4 > size)
			ck_abort_msg("size %zu takes %zu", size, chunk);
		if (size > 32 * KIB)
			continue;
		of_size += (double)waste / (double)size;
		of_chunk += (double)waste / (double)chunk;
	}
	ck_assert_double_le(of_size / (32 * KIB), 0.125);
	ck_assert_double_le(of_chunk / (32 * KIB), 0.125);
}
END_TEST

START_TEST(all_but_the_first_are_what_malloc_has_to_align_to)
{
	ck_assert_uint_eq(size_classes.bytes[1], 8);
	for (unsigned c = 2; c <= size_classes.n; c++)
		ck_assert_uint_eq(size_classes.bytes[c] % 16, 0);
	/* umem_alloc() aligns multiples of a line and of a page to these. */
	for (size_t size = 64; size <= SIZE_CLASS_MAX; size += 64) {
		size_t chunk = size_classes.bytes[size_class_of(size)];

		ck_assert_uint_eq(chunk % 64, 0);
		if (size % 4096 == 0)
			ck_assert_uint_eq(chunk % 4096, 0);
	}
}
END_TEST

Suite *
size_class_suite(void)
{
	Suite *suite = suite_create("size_class");
	TCase *tc = tcase_create("size_class");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, every_size_has_the_least_class_that_holds_it);
	tcase_add_test(tc, above_the_largest_there_is_no_class);
	tcase_add_test(tc, waste_is_a_fourth_at_most_and_an_eighth_on_average);
	tcase_add_test(tc, all_but_the_first_are_what_malloc_has_to_align_to);
	suite_add_tcase(suite, tc);
	return suite;
}
