/*
 * test_node.c - machines with several memory nodes; each test is a process of
 * its own
 *
 * A variable stands for the kernel's word, so a test moves its thread to
 * another node by a store.  programs/threads/nodes.c runs on real nodes.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/hooks.h"
#include "tests/unit/stay.h"
#include "umem/base/page_map.h"
#include "umem/base/ready.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/malloc/alloc_inner.h"
#include "umem/umem.h"
#include "vmem/heap.h"
#include "vmem/huge.h"
#include "vmem/os.h"

#define NBLOCKS 1000

static uint32_t node;

/*
 * Does the work of umem/init.c on such a machine.  The tests expect a freed
 * block again, so their thread keeps its magazines.
 */
static void
emulate_nodes(uint32_t n)
{
	ck_assert(umem_ready());
	stay_here();
	nodes.at = (intptr_t)((uintptr_t)&node - thread_self());
	nodes.mask = n - 1;
	heap_nodes_start();
	for (unsigned i = 1; i < n; i++)
		cpu_header_reserve(i * NODE_CLASSES + 1, size_classes.n);
	alloc_choose_paths();
}

static void *
block_on(uint32_t where, size_t size)
{
	char *p;

	node = where;
	p = alloc_get(size);
	ck_assert_ptr_nonnull(p);
	memset(p, 1, size);
	return p;
}

static unsigned
number_of(const void *p)
{
	return page_map_number(page_map.entry[page_map_unit(p)]);
}

static const size_t sizes[] = {8, 64, 1000, 8192, 32768, 40000, 300000,
    LARGE_CLASS_MIN, 3 * MIB, SIZE_CLASS_MAX};

START_TEST(block_returns_to_its_node)
{
	size_t size = sizes[_i];
	void *p, *q;

	emulate_nodes(2);
	p = block_on(1, size);
	ck_assert_uint_eq(number_of(p), NODE_CLASSES + size_class_of(size));
	node = 0;
	alloc_free(p);
	q = block_on(0, size);
	ck_assert_ptr_ne(q, p);
	ck_assert_uint_eq(number_of(q), size_class_of(size));
	ck_assert_ptr_eq(block_on(1, size), p);
}
END_TEST

/* Each function that frees finds the cache of the block. */
START_TEST(every_free_finds_the_node)
{
	void *p[4];

	emulate_nodes(4);
	for (uint32_t i = 0; i < 4; i++) {
		p[0] = block_on(i, 100);
		node = (i + 1) % 4;
		switch (_i) {
		case 0:
			umem_free(p[0], 100);
			break;
		case 1:
			umem_free_bulk(1, p, 100);
			break;
		case 2:
			p[1] = alloc_resize(p[0], 5000);
			ck_assert_uint_eq(number_of(p[1]) / NODE_CLASSES, node);
			break;
		default:
			alloc_free_sized(p[0], 100, API_MALLOC, "free_sized");
		}
		ck_assert_ptr_eq(block_on(i, 100), p[0]);
	}
}
END_TEST

/* A double free may come when another thread has returned the slab. */
START_TEST(block_without_an_entry_has_the_cache_of_its_class)
{
	size_t size = sizes[_i];
	unsigned class = size_class_of(size);
	uint64_t *entry, before;
	void *p;

	emulate_nodes(2);
	p = block_on(1, size);
	entry = &page_map.entry[page_map_unit(p)];
	before = *entry;
	ck_assert_uint_eq(alloc_number_at(p, class), NODE_CLASSES + class);
	*entry = 0;
	ck_assert_uint_eq(alloc_number_at(p, class), class);
	*entry = before;
	alloc_free(p);
}
END_TEST

START_TEST(bulk_allocates_on_the_node)
{
	void *p[NBLOCKS];

	emulate_nodes(2);
	node = 1;
	ck_assert_uint_eq(umem_alloc_bulk(200, NBLOCKS, p, 0), NBLOCKS);
	for (unsigned i = 0; i < NBLOCKS; i++)
		ck_assert_uint_eq(number_of(p[i]) / NODE_CLASSES, 1);
	umem_free_bulk(NBLOCKS, p, 200);
}
END_TEST

/* A huge page has small blocks of one node. */
START_TEST(nodes_share_no_huge_page)
{
	static uintptr_t page[2][NBLOCKS];
	unsigned nshared = 0;

	emulate_nodes(2);
	for (unsigned i = 0; i < NBLOCKS; i++)
		for (uint32_t n = 0; n < 2; n++)
			page[n][i] = (uintptr_t)block_on(n, 50000) / HUGE_PAGE;
	for (unsigned i = 0; i < NBLOCKS; i++)
		for (unsigned j = 0; j < NBLOCKS; j++)
			nshared += page[0][i] == page[1][j];
	ck_assert_uint_eq(nshared, 0);
}
END_TEST

