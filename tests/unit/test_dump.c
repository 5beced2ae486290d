/* test_dump.c - the statistics for the program: umem_stats() and relatives */
#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "umem/base/large.h"
#include "umem/stats/text.h"
#include "umem/umem.h"
#include "vmem/heap.h"

static char text[1 << 20];

START_TEST(the_figures_follow_the_program)
{
	struct umem_stats before, after;
	void *small[100], *large;

	ck_assert_int_eq(umem_stats(&before, sizeof(before)), 0);
	for (unsigned i = 0; i < 100; i++)
		small[i] = umem_alloc(3000, UMEM_DEFAULT);
	large = umem_alloc(20 * MIB, UMEM_DEFAULT);
	ck_assert_int_eq(umem_stats(&after, sizeof(after)), 0);
	ck_assert_uint_ge(
	    after.live_bytes, before.live_bytes + 100 * 3000 + 20 * MIB);
	ck_assert_uint_eq(after.nlarge, before.nlarge + 1);
	ck_assert_uint_ge(after.large_bytes, before.large_bytes + 20 * MIB);
	ck_assert_uint_ge(after.ncaches, before.ncaches);
	ck_assert_uint_ge(after.ncaches, 1);
	ck_assert_uint_ge(after.committed_bytes, after.live_bytes);
	ck_assert_uint_eq(after.sample_bytes, 0);
	ck_assert_int_eq(umem_sample(5000), 0);
	for (unsigned i = 0; i < 100; i++)
		umem_free(small[i], 3000);
	umem_free(large, 20 * MIB);
	ck_assert_int_eq(umem_stats(&after, sizeof(after)), 0);
	ck_assert_uint_eq(after.nlarge, before.nlarge);
	ck_assert_uint_eq(after.live_bytes, before.live_bytes);
	ck_assert_uint_eq(after.sample_bytes, 5000);
}
END_TEST

START_TEST(the_limits_and_what_they_count_are_among_the_figures)
{
	struct umem_stats stats;
	void *large = umem_alloc(20 * MIB, UMEM_DEFAULT);

	ck_assert_int_eq(umem_stats(&stats, sizeof(stats)), 0);
	ck_assert_uint_eq(stats.soft_limit_bytes, 0);
	ck_assert_uint_eq(stats.hard_limit_bytes, 0);
	ck_assert_uint_ge(stats.limited_bytes, stats.heap_bytes);
	ck_assert_uint_eq(stats.limited_bytes, heap_held());
	ck_assert_int_eq(umem_ctl("soft_limit", "16m", NULL, 0), 0);
	ck_assert_int_eq(umem_ctl("hard_limit", "64m", NULL, 0), 0);
	ck_assert_ptr_null(umem_alloc(50 * MIB, UMEM_DEFAULT));
	umem_reap();
	umem_free(umem_alloc(1 * MIB, UMEM_DEFAULT), 1 * MIB);
	ck_assert_int_eq(umem_stats(&stats, sizeof(stats)), 0);
	ck_assert_uint_eq(stats.soft_limit_bytes, 16 * MIB);
	ck_assert_uint_eq(stats.hard_limit_bytes, 64 * MIB);
	ck_assert_uint_ge(stats.nhard_limit, 1);
	umem_free(large, 20 * MIB);
}
END_TEST

