/*
 * test_sample.c - the number of samples, and sampled blocks that behave like
 * others
 *
 * Each test is a separate process.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/child.h"
#include "tests/unit/faults.h"
#include "magazine/cpu_marks.h"
#include "tests/unit/hooks.h"
#include "tests/unit/machine.h"
#include "umem/base/page_map.h"
#include "umem/malloc/alloc.h"
#include "umem/debug/debug.h"
#include "umem/debug/stack.h"
#include "umem/malloc/nofail.h"
#include "umem/profile/sample.h"
#include "umem/profile/sample_count.h"
#include "umem/profile/sample_unit.h"
#include "umem/stats/stats.h"
#include "umem/upkeep/update.h"
#include "vmem/account.h"
#include "vmem/os.h"

static uint32_t
index_of(const void *p)
{
	return page_map_sample_index(page_map_owner(p));
}

static bool
is_sample(const void *p)
{
	uintptr_t unit = align_down((uintptr_t)p, HEAP_UNIT);
	void *owner = page_map_owner((void *)unit);

	return page_map_large_bytes(owner) != 0 &&
	       page_map_sample_index(owner) != 0;
}

/*
 * Allocate blocks until one of this size is guarded; every allocation is a
 * sample.
 */
static void *
guarded(size_t size)
{
	size_t n = sample_guarded_count();

	for (int i = 0; i < 100000; i++) {
		void *p = umem_alloc(size, UMEM_DEFAULT);

		ck_assert_ptr_nonnull(p);
		if (sample_guarded_count() != n)
			return p;
		umem_free(p, size);
	}
	ck_abort_msg("no block of %zu is guarded", size);
	return NULL;
}

static size_t
live(void)
{
	struct umem_stats stats;

	stats_read(&stats);
	return stats.live_bytes + stats.sampled_bytes -
	       account_get(&account.sample_warm);
}

static const size_t sizes[] = {1, 8, 15, 16, 24, 64, 100, 4096, 5000, 32768,
    32769, 61440, 100000, 1000000, SIZE_CLASS_MAX + 1};

START_TEST(off_nothing_is_a_sample)
{
	ck_assert_uint_eq(sampling.mean, 0);
	for (int i = 0; i < 100000; i++) {
		void *p = umem_alloc(1000, UMEM_DEFAULT);

		ck_assert(!is_sample(p));
		umem_free(p, 1000);
	}
	ck_assert_uint_eq(sample_count.bytes_more, 0);
}
END_TEST

static void *
get_by_umem(size_t s)
{
	return umem_alloc(s, UMEM_DEFAULT);
}

/* The ways on which blocks are counted. */
static void *(*const ways[])(size_t) = {
    get_by_umem, alloc_get, alloc_get_zeroed, alloc_slow};

/* Allocate n blocks of s bytes; return the sampled fraction. */
static double
share(void *(*get)(size_t), size_t s, unsigned n)
{
	unsigned nsampled = 0;

	for (unsigned i = 0; i < n; i++) {
		void *p = get(s);

		nsampled += is_sample(p);
		alloc_free(p);
	}
	return (double)nsampled / n;
}

START_TEST(the_chance_is_one_minus_exp)
{
	static const struct {
		size_t size, mean;
	} cases[] = {{16, 1024}, {16, 16}, {100, 10000}, {4096, 100000}, {8, 4},
	    {40000, 20000}, {40000, 400000}, {1000000, 1000000}};

	for (unsigned i = 0; i < array_size(cases); i++) {
		size_t s = cases[i].size, mean = cases[i].mean;

		double want = 1 - exp(-(double)s / (double)mean);
		unsigned n = s > 100000 ? 1000 : 20000;
		double sigma = sqrt(want * (1 - want) / n);

		ck_assert_int_eq(umem_sample(mean), 0);
		/* End the sampling interval that began before. */
		share(ways[_i], 8192, 33);
		double got = share(ways[_i], s, n);
		ck_assert_double_eq_tol(got, want, 5 * sigma + 1e-9);
	}
}
END_TEST

/* Up to 256 KiB / CANDIDATE_EVERY, marked rounds decide. */
#define MARKED_MEAN (256 * KIB)

static size_t
size_64(unsigned i)
{
	(void)i;
	return 64;
}

/* Sizes that marks decide, and sizes that are counted. */
static size_t
size_mixed(unsigned i)
{
	static const size_t mixed[] = {8, 100, 128, 129, 17, 1000, 64, 120};

	return mixed[(i * 2654435761u >> 20) % array_size(mixed)];
}

static void *
get_aligned(size_t size)
{
	return alloc_get_aligned(size, 64);
}

enum {
	DEEPEST = 700
};
static char *stack[DEEPEST];

/*
 * Allocate blocks up to a depth and free them in reverse order, again and
 * again.  Each allocation must be a sample with the same chance per byte,
 * whether it takes a block that was just freed, one from the depot, or one from
 * the slabs: compare the estimate from the samples with the exact bytes, for
 * each of four parts of the depth.
 */
static const struct {
	const char *name;
	void *(*get)(size_t);
	size_t (*size)(unsigned i);
	unsigned depth, nrounds;
} patterns[] = {{"pairs", alloc_get, size_64, 1, 4000000},
    {"nested", alloc_get, size_64, 4, 2000000},
    {"a few magazines", alloc_get, size_64, DEEPEST, 10000},
    {"zeroed", alloc_get_zeroed, size_64, 8, 500000},
    {"aligned", get_aligned, size_64, 8, 500000},
    {"mixed pairs", alloc_get, size_mixed, 1, 2000000},
    {"mixed sizes", get_by_umem, size_mixed, DEEPEST, 4000}};

/* The bytes that a sample of this size stands for. */
static double
weight(size_t size)
{
	return (double)size / -expm1(-(double)size / MARKED_MEAN);
}

/* It finds nothing in one thread, and makes an allocation 50 times as slow. */
#ifdef __SANITIZE_THREAD__
#define WITH_THREAD_SANITIZER true
#else
#define WITH_THREAD_SANITIZER false
#endif

START_TEST(an_estimate_is_right_for_every_part_of_a_pattern)
{
	unsigned depth = patterns[_i].depth, n = patterns[_i].nrounds;
	double estimate[4] = {0}, exact[4] = {0}, variance[4] = {0};

	if (WITH_THREAD_SANITIZER)
		return;
	ck_assert_int_eq(umem_sample(MARKED_MEAN), 0);
	for (unsigned round = 0; round < n; round++) {
		for (unsigned i = 0; i < depth; i++) {
			size_t s = patterns[_i].size(round * depth + i);
			unsigned part = i * 4 / depth;

			stack[i] = patterns[_i].get(s);
			exact[part] += (double)s;
			variance[part] += (double)s * (weight(s) - (double)s);
			if (is_sample(stack[i]))
				estimate[part] += weight(s);
		}
		for (unsigned i = depth; i > 0; i--)
			alloc_free(stack[i - 1]);
	}
	for (unsigned part = 0; part < 4; part++)
		if (exact[part] != 0)
			ck_assert_msg(fabs(estimate[part] - exact[part]) <
					  5 * sqrt(variance[part]),
			    "%s, part %u: %.0f estimated, %.0f exact, "
			    "deviation %.0f",
			    patterns[_i].name, part, estimate[part],
			    exact[part], sqrt(variance[part]));
}
END_TEST

