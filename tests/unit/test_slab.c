/*
 * test_slab.c - slabs of one store, over the heap and over other arenas
 *
 * The tests create the stores directly, without caches.  Each test is a
 * separate process.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/hooks.h"
#include "tests/unit/step.h"
#include "tests/unit/store.h"
#include "umem/base/page_map.h"
#include "vmem/heap_inner.h"
#include "vmem/arena_inner.h"
#include "vmem/arenas.h"
#include "vmem/meta.h"
#include "vmem/os.h"

/* Memory of the library without the spare tags that the heap's arena keeps. */
static size_t
meta_held(void)
{
	return meta_used() -
	       heap_arena->reserve.nspare * sizeof(struct segment);
}

#define NSLABS 6

/* Take one chunk. */
static void *
take(void)
{
	void *p;

	ck_assert_uint_eq(slab_take(&store, &p, 1), 1);
	return p;
}

static enum slab_fault
give_fault(void *p)
{
	size_t used = slab_used(&store);
	void *bad = NULL;
	enum slab_fault fault = slab_give(&store, &p, 1, &bad);

	check();
	if (fault != SLAB_FINE) {
		ck_assert_uint_eq(slab_used(&store), used);
		ck_assert_ptr_eq(bad, p);
	}
	return fault;
}

static void
turn_round(void **p, unsigned n)
{
	for (unsigned i = 0; i < n / 2; i++) {
		void *x = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = x;
	}
}

/*
 * Reorder sorted chunks: into ascending and descending runs, and single chunks.
 */
static void
in_runs(void **p, unsigned n)
{
	for (unsigned i = 0; i < n;) {
		unsigned most = rand() % 4 == 0 ? 3 : 150;
		unsigned length = 1 + (unsigned)rand() % most;

		if (length > n - i)
			length = n - i;
		if (rand() % 2 != 0)
			turn_round(p + i, length);
		else if (rand() % 8 == 0)
			shuffle(p + i, length);
		i += length;
	}
}

/*
 * Check that the chunks are distinct, do not overlap, lie inside spans, and are
 * writable.
 */
static void
check_apart(unsigned n, size_t bytes)
{
	static void *sorted[MOST];

	memcpy(sorted, chunks, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), by_address);
	for (unsigned i = 1; i < n; i++)
		ck_assert_uint_ge(
		    (uintptr_t)sorted[i], (uintptr_t)sorted[i - 1] + bytes);
}

START_TEST(a_batch_is_the_lowest_chunks_the_last_being_the_lowest)
{
	void *batch[40];
	uintptr_t lowest;

	start(96, 16, false);
	ck_assert_uint_eq(slab_take(&store, batch, 40), 40);
	lowest = (uintptr_t)batch[39];
	for (unsigned i = 0; i < 40; i++)
		ck_assert_uint_eq((uintptr_t)batch[i], lowest + (39 - i) * 96);
	/* The next batch fills the holes first, lowest address first. */
	ck_assert_int_eq(give_fault((void *)(lowest + 5 * 96)), SLAB_FINE);
	ck_assert_int_eq(give_fault((void *)(lowest + 3 * 96)), SLAB_FINE);
	ck_assert_uint_eq(slab_take(&store, batch, 3), 3);
	ck_assert_uint_eq((uintptr_t)batch[2], lowest + 3 * 96);
	ck_assert_uint_eq((uintptr_t)batch[1], lowest + 5 * 96);
	ck_assert_uint_eq((uintptr_t)batch[0], lowest + 40 * 96);
	ck_assert_uint_eq(slab_used(&store), 41);
	check();
}
END_TEST

static uintptr_t frame; /* of take_in_child() */

static void
take_in_child(void)
{
	void *p;

	frame = (uintptr_t)__builtin_frame_address(0);
	slab_take(&store, &p, 1);
}

/* Is there a claim on the child's stack? */
static bool
is_claimed(pid_t child, const struct slab *slab, uint64_t mask)
{
	uintptr_t end = step_peek(child, &frame);

	for (uintptr_t at = end - 8 * KIB; at < end; at += sizeof(at)) {
		const struct slab_claim *claim = (void *)at;

		if (step_peek(child, &claim->slab) == (uintptr_t)slab &&
		    step_peek(child, &claim->mask) == mask)
			return true;
	}
	return false;
}

/* The command stops the process anywhere, and accounts for every chunk. */
START_TEST(a_chunk_is_claimed_in_memory_before_it_is_taken)
{
	void *p;
	struct slab *slab;
	uint64_t before, bits;
	pid_t child;

	start(64, 16, false);
	p = take();
	slab = page_map_owner(p);
	before = bits = slab->bits[0];
	child = step_start(take_in_child);
	while (child != 0 && bits == before) {
		ck_assert(step_one(child));
		bits = step_peek(child, &slab->bits[0]);
	}
	if (child != 0) {
		ck_assert(is_claimed(child, slab, before & ~bits));
		step_end(child);
	}
	give(&p, 1);
}
END_TEST

START_TEST(chunks_are_apart_and_aligned_for_every_size)
{
	static const size_t sizes[] = {8, 16, 48, 64, 80, 1000, 4096, 10000,
	    24576, 65536, 81920, 131072, 300000};
	size_t chunk = sizes[_i];
	size_t align = chunk & -chunk;
	unsigned n;

	start(chunk, align < 4096 ? align : 4096, false);
	n = store.layout.nchunks * 3 + 1;
	n = n < MOST ? n : MOST;
	take_all(n);
	check_apart(n, chunk);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_uint_eq((uintptr_t)chunks[i] %
				      (align < HEAP_UNIT ? align : HEAP_UNIT),
		    0);
		memset(chunks[i], 0xa5, chunk);
		ck_assert_int_eq(
		    slab_round_fault(&store, chunks[i]), SLAB_FINE);
	}
	ck_assert_uint_eq(slab_used(&store), n);
	ck_assert_uint_eq(slab_total(&store) % store.layout.nchunks, 0);
	shuffle(chunks, n);
	give(chunks, n);
	ck_assert_uint_eq(slab_used(&store), 0);
	ck_assert(slab_store_end(&store));
}
END_TEST

