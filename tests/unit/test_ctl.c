/*
 * test_ctl.c - options that change while the program runs
 *
 * Each test is a separate process.
 */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "magazine/magazine.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/profile/sample.h"
#include "umem/option_table.h"
#include "umem/umem.h"
#include "vmem/huge.h"

static char old[64];

/* Sets an option; checks the value that it had and the value that it has. */
static void
check_change(const char *name, const char *value, const char *before)
{
	errno = 7;
	ck_assert_int_eq(umem_ctl(name, value, old, sizeof(old)), 0);
	ck_assert_str_eq(old, before);
	ck_assert_int_eq(umem_ctl(name, NULL, old, sizeof(old)), 0);
	ck_assert_str_eq(old, value);
	ck_assert_int_eq(errno, 7);
}

/* Checks that an option refuses a value, and keeps the value that it has. */
static void
check_refused(const char *name, const char *value, int error)
{
	char kept[sizeof(old)] = "";

	umem_ctl(name, NULL, kept, sizeof(kept));
	errno = 0;
	strcpy(old, "untouched");
	ck_assert_int_eq(umem_ctl(name, value, old, sizeof(old)), -1);
	ck_assert_int_eq(errno, error);
	ck_assert_str_eq(old, "untouched");
	if (error == ENOENT)
		return;
	ck_assert_int_eq(umem_ctl(name, NULL, old, sizeof(old)), 0);
	ck_assert_str_eq(old, kept);
}

START_TEST(values_are_those_of_the_environment)
{
	check_change("depot_bytes", "4m", "16m");
	ck_assert_uint_eq(magazine_depot_most, 4 * MIB);
	check_change("depot_bytes", "1000", "4m");
	check_change("huge_pages", "no", "auto");
	ck_assert_int_eq(huge_use, HUGE_NO);
	check_change("huge_pages", "always", "no");
	ck_assert_int_eq(huge_use, HUGE_ALWAYS);
	check_change("reap_interval", "5", "0.25");
	check_change("reap_interval", "0.25", "5");
	check_change("rcu_delay", "3", "10");
	check_change("noabort", "yes", "no");
	ck_assert(debug.noabort);
	check_change("noabort", "no", "yes");
	ck_assert(!debug.noabort);
	ck_assert_int_eq(umem_ctl("nomagazines", NULL, old, sizeof(old)), 0);
	ck_assert_str_eq(old, cache_use_magazines ? "no" : "yes");
}
END_TEST

START_TEST(the_sampling_interval_is_that_of_umem_sample)
{
	check_change("sample", "512k", "off");
	ck_assert_uint_eq(sampling.mean, 512 * KIB);
	check_change("sample", "1m", "512k");
	ck_assert_int_eq(umem_sample(3000), 0);
	check_change("sample", "off", "3000");
	ck_assert_uint_eq(sampling.mean, 0);
}
END_TEST

START_TEST(wrong_values_are_refused)
{
	check_refused("nosuch", "1", ENOENT);
	check_refused("nosuch", NULL, ENOENT);
	check_refused("firewall", "5008", ENOENT);
	check_refused("default", "yes", ENOENT);
	check_refused("depot_bytes", "", EINVAL);
	check_refused("depot_bytes", "x", EINVAL);
	check_refused("depot_bytes", "2g", EINVAL);
	check_refused("reap_interval", "0", EINVAL);
	check_refused("reap_interval", "99999999999999999999", EINVAL);
	check_refused("huge_pages", "maybe", EINVAL);
	check_refused("noabort", "1", EINVAL);
	check_refused("sample", "often", EINVAL);
}
END_TEST

/* These would have no effect, or a wrong one, on what exists already. */
START_TEST(options_of_the_start_can_be_read_but_not_changed)
{
	static const char *const names[] = {"mode", "hardened",
	    "magazine_bytes", "concurrency", "zero_size", "nomagazines",
	    "firewall", "mtbf", "log", "stats", "transaction"};

	for (unsigned i = 0; i < array_size(names); i++) {
		if (strcmp(names[i], "firewall") == 0)
			check_refused(names[i], "1k", ENOENT);
		else
			check_refused(names[i], "1", EPERM);
	}
}
END_TEST

START_TEST(a_value_that_does_not_fit_changes_nothing)
{
	strcpy(old, "1234");
	errno = 0;
	ck_assert_int_eq(umem_ctl("depot_bytes", "1m", old, 3), -1);
	ck_assert_int_eq(errno, ERANGE);
	ck_assert_str_eq(old, "1234");
	ck_assert_int_eq(umem_ctl("depot_bytes", "1m", old, 4), 0);
	ck_assert_str_eq(old, "16m");
	ck_assert_int_eq(umem_ctl("depot_bytes", "2m", NULL, 0), 0);
	ck_assert_uint_eq(magazine_depot_most, 2 * MIB);
}
END_TEST

/* A variable that the library caches would not follow. */
START_TEST(live_options_are_numbers_words_or_flags_with_a_variable)
{
	unsigned nlive = 0;

	for (unsigned i = 0; i < option_table_length; i++) {
		const struct option *option = &option_table[i];

		if (!option->is_live)
			continue;
		nlive++;
		ck_assert_ptr_nonnull(option_target(option));
		ck_assert_int_ne(option->type, OPTION_PATH);
		ck_assert_uint_eq(option->checks, 0);
	}
	ck_assert_uint_eq(nlive, 10);
}
END_TEST

Suite *
ctl_suite(void)
{
	Suite *suite = suite_create("ctl");
	TCase *tc = tcase_create("ctl");

	tcase_add_test(tc, values_are_those_of_the_environment);
	tcase_add_test(tc, the_sampling_interval_is_that_of_umem_sample);
	tcase_add_test(tc, wrong_values_are_refused);
	tcase_add_test(tc, options_of_the_start_can_be_read_but_not_changed);
	tcase_add_test(tc, a_value_that_does_not_fit_changes_nothing);
	tcase_add_test(
	    tc, live_options_are_numbers_words_or_flags_with_a_variable);
	suite_add_tcase(suite, tc);
	return suite;
}