/*
 * One thread allocates, another frees: no round returns to the first CPU.  They
 * pass batches, because a thread that yields may wait long for its next turn.
 */
enum {
	BATCH = 500
};
static void *volatile passed; /* [atomic] a batch; batch_last: the end */
static void *batch_last;

static void *
free_passed(void *unused)
{
	void **batch;

	while ((batch = __atomic_exchange_n(&passed, NULL, __ATOMIC_ACQ_REL)) !=
	       &batch_last) {
		for (unsigned i = 0; batch != NULL && i < BATCH; i++)
			alloc_free(batch[i]);
		if (batch == NULL)
			sched_yield();
	}
	return unused;
}

/* Returns when the other thread has freed the batch before the last. */
static void
pass(void *batch)
{
	void *none = NULL;

	while (!__atomic_compare_exchange_n(
	    &passed, &none, batch, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		none = NULL;
		sched_yield();
	}
}

START_TEST(an_estimate_is_right_if_another_thread_frees)
{
	enum {
		N = 200000
	};
	/* One is freed, one is passed, one is filled. */
	static void *batch[3][BATCH];
	const double part = -expm1(-64. / MARKED_MEAN);
	unsigned nsampled = 0;
	pthread_t thread;

	ck_assert_int_eq(umem_sample(MARKED_MEAN), 0);
	pthread_create(&thread, NULL, free_passed, NULL);
	for (unsigned i = 0; i < N; i++) {
		void **p = &batch[i / BATCH % 3][i % BATCH];

		*p = alloc_get(64);
		nsampled += is_sample(*p);
		if (i % BATCH == BATCH - 1)
			pass(p - (BATCH - 1));
	}
	pass(&batch_last);
	pthread_join(thread, NULL);
	ck_assert_double_eq_tol(nsampled, N * part, 5 * sqrt(N * part));
}
END_TEST

START_TEST(blocks_of_every_size_are_whole)
{
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned round = 0; round < 40; round++)
		for (unsigned i = 0; i < array_size(sizes); i++) {
			size_t s = sizes[i];
			char *p = umem_zalloc(s, UMEM_DEFAULT);

			ck_assert(is_sample(p));
			ck_assert_uint_eq((uintptr_t)p % (s < 16 ? 8 : 16), 0);
			if (s % 64 == 0)
				ck_assert_uint_eq((uintptr_t)p % 64, 0);
			if (s % os_page_size() == 0)
				ck_assert_uint_eq(
				    (uintptr_t)p % os_page_size(), 0);
			ck_assert(p[0] == 0 && memcmp(p, p + 1, s - 1) == 0);
			ck_assert_uint_ge(alloc_usable(p, "test"), s);
			memset(p, 0xa5, alloc_usable(p, "test"));
			umem_free(p, s);
		}
}
END_TEST

START_TEST(every_alignment_is_kept)
{
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned round = 0; round < 40; round++)
		for (size_t align = 1; align <= 4 * MIB; align *= 2)
			for (size_t s = 1; s < 200000; s *= 7) {
				void *p =
				    umem_alloc_align(s, align, UMEM_DEFAULT);

				ck_assert(is_sample(p));
				ck_assert_uint_eq((uintptr_t)p % align, 0);
				memset(p, 1, s);
				umem_free_align(p, s);
			}
}
END_TEST

/* From any size to any other size, sampled or not, the contents are kept. */
START_TEST(resizing_keeps_the_contents)
{
	static const size_t means[] = {1, 50000};

	ck_assert_int_eq(umem_sample(means[_i]), 0);
	for (unsigned round = 0; round < 300; round++) {
		size_t from = sizes[rand() % (int)array_size(sizes)];
		size_t to = sizes[rand() % (int)array_size(sizes)];
		char *p = alloc_get(from);
		size_t kept = from < to ? from : to;

		memset(p, (int)round, from);
		p = alloc_resize(p, to);
		ck_assert_ptr_nonnull(p);
		ck_assert_uint_ge(alloc_usable(p, "test"), to);
		ck_assert(
		    p[0] == (char)round && memcmp(p, p + 1, kept - 1) == 0);
		memset(p, 1, to);
		alloc_free(p);
	}
}
END_TEST

START_TEST(a_large_block_grows_and_stays_a_sample)
{
	volatile size_t from = 10 * MIB;
	char *p;

	ck_assert_int_eq(umem_sample(1), 0);
	p = alloc_get(from);
	ck_assert_int_eq(umem_sample(0), 0);
	ck_assert(is_sample(p));
	for (size_t s = 11 * MIB; s < 40 * MIB; s += MIB) {
		p[s - MIB - 1] = 7;
		p = alloc_resize(p, s);
		ck_assert(is_sample(p));
		ck_assert_uint_eq(sample_size(index_of(p)), s);
		ck_assert_int_eq(p[s - MIB - 1], 7);
	}
	alloc_free(p);
	ck_assert(!is_sample(p));
}
END_TEST

/*
 * A block grows in place while the memory behind it is free, with samples, too.
 * In the first steps, it may have to leave a hole.
 */
START_TEST(samples_do_not_move_a_block_that_grows)
{
	static const size_t means[] = {0, 1, 512 * KIB, GIB};
	volatile size_t from = 60 * KIB, large = 3 * MIB;
	unsigned nmoves[2] = {0, 0};

	ck_assert_int_eq(umem_sample(means[_i]), 0);
	for (unsigned sized = 0; sized < 2; sized++) {
		char *block = umem_alloc(from, 0);

		for (size_t s = from, to; s < 2 * large; s = to) {
			to = s + HEAP_UNIT;
			char *q = sized ? umem_realloc(block, s, to, 0)
					: alloc_resize(block, to);

			ck_assert_ptr_nonnull(q);
			nmoves[sized] += s >= 512 * KIB && q != block;
			block = q;
		}
		alloc_free(block);
	}
	ck_assert_msg(nmoves[0] <= 2 && nmoves[1] <= 2, "%u, %u moves",
	    nmoves[0], nmoves[1]);
}
END_TEST

/*
 * A sample has no chunk of its class, which both sizes may have, but a span.
 */
