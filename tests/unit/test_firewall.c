/* test_firewall.c - accesses past the end, or after the free, fault */
#include <check.h>
#include <string.h>

#include "tests/unit/faults.h"
#include "umem/slab/firewall.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/os.h"

START_TEST(objects_end_where_the_pages_do)
{
	static const size_t sizes[] = {8, 16, 104, 4096, 4104, 65536, 70000};

	for (unsigned i = 0; i < array_size(sizes); i++) {
		struct slab_layout layout;
		char *span, *p;

		ck_assert(firewall_layout(&layout, sizes[i]));
		ck_assert_uint_eq(layout.nchunks, 1);
		ck_assert_uint_eq(layout.slab_bytes % HEAP_UNIT, 0);
		span = firewall_alloc(&layout);
		ck_assert_ptr_nonnull(span);
		p = span + layout.colour_max;
		ck_assert_uint_eq(
		    (uintptr_t)(p + sizes[i]) % os_page_size(), 0);
		memset(p, 7, sizes[i]);
		ck_assert(faults(p + sizes[i]));
		ck_assert(!faults(p + sizes[i] - 1));
		firewall_free(span, &layout);
		ck_assert(faults(p));
		ck_assert(faults(p + sizes[i] - 1));
	}
	struct slab_layout none;
	ck_assert(!firewall_layout(&none, SIZE_MAX));
	ck_assert(!firewall_layout(&none, 0));
}
END_TEST

START_TEST(an_address_comes_back_late)
{
	struct slab_layout layout;
	void *first, *span;

	firewall_layout(&layout, 64);
	first = firewall_alloc(&layout);
	firewall_free(first, &layout);
	for (unsigned i = 0; i < 2000; i++) {
		span = firewall_alloc(&layout);
		ck_assert_ptr_nonnull(span);
		ck_assert_ptr_ne(span, first);
		firewall_free(span, &layout);
	}
}
END_TEST

START_TEST(what_comes_back_is_zero)
{
	struct slab_layout layout;
	size_t addresses;

	firewall_layout(&layout, 64);
	firewall_free(firewall_alloc(&layout), &layout);
	addresses = account.firewall;
	for (unsigned i = 0; i < 6000; i++) {
		char *span = firewall_alloc(&layout);

		ck_assert_int_eq(span[layout.colour_max], 0);
		span[layout.colour_max] = 1;
		firewall_free(span, &layout);
	}
	/* More spans than the arena has addresses for: they come back. */
	ck_assert_uint_gt(6000 * layout.slab_bytes, addresses);
	ck_assert_uint_eq(account.firewall, addresses);
}
END_TEST

START_TEST(without_memory_there_is_none)
{
	struct slab_layout layout;

	firewall_layout(&layout, 64);
	for (unsigned nth = 1; nth < 8; nth++) {
		void *span;

		os_fail_nth(nth, 1);
		span = firewall_alloc(&layout);
		os_fail_nth(0, 0);
		if (span != NULL)
			firewall_free(span, &layout);
		span = firewall_alloc(&layout);
		ck_assert_ptr_nonnull(span);
		firewall_free(span, &layout);
	}
}
END_TEST

Suite *
firewall_suite(void)
{
	Suite *suite = suite_create("firewall");
	TCase *tc = tcase_create("firewall");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, objects_end_where_the_pages_do);
	tcase_add_test(tc, an_address_comes_back_late);
	tcase_add_test(tc, what_comes_back_is_zero);
	tcase_add_test(tc, without_memory_there_is_none);
	suite_add_tcase(suite, tc);
	return suite;
}