/* Memory that another node has written to is purged before it is used. */
START_TEST(node_takes_memory_without_pages)
{
	char *p, *q;
	bool zeroed;

	emulate_nodes(2);
	node = 0;
	p = heap_alloc(16 * MIB, HEAP_UNIT, &zeroed);
	ck_assert_ptr_nonnull(p);
	memset(p, 1, 16 * MIB);
	heap_free(p, 16 * MIB);
	node = (uint32_t)_i;
	q = heap_alloc(16 * MIB, HEAP_UNIT, &zeroed);
	ck_assert_ptr_eq(q, p);
	ck_assert(!zeroed);
	for (size_t i = 0; i < 16 * MIB; i += 4096)
		ck_assert_int_eq(q[i], !_i);
	heap_free(q, 16 * MIB);
}
END_TEST

/* So are the units by which a block grows. */
START_TEST(growth_takes_memory_without_pages)
{
	char *p, *q;
	bool zeroed;

	emulate_nodes(2);
	p = heap_alloc(4 * MIB, HEAP_UNIT, &zeroed);
	q = heap_alloc(4 * MIB, HEAP_UNIT, &zeroed);
	ck_assert_ptr_eq(q, p + 4 * MIB);
	memset(q, 1, 4 * MIB);
	heap_free(q, 4 * MIB);
	node = (uint32_t)_i;
	ck_assert(heap_grow(p, 4 * MIB, 8 * MIB, &zeroed));
	for (size_t i = 0; i < 4 * MIB; i += 4096)
		ck_assert_int_eq(q[i], !_i);
}
END_TEST

/* A block of a node's arena is freed, grown and shrunk there. */
START_TEST(block_of_a_node_is_resized)
{
	size_t used = heap_used(), one = HEAP_UNIT;
	bool zeroed;
	char *p;

	emulate_nodes(2);
	node = 1;
	p = heap_alloc(one, HEAP_UNIT, &zeroed);
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(heap_used(), used + one);
	node = 0;
	ck_assert(heap_grow(p, one, 10 * one, &zeroed));
	ck_assert_uint_eq(heap_used(), used + 10 * one);
	ck_assert(heap_shrink(p, 10 * one, 2 * one));
	ck_assert_uint_eq(heap_used(), used + 2 * one);
	heap_free(p, 2 * one);
	ck_assert_uint_eq(heap_used(), used);
}
END_TEST

/* MiB of this process that the kernel charges under strict overcommit. */
static size_t
charged(void)
{
	static char text[8192];
	FILE *file = fopen("/proc/self/status", "r");
	size_t n;

	ck_assert_ptr_nonnull(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	ck_assert_int_eq(fclose(file), 0);
	ck_assert_ptr_nonnull(strstr(text, "VmData:"));
	return strtoul(strstr(text, "VmData:") + 7, NULL, 10) / KIB;
}

/* The table of nodes covers all memory of the heap, and no more. */
START_TEST(table_of_nodes_grows_with_the_heap)
{
	volatile size_t large = 32 * MIB;
	size_t before;

	ck_assert(umem_ready());
	before = charged();
	emulate_nodes(2);
	ck_assert_uint_le(charged() - before, 2);
	for (unsigned i = 0; i < 40; i++) {
		ck_assert_ptr_nonnull(alloc_get(large));
		block_on(i % 2, MIB);
	}
}
END_TEST

Suite *
node_suite(void)
{
	Suite *suite = suite_create("node");
	TCase *tc = tcase_create("node");

	tcase_add_loop_test(
	    tc, block_returns_to_its_node, 0, array_size(sizes));
	tcase_add_loop_test(tc, every_free_finds_the_node, 0, 4);
	tcase_add_loop_test(tc,
	    block_without_an_entry_has_the_cache_of_its_class, 0,
	    array_size(sizes));
	tcase_add_test(tc, bulk_allocates_on_the_node);
	tcase_add_test(tc, nodes_share_no_huge_page);
	tcase_add_loop_test(tc, node_takes_memory_without_pages, 0, 2);
	tcase_add_loop_test(tc, growth_takes_memory_without_pages, 0, 2);
	tcase_add_test(tc, block_of_a_node_is_resized);
	tcase_add_test(tc, table_of_nodes_grows_with_the_heap);
	suite_add_tcase(suite, tc);
	return suite;
}
