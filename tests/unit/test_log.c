/* test_log.c - logs: entries in order, the newest kept, none half-written */
#include <check.h>
#include <pthread.h>
#include <string.h>

#include "umem/debug/report.h"
#include "umem/debug/log.h"
#include "vmem/os.h"
#include "vmem/panic.h"

struct entry {
	uint64_t number, again, rest[20];
};

static struct log *
start(size_t bytes)
{
	log_bytes_wanted[LOG_FAIL] = bytes;
	log_start();
	return &logs[LOG_FAIL];
}

START_TEST(a_log_that_was_not_asked_for_takes_nothing)
{
	log_start();
	ck_assert(!log_is_on(LOG_FAIL));
	ck_assert_ptr_null(log_put(LOG_FAIL, "text", 5));
}
END_TEST

START_TEST(without_memory_a_log_is_off)
{
	os_fail_nth(1, 1);
	start(LOG_BYTES_DEFAULT);
	os_fail_nth(0, 0);
	ck_assert(!log_is_on(LOG_FAIL));
	ck_assert_ptr_null(log_put(LOG_FAIL, "text", 5));
}
END_TEST

/* The entry in a place of the ring, without its number. */
static struct entry *
entry_at(const struct log *log, uint64_t i, uint64_t *number)
{
	struct log_entry *at = (void *)(log->base + i * log->entry_bytes);

	*number = at->number;
	return (void *)at->words;
}

START_TEST(the_newest_entries_are_there)
{
	struct log *log = start(LOG_BYTES_DEFAULT);
	uint64_t number;
	struct entry entry;

	ck_assert_ptr_nonnull(log->base);
	ck_assert_uint_ge(log->bytes, LOG_BYTES_DEFAULT);
	ck_assert_uint_ge(log->nentries, LOG_BYTES_DEFAULT / 256);
	for (uint64_t i = 1; i <= 10000; i++) {
		memset(&entry, 0, sizeof(entry));
		entry.number = entry.again = i;
		struct entry *at = log_put(LOG_FAIL, &entry, sizeof(entry));

		ck_assert_ptr_nonnull(at);
		ck_assert_uint_eq(at->number, i);
		ck_assert_uint_lt(
		    (uint64_t)((char *)at - log->base), log->bytes);
	}
	ck_assert_uint_eq(log->nput, 10000);
	/* No two places of the ring have one number. */
	for (uint64_t i = 0; i < log->nentries; i++) {
		struct entry *at = entry_at(log, i, &number);

		ck_assert_uint_eq((number - 1) % log->nentries, i);
		ck_assert_uint_gt(number + log->nentries, log->nput);
		ck_assert_uint_eq(at->number, number);
		ck_assert_uint_eq(at->again, number);
	}
}
END_TEST

START_TEST(a_log_has_an_entry_at_least)
{
	struct log *log = start(1);

	ck_assert_uint_ge(log->nentries, 1);
	ck_assert_ptr_nonnull(log_put(LOG_FAIL, "text", 5));
	ck_assert_ptr_nonnull(log_put(LOG_FAIL, "more", 5));
}
END_TEST

START_TEST(what_is_too_long_is_refused)
{
	static char much[1 * MIB];
	struct log *log = start(LOG_BYTES_DEFAULT);

	ck_assert_ptr_null(log_put(LOG_FAIL, much, sizeof(much)));
	ck_assert_ptr_nonnull(
	    log_put(LOG_FAIL, much, bufctl_log_bytes(debug.nframes)));
	ck_assert_ptr_null(log_put(LOG_FAIL, much, log->entry_bytes));
	ck_assert_ptr_nonnull(log_put(LOG_FAIL, much, 1));
}
END_TEST

START_TEST(a_frozen_log_stays_as_it_is)
{
	start(LOG_BYTES_DEFAULT);
	log_frozen = true;
	ck_assert_ptr_null(log_put(LOG_FAIL, "text", 5));
	log_frozen = false;
	ck_assert_ptr_nonnull(log_put(LOG_FAIL, "text", 5));
}
END_TEST

/* An entry of the ring is one of two threads' that meet at it. */
START_TEST(an_entry_is_written_by_one_thread)
{
	struct log *log = start(LOG_BYTES_DEFAULT);
	struct log_entry *first = (void *)log->base;
	uint64_t n = log->nentries;

	/* The first thread writes; the second has gone round the ring. */
	first->number = LOG_BUSY;
	log->nput = n;
	ck_assert_ptr_null(log_put(LOG_FAIL, "text", 5));
	ck_assert_uint_eq(first->number, LOG_BUSY);
	ck_assert_ptr_nonnull(log_put(LOG_FAIL, "text", 5));
	/* The first thread comes late. */
	first->number = n + 1;
	log->nput = 0;
	ck_assert_ptr_null(log_put(LOG_FAIL, "text", 5));
	ck_assert_uint_eq(first->number, n + 1);
	log->nput = 2 * n;
	ck_assert_ptr_nonnull(log_put(LOG_FAIL, "text", 5));
	ck_assert_uint_eq(first->number, 2 * n + 1);
}
END_TEST

static void *
put_many(void *arg)
{
	struct entry entry = {
	    .number = (uintptr_t)arg, .again = (uintptr_t)arg};

	for (unsigned i = 0; i < 5000; i++)
		log_put(LOG_FAIL, &entry, sizeof(entry));
	return NULL;
}

START_TEST(threads_do_not_mix_their_entries)
{
	struct log *log = start(LOG_BYTES_DEFAULT);
	pthread_t thread[8];
	uint64_t number;

	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, put_many, (void *)(i + 1));
	for (unsigned i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(log->nput, 40000);
	for (uint64_t i = 0; i < log->nentries; i++) {
		struct entry *entry = entry_at(log, i, &number);

		ck_assert_uint_ne(number, LOG_BUSY);
		ck_assert_uint_eq(entry->number, entry->again);
	}
}
END_TEST

/* The log of messages. */
START_TEST(the_last_messages_are_in_the_ring)
{
	char line[100];

	for (unsigned i = 0; i < 1000; i++) {
		uint64_t at = umem_error_begin;

		memset(line, 'a' + (int)(i % 26), sizeof(line));
		panic_hooks.line(line, sizeof(line));
		ck_assert_uint_eq(umem_error_begin, (at + 100) % 8192);
		for (unsigned j = 0; j < 100; j++)
			ck_assert_int_eq(
			    umem_error_buffer[(at + j) % 8192], line[0]);
	}
}
END_TEST

Suite *
log_suite(void)
{
	Suite *suite = suite_create("log");
	TCase *tc = tcase_create("log");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_log_that_was_not_asked_for_takes_nothing);
	tcase_add_test(tc, without_memory_a_log_is_off);
	tcase_add_test(tc, the_newest_entries_are_there);
	tcase_add_test(tc, a_log_has_an_entry_at_least);
	tcase_add_test(tc, what_is_too_long_is_refused);
	tcase_add_test(tc, a_frozen_log_stays_as_it_is);
	tcase_add_test(tc, an_entry_is_written_by_one_thread);
	tcase_add_test(tc, threads_do_not_mix_their_entries);
	tcase_add_test(tc, the_last_messages_are_in_the_ring);
	suite_add_tcase(suite, tc);
	return suite;
}
