/* test_quarantine.c - freed chunks are quarantined, and leave exactly once */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "umem/cache/quarantine.h"
#include "vmem/meta.h"
#include "vmem/os.h"

/* Takes all chunks out, and ends the quarantine. */
static void
quarantine_empty(struct quarantine *q)
{
	size_t at = 0;

	while (quarantine_remove(q, &at) != NULL)
		;
	ck_assert_uint_eq(quarantine_count(q), 0);
	quarantine_end(q);
}

START_TEST(it_holds_as_much_as_its_bytes_allow)
{
	static const size_t chunks[] = {
	    16, 4096, 64 * KIB, 512 * KIB, 1 * MIB, 8 * MIB};

	for (size_t i = 0; i < array_size(chunks); i++) {
		struct quarantine q = {0};

		quarantine_init(&q, chunks[i]);
		ck_assert_uint_ge(q.nslots, 2);
		ck_assert_uint_le(q.nslots, 256);
		if (q.nslots > 2)
			ck_assert_uint_le(q.nslots * chunks[i], 16 * KIB);
		quarantine_empty(&q);
		ck_assert_ptr_null(q.slot);
	}
}
END_TEST

START_TEST(each_comes_out_once)
{
	enum {
		N = 10000
	};
	static unsigned char out[N + 1];
	struct quarantine q = {0};
	size_t at = 0, nheld = 0;
	void *p;

	quarantine_init(&q, 256);
	ck_assert_uint_eq(quarantine_count(&q), 0);
	for (size_t i = 1; i <= N; i++) {
		p = quarantine_swap(&q, (void *)(i * 16));
		if (p != NULL)
			out[(uintptr_t)p / 16]++;
	}
	nheld = quarantine_count(&q);
	ck_assert_uint_eq(nheld, q.nslots);
	for (; (p = quarantine_remove(&q, &at)) != NULL; nheld--)
		out[(uintptr_t)p / 16]++;
	ck_assert_uint_eq(nheld, 0);
	ck_assert_uint_eq(quarantine_count(&q), 0);
	for (size_t i = 1; i <= N; i++)
		ck_assert_uint_eq(out[i], 1);
	quarantine_empty(&q);
}
END_TEST

/* The mean and the spread of the stay must be those of a random slot. */
START_TEST(nobody_can_tell_when)
{
	enum {
		N = 200000
	};
	struct quarantine q = {0};
	double sum = 0;
	size_t nout = 0, nlong = 0;

	quarantine_init(&q, 128);
	for (size_t i = 1; i <= N; i++) {
		uintptr_t p = (uintptr_t)quarantine_swap(&q, (void *)i);

		if (p == 0)
			continue;
		sum += (double)(i - p);
		nout++;
		nlong += i - p > 2 * q.nslots;
	}
	sum /= (double)nout;
	ck_assert_msg(
	    sum > 0.95 * (double)q.nslots && sum < 1.05 * (double)q.nslots,
	    "mean stay %g of %zu", sum, q.nslots);
	/* About exp(-2) of the chunks stay that long. */
	ck_assert_uint_ge(nlong, nout / 10);
	ck_assert_uint_le(nlong, nout / 6);
	quarantine_empty(&q);
}
END_TEST

/* Those that come one after the other leave so, except at the end of a run. */
START_TEST(neighbours_stay_together)
{
	static const size_t chunks[] = {64, 128, 600};

	for (size_t k = 0; k < array_size(chunks); k++) {
		struct quarantine q = {0};
		uintptr_t last = 0, n = 0, nout = 0;

		quarantine_init(&q, chunks[k]);
		ck_assert_uint_eq(q.nslots % q.run, 0);
		ck_assert_uint_lt(q.nslots / q.run, 32);
		for (uintptr_t i = 1; i <= 100000; i++) {
			uintptr_t p = (uintptr_t)quarantine_swap(&q, (void *)i);

			n += p != 0 && p == last + 1;
			nout += p != 0;
			last = p;
		}
		ck_assert_uint_ge(n + nout / q.run + nout / 100, nout);
		quarantine_empty(&q);
	}
}
END_TEST

