/* test_sample_text.c - the live samples by call site, as a text */
#include <check.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umem/base/page_map.h"
#include "umem/debug/module.h"
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

/* A row of the text, and the frames below it. */
struct row {
	unsigned long bytes, blocks, nsamples, newest, oldest;
	unsigned nframes;
	char frame[16][200];
};

/* Reads the row at *at, and moves *at behind its frames. */
static bool
read_row(const char **at, struct row *row)
{
	int n = 0;

	if (sscanf(*at, "%lu %lu %lu %lu %lu%n", &row->bytes, &row->blocks,
		&row->nsamples, &row->newest, &row->oldest, &n) != 5 ||
	    (*at)[n] != '\n')
		return false;
	*at += n + 1;
	for (row->nframes = 0; **at == '\t'; *at = strchr(*at, '\n') + 1)
		if (row->nframes < array_size(row->frame))
			sscanf(*at, " %199s", row->frame[row->nframes++]);
	return true;
}

/* Returns the text, with a final 0, until the next call. */
static const char *
made_text(void)
{
	static char copy[1 << 20];
	struct text *text = sample_text_create();

	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(text->ncut, 0);
	ck_assert_uint_lt(text->n, sizeof(copy));
	memcpy(copy, text->bytes, text->n);
	copy[text->n] = '\0';
	text_delete(text);
	return copy;
}

/* Returns what follows the titles of the columns. */
static const char *
rows_of(const char *text)
{
	const char *titles =
	    " about bytes about blocks samples newest (s) oldest (s)\n";
	const char *at = strstr(text, titles);

	ck_assert_ptr_nonnull(at);
	return at + strlen(titles);
}

START_TEST(the_call_site_with_the_most_bytes_is_first)
{
	struct row row;
	const char *text, *at;

	ck_assert_int_eq(umem_sample(1), 0);
	take_little();
	take_much();
	ck_assert_int_eq(umem_sample(5000), 0);
	text = made_text();
	ck_assert_ptr_eq(
	    strstr(text, "samples: 15 so far, 0 not kept; one in about 5000"
			 " bytes\n"),
	    text);
	at = rows_of(text);
	ck_assert(read_row(&at, &row));
	ck_assert_uint_eq(row.bytes, 10000);
	ck_assert_uint_eq(row.blocks, 10);
	ck_assert_uint_eq(row.nsamples, 10);
	ck_assert_uint_le(row.newest, row.oldest);
	ck_assert(read_row(&at, &row));
	ck_assert_uint_eq(row.bytes, 500);
	ck_assert_uint_eq(row.nsamples, 5);
	ck_assert(!read_row(&at, &row));
	ck_assert_str_eq(text + strlen(text) - 16, "\nend of samples\n");
}
END_TEST

START_TEST(a_sample_stands_for_the_blocks_that_are_none)
{
	struct row row;
	const char *at;

	ck_assert_int_eq(umem_sample(20000), 0);
	for (int i = 0; i < 20000; i++)
		take(100);
	at = rows_of(made_text());
	ck_assert(read_row(&at, &row));
	/* About 100 samples, with a standard deviation of 10. */
	ck_assert_uint_gt(row.nsamples, 40);
	ck_assert_uint_lt(row.nsamples, 160);
	ck_assert_uint_ge(row.blocks, 200 * row.nsamples);
	ck_assert_uint_le(row.blocks, 201 * row.nsamples);
	ck_assert_uint_le(row.bytes - 100 * row.blocks + 100, 200);
}
END_TEST

static int
note_bias(struct dl_phdr_info *info, size_t bytes, void *bias)
{
	(void)bytes;
	*(uintptr_t *)bias = info->dlpi_addr;
	return 1;
}

/* Is the frame an address of the function, as it is in the file? */
static bool
is_frame_of(const char *frame, void (*function)(void))
{
	size_t n = strlen(program_invocation_short_name);
	uintptr_t bias, at;

	/* The first object is the program. */
	dl_iterate_phdr(note_bias, &bias);
	at = (uintptr_t)function - bias;
	return strncmp(frame, program_invocation_short_name, n) == 0 &&
	       frame[n] == '+' && strtoul(frame + n + 1, NULL, 16) - at < 400;
}