START_TEST(another_size_of_the_structure_is_refused)
{
	struct umem_stats stats;

	errno = 0;
	ck_assert_int_eq(umem_stats(&stats, sizeof(stats) - 16), -1);
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_int_eq(umem_stats(&stats, sizeof(stats) + 8), -1);
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_int_eq(umem_stats(NULL, sizeof(stats)), -1);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* Returns the text of umem_dump(). */
static const char *
dumped(int what)
{
	FILE *file = tmpfile();
	ssize_t n;

	errno = 7;
	ck_assert_int_eq(umem_dump(fileno(file), what), 0);
	ck_assert_int_eq(errno, 7);
	n = pread(fileno(file), text, sizeof(text) - 1, 0);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	fclose(file);
	return text;
}

START_TEST(each_report_is_written_whole)
{
	umem_cache_t *cache = umem_cache_create(
	    "a \"name\" <x>\\", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	static const char samples[] =
	    "heap profile: 0: 0 [0: 0] @ heapprofile\nMAPPED_LIBRARIES:\n";

	ck_assert_ptr_nonnull(umem_cache_alloc(cache, UMEM_DEFAULT));
	ck_assert_ptr_nonnull(
	    strstr(dumped(UMEM_DUMP_OPTIONS), "UMEM_LOGGING"));
	ck_assert_ptr_nonnull(strstr(text, "  transaction[=size]\n"));
	ck_assert_ptr_eq(strstr(dumped(UMEM_DUMP_STATS), samples), text);
	ck_assert_ptr_nonnull(strstr(text, "\nprocess "));
	ck_assert_ptr_nonnull(strstr(text, "\numem_cache_live_objects{cache="
					   "\"a _name_ _x__\",address=\"0x"));
	ck_assert_str_eq(text + strlen(text) - 7, "\n# EOF\n");
}
END_TEST

START_TEST(options_have_the_values_of_now)
{
	static const char sample[] =
	    "  sample[=size|default]\n"
	    "      record one allocation in about this many bytes\n"
	    "      off by default; now 512k\n";

	ck_assert_int_eq(umem_ctl("depot_bytes", "4m", NULL, 0), 0);
	ck_assert_int_eq(umem_ctl("sample", "512k", NULL, 0), 0);
	ck_assert_ptr_nonnull(strstr(
	    dumped(UMEM_DUMP_OPTIONS), "16m by default, up to 1g; now 4m\n"));
	ck_assert_ptr_nonnull(strstr(text, sample));
	ck_assert_int_eq(umem_sample(0), 0);
	ck_assert_ptr_null(strstr(dumped(UMEM_DUMP_OPTIONS), "now 512k"));
}
END_TEST

START_TEST(a_report_that_cannot_be_written_is_an_error)
{
	errno = 0;
	ck_assert_int_eq(umem_dump(-1, UMEM_DUMP_STATS), -1);
	ck_assert_int_eq(errno, EBADF);
	errno = 0;
	ck_assert_int_eq(umem_dump(1, 99), -1);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(metrics_are_cut_as_by_snprintf)
{
	ssize_t n = umem_metrics(NULL, 0);
	char end[4] = "xyz";

	ck_assert_int_gt(n, 1000);
	ck_assert_int_eq(umem_metrics(text, sizeof(text)), n);
	ck_assert_uint_eq(strlen(text), (size_t)n);
	ck_assert_str_eq(text + n - 6, "# EOF\n");
	ck_assert_int_eq(umem_metrics(end, 3), n);
	ck_assert_str_eq(end, "# ");
	ck_assert_int_eq(end[3], '\0');
	ck_assert_int_eq(umem_metrics(text, (size_t)n), n);
	ck_assert_uint_eq(strlen(text), (size_t)n - 1);
}
END_TEST

/* A text that is full drops whole lines, but not its last ones. */
START_TEST(lines_that_do_not_fit_are_dropped)
{
	struct text *some = text_create(10);

	text_line(some, "%s\n", "12345");
	text_line(some, "%s\n", "12345");
	text_line(some, "123\n");
	text_line(some, "\n");
	text_begin_end(some);
	text_line(some, "%s\n", "12345678");
	some->bytes[some->n] = '\0';
	ck_assert_str_eq(some->bytes, "12345\n123\n12345678\n");
	text_delete(some);
}
END_TEST

Suite *
dump_suite(void)
{
	Suite *suite = suite_create("dump");
	TCase *tc = tcase_create("dump");

	tcase_add_test(tc, the_figures_follow_the_program);
	tcase_add_test(
	    tc, the_limits_and_what_they_count_are_among_the_figures);
	tcase_add_test(tc, another_size_of_the_structure_is_refused);
	tcase_add_test(tc, each_report_is_written_whole);
	tcase_add_test(tc, options_have_the_values_of_now);
	tcase_add_test(tc, a_report_that_cannot_be_written_is_an_error);
	tcase_add_test(tc, metrics_are_cut_as_by_snprintf);
	tcase_add_test(tc, lines_that_do_not_fit_are_dropped);
	suite_add_tcase(suite, tc);
	return suite;
}