START_TEST(successive_slabs_have_successive_colours)
{
	size_t colour = 0;

	start(1000, 8, false);
	ck_assert_uint_gt(store.layout.colour_max, 0);
	for (unsigned i = 0; i < 40; i++) {
		struct slab *slab;
		unsigned n = store.layout.nchunks;

		ck_assert_uint_eq(slab_take(&store, chunks, n), n);
		slab = page_map_owner(chunks[0]);
		ck_assert_ptr_eq(slab->store, &store);
		ck_assert_uint_eq(slab->first - slab->span, colour);
		ck_assert_uint_eq((uintptr_t)chunks[n - 1], slab->first);
		colour = slab_layout_next_colour(&store.layout, colour);
	}
	check();
}
END_TEST

/*
 * Take all chunks of NSLABS slabs.  The chunks of slab i start at i * nchunks.
 */
static unsigned
fill_slabs(void)
{
	unsigned n = store.layout.nchunks;

	take_all(NSLABS * n);
	qsort(chunks, NSLABS * n, sizeof(chunks[0]), by_address);
	ck_assert_uint_eq(slab_total(&store), NSLABS * n);
	return n;
}

START_TEST(the_fullest_slab_is_taken_from)
{
	unsigned n;
	void *p;

	start(1024, 16, false);
	n = fill_slabs();
	/*
	 * Slab 1 is almost empty, slab 2 half full, slab 3 has one free chunk.
	 */
	give(chunks + n, n - 1);
	give(chunks + 2 * n, n / 2);
	give(chunks + 3 * n, 1);
	p = take();
	ck_assert_ptr_eq(page_map_owner(p), page_map_owner(chunks[3 * n]));
	p = take();
	ck_assert_ptr_eq(page_map_owner(p), page_map_owner(chunks[2 * n]));
	give(&p, 1);
	/* An empty slab is the last to be used again. */
	give(chunks + 2 * n - 1, 1);
	p = take();
	ck_assert_ptr_eq(page_map_owner(p), page_map_owner(chunks[2 * n]));
}
END_TEST

START_TEST(one_empty_slab_is_kept_and_the_others_go)
{
	size_t used, dirty;
	unsigned n;

	start(2048, 16, false);
	used = meta_held();
	n = fill_slabs();
	give(chunks, n);
	ck_assert_uint_eq(slab_total(&store), NSLABS * n);
	dirty = heap_dirty();
	give(chunks + n, n);
	give(chunks + 2 * n, n);
	ck_assert_uint_eq(slab_total(&store), (NSLABS - 2) * n);
	ck_assert_uint_eq(store.nempty, 1);
	ck_assert_uint_eq(heap_dirty(), dirty + 2 * store.layout.slab_bytes);
	ck_assert(!slab_store_end(&store));
	ck_assert_uint_eq(store.nempty, 0);
	check();
	give(chunks + 3 * n, 3 * n);
	slab_reap(&store, 5);
	ck_assert_uint_eq(store.nempty, 1);
	slab_reap(&store, 1);
	ck_assert_uint_eq(store.nempty, 1);
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(slab_total(&store), 0);
	ck_assert_uint_eq(meta_held(), used);
	ck_assert_ptr_null(page_map_owner(chunks[0]));
	ck_assert_uint_eq(store.ncreated, NSLABS);
}
END_TEST

static size_t freed_most; /* bytes in hand, at most, when a span was freed */
static size_t freed_bytes;

/* A hook for hook_heap_freed. */
static void
count_in_hand(void *at, size_t bytes)
{
	size_t left = store.nslabs * store.layout.slab_bytes;
	size_t all = store.ncreated * store.layout.slab_bytes;

	(void)at;
	if (all - freed_bytes - left > freed_most)
		freed_most = all - freed_bytes - left;
	freed_bytes += bytes;
}

/*
 * A child of fork() never gets the slabs that another thread has unlisted and
 * not freed yet.
 */
START_TEST(few_bytes_of_empty_slabs_are_in_hand_at_once)
{
	static const size_t sizes[] = {2048, 24576, 300000, 3 * MIB};
	enum {
		GIVE,
		REAP,
		REAP_UNUSED,
		END
	} way = _i / 4;
	size_t bytes, most;
	unsigned n;

	start(sizes[_i % 4], 16, way != GIVE);
	bytes = store.layout.slab_bytes;
	most = bytes > SLAB_CHAIN_BYTES ? bytes : SLAB_CHAIN_BYTES;
	n = (unsigned)(8 * most / sizes[_i % 4]);
	for (unsigned i = 0; i < n; i++) {
		bool raw;

		chunks[i] = slab_take_one(&store, &raw);
		ck_assert_ptr_nonnull(chunks[i]);
		if (raw)
			slab_constructed(&store, chunks[i]);
	}
	hook_heap_freed = count_in_hand;
	give(chunks, n);
	if (way == REAP)
		slab_reap(&store, 0);
	for (int i = 0; way == REAP_UNUSED && i < 2; i++)
		slab_reap_unused(&store);
	if (way == END)
		ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(store.nslabs, way == GIVE ? 1 : 0);
	ck_assert_uint_eq(freed_bytes, (store.ncreated - store.nslabs) * bytes);
	ck_assert_uint_ge(freed_bytes, 4 * most);
	ck_assert_uint_gt(freed_most, 0);
	ck_assert_uint_le(freed_most, most);
}
END_TEST

/* The thread that allocates the span next writes its own entry to the map. */
START_TEST(a_span_is_out_of_the_map_before_it_goes_back_to_the_heap)
{
	size_t bytes;
	unsigned n;

	start(2048, 16, false);
	bytes = store.layout.slab_bytes;
	n = fill_slabs();
	hook_heap_freed = hook_take_again;
	give(chunks, NSLABS * n);
	ck_assert_ptr_nonnull(hook_taken);
	for (size_t i = 0; i < bytes; i += HEAP_UNIT)
		ck_assert_ptr_eq(page_map_owner((char *)hook_taken + i),
		    i == 0 ? (void *)(bytes | 1) : NULL);
	ck_assert_uint_eq(
	    page_map_class(page_map.entry[page_map_unit(hook_taken)]),
	    PAGE_MAP_LARGE);
}
END_TEST

START_TEST(a_span_with_one_chunk_leaves_its_store)
{
	size_t held = meta_held(), heap = heap_used();
	void *p, *q;

	start(2 * HEAP_UNIT, 16, false);
	p = take();
	q = take();
	ck_assert(slab_detach(&store, p));
	check();
	ck_assert_uint_eq(store.nslabs, 1);
	ck_assert_uint_eq(slab_used(&store), 1);
	ck_assert_ptr_null(page_map_owner(p));
	ck_assert_int_eq(slab_round_fault(&store, p), SLAB_FOREIGN);
	heap_free(p, 2 * HEAP_UNIT);
	give(&q, 1);
	slab_reap(&store, 0);
	ck_assert_uint_eq(heap_used(), heap);
	ck_assert_uint_eq(meta_held(), held);
}
END_TEST