START_TEST(frames_are_addresses_in_the_file_of_a_module)
{
	char module[1000], id[200];
	struct row row;
	const char *text, *at;
	unsigned i = 0;

	ck_assert_int_eq(umem_sample(1), 0);
	take_much();
	text = made_text();
	at = rows_of(text);
	ck_assert(read_row(&at, &row));
	/* The first frames are the library's, which is linked in here. */
	while (i + 1 < row.nframes &&
	       !is_frame_of(row.frame[i], (void (*)(void))take))
		i++;
	ck_assert_uint_lt(i + 1, row.nframes);
	ck_assert(is_frame_of(row.frame[i + 1], take_much));
	snprintf(module, sizeof(module), "\nmodule %s: /",
	    program_invocation_short_name);
	at = strstr(text, module);
	ck_assert_ptr_nonnull(at);
	ck_assert_int_eq(
	    sscanf(strstr(at, ", build ID "), ", build ID %199s", id), 1);
}
END_TEST

START_TEST(an_address_without_a_file_has_no_module)
{
	struct modules *modules = modules_create();
	uintptr_t in_file = 7;

	ck_assert_ptr_nonnull(modules);
	ck_assert_ptr_null(modules_find(modules, (uintptr_t)modules, &in_file));
	ck_assert_ptr_null(modules_find(modules, 1, &in_file));
	ck_assert_uint_eq(in_file, 7);
	modules_delete(modules);
}
END_TEST

/* Takes a block with one of 2^n stacks. */
static noinline void
take_on_path(unsigned path, unsigned n)
{
	/* The comments keep the compiler from making one call of two. */
	if (n == 0) {
		take(8 + path);
	} else if (path >> (n - 1) & 1) {
		__asm__ volatile("# odd" ::: "memory");
		take_on_path(path, n - 1);
		__asm__ volatile("# odd" ::: "memory");
	} else {
		__asm__ volatile("# even" ::: "memory");
		take_on_path(path, n - 1);
		__asm__ volatile("# even" ::: "memory");
	}
}

START_TEST(one_line_has_the_sum_of_the_call_sites_that_are_not_listed)
{
	const char *text, *at;
	struct row row;
	unsigned n = 0;

	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < 128; i++)
		take_on_path(i, 7);
	text = made_text();
	for (at = rows_of(text); read_row(&at, &row); n++)
		ck_assert_uint_eq(row.bytes, 8 + 127 - n);
	ck_assert_uint_eq(n, 100);
	/* 8 + ... + 35 */
	ck_assert_ptr_eq(strstr(at, "28 more call sites: about 602 bytes in 28 "
				    "blocks, 28 samples\n"),
	    at);
}
END_TEST

START_TEST(all_samples_of_a_full_table_are_counted)
{
	const char *at;
	struct row row;
	volatile unsigned n = 2100;

	sample_records_most = 1999;
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < n; i++)
		take(16);
	at = rows_of(made_text());
	ck_assert(read_row(&at, &row));
	ck_assert_uint_gt(row.nsamples, 1000);
	ck_assert_uint_lt(row.nsamples, 2000);
	ck_assert_uint_eq(row.bytes, 16 * row.nsamples);
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
	tcase_add_test(tc, the_call_site_with_the_most_bytes_is_first);
	tcase_add_test(tc, a_sample_stands_for_the_blocks_that_are_none);
	tcase_add_test(tc, frames_are_addresses_in_the_file_of_a_module);
	tcase_add_test(tc, an_address_without_a_file_has_no_module);
	tcase_add_test(
	    tc, one_line_has_the_sum_of_the_call_sites_that_are_not_listed);
	tcase_add_test(tc, all_samples_of_a_full_table_are_counted);
	tcase_add_test(tc, without_memory_there_is_no_text);
	tcase_add_test(tc, the_text_takes_no_memory_of_the_heap);
	suite_add_tcase(suite, tc);
	return suite;
}