START_TEST(a_resized_sample_has_room_for_its_size)
{
	ck_assert_int_eq(umem_sample(1), 0);
	for (size_t old = 60 * KIB; old < 9 * MIB; old += old / 7)
		for (unsigned i = 1; i < 12; i++) {
			size_t size = old + old * i / 40;
			char *p = umem_alloc(old, 0);

			ck_assert(is_sample(p));
			p = umem_realloc(p, old, size, 0);
			ck_assert_uint_ge(alloc_usable(p, "test"), size);
			ck_assert_uint_ge(
			    page_map_large_bytes(page_map_owner(p)), size);
			umem_free(p, size);
		}
}
END_TEST

static void *wanted;
static struct sample *wanted_record;

static void
find_wanted(struct sample *s, void *unused)
{
	(void)unused;
	if (s->block == wanted)
		wanted_record = s;
}

static struct sample *
record_of(void *p)
{
	wanted = p;
	wanted_record = NULL;
	sample_each(find_wanted, NULL);
	ck_assert_ptr_nonnull(wanted_record);
	return wanted_record;
}

/* Returns an unguarded sample, at the start of its span or not. */
static char *
sample_of(size_t size, bool at_start)
{
	char *p;
	struct sample *s;

	do {
		p = umem_alloc(size, UMEM_NOFAIL);
		s = record_of(p);
	} while (s->is_guarded || (s->span == s->block) != at_start);
	return p;
}

START_TEST(a_sample_stays_where_it_has_room)
{
	size_t old = 10 * MIB - 1000;
	char *p;

	ck_assert_int_eq(umem_sample(1), 0);
	p = sample_of(old, true);
	ck_assert_ptr_eq(umem_realloc(p, old, 10 * MIB - 10, 0), p);
	umem_free(p, 10 * MIB - 10);
	/* A shrink without memory has left the span as it was. */
	p = sample_of(10 * MIB, true);
	record_of(p)->size = old - MIB;
	ck_assert_uint_eq(
	    alloc_usable(p, "test"), align_up(old - MIB, HEAP_UNIT));
	record_of(p)->size = 10 * MIB;
	umem_free(p, 10 * MIB);
}
END_TEST

/* As a sample has for which there was no unit, but a large block. */
START_TEST(a_small_sample_in_a_large_block_is_copied)
{
	struct sample *s;
	char *p, *unit;

	ck_assert_int_eq(umem_sample(1), 0);
	p = sample_of(100, false);
	s = record_of(p);
	unit = s->own_unit;
	s->own_unit = NULL;
	ck_assert(!sample_resizes(index_of(s->span), MIB));
	s->own_unit = unit;
	umem_free(p, 100);
}
END_TEST

/* The thread that halves the samples does not exist in the child. */
START_TEST(a_child_of_fork_halves_its_samples)
{
	int status;
	pid_t pid;

	ck_assert_int_eq(umem_sample(1), 0);
	alloc_free(alloc_get(100));
	sampling.is_halving = 1;
	pid = fork();
	if (pid == 0)
		_exit(sampling.is_halving != 0);
	sampling.is_halving = 0;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* A size that needs no other pages does not change what is counted. */
START_TEST(a_resized_sample_counts_its_pages)
{
	volatile size_t from = 70000;
	size_t before = account.sample_pages, first;
	char *p;

	ck_assert_int_eq(umem_sample(1), 0);
	p = alloc_get(from);
	ck_assert(is_sample(p));
	first = account.sample_pages - before;
	p = alloc_resize(p, from - 1000);
	ck_assert_uint_eq(account.sample_pages - before, first);
	p = alloc_resize(p, 2 * HEAP_UNIT);
	ck_assert_uint_eq(account.sample_pages - before, 2 * HEAP_UNIT);
	alloc_free(p);
	ck_assert_uint_eq(account.sample_pages, before);
}
END_TEST

/* A block that grows into a large block is sampled like a new large block. */
START_TEST(a_block_that_grows_may_become_a_sample)
{
	volatile size_t from = 900 * KIB;
	char *p = alloc_get(from);

	ck_assert(!is_sample(p));
	ck_assert_int_eq(umem_sample(1), 0);
	p = alloc_resize(p, 3 * MIB);
	ck_assert(is_sample(p));
	ck_assert_uint_eq(sample_size(index_of(p)), 3 * MIB);
	alloc_free(p);
}
END_TEST

/* The bytes for which the block stands: 0 if it is no sample. */
static double
estimate_of(const void *p)
{
	const struct sample *s;

	if (!is_sample(p))
		return 0;
	s = sample_near(p);
	return (double)sample_weight(s->counted, s->mean) / (double)s->counted *
	       (double)s->size;
}

/* A step of realloc() to a size, by which in_turn() ends. */
struct step {
	size_t size;
	bool is_on; /* sampling, during the step */
};

/*
 * Allocate n blocks and resize each in steps, the first of which allocates.
 * Return the mean of the bytes for which the blocks stand, and set *part to the
 * part of them that are samples.
 */
static double
in_turn(const struct step *steps, size_t mean, unsigned n, double *part)
{
	unsigned nsampled = 0;
	double sum = 0;

	for (unsigned i = 0; i < n; i++) {
		void *p = NULL;

		for (const struct step *s = steps; s->size != 0; s++) {
			ck_assert_int_eq(umem_sample(s->is_on ? mean : 0), 0);
			p = p == NULL ? alloc_get(s->size)
				      : alloc_resize(p, s->size);
			ck_assert_ptr_nonnull(p);
		}
		nsampled += is_sample(p);
		sum += estimate_of(p);
		alloc_free(p);
	}
	*part = (double)nsampled / n;
	return sum / n;
}

/* Each has a block that is counted last with .counted bytes. */
static const struct {
	const char *what;
	struct step steps[6];
	size_t mean, counted;
} resized[] = {
    {"grows in place", {{9 * MIB, true}, {20 * MIB, true}, {40 * MIB, true}},
	64 * MIB, 40 * MIB},
    {"grows to its size after sampling began",
	{{40 * MIB, false}, {41 * MIB, true}}, 64 * MIB, 41 * MIB},
    {"grows from a chunk before and in place after sampling began",
	{{100000, false}, {150000, false}, {300000, true}}, 512 * KIB, 300000},
    {"shrinks in place", {{40 * MIB, true}, {10 * MIB, true}}, 64 * MIB,
	40 * MIB},
    {"shrinks and grows",
	{{40 * MIB, true}, {10 * MIB, true}, {20 * MIB, true}}, 64 * MIB,
	20 * MIB},
    {"grows while sampling is off", {{20 * MIB, true}, {40 * MIB, false}},
	64 * MIB, 20 * MIB},
    {"shrinks in its chunk", {{60000, true}, {35000, true}}, 100000, 60000},
    {"is copied", {{1000, true}, {60000, true}}, 100000, 60000},
};

/*
 * However realloc() has changed a block, its chance is that of the size with
 * which it was counted last, and the blocks stand for the bytes they have.
 */
START_TEST(a_resized_block_stands_for_the_bytes_it_has)
{
	const unsigned n = 600;
	const struct step *last = resized[_i].steps;
	double want =
	    1 - exp(-(double)resized[_i].counted / (double)resized[_i].mean);
	double sigma = sqrt(want * (1 - want) / n), part, bytes;

	while (last[1].size != 0)
		last++;
	bytes = in_turn(resized[_i].steps, resized[_i].mean, n, &part);
	if (fabs(part - want) > 5 * sigma ||
	    fabs(bytes / (double)last->size - 1) > 5 * sigma / want)
		ck_abort_msg("a block that %s: %f samples instead of %f, %f "
			     "bytes instead of %zu",
		    resized[_i].what, part, want, bytes, last->size);
	ck_assert_uint_eq(account.sample_spans, 0);
	ck_assert_uint_eq(account.sample_pages, 0);
}
END_TEST

/* Without memory to enlarge a sample, the block stays a sample. */
START_TEST(a_sample_that_cannot_grow_stays)
{
	volatile size_t from = 9 * MIB;
	size_t spans, pages;
	char *p;

	ck_assert_int_eq(umem_sample(1), 0);
	p = alloc_get(from);
	spans = account.sample_spans;
	pages = account.sample_pages;
	ck_assert_ptr_null(alloc_resize(p, PTRDIFF_MAX / 2));
	ck_assert(is_sample(p));
	ck_assert_uint_eq(sample_size(index_of(p)), 9 * MIB);
	ck_assert_uint_eq(account.sample_spans, spans);
	ck_assert_uint_eq(account.sample_pages, pages);
	alloc_free(p);
	ck_assert_uint_eq(account.sample_spans, 0);
	ck_assert_uint_eq(account.sample_pages, 0);
}
END_TEST

/* So many records tests allow, which is less than the library does. */
#define RECORDS 1000

/* Without a record for it, a block grows and is no sample. */
START_TEST(blocks_grow_when_records_have_run_out)
{
	static void *p[RECORDS];
	volatile size_t from = 9 * MIB;
	char *grows = alloc_get(from);

	sample_records_most = RECORDS - 1;
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < RECORDS; i++)
		p[i] = umem_alloc(16, UMEM_DEFAULT);
	grows = alloc_resize(grows, 10 * MIB);
	ck_assert_ptr_nonnull(grows);
	ck_assert(!is_sample(grows));
	for (unsigned i = 0; i < RECORDS; i++)
		umem_free(p[i], 16);
	grows = alloc_resize(grows, 11 * MIB);
	ck_assert(is_sample(grows));
	alloc_free(grows);
}
END_TEST