START_TEST(a_span_with_several_chunks_stays_in_its_store)
{
	static const size_t sizes[] = {4096, 80 * KIB, 160 * KIB};
	void *p;

	start(sizes[_i], 16, false);
	p = take();
	ck_assert(!slab_detach(&store, p));
	give(&p, 1);
}
END_TEST

static void
check_stays_if(bool *member, void *p)
{
	*member = true;
	ck_assert(!slab_detach(&store, p));
	*member = false;
}

START_TEST(a_span_that_needs_more_than_the_heap_stays_in_its_store)
{
	void *p;

	start(2 * HEAP_UNIT, 16, false);
	p = take();
	check_stays_if(&store.constructs, p);
	check_stays_if(&store.has_guard_pages, p);
	check_stays_if(&store.is_annotated, p);
	check_stays_if(&store.is_unbacked, p);
	store.record_bytes = 8;
	ck_assert(!slab_detach(&store, p));
	store.record_bytes = 0;
	store.source = heap_arena;
	ck_assert(!slab_detach(&store, p));
	store.source = NULL;
	ck_assert(slab_detach(&store, p));
}
END_TEST

START_TEST(going_over_the_edge_of_a_slab_makes_no_new_ones)
{
	unsigned n;
	void *p;

	start(4096, 16, false);
	n = fill_slabs();
	(void)n;
	for (int i = 0; i < 1000; i++) {
		p = take();
		give(&p, 1);
	}
	ck_assert_uint_eq(store.ncreated, NSLABS + 1);
}
END_TEST

START_TEST(what_is_not_a_chunk_is_refused)
{
	static struct slab_store other;
	static int here;
	struct slab *slab;
	void *p, *q;
	bool zeroed;
	char *large;

	/*
	 * The second slab has a colour, so there is space ahead of its first
	 * chunk.
	 */
	start(1000, 8, false);
	slab_store_init(&other, &store.layout, NULL, 0, false);
	ck_assert_uint_eq(slab_take(&other, &q, 1), 1);
	take_all(store.layout.nchunks);
	p = take();
	slab = page_map_owner(p);
	ck_assert_uint_gt(slab->first, slab->span);

	ck_assert_int_eq(give_fault(&here), SLAB_FOREIGN);
	ck_assert_int_eq(give_fault(NULL), SLAB_FOREIGN);
	ck_assert_int_eq(give_fault((void *)-(uintptr_t)16), SLAB_FOREIGN);
	ck_assert_int_eq(give_fault(q), SLAB_FOREIGN);
	large = heap_alloc(2 * HEAP_UNIT, HEAP_UNIT, &zeroed);
	ck_assert(page_map_commit(large, 2 * HEAP_UNIT));
	ck_assert_int_eq(give_fault(large), SLAB_FOREIGN);
	page_map_enter_large(large, 2 * HEAP_UNIT);
	ck_assert_int_eq(give_fault(large), SLAB_FOREIGN);
	ck_assert_int_eq(give_fault(large + HEAP_UNIT), SLAB_FOREIGN);

	for (size_t i = 1; i < 1000; i++)
		ck_assert_int_eq(give_fault((char *)p + i), SLAB_INTERIOR);
	for (uintptr_t at = slab->span; at < slab->first; at++)
		ck_assert_int_eq(give_fault((void *)at), SLAB_INTERIOR);
	for (uintptr_t at = slab->first + store.layout.nchunks * 1000;
	     at < slab->span + store.layout.slab_bytes; at++)
		ck_assert_int_eq(give_fault((void *)at), SLAB_INTERIOR);

	ck_assert_int_eq(give_fault((char *)p + 1000), SLAB_NEVER);
	q = take();
	ck_assert_ptr_eq(q, (char *)p + 1000);
	ck_assert_int_eq(give_fault((char *)q + 1000), SLAB_NEVER);
	ck_assert_int_eq(give_fault(q), SLAB_FINE);
	ck_assert_int_eq(give_fault(q), SLAB_FREE);
	ck_assert_int_eq(slab_round_fault(&store, q), SLAB_FREE);
	ck_assert_int_eq(
	    slab_round_fault(&store, (char *)q + 1), SLAB_INTERIOR);
	ck_assert_int_eq(slab_round_fault(&store, &here), SLAB_FOREIGN);
	ck_assert_int_eq(slab_round_fault(&store, p), SLAB_FINE);
	ck_assert_int_eq(give_fault(p), SLAB_FINE);
}
END_TEST

START_TEST(a_batch_stops_at_the_first_that_is_wrong)
{
	void *batch[5], *bad;

	start(256, 16, false);
	take_all(10);
	memcpy(batch, chunks, sizeof(batch));
	batch[2] = (char *)chunks[2] + 8;
	ck_assert_int_eq(slab_give(&store, batch, 5, &bad), SLAB_INTERIOR);
	ck_assert_ptr_eq(bad, batch[2]);
	check();
	ck_assert_uint_eq(slab_used(&store), 8);
	ck_assert_int_eq(slab_round_fault(&store, batch[1]), SLAB_FREE);
	ck_assert_int_eq(slab_round_fault(&store, batch[3]), SLAB_FINE);
	/* The batch has one chunk twice. */
	batch[0] = batch[1] = chunks[7];
	ck_assert_int_eq(slab_give(&store, batch, 2, &bad), SLAB_FREE);
	ck_assert_uint_eq(slab_used(&store), 7);
	/* An empty batch changes nothing. */
	ck_assert_int_eq(slab_give(&store, batch, 0, &bad), SLAB_FINE);
	check();
}
END_TEST

static void *
take_and_give(void *arg)
{
	void *chunk, *bad;

	ck_assert_uint_eq(slab_take(&store, &chunk, 1), 1);
	ck_assert_int_eq(slab_give(&store, &chunk, 1, &bad), SLAB_FINE);
	return arg;
}

START_TEST(a_visit_that_had_to_wait_is_counted)
{
	pthread_t thread;

	start(64, 16, false);
	take_and_give(NULL);
	ck_assert_uint_eq(store.ncontended, 0);
	lock_take(&store.lock);
	pthread_create(&thread, NULL, take_and_give, NULL);
	while (__atomic_load_n(&store.ncontended, __ATOMIC_RELAXED) == 0)
		usleep(100);
	lock_release(&store.lock);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(store.ncontended, 1);
}
END_TEST

