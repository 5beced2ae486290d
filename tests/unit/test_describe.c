/* test_describe.c - the library's description of itself */
#include <check.h>
#include <string.h>

#include "tests/unit/suites.h"
#include "umem/cache/cache.h"
#include "umem/slab/slab.h"
#include "vmem/describe.h"

extern struct describe_entry __start_umem_describe[];
extern struct describe_entry __stop_umem_describe[];

static const struct describe_entry *
find(const char *name)
{
	const struct describe_entry *found = NULL;

	for (const struct describe_entry *e = __start_umem_describe;
	     e != __stop_umem_describe; e++)
		if (strcmp(e->name, name) == 0) {
			ck_assert_msg(found == NULL, "%s is there twice", name);
			found = e;
		}
	ck_assert_msg(found != NULL, "%s is missing", name);
	return found;
}

/* Tools step through the section, so there must be no gap between entries. */
START_TEST(every_entry_has_a_name_of_its_own)
{
	ck_assert_int_gt(__stop_umem_describe - __start_umem_describe, 100);
	for (const struct describe_entry *e = __start_umem_describe;
	     e != __stop_umem_describe; e++) {
		ck_assert_uint_ne(e->name[0], '\0');
		ck_assert_uint_lt(
		    strnlen(e->name, sizeof(e->name)), sizeof(e->name));
		ck_assert_ptr_eq(find(e->name), e);
	}
}
END_TEST

START_TEST(members_are_where_the_compiler_put_them)
{
	ck_assert_uint_eq(
	    find("slab.nfree")->value, offsetof(struct slab, nfree));
	ck_assert_uint_eq(find("slab.nfree")->bytes, 4);
	ck_assert_uint_eq(find("cache.slabs.layout.chunk")->value,
	    offsetof(struct umem_cache, slabs.layout.chunk));
	ck_assert_uint_eq(find("=cache")->value, sizeof(struct umem_cache));
}
END_TEST

START_TEST(variables_are_where_they_are)
{
	ck_assert_ptr_eq((void *)find("&cache_list")->value, &cache_list);
	ck_assert_uint_eq(find("&cache_list")->bytes, sizeof(cache_list));
}
END_TEST

Suite *
describe_suite(void)
{
	Suite *suite = suite_create("describe");
	TCase *tcase = tcase_create("describe");

	tcase_add_test(tcase, every_entry_has_a_name_of_its_own);
	tcase_add_test(tcase, members_are_where_the_compiler_put_them);
	tcase_add_test(tcase, variables_are_where_they_are);
	suite_add_tcase(suite, tcase);
	return suite;
}