START_TEST(a_block_stays_where_it_would_without)
{
	char *p, *q;

	ck_assert_int_eq(umem_sample(1), 0);
	for (int i = 0; i < 100; i++) {
		p = alloc_get(1000);
		ck_assert_uint_eq(alloc_usable(p, "test") > 1024, false);
		q = alloc_resize(p, 1001);
		ck_assert_ptr_eq(p, q);
		ck_assert_uint_eq(sample_size(index_of((void *)align_down(
				      (uintptr_t)q, HEAP_UNIT))),
		    1001);
		alloc_free(q);
	}
}
END_TEST

START_TEST(a_size_that_was_not_asked_for_is_misuse)
{
	void *p;

	ck_assert_int_eq(umem_sample(1), 0);
	p = umem_alloc(100, UMEM_DEFAULT);
	umem_free(p, 300);
}
END_TEST

/* No sample is counted twice, or stays counted after it was freed. */
START_TEST(figures_come_back)
{
	void *p[200];
	size_t before;

	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < 200; i++)
		p[i] = umem_alloc(100, UMEM_DEFAULT);
	for (unsigned i = 0; i < 200; i++)
		umem_free(p[i], 100);
	before = live();
	for (unsigned i = 0; i < 200; i++)
		p[i] = alloc_get(20000);
	/* Each sample counts in whole pages, not in whole heap units. */
	ck_assert_uint_ge(live() - before, 200 * 20000);
	ck_assert_uint_le(
	    live() - before, 200 * align_up(20000, os_page_size()));
	for (unsigned i = 0; i < 200; i++)
		p[i] = alloc_resize(p[i], 20001 + i);
	for (unsigned i = 0; i < 200; i++)
		alloc_free(p[i]);
	ck_assert_uint_eq(live(), before);
	ck_assert_uint_eq(sample_guarded_count(), 0);
	ck_assert_uint_eq(account.sample_guarded, 0);
	ck_assert_uint_eq(account.sample_spans, 0);
	ck_assert_uint_eq(account.sample_pages, 0);
}
END_TEST

/* The heap's memory grows by the pages of the samples, not by heap units. */
START_TEST(samples_count_by_pages_in_the_memory_of_the_heap)
{
	enum {
		N = 500
	};
	static void *p[N];
	size_t page = os_page_size();
	struct umem_stats before, with, after;

	ck_assert_int_eq(umem_sample(1), 0);
	umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
	stats_read(&before);
	for (unsigned i = 0; i < N; i++)
		p[i] = umem_alloc(100, UMEM_DEFAULT);
	stats_read(&with);
	ck_assert_uint_ge(with.heap_bytes - before.heap_bytes, (N - 1) * page);
	ck_assert_uint_le(with.heap_bytes - before.heap_bytes, (N + 1) * page);
	for (unsigned i = 0; i < N; i++)
		umem_free(p[i], 100);
	stats_read(&after);
	/* Some freed samples keep their first page. */
	ck_assert_uint_le(after.heap_bytes, before.heap_bytes + 17 * page);
	/* The pages behind a sample of many units are released. */
	stats_read(&before);
	p[0] = umem_alloc(10 * HEAP_UNIT + 1, UMEM_DEFAULT);
	stats_read(&with);
	ck_assert_uint_le(
	    with.heap_bytes, before.heap_bytes + 10 * HEAP_UNIT + page);
	umem_free(p[0], 10 * HEAP_UNIT + 1);
}
END_TEST

/* Resident pages of the heap unit that holds a sample. */
static unsigned
resident(const void *p)
{
	void *unit = (void *)align_down((uintptr_t)p, HEAP_UNIT);
	unsigned char pages[HEAP_UNIT / 4096];
	unsigned n = 0;

	ck_assert(os_resident(unit, HEAP_UNIT, pages));
	for (size_t i = 0; i < HEAP_UNIT / os_page_size(); i++)
		n += pages[i] & 1;
	return n;
}