START_TEST(more_holes_than_are_claimed_at_once_are_taken_in_order)
{
	enum {
		NHOLES = SLAB_CLAIMS + 20
	};
	void *batch[NHOLES];
	uint64_t ncreated;
	uint32_t nacquired;
	unsigned n;

	/* Make one hole in each word of the bitmap. */
	start(64, 16, false);
	n = take_all(NHOLES * 64);
	qsort(chunks, n, sizeof(chunks[0]), by_address);
	for (unsigned i = 0; i < NHOLES; i++)
		batch[i] = chunks[i * 64 + 7 * i % 64];
	shuffle(batch, NHOLES);
	give(batch, NHOLES);
	ck_assert_uint_eq(slab_used(&store), n - NHOLES);
	nacquired = store.nacquired;
	ncreated = store.ncreated;
	ck_assert_uint_eq(slab_take(&store, batch, NHOLES), NHOLES);
	ck_assert_uint_eq(store.nacquired - nacquired, 2);
	ck_assert_uint_eq(store.ncreated, ncreated);
	check();
	for (unsigned i = 1; i < NHOLES; i++)
		if (page_map_owner(batch[i]) == page_map_owner(batch[i - 1]))
			ck_assert_uint_lt(
			    (uintptr_t)batch[i], (uintptr_t)batch[i - 1]);
	qsort(batch, NHOLES, sizeof(batch[0]), by_address);
	for (unsigned i = 0; i < NHOLES; i++)
		ck_assert_ptr_eq(batch[i], chunks[i * 64 + 7 * i % 64]);
	/* Take a part of a word's free chunks, which are not contiguous. */
	for (unsigned i = 0; i < 10; i++)
		batch[i] = chunks[5 * i];
	give(batch, 10);
	ck_assert_uint_eq(slab_take(&store, batch, 4), 4);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_ptr_eq(batch[i], chunks[5 * (3 - i)]);
}
END_TEST

/*
 * A pointer that slab_give() must refuse with this fault, behind the first k
 * chunks of the batch.
 */
static void *
spoilt(enum slab_fault fault, void **batch, unsigned k)
{
	static char foreign;
	struct slab *slab = page_map_owner(chunks[0]);

	switch (fault) {
	case SLAB_FOREIGN:
		return &foreign;
	case SLAB_INTERIOR:
		return (char *)batch[k] + 16;
	case SLAB_NEVER:
		return (void *)(slab->first + slab->high * store.layout.chunk);
	default:
		return k == 0 || rand() % 4 == 0 ? chunks[0]
						 : batch[rand() % k];
	}
}

/* Give n chunks with one bad pointer among them; return how many were given. */
static unsigned
give_spoilt(enum slab_fault fault, void **batch, unsigned n)
{
	unsigned k = (unsigned)rand() % n;
	size_t used = slab_used(&store);
	void *bad = NULL, *good = batch[k];

	batch[k] = spoilt(fault, batch, k);
	ck_assert_int_eq(slab_give(&store, batch, n, &bad), fault);
	check();
	ck_assert_ptr_eq(bad, batch[k]);
	ck_assert_uint_eq(slab_used(&store), used - k);
	batch[k] = good;
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(slab_round_fault(&store, batch[i]),
		    i < k ? SLAB_FREE : SLAB_FINE);
	return k;
}

/* Take chunks such that the first belongs to a slab that is not full. */
static unsigned
take_for_spoiling(void)
{
	unsigned n = take_all(4 * store.layout.nchunks - 100);

	qsort(chunks, n, sizeof(chunks[0]), by_address);
	for (unsigned i = 0; i < n; i++)
		if (((struct slab *)page_map_owner(chunks[i]))->nfree != 0) {
			void *p = chunks[0];

			chunks[0] = chunks[i];
			chunks[i] = p;
			break;
		}
	return n;
}

START_TEST(whatever_is_wrong_in_a_batch_stops_it_there)
{
	enum slab_fault fault = (enum slab_fault)_i;

	srand((unsigned)_i);
	start(64, 16, false);
	for (unsigned round = 0; round < 200; round++) {
		unsigned n = take_for_spoiling();
		unsigned most = round % 2 != 0 ? 10 : 1000;
		unsigned from = 1 + (unsigned)rand() % 1000, k;

		if (round % 8 < 2)
			shuffle(chunks + 1, n - 1);
		else if (round % 8 < 6)
			in_runs(chunks + 1, n - 1);
		if (fault == SLAB_FREE)
			give(chunks, 1);
		k = give_spoilt(
		    fault, chunks + from, 1 + (unsigned)rand() % most);
		give(chunks + from + k, n - from - k);
		give(chunks + 1, from - 1);
		if (fault != SLAB_FREE)
			give(chunks, 1);
		ck_assert_uint_eq(slab_used(&store), 0);
	}
}
END_TEST

/* In one batch, the last chunk of a slab and the address behind it. */
START_TEST(a_run_ends_where_its_slab_ends)
{
	static const size_t sizes[] = {80, 96, 1008};
	void *batch[8], *bad;
	unsigned n, last;

	start(sizes[_i], 16, false);
	n = take_all(2 * (unsigned)store.layout.nchunks);
	qsort(chunks, n, sizeof(chunks[0]), by_address);
	last = (unsigned)store.layout.nchunks - 1;
	for (unsigned i = 0; i < 4; i++)
		batch[i] = chunks[last - 3 + i];
	batch[4] = (char *)batch[3] + sizes[_i];
	ck_assert_int_ne(slab_give(&store, batch, 5, &bad), SLAB_FINE);
	ck_assert_ptr_eq(bad, batch[4]);
	check();
	ck_assert_uint_eq(slab_used(&store), n - 4);
	/* Descending, the first chunk of a slab and the address before it. */
	for (unsigned i = 0; i < 4; i++)
		batch[i] = chunks[3 - i];
	batch[4] = (char *)batch[3] - sizes[_i];
	ck_assert_int_ne(slab_give(&store, batch, 5, &bad), SLAB_FINE);
	ck_assert_ptr_eq(bad, batch[4]);
	check();
	ck_assert_uint_eq(slab_used(&store), n - 8);
}
END_TEST

