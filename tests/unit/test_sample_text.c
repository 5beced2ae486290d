/* test_sample_text.c - the samples as a heap profile */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/machine.h"
#include "umem/base/page_map.h"
#include "umem/malloc/alloc.h"
#include "umem/stats/sample_text.h"
#include "umem/umem.h"
#include "vmem/os.h"

static void *kept;

/* Volatile, so that the compiler makes no copy of take() for one size. */
static volatile size_t little = 100, much = 1000;

static noinline void
take(size_t size)
{
	__atomic_store_n(
	    &kept, umem_alloc(size, UMEM_DEFAULT), __ATOMIC_RELAXED);
}

/* Volatile counters, so that the compiler unrolls no loop: one call each. */
static noinline void
take_little(void)
{
	for (volatile int i = 0; i < 5; i++)
		take(little);
}

static noinline void
take_much(void)
{
	for (volatile int i = 0; i < 10; i++)
		take(much);
}

/* A line of the profile: live blocks, and all that were allocated. */
struct row {
	unsigned long blocks, bytes;
	unsigned long blocks_allocated, bytes_allocated;
	unsigned nframes;
	uintptr_t frame[64];
};

/* Reads the line at *at, and moves *at behind it. */
static bool
read_row(const char **at, struct row *row)
{
	char *end;
	int n = 0;

	if (sscanf(*at, "%lu: %lu [%lu: %lu] @%n", &row->blocks, &row->bytes,
		&row->blocks_allocated, &row->bytes_allocated, &n) != 4 ||
	    n == 0)
		return false;
	for (*at += n, row->nframes = 0; **at == ' '; *at = end)
		row->frame[row->nframes++] = strtoul(*at, &end, 16);
	ck_assert_int_eq(**at, '\n');
	++*at;
	return true;
}

/* The sums of the first line of a profile, and of its other lines. */
struct sums {
	unsigned long blocks, bytes;
	unsigned long blocks_allocated, bytes_allocated;
	unsigned nrows;
	struct row row;   /* sum of the rows */
	const char *rows; /* in the text, which is valid until the next call */
	const char *mappings;
};

static struct sums
read_text(void)
{
	static char copy[4 << 20];
	struct text *text = sample_text_create();
	struct sums sums = {0};
	struct row row;
	const char *at;
	int n = 0;

	ck_assert_ptr_nonnull(text);
	ck_assert_uint_lt(text->n, sizeof(copy));
	memcpy(copy, text->bytes, text->n);
	copy[text->n] = '\0';
	text_delete(text);
	ck_assert_int_eq(sscanf(copy,
			     "heap profile: %lu: %lu [%lu: %lu] @ "
			     "heapprofile%n",
			     &sums.blocks, &sums.bytes, &sums.blocks_allocated,
			     &sums.bytes_allocated, &n),
	    4);
	ck_assert_int_eq(copy[n], '\n');
	sums.rows = at = copy + n + 1;
	for (; read_row(&at, &row); sums.nrows++) {
		sums.row.blocks += row.blocks;
		sums.row.bytes += row.bytes;
		sums.row.blocks_allocated += row.blocks_allocated;
		sums.row.bytes_allocated += row.bytes_allocated;
	}
	sums.mappings = at;
	return sums;
}

START_TEST(the_first_line_has_the_sums_of_the_samples)
{
	struct sums sums;

	ck_assert_int_eq(umem_sample(1), 0);
	take_little();
	take_much();
	umem_free(kept, much);
	/* As the free of a guarded sample does; it has no line. */
	ck_assert_ptr_nonnull(sample_stack_take());
	ck_assert_int_eq(umem_sample(0), 0);
	sums = read_text();
	ck_assert_uint_eq(sums.nrows, machine_has_stacks() ? 2 : 1);
	ck_assert_uint_eq(sums.row.blocks, 14);
	ck_assert_uint_eq(sums.row.bytes, 9500);
	ck_assert_uint_eq(sums.row.blocks_allocated, 15);
	ck_assert_uint_eq(sums.row.bytes_allocated, 10500);
	ck_assert_uint_eq(sums.blocks, 14);
	ck_assert_uint_eq(sums.bytes, 9500);
	ck_assert_uint_eq(sums.blocks_allocated, 15);
	ck_assert_uint_eq(sums.bytes_allocated, 10500);

	/* The sums of all that was allocated begin anew. */
	ck_assert_int_eq(umem_sample(5000), 0);
	sums = read_text();
	ck_assert_uint_eq(sums.row.blocks, 14);
	ck_assert_uint_eq(sums.row.bytes, 9500);
	ck_assert_uint_eq(sums.row.blocks_allocated, 0);
	ck_assert_uint_eq(sums.blocks, 14);
	ck_assert_uint_eq(sums.blocks_allocated, 0);
	ck_assert_uint_eq(sums.bytes_allocated, 0);
}
END_TEST