/* Pages of the unit that an earlier block has used do not stay resident. */
START_TEST(a_sample_has_only_the_pages_that_it_needs)
{
	enum {
		N = 300
	};
	static const size_t of[] = {16, 100, 2000, 5000, 60000};
	size_t page = os_page_size();
	static void *p[N];
	unsigned npages = 0;

	for (unsigned i = 0; i < N; i++) {
		p[i] = umem_alloc(HEAP_UNIT, UMEM_DEFAULT);
		memset(p[i], 1, HEAP_UNIT);
	}
	for (unsigned i = 0; i < N; i++)
		umem_free(p[i], HEAP_UNIT);
	umem_reap();
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned k = 0; k < array_size(of); k++) {
			for (unsigned i = 0; i < N; i++) {
				p[i] = umem_alloc(of[k], UMEM_DEFAULT);
				memset(p[i], 1, of[k]);
				ck_assert_uint_le(resident(p[i]),
				    align_up(of[k], page) / page);
			}
			for (unsigned i = 0; i < N; i++)
				umem_free(p[i], of[k]);
		}
	/* Some free records are warm.  The samples of 60000 bytes were last. */
	for (unsigned i = 0; i < N; i++)
		ck_assert_uint_eq(resident(p[i]), 0);
	for (unsigned i = 0; i < N; i++) {
		p[i] = umem_alloc(100, UMEM_DEFAULT);
		memset(p[i], 1, 100);
	}
	for (unsigned i = 0; i < N; i++)
		umem_free(p[i], 100);
	for (unsigned i = 0; i < N; i++)
		npages += resident(p[i]);
	ck_assert_uint_le(npages, 16);
}
END_TEST

/* Page sizes of kernels; false if pages[i] is below this kernel's page size. */
static bool
have_pages(int i)
{
	static const size_t pages[] = {4 * KIB, 16 * KIB, 64 * KIB};

	if (pages[i] < os_page_size())
		return false;
	hook_page_size = pages[i];
	return true;
}

START_TEST(a_guarded_block_has_an_end_for_good)
{
	static const size_t of[] = {1, 8, 16, 104, 1000, 4096, 49152};

	if (!have_pages(_i))
		return;
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < array_size(of); i++) {
		char *p = guarded(of[i]);
		char *end = p + align_up(of[i], of[i] < 16 ? 8 : 16);

		ck_assert_uint_eq((uintptr_t)end % os_page_size(), 0);
		memset(p, 1, of[i]);
		ck_assert(faults(end));
		ck_assert(!faults(end - 1));
		umem_free(p, of[i]);
		ck_assert(faults(p));
		ck_assert(faults(end - 1));
	}
}
END_TEST

static noinline void
free_twice(void)
{
	void *p;

	umem_sample(1);
	p = guarded(100);
	alloc_free(p);
	alloc_free(p);
}

static noinline void
resize_freed(void)
{
	void *p;

	umem_sample(1);
	p = guarded(100);
	alloc_free(p);
	alloc_resize(p, 200);
}

static noinline void
free_inside(void)
{
	umem_sample(1);
	alloc_free((char *)guarded(100) + 16);
}

START_TEST(a_second_free_is_told_with_both_stacks)
{
	const char *text = child_writes(free_twice);

	ck_assert(child_aborted());
	ck_assert_ptr_nonnull(strstr(text, "): block freed twice\n"));
	text = strstr(text, "umem: allocated by thread ");
	ck_assert_ptr_nonnull(text);
	ck_assert_ptr_nonnull(strstr(text, "guarded+"));
	text = strstr(text, "umem: freed by thread ");
	ck_assert_ptr_nonnull(text);
	ck_assert_ptr_nonnull(strstr(text, "free_twice+"));

	text = child_writes(resize_freed);
	ck_assert(child_aborted());
	ck_assert_ptr_nonnull(strstr(text, "umem: realloc(0x"));
	ck_assert_ptr_nonnull(strstr(text, "resize_freed+"));

	text = child_writes(free_inside);
	ck_assert(child_aborted());
	ck_assert_ptr_nonnull(strstr(text, "not the start of a block"));
}
END_TEST

/*
 * Guarded samples are limited in number, are reused first in, first out, and
 * all of them are reused.
 */
START_TEST(guarded_samples_are_bounded_and_come_back_late)
{
	static char *p[SAMPLES_GUARDED];
	size_t n;

	if (!have_pages(_i))
		return;
	n = sample_guarded_max();
	ck_assert_int_eq(umem_sample(1), 0);
	for (int i = 0; i < SAMPLES_GUARDED; i++)
		p[i] = guarded(100);
	for (int i = 0; i < 1000; i++)
		umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
	ck_assert_uint_eq(sample_guarded_count(), SAMPLES_GUARDED);
	for (int i = 0; i < SAMPLES_GUARDED; i++) {
		umem_free(p[i], 100);
		ck_assert(faults(p[i]));
	}
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < SAMPLES_GUARDED; i++) {
			char *q = guarded(n);

			ck_assert_ptr_eq(
			    (char *)align_up((uintptr_t)p[i], os_page_size()),
			    q + n);
			memset(q, 1, n);
			umem_free(q, n);
		}
}
END_TEST

START_TEST(a_freed_block_is_guarded_until_places_run_out)
{
	void *first, *p;
	unsigned n = 0;

	ck_assert_int_eq(umem_sample(1), 0);
	first = guarded(100);
	umem_free(first, 100);
	/* The place is queued behind the places that were never used. */
	while ((p = guarded(100)) != first) {
		ck_assert_uint_lt(++n, 3 * SAMPLES_GUARDED);
		umem_free(p, 100);
	}
	ck_assert_uint_ge(n, SAMPLES_GUARDED - 16);
	umem_free(p, 100);
}
END_TEST

/*
 * If the kernel refuses a request, allocations still succeed, and free() still
 * works.
 */
START_TEST(refusals_of_the_kernel_do_no_harm)
{
	static const size_t some[] = {100, 1000, 5000};
	void *p[64];
	size_t before, size[64];
	unsigned nfailed = 0;

	/* Put free memory into the caches for blocks that cannot be samples. */
	for (unsigned k = 0; k < array_size(some); k++) {
		for (unsigned i = 0; i < 64; i++)
			p[i] = umem_alloc(some[k], UMEM_DEFAULT);
		for (unsigned i = 0; i < 64; i++)
			umem_free(p[i], some[k]);
	}
	before = live();
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned round = 0; round < 3000; round++) {
		os_fail_nth(1 + round % 7, 1 + round / 7 % 5);
		for (unsigned i = 0; i < 8; i++) {
			size[i] = some[(unsigned)rand() % array_size(some)];
			p[i] = umem_alloc(size[i], UMEM_DEFAULT);
			if (p[i] != NULL)
				memset(p[i], 1, size[i]);
			nfailed += p[i] == NULL;
		}
		for (unsigned i = 0; i < 8; i++)
			umem_free(p[i], size[i]);
	}
	/*
	 * The kernel refuses all requests from here on: no block is guarded,
	 * and blocks that exist stay usable.
	 */
	os_fail_nth(1, 1u << 30);
	for (unsigned i = 0; i < 64; i++) {
		p[i] = umem_alloc(100, UMEM_DEFAULT);
		if (p[i] != NULL)
			memset(p[i], 1, 100);
		nfailed += p[i] == NULL;
	}
	for (unsigned i = 0; i < 64; i++)
		umem_free(p[i], 100);
	os_fail_nth(0, 0);
	/*
	 * On a slow machine, upkeep may have released the cached memory
	 * meanwhile.
	 */
	ck_assert_uint_lt(nfailed, 240);
	ck_assert_uint_eq(live(), before);
	guarded(100);
}
END_TEST