START_TEST(a_run_that_turns_back_on_itself_is_found_out)
{
	static const int walks[][6] = {{0, 1, 2, 1, 3, 4}, {3, 2, 1, 0, 1, 5},
	    {5, 6, 5, 7, 8, 9}, {9, 8, 8, 7, 6, 5}, {2, 5, 4, 3, 2, 9},
	    {4, 0, 1, 2, 3, 4}};
	void *batch[6], *bad;
	const int *walk = walks[_i];
	unsigned again = 0;

	start(64, 16, false);
	take_all(200);
	qsort(chunks, 200, sizeof(chunks[0]), by_address);
	/* Find the index at which the batch repeats a chunk. */
	for (unsigned i = 0; i < 6; i++) {
		batch[i] = chunks[64 + walk[i]];
		for (unsigned j = 0; j < i; j++)
			if (batch[j] == batch[i])
				again = i;
	}
	ck_assert_int_eq(slab_give(&store, batch, 6, &bad), SLAB_FREE);
	ck_assert_ptr_eq(bad, batch[again]);
	check();
	ck_assert_uint_eq(slab_used(&store), 200 - again);
}
END_TEST

struct giving {
	void *chunk, *bad;
	enum slab_fault fault;
};

static void *
give_one(void *arg)
{
	struct giving *giving = arg;

	giving->fault = slab_give(&store, &giving->chunk, 1, &giving->bad);
	return NULL;
}

/*
 * Free p in another thread, which has found the slab and waits for the lock;
 * call meanwhile() before the lock is released.  Return the result.
 */
static enum slab_fault
give_while(void *p, void (*meanwhile)(struct slab *slab))
{
	struct giving giving = {.chunk = p};
	struct slab *slab = page_map_owner(p);
	pthread_t thread;

	lock_take(&store.lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, give_one, &giving), 0);
	while (__atomic_load_n(&store.lock.state, __ATOMIC_RELAXED) != 2)
		sched_yield();
	meanwhile(slab);
	lock_release(&store.lock);
	pthread_join(thread, NULL);
	if (giving.fault != SLAB_FINE)
		ck_assert_ptr_eq(giving.bad, p);
	return giving.fault;
}

static void
nothing(struct slab *slab)
{
	(void)slab;
}

static void
goes(struct slab *slab)
{
	page_map_clear((void *)slab->span, store.layout.slab_bytes);
}

static void
comes(struct slab *slab)
{
	page_map_enter_slab((void *)slab->span, store.layout.slab_bytes, 0,
	    store.layout.chunk, slab->first - slab->span, slab);
}

#ifndef __SANITIZE_THREAD__
/*
 * The descriptor now belongs to another slab, with a different colour.  In this
 * case a double free races with the reuse.
 */
static void
gets_a_colour(struct slab *slab)
{
	slab->first += 64;
}

/* The slab has the same span and descriptor, but belongs to another cache. */
static void
changes_hands(struct slab *slab)
{
	static struct slab_store other;

	slab->store = &other;
}
#endif

static void
is_freed(struct slab *slab)
{
	slab->bits[0] |= 1;
	slab->nfree++;
	store.nused--;
}

START_TEST(who_frees_twice_while_the_slab_goes_is_found_out)
{
	struct slab *slab;
	void *p;

	start(1024, 16, false);
	p = take();
	slab = page_map_owner(p);
	take();
	ck_assert_int_eq(give_while(p, goes), SLAB_FOREIGN);
	comes(slab);
	check();
#ifndef __SANITIZE_THREAD__
	ck_assert_int_eq(give_while(p, gets_a_colour), SLAB_INTERIOR);
	slab->first -= 64;
	check();
	ck_assert_int_eq(give_while(p, changes_hands), SLAB_FOREIGN);
	slab->store = &store;
	check();
#endif
	ck_assert_int_eq(give_while(p, is_freed), SLAB_FREE);
	check();
	ck_assert_ptr_eq(take(), p);
	ck_assert_uint_eq(slab_used(&store), 2);
	ck_assert_int_eq(give_while(p, nothing), SLAB_FINE);
	check();
	ck_assert_uint_eq(slab_used(&store), 1);
}
END_TEST

/* Take one chunk, and check whether it is raw. */
static void *
take_one(bool raw)
{
	bool is_raw;
	void *p = slab_take_one(&store, &is_raw);

	ck_assert_ptr_nonnull(p);
	ck_assert_int_eq(is_raw, raw);
	check();
	return p;
}

/* Take n raw chunks and construct them. */
static void
construct_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		chunks[i] = take_one(/* raw */ true);
		slab_constructed(&store, chunks[i]);
	}
	check();
}

static void
destructed_are_first(unsigned n)
{
	ck_assert_uint_eq(n_destructed, n);
	qsort(chunks, n, sizeof(chunks[0]), by_address);
	qsort(destructed, n, sizeof(chunks[0]), by_address);
	ck_assert_mem_eq(chunks, destructed, n * sizeof(chunks[0]));
}

START_TEST(a_chunk_is_raw_once_and_destructed_when_its_slab_goes)
{
	unsigned n;
	void *p;

	start(512, 16, true);
	n = store.layout.nchunks;
	construct_all(n + 10);
	give(chunks + 5, 1);
	ck_assert_uint_eq(n_destructed, 0);
	ck_assert_ptr_eq(take_one(/* raw */ false), chunks[5]);
	/*
	 * The constructor of the next chunk fails.  The chunk stays raw, so it
	 * is not destructed.
	 */
	p = take_one(/* raw */ true);
	slab_give_raw(&store, p);
	check();
	ck_assert_ptr_eq(take_one(/* raw */ true), p);
	slab_give_raw(&store, p);
	give(chunks, n + 10);
	slab_reap(&store, 0);
	ck_assert(slab_store_end(&store));
	destructed_are_first(n + 10);
}
END_TEST

START_TEST(a_batch_has_constructed_chunks_only)
{
	void *batch[15 + 100];
	unsigned n;

	start(512, 16, true);
	n = store.layout.nchunks;
	ck_assert_uint_eq(slab_take(&store, batch, 100), 0);
	ck_assert_uint_eq(slab_total(&store), 0);
	construct_all(n + n / 2);
	ck_assert_uint_eq(slab_take(&store, batch, 100), 0);
	ck_assert_uint_eq(slab_nready(&store), 0);
	/* Every second chunk of those from 20 to 60 is constructed and free. */
	for (unsigned i = 20; i < 60; i += 2)
		give(chunks + i, 1);
	ck_assert_uint_eq(slab_nready(&store), 20);
	ck_assert_uint_eq(slab_take(&store, batch, 15), 15);
	ck_assert_uint_eq(slab_take(&store, batch + 15, 100), 5);
	check();
	qsort(batch, 20, sizeof(batch[0]), by_address);
	qsort(chunks, n, sizeof(chunks[0]), by_address);
	for (unsigned i = 0; i < 20; i++)
		ck_assert_ptr_eq(batch[i], chunks[20 + 2 * i]);
	ck_assert_uint_eq(slab_take(&store, batch, 100), 0);
	give(chunks, n + n / 2);
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(n_destructed, n + n / 2);
}
END_TEST

