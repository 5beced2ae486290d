/* test_misuse.c - one plain message for each misuse, a report, then abort */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/child.h"
#include "tests/unit/machine.h"
#include "umem/base/page_map.h"
#include "umem/base/ready.h"
#include "umem/base/large.h"
#include "umem/cache/misuse.h"
#include "vmem/heap.h"

static const void *where;
static umem_cache_t *cache;
static enum slab_fault fault;

static void
by_address(void)
{
	misuse_address("free", where);
}

static void
by_slab(void)
{
	misuse_slab("who", cache, where, fault);
}

static void
by_size(void)
{
	misuse_size("umem_free", where, SIZE_MAX);
}

static void
by_text(void)
{
	misuse("realloc", where, "some text");
}

/* Check that f writes this line first, then more, and ends with SIGABRT. */
static void
check_line(void (*f)(void), const char *who, const char *text)
{
	char expected[256];
	const char *said;

	/* If the name has a comma, a cache's name and "(" are part of it. */
	snprintf(expected, sizeof(expected), "umem: %s%s0x%lx): %s\n", who,
	    strchr(who, ',') != NULL ? " " : "(", (unsigned long)where, text);
	said = child_writes(f);
	ck_assert_msg(strncmp(said, expected, strlen(expected)) == 0,
	    "%s instead of %s", said, expected);
	ck_assert_ptr_nonnull(strstr(said, "\numem: in unit, process "));
	ck_assert(strstr(said, "\numem:     unit`main+0x") != NULL ||
		  !machine_has_stacks());
	ck_assert_ptr_nonnull(strstr(said, "\numem: umem crash CORE prints"));
	ck_assert(child_aborted());
}

START_TEST(messages_name_the_function_and_the_address)
{
	where = (void *)0x1234;
	check_line(by_text, "realloc", "some text");
	check_line(by_size, "umem_free",
	    "size 18446744073709551615 does not fit the block");
	where = NULL;
	check_line(by_text, "realloc", "some text");
}
END_TEST

START_TEST(foreign_addresses_are_not_of_the_heap)
{
	static int here;
	int there;
	void *libc = malloc(100);
	uintptr_t base = heap_window.base;
	const void *at[] = {NULL, &here, &there, libc, (void *)1,
	    (void *)UINTPTR_MAX, (void *)(base - 1),
	    (void *)(base + (page_map.units << HEAP_UNIT_SHIFT)),
	    (void *)(base + (page_map.units << HEAP_UNIT_SHIFT) - 1)};

	for (unsigned i = 0; i < array_size(at); i++) {
		where = at[i];
		check_line(by_address, "free", "not an address of the heap");
	}
	free(libc);
}
END_TEST

START_TEST(addresses_inside_blocks_are_no_blocks)
{
	static const size_t sizes[] = {8, 48, 1000, 5000, 57344, 100000,
	    1000000, SIZE_CLASS_MAX, 20 * MIB};

	for (unsigned i = 0; i < array_size(sizes); i++) {
		char *p = umem_alloc(sizes[i], UMEM_DEFAULT);
		const char *at[] = {
		    p + 1, p + sizes[i] / 2 + 1, p + sizes[i] - 1};

		for (unsigned j = 0; j < 3; j++) {
			where = at[j];
			check_line(
			    by_address, "free", "not the start of a block");
		}
	}
}
END_TEST

START_TEST(what_is_gone_was_freed_twice)
{
	void *large = umem_alloc(20 * MIB, UMEM_DEFAULT);
	void *small = umem_alloc(3000, UMEM_DEFAULT);

	umem_free(large, 20 * MIB);
	where = large;
	check_line(by_address, "free", "block freed twice");
	where = (char *)large + 5 * MIB;
	check_line(by_address, "free", "block freed twice");
	umem_free(small, 3000);
	cache_reap(class_cache[size_class_of(3000)]);
	where = small;
	check_line(by_address, "free", "block freed twice");
}
END_TEST

START_TEST(an_object_is_no_block)
{
	cache = umem_cache_create(
	    "objects", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	where = umem_cache_alloc(cache, UMEM_DEFAULT);
	check_line(by_address, "free", "object of a cache, not a block");
}
END_TEST

START_TEST(each_fault_of_a_slab_has_its_text)
{
	static const struct {
		enum slab_fault fault;
		const char *text;
	} faults[] = {{SLAB_INTERIOR, "not the start of a block"},
	    {SLAB_FREE, "block freed twice"},
	    {SLAB_NEVER, "block was never allocated"},
	    {SLAB_FOREIGN, "object of another cache"}};

	cache = umem_cache_create(
	    "objects", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	for (unsigned i = 0; i < 4; i++) {
		fault = faults[i].fault;
		where = (void *)0x1230;
		check_line(by_slab, "who(objects,", faults[i].text);
	}
	/* Class caches have no name that the program knows. */
	cache = class_cache_of(3);
	for (unsigned i = 0; i < 3; i++) {
		fault = faults[i].fault;
		check_line(by_slab, "who", faults[i].text);
	}
	/* The slab of this object no longer exists. */
	where = umem_alloc(20 * MIB, UMEM_DEFAULT);
	umem_free(where, 20 * MIB);
	fault = SLAB_FOREIGN;
	check_line(by_slab, "who", "block freed twice");
}
END_TEST

Suite *
misuse_suite(void)
{
	Suite *suite = suite_create("misuse");
	TCase *tc = tcase_create("misuse");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, messages_name_the_function_and_the_address);
	tcase_add_test(tc, foreign_addresses_are_not_of_the_heap);
	tcase_add_test(tc, addresses_inside_blocks_are_no_blocks);
	tcase_add_test(tc, what_is_gone_was_freed_twice);
	tcase_add_test(tc, an_object_is_no_block);
	tcase_add_test(tc, each_fault_of_a_slab_has_its_text);
	suite_add_tcase(suite, tc);
	return suite;
}