START_TEST(records_run_out_and_blocks_do_not)
{
	enum {
		N = 2 * RECORDS
	};
	static void *p[N];
	unsigned nsampled = 0;

	sample_records_most = RECORDS - 1;
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < N; i++) {
		p[i] = umem_alloc(16, UMEM_DEFAULT);
		ck_assert_ptr_nonnull(p[i]);
		nsampled += is_sample(p[i]);
	}
	ck_assert_uint_le(nsampled, RECORDS - 1);
	ck_assert_uint_ge(nsampled, RECORDS - 2 - SAMPLES_GUARDED);
	for (unsigned i = 0; i < N; i++)
		umem_free(p[i], 16);
	p[0] = umem_alloc(16, UMEM_DEFAULT);
	ck_assert(is_sample(p[0]));
}
END_TEST

struct sum {
	unsigned n;
	double blocks, bytes;
};

static void
add_sample(struct sample *s, void *arg)
{
	struct sum *sum = arg;
	double weight = (double)sample_weight(s->counted, s->mean);

	sum->n++;
	sum->bytes += weight;
	sum->blocks += weight / (double)s->counted;
}

static struct sum
sum_of_samples(void)
{
	struct sum sum = {0};

	sample_each(add_sample, &sum);
	return sum;
}

/* Too many samples double the interval, and the estimate stays right. */
START_TEST(too_many_samples_are_halved)
{
	enum {
		N = 400000
	};
	static void *p[N];
	size_t size[] = {16, 200, 3000};
	double bytes = 0;
	struct sum sum;

	ck_assert_int_eq(umem_sample(4096), 0);
	for (unsigned i = 0; i < N; i++) {
		p[i] = umem_alloc(size[i % 3], UMEM_DEFAULT);
		ck_assert_ptr_nonnull(p[i]);
		bytes += (double)size[i % 3];
	}
	sum = sum_of_samples();
	ck_assert_uint_le(sum.n, SAMPLES_MAX);
	ck_assert_uint_ge(sum.n, SAMPLES_MAX / 4);
	ck_assert_uint_ge(sample_nhalved, 1);
	ck_assert_uint_eq(sample_nlost, 0);
	ck_assert_uint_gt(sampling.mean, 4096);
	/* More than five times the deviation. */
	ck_assert_double_lt(fabs(sum.bytes / bytes - 1), 0.05);
	ck_assert_double_lt(fabs(sum.blocks / N - 1), 0.25);
	for (unsigned i = 0; i < N; i++)
		umem_free(p[i], size[i % 3]);
	sum = sum_of_samples();
	ck_assert_uint_eq(sum.n, 0);
	/* The number of live samples is right again. */
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < SAMPLES_MAX - 1; i++)
		p[i] = umem_alloc(16, UMEM_DEFAULT);
	ck_assert_uint_eq(sampling.mean, 1);
	for (unsigned i = 0; i < SAMPLES_MAX - 1; i++)
		umem_free(p[i], 16);
}
END_TEST

static void
requests_fail_or_are_sampled(void *(*get)(size_t))
{
	unsigned nfailed = 0, nsampled = 0;

	for (int i = 0; i < 20000; i++) {
		void *p = get(100);

		nfailed += p == NULL;
		nsampled += p != NULL && is_sample(p);
		umem_free(p, 100);
	}
	ck_assert_uint_gt(nfailed, 8000);
	ck_assert_uint_gt(nsampled, 3000);
}

START_TEST(with_mtbf_both_are_in_force)
{
	for (int order = 0; order < 2; order++) {
		if (order == 0)
			umem_setmtbf(2);
		ck_assert_int_eq(umem_sample(200), 0);
		if (order == 1)
			umem_setmtbf(2);
		ck_assert_uint_eq(alloc_fast.small_end, 0);
		requests_fail_or_are_sampled(get_by_umem);
		requests_fail_or_are_sampled(alloc_get);
		if (order == 0)
			umem_sample(0);
		umem_setmtbf(0);
		ck_assert_uint_eq(alloc_fast.small_end,
		    order == 0 && cpu_layer.rseq.owner != RSEQ_NONE
			? SIZE_SMALL + 1
			: 0);
		ck_assert(share(get_by_umem, 100, 20000) < 0.5);
	}
	ck_assert(share(get_by_umem, 100, 20000) > 0.3);
	ck_assert_int_eq(umem_sample(0), 0);
	ck_assert_double_eq(share(get_by_umem, 100, 20000), 0);
}
END_TEST

static void *volatile handed[1000];

static void *
free_all(void *unused)
{
	for (unsigned i = 0; i < array_size(handed); i++)
		umem_free(handed[i], 100);
	return unused;
}

START_TEST(another_thread_may_free)
{
	size_t before;
	pthread_t thread;

	ck_assert_int_eq(umem_sample(1), 0);
	umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
	before = live();
	for (unsigned i = 0; i < array_size(handed); i++)
		handed[i] = umem_alloc(100, UMEM_DEFAULT);
	pthread_create(&thread, NULL, free_all, NULL);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(live(), before);
}
END_TEST

enum {
	WORKERS = 4
};
static unsigned nwrong; /* [atomic] */
static bool ended;      /* [atomic] */

/* Resizes a large block, which may begin and end to be a sample. */
static void
grow_and_shrink(void)
{
	volatile size_t from = 9 * MIB;
	char *p = alloc_get(from);

	for (size_t s = 10; p != NULL && s < 16; s++) {
		p[(s - 1) * MIB - 1] = (char)s;
		p = alloc_resize(p, s * MIB);
		if (p == NULL || p[(s - 1) * MIB - 1] != (char)s)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	}
	alloc_free(p == NULL ? NULL : alloc_resize(p, 10 * MIB));
}

/* Use blocks of all kinds while other threads turn sampling on and off. */
static void *
work(void *arg)
{
	uint64_t seed = (uintptr_t)arg + 1;

	for (int i = 0; i < 30000; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		size_t s = 1 + (seed >> 33) % (i % 50 == 0 ? 100000 : 400);
		char *p = umem_zalloc(s, UMEM_DEFAULT);

		if (p == NULL || p[0] != 0 || p[s - 1] != 0)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		else
			p[0] = p[s - 1] = 1;
		umem_free(p, s);
		if (i % 300 == 0)
			grow_and_shrink();
	}
	return NULL;
}