START_TEST(a_ready_chunk_of_any_slab_goes_before_a_raw_one)
{
	unsigned n, nslabs;

	start(8192, 16, true);
	n = store.layout.nchunks;
	/*
	 * The last slab has raw chunks, and stays fuller than the slab whose
	 * chunks are freed next.
	 */
	construct_all(2 * n + n - 2);
	nslabs = store.nslabs;
	give(chunks, n - 1);
	for (unsigned i = 0; i < n - 1; i++)
		take_one(/* raw */ false);
	for (unsigned i = 0; i < 2; i++)
		take_one(/* raw */ true);
	ck_assert_uint_eq(store.nslabs, nslabs);
}
END_TEST

START_TEST(chunks_that_were_never_taken_are_not_destructed)
{
	start(64, 16, true);
	construct_all(3);
	give(chunks, 3);
	ck_assert(slab_store_end(&store));
	destructed_are_first(3);
}
END_TEST

START_TEST(the_end_destructs_what_is_free_beside_chunks_that_are_out)
{
	unsigned n;

	start(512, 16, true);
	n = store.layout.nchunks;
	construct_all(3 * n - 5);
	/*
	 * One chunk of each slab is in use: the first, a middle one, the last.
	 */
	qsort(chunks, 3 * n - 5, sizeof(chunks[0]), by_address);
	give(chunks + 1, n - 1 + n / 2);
	give(chunks + n + n / 2 + 1, 2 * n - 7 - n / 2);
	ck_assert_uint_eq(n_destructed, 0);
	ck_assert(!slab_store_end(&store));
	check();
	ck_assert_uint_eq(slab_used(&store), 3);
	memmove(chunks + n + n / 2, chunks + n + n / 2 + 1,
	    (2 * n - 7 - n / 2) * sizeof(chunks[0]));
	memmove(chunks, chunks + 1, (3 * n - 8) * sizeof(chunks[0]));
	destructed_are_first(3 * n - 8);
}
END_TEST

START_TEST(a_chunk_whose_constructor_does_not_return_is_free_at_the_end)
{
	vmem_t *arena = NULL;

	start(512, 16, true);
	if (_i == 1) {
		arena = vmem_create("sourced", NULL, 0, HEAP_UNIT, vmem_alloc,
		    vmem_free, vmem_heap_arena(NULL, NULL), 0, VM_NOSLEEP);
		store.source = arena;
	}
	construct_all(1);
	for (unsigned i = 0; i < store.layout.nchunks + 3; i++)
		take_one(/* raw */ true);
	give(chunks, 1);
	ck_assert_uint_eq(store.nslabs, 2);
	ck_assert(slab_store_end(&store));
	destructed_are_first(1);
	if (arena != NULL)
		ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
}
END_TEST

static void
clear_mark(struct slab_store *s, void *object)
{
	(void)s;
	*(uint64_t *)object = 0;
}

/* Take and free chunks.  Constructed chunks have a mark, raw chunks none. */
static void *
construct_and_churn(void *arg)
{
	uint64_t r = (uintptr_t)arg * 0x9e3779b97f4a7c15;
	void *mine[40], *bad;
	unsigned n = 0;

	for (int i = 0; i < 20000; i++) {
		bool raw = false;

		r = r * 6364136223846793005 + 1442695040888963407;
		if (n < 40 && (r >> 60) < 9) {
			mine[n] = slab_take_one(&store, &raw);
			if (raw && (r >> 50) % 4 == 0) {
				slab_give_raw(&store, mine[n]);
				continue;
			}
			if (raw)
				slab_constructed(&store, mine[n]);
			if ((*(uint64_t *)mine[n] != 0) == raw)
				__atomic_add_fetch(
				    &nwrong, 1, __ATOMIC_RELAXED);
			*(uint64_t *)mine[n++] = 1;
		} else if (n > 0) {
			if (slab_give(&store, &mine[--n], 1, &bad) != SLAB_FINE)
				__atomic_add_fetch(
				    &nwrong, 1, __ATOMIC_RELAXED);
		}
	}
	if (slab_give(&store, mine, n, &bad) != SLAB_FINE)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	return NULL;
}

START_TEST(threads_that_construct_at_once_lose_no_mark)
{
	static const struct slab_owner clearing = {.destruct = clear_mark};
	pthread_t thread[NTHREADS];

	/*
	 * The chunks of all threads have their marks in the same words, of one
	 * or two slabs.
	 */
	start(512, 16, true);
	store.owner = &clearing;
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(
		    &thread[i], NULL, construct_and_churn, (void *)(i + 1));
	for (int i = 0; i < 200; i++)
		ck_assert(slab_store_check(&store));
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(slab_used(&store), 0);
	ck_assert(slab_store_end(&store));
}
END_TEST

/* Fail each memory request in turn, in bursts, in a store without slabs. */
START_TEST(a_refused_request_is_no_memory_and_nothing_else)
{
	unsigned nfailed = 0;
	size_t used = meta_held();

	/* For a chunk of 40 MiB, neither a slab nor a table exists yet. */
	start((40 + (size_t)_i) * MIB, 4096, _i % 2 != 0);
	for (unsigned nth = 1;; nth++) {
		bool raw;
		void *p;

		os_fail_nth(nth, _i < 2 ? 1 : 1000000);
		p = slab_take_one(&store, &raw);
		os_fail_nth(0, 0);
		check();
		if (p != NULL) {
			if (raw)
				slab_give_raw(&store, p);
			else
				give(&p, 1);
			break;
		}
		nfailed++;
		ck_assert_uint_eq(slab_used(&store), 0);
		ck_assert_uint_eq(slab_total(&store), 0);
		ck_assert_uint_eq(meta_held(), used);
		ck_assert_uint_lt(nth, 100);
	}
	ck_assert_uint_ge(nfailed, 1);
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(meta_held(), used);
}
END_TEST