START_TEST(without_memory_nothing_is_held)
{
	struct quarantine q = {0};
	int here;

	os_fail_nth(1, 1u << 30);
	while (meta_alloc(384 * sizeof(void *)) != NULL)
		;
	quarantine_init(&q, 16);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(q.nslots, 0);
	ck_assert_ptr_eq(quarantine_swap(&q, &here), &here);
	ck_assert_uint_eq(quarantine_count(&q), 0);
	quarantine_empty(&q);
}
END_TEST

/*
 * quarantine_inspect() returns the newest chunk first, then the others in turn.
 * Each chunk is put back afterwards.
 */
START_TEST(all_are_looked_at)
{
	struct quarantine q = {0};
	unsigned nseen[20] = {0};
	size_t at;

	quarantine_init(&q, KIB);
	ck_assert_uint_eq(q.nslots, 16);
	ck_assert_ptr_null(quarantine_inspect(&q, &at));
	for (uintptr_t i = 1; i < 20; i++) {
		quarantine_swap(&q, (void *)(i * 16));
		ck_assert_ptr_eq(quarantine_inspect(&q, &at), (void *)(i * 16));
		ck_assert_ptr_null(
		    quarantine_put_back(&q, at, (void *)(i * 16)));
	}
	size_t n = quarantine_count(&q);
	for (size_t i = 0; i < 3 * q.nslots; i++) {
		void *p = quarantine_inspect(&q, &at);

		if (p == NULL)
			continue;
		nseen[(uintptr_t)p / 16]++;
		ck_assert_uint_eq(quarantine_count(&q), n - 1);
		ck_assert_ptr_null(quarantine_put_back(&q, at, p));
	}
	for (unsigned i = 0; i < 20; i++) {
		ck_assert(nseen[i] == 0 || nseen[i] == 3);
		n -= nseen[i] == 3;
	}
	ck_assert_uint_eq(n, 0);
	/*
	 * quarantine_put_back() returns the chunk that took the slot meanwhile.
	 */
	quarantine_swap(&q, &q);
	ck_assert_ptr_eq(quarantine_inspect(&q, &at), &q);
	q.slot[at] = &at;
	ck_assert_ptr_eq(quarantine_put_back(&q, at, &q), &at);
	quarantine_empty(&q);
	ck_assert_ptr_null(quarantine_inspect(&q, &at));
}
END_TEST

static struct quarantine shared;
static unsigned char seen[4][100001];

static void *
swapper(void *arg)
{
	size_t me = (size_t)arg, at;

	for (size_t i = 1; i <= 25000; i++) {
		void *p =
		    quarantine_swap(&shared, (void *)((me * 25000 + i) * 16));

		if (p != NULL)
			seen[me][(uintptr_t)p / 16]++;
		/* The thread also inspects some quarantined chunks. */
		p = quarantine_inspect(&shared, &at);
		if (p != NULL)
			p = quarantine_put_back(&shared, at, p);
		if (p != NULL)
			seen[me][(uintptr_t)p / 16]++;
	}
	return NULL;
}

START_TEST(threads_get_different_ones)
{
	pthread_t thread[4];
	size_t at = 0;
	void *p;

	quarantine_init(&shared, 64 * KIB);
	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, swapper, (void *)i), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	while ((p = quarantine_remove(&shared, &at)) != NULL)
		seen[0][(uintptr_t)p / 16]++;
	for (size_t i = 1; i <= 100000; i++)
		ck_assert_uint_eq(
		    seen[0][i] + seen[1][i] + seen[2][i] + seen[3][i], 1);
	quarantine_empty(&shared);
}
END_TEST

Suite *
quarantine_suite(void)
{
	Suite *suite = suite_create("quarantine");
	TCase *tc = tcase_create("quarantine");

	tcase_add_test(tc, it_holds_as_much_as_its_bytes_allow);
	tcase_add_test(tc, each_comes_out_once);
	tcase_add_test(tc, nobody_can_tell_when);
	tcase_add_test(tc, neighbours_stay_together);
	tcase_add_test(tc, without_memory_nothing_is_held);
	tcase_add_test(tc, all_are_looked_at);
	tcase_add_test(tc, threads_get_different_ones);
	suite_add_tcase(suite, tc);
	return suite;
}