static void *
turn(void *unused)
{
	static const size_t means[] = {0, 1, 1000, 0, 100000, 10};

	for (unsigned i = 0; !__atomic_load_n(&ended, __ATOMIC_RELAXED); i++)
		umem_sample(means[i % array_size(means)]);
	return unused;
}

START_TEST(on_and_off_while_threads_work)
{
	pthread_t thread[WORKERS], turner[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&turner[i], NULL, turn, NULL);
	for (uintptr_t i = 0; i < WORKERS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&ended, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(turner[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	/* After the last change all words agree. */
	ck_assert_uint_eq(sampling.chosen, sampling.mean);
	if (cpu_layer.rseq.owner != RSEQ_NONE) {
		ck_assert_uint_eq(
		    cpu_marks.bytes_max, sampling.mean == 100000 ? 48 : 0);
		ck_assert_uint_eq(
		    alloc_fast.small_end, sampling.mean == 0 ? SIZE_SMALL + 1
					  : sampling.mean == 100000 ? 49
								    : 0);
	}
	ck_assert_int_eq(umem_sample(0), 0);
	ck_assert_uint_eq(
	    alloc_fast.small_end == 0, cpu_layer.rseq.owner == RSEQ_NONE);
	ck_assert_uint_eq(cpu_marks.bytes_max, 0);
}
END_TEST

enum {
	SETTER_ROUNDS = 10000
};
static pthread_barrier_t setters;
static unsigned ndisagreed;

/*
 * In each round, two threads set different intervals at the same time.  When
 * both have done so, one of them compares the words.
 */
static void *
set_often(void *mean)
{
	for (int i = 0; i < SETTER_ROUNDS; i++) {
		pthread_barrier_wait(&setters);
		umem_sample((uintptr_t)mean);
		if (pthread_barrier_wait(&setters) != 0)
			ndisagreed += sampling.chosen != sampling.mean;
	}
	return NULL;
}

START_TEST(two_threads_that_set_the_interval_leave_it_chosen)
{
	pthread_t thread[2];

	pthread_barrier_init(&setters, NULL, 2);
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(
		    &thread[i], NULL, set_often, (void *)(10 * (i + 1)));
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&setters);
	ck_assert_uint_eq(ndisagreed, 0);
	ck_assert_int_eq(umem_sample(0), 0);
	ck_assert_uint_eq(sampling.chosen, 0);
}
END_TEST

static void *freed_span, *next_sample;

/* Allocates the freed span again, as another thread might. */
static void
take_the_span(void *at, size_t bytes)
{
	hook_heap_freed = NULL;
	freed_span = at;
	next_sample = alloc_get(bytes);
}

START_TEST(the_span_that_a_sample_leaves_may_be_a_sample_at_once)
{
	volatile size_t size = SIZE_CLASS_MAX + MIB;
	char *p = alloc_get(size), *behind = alloc_get(size), *q;

	alloc_free(p);
	ck_assert_int_eq(umem_sample(1), 0);
	p = alloc_get(size);
	ck_assert(is_sample(p));
	memset(p, 'p', size);
	hook_heap_freed = take_the_span;
	q = alloc_resize(p, 2 * size);
	ck_assert_ptr_ne(q, p);
	ck_assert_ptr_eq(freed_span, p);
	ck_assert_ptr_eq(next_sample, p);
	ck_assert(is_sample(q) && is_sample(next_sample));
	memset(next_sample, 'n', size);
	ck_assert_int_eq(q[0], 'p');
	ck_assert_int_eq(q[size - 1], 'p');
	alloc_free(next_sample);
	alloc_free(q);
	alloc_free(behind);
}
END_TEST

/*
 * While one thread changes the interval, another may read small_end of one
 * moment and counted_end of another.
 */
START_TEST(a_mixture_of_words_serves_every_size_from_its_class)
{
	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return;
	for (unsigned class = 1; class <= size_classes.n; class ++)
		alloc_free(alloc_get(size_classes.bytes[class]));
	sampling.counted_end = SIZE_SMALL + 1;
	sample_count.bytes_more = 200 * KIB;
	for (size_t size = SIZE_SMALL + 1; size < 2 * SIZE_SMALL; size += 8) {
		void *p = alloc_slow(size);

		ck_assert_uint_eq(alloc_usable(p, "malloc"),
		    size_classes.bytes[size_class_of(size)]);
		alloc_free(p);
		sample_count.bytes_more = 200 * KIB;
	}
	ck_assert_int_eq(umem_sample(0), 0);
}
END_TEST

/*
 * Only the bytes of a block behind the countdown can be sampled at its end: 1
 * in 65536 blocks here.  If the others had another chance, 2 in 5 would be.
 */
START_TEST(a_byte_is_counted_once)
{
	unsigned nsampled = 0;

	ck_assert_int_eq(umem_sample(64 * KIB), 0);
	for (int i = 0; i < 200; i++) {
		void *p;

		sample_count.mean_tag = 0;
		sample_count.bytes_more = SIZE_SMALL - 1;
		p = alloc_get(SIZE_SMALL);
		nsampled += is_sample(p);
		alloc_free(p);
	}
	ck_assert_uint_le(nsampled, 10);
	ck_assert_int_eq(umem_sample(0), 0);
}
END_TEST

static void *(*const getters[])(size_t) = {
    alloc_get, alloc_get_zeroed, get_aligned};

/* The umem command writes these words (tools/inspect/model/change.c). */
START_TEST(any_allocation_notices_that_the_command_has_written)
{
	static const size_t means[] = {MIB, MIB, 0, 0, MIB};

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return;
	for (unsigned i = 0; i < array_size(means); i++) {
		sampling.mean = means[i];
		sampling.chosen = ~means[i];
		sampling.counted_end = 0;
		alloc_fast.small_end = 0;
		alloc_free(getters[_i](64));
		ck_assert_uint_eq(sampling.chosen, means[i]);
		ck_assert_uint_eq(alloc_fast.small_end,
		    means[i] == 0 ? SIZE_SMALL + 1
				  : sample_count_marked_max(means[i]) + 1);
	}
	ck_assert_int_eq(umem_sample(0), 0);
}
END_TEST

enum {
	KEPT = 8
};
static uint64_t thread_of[WORKERS]; /* [a] */
static unsigned nended;             /* [a] */

/*
 * Allocates, resizes and frees; the size of each block is k modulo 8.  A block
 * that is large enough is moved with its record, another stays in place.
 */
static void *
refill(void *arg)
{
	size_t k = (uintptr_t)arg;
	char *kept[KEPT] = {NULL};

	__atomic_store_n(&thread_of[k], stack_thread(), __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 6000; i++) {
		size_t s = i % 32 == 0 ? SIZE_CLASS_MAX : 8 * (i % 100 + 2);
		char **p = &kept[i % KEPT];

		alloc_free(*p);
		*p = alloc_get(s + 8 + k);
		if (i % 16 == 0)
			*p = alloc_resize(*p, 4 * s + k);
		else
			*p = alloc_resize(*p, s + k);
		if (*p == NULL)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	}
	for (unsigned i = 0; i < KEPT; i++)
		alloc_free(kept[i]);
	__atomic_add_fetch(&nended, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Is the record that of a block of the thread whose blocks have this size? */
static void
look_at_record(struct sample *s, void *arg)
{
	uint64_t size = __atomic_load_n(&s->size, __ATOMIC_RELAXED);
	unsigned *nlooked = arg;

	++*nlooked;
	if (size % 8 >= WORKERS || s->mean != 1 ||
	    s->thread !=
		__atomic_load_n(&thread_of[size % 8], __ATOMIC_RELAXED) ||
	    s->stack->depth == 0 || s->stack->depth > SAMPLE_FRAMES)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
}

START_TEST(records_are_whole_while_threads_refill_them)
{
	pthread_t thread[WORKERS];
	unsigned nlooked = 0;

	_Static_assert(SIZE_CLASS_MAX % 8 == 0, "sizes tell the thread");
	ck_assert_int_eq(umem_sample(1), 0);
	for (uintptr_t i = 0; i < WORKERS; i++)
		pthread_create(&thread[i], NULL, refill, (void *)i);
	while (__atomic_load_n(&nended, __ATOMIC_RELAXED) < WORKERS)
		sample_each(look_at_record, &nlooked);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_gt(nlooked, 0);
	nlooked = 0;
	sample_each(look_at_record, &nlooked);
	ck_assert_uint_eq(nlooked, 0);
}
END_TEST

static void
use_inherited(void)
{
	for (unsigned i = 0; i < array_size(handed); i++) {
		if (*(char *)handed[i] != (char)i)
			_exit(1);
		umem_free(handed[i], 100);
		handed[i] = umem_alloc(100, UMEM_DEFAULT);
		if (!is_sample(handed[i]))
			_exit(2);
	}
}

START_TEST(a_child_has_the_samples_of_its_parent)
{
	ck_assert_int_eq(umem_sample(1), 0);
	for (unsigned i = 0; i < array_size(handed); i++) {
		handed[i] = umem_alloc(100, UMEM_DEFAULT);
		memset(handed[i], (int)i, 100);
	}
	child_writes(use_inherited);
	ck_assert(child_exited(0));
	free_all(NULL);
}
END_TEST

START_TEST(there_is_none_where_blocks_are_debugged)
{
	sampling.is_allowed = 0;
	errno = 0;
	ck_assert_int_eq(umem_sample(1), -1);
	ck_assert_int_eq(errno, ENOTSUP);
	ck_assert_uint_eq(sampling.mean, 0);
}
END_TEST

Suite *
sample_suite(void)
{
	Suite *suite = suite_create("sample");
	TCase *tc = tcase_create("sample");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, off_nothing_is_a_sample);
	tcase_add_loop_test(
	    tc, the_chance_is_one_minus_exp, 0, array_size(ways));
	tcase_add_loop_test(tc,
	    an_estimate_is_right_for_every_part_of_a_pattern, 0,
	    array_size(patterns));
	tcase_add_test(tc, an_estimate_is_right_if_another_thread_frees);
	tcase_add_test(tc, blocks_of_every_size_are_whole);
	tcase_add_test(tc, every_alignment_is_kept);
	tcase_add_loop_test(tc, resizing_keeps_the_contents, 0, 2);
	tcase_add_test(tc, a_large_block_grows_and_stays_a_sample);
	tcase_add_loop_test(tc, samples_do_not_move_a_block_that_grows, 0, 4);
	tcase_add_test(tc, a_resized_sample_has_room_for_its_size);
	tcase_add_test(tc, a_sample_stays_where_it_has_room);
	tcase_add_test(tc, a_small_sample_in_a_large_block_is_copied);
	tcase_add_test(tc, a_child_of_fork_halves_its_samples);
	tcase_add_test(tc, a_resized_sample_counts_its_pages);
	tcase_add_test(tc, a_block_that_grows_may_become_a_sample);
	tcase_add_loop_test(tc, a_resized_block_stands_for_the_bytes_it_has, 0,
	    array_size(resized));
	tcase_add_test(tc, a_sample_that_cannot_grow_stays);
	tcase_add_test(tc, blocks_grow_when_records_have_run_out);
	tcase_add_test(tc, a_block_stays_where_it_would_without);
	tcase_add_test_raise_signal(
	    tc, a_size_that_was_not_asked_for_is_misuse, SIGABRT);
	tcase_add_test(tc, figures_come_back);
	tcase_add_test(tc, samples_count_by_pages_in_the_memory_of_the_heap);
	tcase_add_test(tc, a_sample_has_only_the_pages_that_it_needs);
	tcase_add_loop_test(tc, a_guarded_block_has_an_end_for_good, 0, 3);
	tcase_add_loop_test(
	    tc, guarded_samples_are_bounded_and_come_back_late, 0, 3);
	tcase_add_test(tc, a_freed_block_is_guarded_until_places_run_out);
	tcase_add_test(tc, refusals_of_the_kernel_do_no_harm);
	tcase_add_test(tc, records_run_out_and_blocks_do_not);
	tcase_add_test(tc, too_many_samples_are_halved);
	tcase_add_test(tc, with_mtbf_both_are_in_force);
	tcase_add_test(tc, another_thread_may_free);
	tcase_add_test(tc, two_threads_that_set_the_interval_leave_it_chosen);
	tcase_add_test(tc, a_mixture_of_words_serves_every_size_from_its_class);
	tcase_add_test(tc, a_byte_is_counted_once);
	tcase_add_loop_test(tc,
	    any_allocation_notices_that_the_command_has_written, 0,
	    array_size(getters));
	tcase_add_test(tc, a_child_has_the_samples_of_its_parent);
	tcase_add_test(tc, there_is_none_where_blocks_are_debugged);
	if (machine_has_stacks()) {
		tcase_add_test(tc, a_second_free_is_told_with_both_stacks);
	}
	if (!machine_is_emulated()) {
		tcase_add_test(
		    tc, the_span_that_a_sample_leaves_may_be_a_sample_at_once);
		tcase_add_test(tc, on_and_off_while_threads_work);
		tcase_add_test(tc, records_are_whole_while_threads_refill_them);
	}
	suite_add_tcase(suite, tc);
	return suite;
}