/* Giving chunks back allocates no memory. */
START_TEST(giving_works_when_every_request_fails)
{
	unsigned n;

	start(8192, 16, true);
	n = store.layout.nchunks;
	construct_all(NSLABS * n);
	os_fail_nth(1, 1u << 30);
	give(chunks, NSLABS * n);
	ck_assert(slab_store_end(&store));
	os_fail_nth(0, 0);
	ck_assert_uint_eq(n_destructed, NSLABS * n);
}
END_TEST

/* An arena of integers: spans start at any integer, and are not memory. */
static vmem_t *
integers(size_t n)
{
	vmem_t *arena = vmem_create(
	    "integers", (void *)7, n, 1, NULL, NULL, NULL, 0, VM_NOSLEEP);

	ck_assert_ptr_nonnull(arena);
	return arena;
}

static void
start_integers(vmem_t *arena, size_t chunk, size_t quantum)
{
	struct slab_layout layout;

	ck_assert(slab_layout(&layout, chunk, 1, quantum));
	layout.colour_max = layout.colour_step = 0;
	slab_store_init(&store, &layout, arena, 0, false);
}

START_TEST(slabs_of_a_source_are_found_wherever_they_start)
{
	vmem_t *arena = integers(1000000);
	unsigned n = 15000;

	srand(7);
	start_integers(arena, 3, 128);
	/*
	 * Allocate other integers in between, so that spans start at all
	 * offsets.
	 */
	for (unsigned taken = 0; taken < n;) {
		taken += slab_take(
		    &store, chunks + taken, n - taken < 50 ? n - taken : 50);
		ck_assert_ptr_nonnull(
		    vmem_alloc(arena, 1 + (size_t)rand() % 40, VM_NOSLEEP));
	}
	check();
	check_apart(n, 3);
	ck_assert_uint_gt(slab_total(&store), n - 42);
	for (unsigned i = 0; i < n; i++) {
		uintptr_t p = (uintptr_t)chunks[i];

		ck_assert_int_eq(
		    slab_round_fault(&store, chunks[i]), SLAB_FINE);
		ck_assert_int_eq(
		    slab_round_fault(&store, (void *)(p + 1)), SLAB_INTERIOR);
	}
	ck_assert_int_eq(give_fault((void *)1), SLAB_FOREIGN);
	ck_assert_int_eq(give_fault((void *)6), SLAB_FOREIGN);
	ck_assert_int_eq(give_fault((void *)999999), SLAB_FOREIGN);
	ck_assert_int_eq(give_fault((void *)UINTPTR_MAX), SLAB_FOREIGN);
	shuffle(chunks, n);
	for (unsigned i = 0; i < n; i += 100)
		give(chunks + i, 100);
	ck_assert_uint_eq(slab_used(&store), 0);
	ck_assert(slab_store_end(&store));
}
END_TEST

START_TEST(a_source_gets_all_of_it_back)
{
	vmem_t *arena = integers(12800);
	size_t used = meta_held();
	unsigned n;

	start_integers(arena, 10, 128);
	n = slab_take(&store, chunks, 3000);
	/* The slabs have 128 integers and 12 chunks. */
	ck_assert_uint_eq(n, 100 * 12);
	ck_assert_uint_eq(slab_take(&store, chunks + n, 50), 0);
	check();
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 12800);
	give(chunks, n);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 128);
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	vmem_destroy(arena);
	ck_assert_uint_le(meta_held(), used);
}
END_TEST

START_TEST(a_source_with_less_gives_what_it_has)
{
	vmem_t *arena = integers(350);
	unsigned n;

	start_integers(arena, 10, 128);
	n = slab_take(&store, chunks, 60);
	ck_assert_uint_eq(n, 24);
	ck_assert_uint_eq(slab_take(&store, chunks + n, 1), 0);
	check();
	give(chunks, 1);
	ck_assert_ptr_eq(take(), chunks[0]);
}
END_TEST

/*
 * The hash needs memory too.  Without it, no slab can be created, or the chains
 * of the hash get longer.
 */
START_TEST(a_hash_that_cannot_grow_loses_nothing)
{
	vmem_t *arena = integers(MOST * 64);
	unsigned taken = 0;

	start_integers(arena, 64, 64);
	os_fail_nth(1, 1u << 30);
	while (taken < MOST && slab_take(&store, chunks + taken, 1) == 1)
		taken++;
	os_fail_nth(0, 0);
	check();
	ck_assert_uint_eq(slab_used(&store), taken);
	/*
	 * The loop may also have ended because the arena's own records ran out.
	 */
	take_all(2000);
	for (unsigned i = 0; i < 2000; i++)
		ck_assert_int_eq(
		    slab_round_fault(&store, chunks[i]), SLAB_FINE);
}
END_TEST

/* Tests with several threads. */

/*
 * A span that was used before is not zero.  Clear it, because a chunk without a
 * stamp must be zero.
 */
static void *
zeroed_import(vmem_t *source, size_t size, int vmflag)
{
	void *at;

	(void)source;
	(void)vmflag;
	at = heap_alloc(align_up(size, HEAP_UNIT), HEAP_UNIT, &(bool){false});
	if (at != NULL)
		memset(at, 0, align_up(size, HEAP_UNIT));
	return at;
}

static void
zeroed_release(vmem_t *source, void *at, size_t size)
{
	(void)source;
	heap_free(at, align_up(size, HEAP_UNIT));
}

START_TEST(threads_never_share_a_chunk)
{
	vmem_t *heap = vmem_heap_arena(NULL, NULL);
	vmem_t *arena = vmem_create("zeroed", NULL, 0, HEAP_UNIT, zeroed_import,
	    zeroed_release, heap, 0, VM_NOSLEEP);
	struct slab_layout layout;

	ck_assert_ptr_nonnull(arena);
	ck_assert(slab_layout(&layout, 2000, 8, HEAP_UNIT));
	slab_store_init(&store, &layout, arena, 0, false);
	churn_together();
	ck_assert_uint_eq(nwrong, 0);
	check();
	ck_assert_uint_eq(slab_used(&store), 0);
	ck_assert(slab_store_end(&store));
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
}
END_TEST

/*
 * Every thread gives back all chunks.  For each chunk only one call is right.
 */
static unsigned ncommon, ngiven; /* [atomic] ngiven only */

