/* test_describe.c - the library's description of itself */
#include <check.h>
#include <string.h>

#include "tests/unit/suites.h"
#include "umem/cache/cache.h"
#include "umem/slab/slab.h"
#include "umem/described.h"
#include "vmem/describe.h"

/* The section of entries. */
extern struct describe_entry __start_umem_describe[];
extern struct describe_entry __stop_umem_describe[];

static const struct describe_entry *
find(const char *name)
{
	const struct describe_entry *found = NULL, *e;

	for (e = __start_umem_describe; e != __stop_umem_describe; e++)
		if (strcmp(e->name, name) == 0) {
			ck_assert_msg(found == NULL, "%s is there twice", name);
			found = e;
		}
	ck_assert_msg(found != NULL, "%s is missing", name);
	return found;
}

/* Tools step through the section: there must be no gap between entries. */
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
	    find("slab.span")->value, offsetof(struct slab, span));
	ck_assert_uint_eq(find("slab.span")->bytes, 8);
	ck_assert_uint_eq(find("cache.class")->bytes, 4);
	ck_assert_uint_eq(find("cache.slabs.layout.chunk")->value,
	    offsetof(struct umem_cache, slabs.layout.chunk));
	ck_assert_uint_eq(find("=cache")->value, sizeof(struct umem_cache));
}
END_TEST

START_TEST(variables_are_where_they_are)
{
	const struct describe_entry *e = find("&cache_list");

	ck_assert_ptr_eq((char *)e + e->value, &cache_list);
	ck_assert_uint_eq(e->bytes, sizeof(cache_list));
}
END_TEST

/* A list that no file of the library uses would be missing only at run time. */
START_TEST(every_list_is_in_the_table)
{
#define NAME_MEMBER(id, label, type, member) #label "." #member,
#define NAME_VARIABLE(id, variable)          "&" #variable,
#define NAME_CONSTANT(constant)              "=" #constant,
#define NAME_BYTES(id, label, type)          "=" #label,
	static const char *const names[] = {DESCRIBED_ALL(
	    NAME_MEMBER, NAME_VARIABLE, NAME_CONSTANT, NAME_BYTES)};

	for (size_t i = 0; i < array_size(names); i++)
		find(names[i]);
	ck_assert_uint_eq(
	    __stop_umem_describe - __start_umem_describe, array_size(names));
}
END_TEST

Suite *
describe_suite(void)
{
	Suite *suite = suite_create("describe");
	TCase *tcase = tcase_create("describe");

	tcase_add_test(tcase, every_entry_has_a_name_of_its_own);
	tcase_add_test(tcase, members_are_where_the_compiler_put_them);
	tcase_add_test(tcase, every_list_is_in_the_table);
	tcase_add_test(tcase, variables_are_where_they_are);
	suite_add_tcase(suite, tcase);
	return suite;
}