START_TEST(a_sample_stands_for_the_blocks_that_are_none)
{
	struct sums sums;

	ck_assert_int_eq(umem_sample(20000), 0);
	for (int i = 0; i < 20000; i++)
		take(100);
	sums = read_text();
	ck_assert_uint_eq(sums.nrows, 1);
	/* About 100 samples, with a standard deviation of 10, of 200.5 each. */
	ck_assert_uint_gt(sums.blocks, 40 * 200);
	ck_assert_uint_lt(sums.blocks, 160 * 201);
	ck_assert_uint_eq(sums.blocks, sums.row.blocks);
	ck_assert_uint_le(sums.bytes - 100 * sums.blocks + 100, 200);
}
END_TEST

static bool
is_in(uintptr_t frame, void (*function)(void))
{
	return frame - (uintptr_t)function < 400;
}

/* Is the address in a mapping of the program's file with code? */
static bool
is_mapped(const char *mappings, uintptr_t address)
{
	const char *at = mappings;
	unsigned long start, end;
	char may, path[500];

	for (; at != NULL; at = strchr(at + 1, '\n'))
		if (sscanf(at, "%lx-%lx %*c%*c%c%*c %*x %*x:%*x %*u %499s",
			&start, &end, &may, path) == 4 &&
		    address >= start && address < end)
			return may == 'x' && strrchr(path, '/') != NULL &&
			       strcmp(strrchr(path, '/') + 1,
				   program_invocation_short_name) == 0;
	return false;
}

START_TEST(frames_are_addresses_in_the_mappings_below)
{
	struct sums sums;
	struct row row;
	const char *at;
	unsigned i = 0;

	ck_assert_int_eq(umem_sample(1), 0);
	take_much();
	sums = read_text();
	at = sums.rows;
	ck_assert(read_row(&at, &row));
	/* The first frames are the library's, which is linked in here. */
	while (
	    i + 1 < row.nframes && !is_in(row.frame[i], (void (*)(void))take))
		i++;
	ck_assert_uint_lt(i + 1, row.nframes);
	ck_assert(is_in(row.frame[i + 1], take_much));
	ck_assert_int_eq(strncmp(sums.mappings, "MAPPED_LIBRARIES:\n", 18), 0);
	ck_assert(is_mapped(sums.mappings + 17, row.frame[i + 1]));
}
END_TEST

START_TEST(samples_that_are_lost_are_not_there)
{
	struct sums sums;
	volatile unsigned n = 2100;

	sample_records_most = 1999;
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < n; i++)
		take(16);
	sums = read_text();
	ck_assert_uint_gt(sums.blocks, 1000);
	ck_assert_uint_lt(sums.blocks, 2000);
	ck_assert_uint_eq(sums.bytes, 16 * sums.blocks);
}
END_TEST

START_TEST(without_memory_there_is_no_text)
{
	ck_assert_int_eq(umem_sample(1), 0);
	take_much();
	os_fail_nth(1, 1u << 30);
	errno = 0;
	ck_assert_int_eq(umem_dump(1, UMEM_DUMP_STATS), -1);
	os_fail_nth(0, 0);
	ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

START_TEST(the_text_takes_no_memory_of_the_heap)
{
	struct umem_stats before, after;
	struct text *text;

	ck_assert_int_eq(umem_sample(1), 0);
	take_much();
	ck_assert_int_eq(umem_stats(&before, sizeof(before)), 0);
	text = sample_text_create();
	ck_assert_ptr_nonnull(text);
	text_delete(text);
	ck_assert_int_eq(umem_stats(&after, sizeof(after)), 0);
	ck_assert_mem_eq(&before, &after, sizeof(before));
}
END_TEST

Suite *
sample_text_suite(void)
{
	Suite *suite = suite_create("sample_text");
	TCase *tc = tcase_create("sample_text");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, the_first_line_has_the_sums_of_the_samples);
	tcase_add_test(tc, a_sample_stands_for_the_blocks_that_are_none);
	tcase_add_test(tc, samples_that_are_lost_are_not_there);
	tcase_add_test(tc, without_memory_there_is_no_text);
	tcase_add_test(tc, the_text_takes_no_memory_of_the_heap);
	if (machine_has_stacks()) {
		tcase_add_test(tc, frames_are_addresses_in_the_mappings_below);
	}
	suite_add_tcase(suite, tc);
	return suite;
}