static void *
give_all_that_others_give(void *arg)
{
	void **mine = malloc(ncommon * sizeof(mine[0])), *bad;
	unsigned seed = (unsigned)(uintptr_t)arg, given = 0;

	memcpy(mine, chunks, ncommon * sizeof(mine[0]));
	for (unsigned i = 0; i < ncommon; i += 7) {
		unsigned j = (unsigned)rand_r(&seed) % ncommon;
		void *p = mine[i];

		mine[i] = mine[j];
		mine[j] = p;
	}
	for (unsigned i = 0, n; i < ncommon; i += n) {
		enum slab_fault fault;

		n = 1 + (unsigned)rand_r(&seed) % 100;
		n = n < ncommon - i ? n : ncommon - i;
		fault = slab_give(&store, mine + i, n, &bad);
		if (fault == SLAB_FINE) {
			given += n;
			continue;
		}
		if (fault != SLAB_FREE)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		for (n = 1; mine[i + n - 1] != bad; n++)
			given++;
	}
	__atomic_add_fetch(&ngiven, given, __ATOMIC_RELAXED);
	free(mine);
	return NULL;
}

START_TEST(a_chunk_is_given_once_by_however_many)
{
	pthread_t thread[2 * NTHREADS];
	unsigned n;

	start(64, 16, false);
	for (int round = 0; round < 10; round++) {
		n = take_all(5000 - (unsigned)slab_used(&store));
		/*
		 * Some chunks of each slab stay in use, so the slab stays too.
		 */
		qsort(chunks, n, sizeof(chunks[0]), by_address);
		ncommon = n - n / 100;
		for (unsigned i = 0; i < n / 100; i++) {
			void *p = chunks[i * 100];

			chunks[i * 100] = chunks[ncommon + i];
			chunks[ncommon + i] = p;
		}
		ngiven = 0;
		for (uintptr_t i = 0; i < 2 * NTHREADS; i++)
			ck_assert_int_eq(
			    pthread_create(&thread[i], NULL,
				give_all_that_others_give, (void *)(i + 1)),
			    0);
		for (int i = 0; i < 2 * NTHREADS; i++)
			pthread_join(thread[i], NULL);
		ck_assert_uint_eq(nwrong, 0);
		ck_assert_uint_eq(ngiven, ncommon);
		check();
	}
}
END_TEST

/* Many more threads than CPUs.  The kernel refuses memory now and then. */
START_TEST(a_crowd_takes_and_gives_without_enough_memory)
{
	pthread_t thread[16];

	start(2000, 8, false);
	nchurns = 500;
	for (uintptr_t i = 0; i < 16; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, churn, (void *)(i + 1)),
		    0);
	for (unsigned i = 0; i < 300; i++) {
		os_fail_nth(1 + i % 3, 1 + i % 5);
		if (!slab_store_check(&store))
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		usleep(200);
	}
	os_fail_nth(0, 0);
	for (int i = 0; i < 16; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	check();
	ck_assert_uint_eq(slab_used(&store), 0);
	ck_assert(slab_store_end(&store));
}
END_TEST

Suite *
slab_suite(void)
{
	Suite *suite = suite_create("slab");
	TCase *tc = tcase_create("slab");

	tcase_set_timeout(tc, 60);
	tcase_add_test(
	    tc, a_batch_is_the_lowest_chunks_the_last_being_the_lowest);
	tcase_add_loop_test(
	    tc, chunks_are_apart_and_aligned_for_every_size, 0, 13);
	tcase_add_test(tc, successive_slabs_have_successive_colours);
	tcase_add_test(tc, the_fullest_slab_is_taken_from);
	tcase_add_test(tc, one_empty_slab_is_kept_and_the_others_go);
	tcase_add_loop_test(
	    tc, few_bytes_of_empty_slabs_are_in_hand_at_once, 0, 16);
	tcase_add_test(
	    tc, a_span_is_out_of_the_map_before_it_goes_back_to_the_heap);
	tcase_add_test(tc, a_span_with_one_chunk_leaves_its_store);
	tcase_add_loop_test(
	    tc, a_span_with_several_chunks_stays_in_its_store, 0, 3);
	tcase_add_test(
	    tc, a_span_that_needs_more_than_the_heap_stays_in_its_store);
	tcase_add_test(tc, going_over_the_edge_of_a_slab_makes_no_new_ones);
	tcase_add_test(tc, a_chunk_is_claimed_in_memory_before_it_is_taken);
	tcase_add_test(tc, what_is_not_a_chunk_is_refused);
	tcase_add_test(tc, a_batch_stops_at_the_first_that_is_wrong);
	tcase_add_test(tc, a_visit_that_had_to_wait_is_counted);
	tcase_add_test(
	    tc, more_holes_than_are_claimed_at_once_are_taken_in_order);
	tcase_add_loop_test(tc, whatever_is_wrong_in_a_batch_stops_it_there,
	    SLAB_FOREIGN, SLAB_NEVER + 1);
	tcase_add_loop_test(tc, a_run_ends_where_its_slab_ends, 0, 3);
	tcase_add_loop_test(
	    tc, a_run_that_turns_back_on_itself_is_found_out, 0, 6);
	tcase_add_test(tc, who_frees_twice_while_the_slab_goes_is_found_out);
	tcase_add_test(tc, a_chunk_is_given_once_by_however_many);
	tcase_add_test(tc, a_crowd_takes_and_gives_without_enough_memory);
	tcase_add_test(
	    tc, a_chunk_is_raw_once_and_destructed_when_its_slab_goes);
	tcase_add_test(tc, a_batch_has_constructed_chunks_only);
	tcase_add_test(tc, a_ready_chunk_of_any_slab_goes_before_a_raw_one);
	tcase_add_test(tc, chunks_that_were_never_taken_are_not_destructed);
	tcase_add_test(
	    tc, the_end_destructs_what_is_free_beside_chunks_that_are_out);
	tcase_add_loop_test(tc,
	    a_chunk_whose_constructor_does_not_return_is_free_at_the_end, 0, 2);
	tcase_add_test(tc, threads_that_construct_at_once_lose_no_mark);
	tcase_add_loop_test(
	    tc, a_refused_request_is_no_memory_and_nothing_else, 0, 4);
	tcase_add_test(tc, giving_works_when_every_request_fails);
	tcase_add_test(tc, slabs_of_a_source_are_found_wherever_they_start);
	tcase_add_test(tc, a_source_gets_all_of_it_back);
	tcase_add_test(tc, a_source_with_less_gives_what_it_has);
	tcase_add_test(tc, a_hash_that_cannot_grow_loses_nothing);
	tcase_add_test(tc, threads_never_share_a_chunk);
	suite_add_tcase(suite, tc);
	return suite;
}
