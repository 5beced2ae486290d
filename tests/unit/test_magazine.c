/*
 * test_magazine.c - the slow paths of magazines, when an rseq section misses,
 * over simulated slabs
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "magazine/cpu_marks.h"
#include "magazine/sizes.h"
#include "magazine/shards.h"
#include "tests/unit/layer.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define NWORKERS 5
#define STORM_NS 200000000

static uint32_t stop; /* [atomic] */

/* As defined at the top of sizes.c. */
static const size_t base_bytes = 32 * KIB, cpu_bytes = 4 * MIB;

START_TEST(capacities_keep_to_the_budget_and_to_what_was_asked)
{
	static const size_t bytes[] = {1, 8, 64, 512, 513, 4096, 65536, MIB};

	if (!start(RSEQ_NONE, 8, 0))
		return;
	for (size_t i = 0; i < array_size(bytes); i++)
		for (unsigned most = 0; most < 1200; most += 7) {
			memset(&layer, 0, sizeof(layer));
			ck_assert(magazine_layer_init(
			    &layer, bytes[i], most, CPU_GUARD_NONE));
			ck_assert(layer.rounds >= 2 && layer.rounds <= 62);
			ck_assert(layer.rounds == 2 ||
				  layer.rounds * bytes[i] <= base_bytes);
			ck_assert_uint_eq(sizes_budget_used, 0);
			for (int j = 0; j < 20; j++) {
				ck_assert(
				    is_pow2(magazine_bytes(layer.rounds)));
				magazine_grow(&layer);
			}
			ck_assert_uint_eq(layer.rounds, layer.rounds_most);
			ck_assert_uint_le(layer.rounds, MAGAZINE_ROUNDS_MAX);
			/* One cache takes a quarter of the budget at most. */
			ck_assert_uint_le(sizes_budget_used, cpu_bytes / 4);
			ck_assert_uint_eq(sizes_budget_used,
			    2 * (layer.rounds - layer.rounds_base) * bytes[i]);
			ck_assert(layer.rounds == 2 || most == 0 ||
				  layer.rounds <= most);
			for (int j = 0; j < 20; j++) {
				unsigned before = layer.rounds;

				magazine_shrink(&layer);
				ck_assert(layer.rounds < before || before == 2);
			}
			ck_assert_uint_eq(layer.rounds, 2);
			ck_assert_uint_eq(sizes_budget_used, 0);
			magazine_layer_end(&layer);
		}
}
END_TEST

START_TEST(a_layer_without_magazines_says_so)
{
	struct magazine *spare = NULL;
	unsigned pending = 0, want = 0;
	void *object;

	if (!start(_i, 64, 0))
		return;
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_EMPTY);
	ck_assert_uint_ge(want, 1);
	ck_assert(cpu_seems_closed(layer.hot));
	ck_assert_int_eq(
	    magazine_put(&layer, stamp, &spare, &pending), MAGAZINE_OK);
	ck_assert(!cpu_seems_closed(layer.hot));
	ck_assert_uint_eq(pending & WORK_SURPLUS, 0);
	ck_assert_uint_eq(magazine_rounds(&layer), 1);
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_OK);
	ck_assert_ptr_eq(object, stamp);
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_EMPTY);
}
END_TEST

START_TEST(a_first_free_goes_below_the_rounds_that_came_with_it)
{
	struct magazine *spare;
	unsigned pending = 0, n, want;
	void *object;

	if (!start(_i % 3, 16, 0))
		return;
	spare = magazine_new(&layer);
	n = spare->capacity - 1;
	/* Capacities may change meanwhile. */
	if (_i / 3 == 1)
		magazine_shrink(&layer);
	if (_i / 3 == 2)
		grow_here(&layer);
	for (unsigned i = 0; i < n; i++)
		spare->round[i] = stamp + i;
	spare->nrounds = n;
	ck_assert_int_eq(
	    magazine_put(&layer, stamp + n, &spare, &pending), MAGAZINE_OK);
	ck_assert_ptr_null(spare);
	ck_assert_uint_eq(magazine_rounds(&layer), n + 1);
	/* A second free of the object is noticed. */
	ck_assert_int_eq(
	    magazine_put(&layer, stamp + n, &spare, &pending), MAGAZINE_TWICE);
	for (unsigned i = 0; i <= n; i++) {
		ck_assert_int_eq(
		    magazine_get(&layer, &object, &want), MAGAZINE_OK);
		ck_assert_int_eq(object == stamp + n, i == n);
	}
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_EMPTY);
}
END_TEST

static unsigned mark_at;      /* rounds before the marked one */
static uint32_t distance = 1; /* pushes before a candidate */
static bool accepted;

static unsigned
find_mark(size_t bytes, unsigned n)
{
	ck_assert_uint_eq(bytes, 64);
	return mark_at < n ? mark_at : n;
}

static uint32_t
next_distance(void)
{
	return distance;
}

static bool
accept_candidate(size_t bytes)
{
	return bytes == 64 && accepted;
}

static void
start_marks(void)
{
	static const struct cpu_mark_chooser chooser = {.find = find_mark,
	    .candidate_distance = next_distance,
	    .accept = accept_candidate};

	cpu_marks.chooser = &chooser;
	layer.is_marked = true;
	cpu_set_marks(64);
}

static enum magazine_result
section_pop(void **object)
{
	return rseq_pop(&cpu_layer.place, at(), object) == RSEQ_OK
		   ? MAGAZINE_OK
		   : MAGAZINE_EMPTY;
}

START_TEST(a_marked_round_is_told_of_when_it_is_allocated)
{
	struct magazine *spare = NULL;
	unsigned pending = 0, want;
	void *object;

	if (!start(RSEQ_LIBC, 64, 0))
		return;
	start_marks();
	for (unsigned i = 0; i < 5; i++) {
		mark_at = 2;
		ck_assert_int_eq(
		    magazine_put(&layer, stamp + i, &spare, &pending),
		    MAGAZINE_OK);
	}
	/* The magazine has rounds, though the section is refused. */
	for (unsigned i = 5; i-- > 3;) {
		ck_assert_int_eq(section_pop(&object), MAGAZINE_OK);
		ck_assert_ptr_eq(object, stamp + i);
	}
	ck_assert_int_eq(section_pop(&object), MAGAZINE_EMPTY);
	mark_at = 0;
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_MARKED);
	ck_assert_ptr_eq(object, stamp + 2);
	mark_at = 9;
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_MARKED);
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_OK);
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_EMPTY);
	ck_assert(!magazine_marks_one(&layer));
	mark_at = 0;
	ck_assert(magazine_marks_one(&layer));
}
END_TEST

START_TEST(rounds_are_decided_when_they_are_loaded)
{
	struct magazine *mag;
	unsigned want;
	void *object;

	if (!start(RSEQ_LIBC, 64, 0))
		return;
	start_marks();
	mark_at = 1;
	mag = magazine_new(&layer);
	for (unsigned i = 0; i < 3; i++)
		mag->round[mag->nrounds++] = stamp + i;
	magazine_install(&layer, mag);
	ck_assert_int_eq(section_pop(&object), MAGAZINE_OK);
	ck_assert_int_eq(section_pop(&object), MAGAZINE_EMPTY);
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_MARKED);
	ck_assert_ptr_eq(object, stamp + 1);
	/* From the depot, the first round is decided for its allocation. */
	mag = magazine_new(&layer);
	for (unsigned i = 3; i < 6; i++)
		mag->round[mag->nrounds++] = stamp + i;
	magazine_give(&layer, mag);
	ck_assert_int_eq(section_pop(&object), MAGAZINE_OK);
	mark_at = 0;
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_MARKED);
	ck_assert_ptr_eq(object, stamp + 5);
	ck_assert_int_eq(section_pop(&object), MAGAZINE_EMPTY);
	/* Without marks the old one is told of once, and no other is set. */
	cpu_set_marks(0);
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_MARKED);
	ck_assert_int_eq(section_pop(&object), MAGAZINE_OK);
}
END_TEST

/* Stay on the last CPU; the sections then use its number, which is not 0. */
static bool
start_on_last(void)
{
	cpu_set_t all, one;
	int last = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		last = CPU_ISSET(cpu, &all) ? cpu : last;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	if (!start(RSEQ_LIBC, 64, 0))
		return false;
	cpu_layer.place.index = cpu_layer.place.cs - RSEQ_CS + RSEQ_CPU_ID;
	return true;
}

START_TEST(a_candidate_is_marked_if_it_is_accepted)
{
	struct magazine *spare = NULL;
	unsigned pending = 0, nmarked = 0, nmissed = 0, want;
	void *object;

	if (!(_i == 0 ? start(RSEQ_LIBC, 64, 0) : start_on_last()))
		return;
	mark_at = 99;
	distance = 9;
	ck_assert_int_eq(
	    magazine_put(&layer, stamp, &spare, &pending), MAGAZINE_OK);
	start_marks();
	for (unsigned i = 1; i <= 1000; i++) {
		accepted = i <= 500;
		if (rseq_push(&cpu_layer.place, at(), stamp + 1 + i % 2) !=
		    RSEQ_OK) {
			nmissed++;
			ck_assert_int_eq(magazine_put(&layer, stamp + 1 + i % 2,
					     &spare, &pending),
			    MAGAZINE_OK);
		}
		/* A few sections are interrupted. */
		if (section_pop(&object) == MAGAZINE_OK ||
		    magazine_get(&layer, &object, &want) == MAGAZINE_OK)
			continue;
		nmarked++;
		ck_assert_ptr_eq(object, stamp + 1 + i % 2);
	}
	/* One push in ten. */
	ck_assert_uint_ge(nmissed, 90);
	ck_assert_uint_le(nmissed, 110);
	ck_assert_uint_ge(nmarked, 45);
	ck_assert_uint_le(nmarked, 55);
}
END_TEST

/*
 * Then the rseq section handles the next free; it compares with the newest two
 * rounds.
 */
START_TEST(a_first_free_with_few_rounds_is_the_newest)
{
	struct magazine *spare;
	unsigned pending = 0, want;
	void *object;

	if (!start(_i, 16, 0))
		return;
	spare = magazine_new(&layer);
	spare->round[0] = stamp;
	spare->nrounds = 1;
	ck_assert_int_eq(
	    magazine_put(&layer, stamp + 1, &spare, &pending), MAGAZINE_OK);
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_OK);
	ck_assert_ptr_eq(object, stamp + 1);
}
END_TEST

START_TEST(a_second_free_in_a_row_is_seen)
{
	struct magazine *spare, *kept;
	unsigned pending = 0;

	if (!start(_i, 64, 0))
		return;
	spare = magazine_new(&layer);
	magazine_put(&layer, stamp, &spare, &pending);
	kept = spare = magazine_new(&layer);
	ck_assert_int_eq(
	    magazine_put(&layer, stamp, &spare, &pending), MAGAZINE_TWICE);
	ck_assert_ptr_eq(spare, kept);
	ck_assert_uint_eq(magazine_rounds(&layer), 1);
	ck_assert_int_eq(
	    magazine_put(&layer, stamp + 1, &spare, &pending), MAGAZINE_OK);
	ck_assert_ptr_eq(spare, kept);
}
END_TEST

/*
 * The newest 32 frees are compared, though most of them are in the previous
 * magazine.
 */
START_TEST(a_second_free_of_one_of_the_newest_is_seen)
{
	unsigned pending = 0, n;

	if (!start(_i, 64, 0))
		return;
	n = layer.rounds + 3;
	for (unsigned i = 0; i < n; i++)
		put(&stamp[i]);
	for (unsigned ago = 1; ago <= 2; ago++) {
		struct magazine *spare = NULL;

		ck_assert_int_eq(
		    magazine_put(&layer, &stamp[n - ago], &spare, &pending),
		    MAGAZINE_TWICE);
	}
	ck_assert_uint_eq(magazine_rounds(&layer), n);
}
END_TEST

/* Not in locked mode, which would use the free header of another CPU. */
START_TEST(an_owned_header_is_gone_past)
{
	struct magazine *spare = NULL, *mag;
	struct cpu_owned own;
	unsigned pending = 0, want;
	void *object;

	if (_i == RSEQ_NONE || !start(_i, 64, 0))
		return;
	fill_slab(100);
	put(get());
	size_t n = magazine_rounds(&layer);
	ck_assert(cpu_acquire(layer.hot, layer.cold, &own));
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_BYPASS);
	ck_assert_int_eq(
	    magazine_put(&layer, stamp, &spare, &pending), MAGAZINE_BYPASS);
	/* Rounds meant for an owned header go to the depot. */
	mag = magazine_new(&layer);
	mag->nrounds = 1;
	mag->round[0] = &stamp[200];
	magazine_install(&layer, mag);
	ck_assert_uint_eq(depot_rounds(&layer.depot), 1);
	cpu_release(&own);
	ck_assert_uint_eq(magazine_rounds(&layer), n + 1);
}
END_TEST

/*
 * The CPU has two magazines, so a run of allocs and frees at the edge of one
 * magazine does not reach the depot.
 */
START_TEST(alternation_does_not_come_to_the_depot)
{
	void *held[400];
	unsigned n = 0, cap;

	if (!start(_i, 64, 0))
		return;
	fill_slab(2000);
	for (; n < 400; n++)
		ck_assert_ptr_nonnull(held[n] = get());
	take_back_all();
	cap = layer.rounds;
	for (unsigned i = 0; i < 2 * cap; i++)
		put(held[--n]);
	for (unsigned run = 1; run <= cap; run++) {
		uint32_t moved = layer.depot.nmoved;

		for (unsigned i = 0; i < run; i++)
			held[n++] = get();
		for (unsigned i = 0; i < run; i++)
			put(held[--n]);
		ck_assert_uint_eq(layer.depot.nmoved, moved);
	}
}
END_TEST

/*
 * Return the loaded magazine, and the rounds in the loaded and the previous
 * one.
 */
static struct magazine *
look(unsigned *loaded, unsigned *previous)
{
	struct magazine *mag;
	struct cpu_owned own;

	ck_assert(cpu_acquire(layer.hot, layer.cold, &own));
	mag = own.cold->loaded;
	*loaded = own.nrounds;
	*previous =
	    own.cold->previous == NULL ? 0 : own.cold->previous->nrounds;
	cpu_release(&own);
	return mag;
}

/* A run of gets and as many puts, in either order, causes no exchange. */
static void
stays_loaded(const struct magazine *mag, unsigned run, bool puts_first)
{
	unsigned loaded, previous;
	void *held[64];

	for (unsigned i = 0; i < run && puts_first; i++)
		put(&stamp[1000 + i]);
	for (unsigned i = 0; i < run; i++)
		ck_assert_ptr_nonnull(held[i] = get());
	for (unsigned i = run; i > 0 && !puts_first; i--)
		put(held[i - 1]);
	ck_assert_ptr_eq(look(&loaded, &previous), mag);
}

/*
 * When a full and an empty magazine meet at an exchange, they share the rounds.
 */
START_TEST(an_exchange_is_not_followed_by_one)
{
	unsigned cap, n, loaded, previous;
	struct magazine *mag;

	if (!start(_i % 3, _i < 3 ? 64 : 4096, 0))
		return;
	cap = layer.rounds;
	n = cap / 2 < 32 ? cap / 2 : 32;
	for (unsigned i = 0; i <= cap; i++)
		put(&stamp[i]);
	mag = look(&loaded, &previous);
	ck_assert_uint_eq(loaded, 1);
	ck_assert_uint_eq(previous, cap);
	/* Share because the loaded magazine is empty: newest rounds first. */
	for (unsigned i = 0; i < 2; i++)
		ck_assert_ptr_eq(get(), &stamp[cap - i]);
	ck_assert_ptr_eq(look(&loaded, &previous), mag);
	ck_assert_uint_eq(loaded, n - 1);
	ck_assert_uint_eq(previous, cap - n);
	stays_loaded(mag, n - 1, /* puts_first */ false);
	stays_loaded(mag, n, /* puts_first */ true);
	for (unsigned i = 1; i < n; i++)
		get();
	ck_assert_ptr_eq(get(), &stamp[cap - n - 1]);
	/* Share because the loaded magazine is full. */
	mag = look(&loaded, &previous);
	ck_assert_uint_eq(loaded + previous, cap - n - 1);
	for (unsigned i = 0; i <= n + 1; i++)
		put(&stamp[cap - n - 1 + i]);
	ck_assert_ptr_ne(look(&loaded, &previous), mag);
	ck_assert_uint_eq(loaded, n + 1);
	ck_assert_uint_eq(previous, cap - n);
	mag = look(&loaded, &previous);
	stays_loaded(mag, n, /* puts_first */ false);
	for (unsigned i = 0; i <= n; i++)
		ck_assert_ptr_eq(get(), &stamp[cap - i]);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

/*
 * Even after sharing, the depot gets only full magazines, and as late as
 * possible.
 */
START_TEST(what_has_room_does_not_go_to_the_depot)
{
	unsigned cap, loaded, previous;

	if (!start(_i, 64, 0))
		return;
	cap = layer.rounds;
	for (unsigned i = 0; i <= cap; i++)
		put(&stamp[i]);
	get();
	get();
	look(&loaded, &previous);
	for (unsigned i = loaded + previous; i < 2 * cap; i++)
		put(&stamp[1000 + i]);
	ck_assert_ptr_null(layer.depot.full.head);
	put(&stamp[2000]);
	ck_assert_uint_eq(layer.depot.full.n, 1);
	ck_assert_uint_eq(layer.depot.full.head->nrounds, cap);
	look(&loaded, &previous);
	ck_assert_uint_eq(loaded, 1);
	ck_assert_uint_eq(previous, cap);
}
END_TEST

/* Batches of gets and as many puts. */
static void
flow(unsigned nbatches, unsigned batch)
{
	static void *held[NOBJECTS];

	ck_assert_uint_le(batch, array_size(held));
	for (unsigned i = 0; i < nbatches; i++) {
		for (unsigned j = 0; j < batch; j++)
			ck_assert_ptr_nonnull(held[j] = get());
		for (unsigned j = 0; j < batch; j++)
			put(held[j]);
	}
}

START_TEST(traffic_makes_larger_magazines)
{
	unsigned before;

	if (!start(_i, 64, 0))
		return;
	fill_slab(NOBJECTS);
	before = layer.rounds;
	flow(40, 1000);
	ck_assert_uint_gt(layer.rounds, before);
	ck_assert_uint_le(layer.rounds, layer.rounds_most);
	/* Two magazines of the size before the largest hold 4092 objects. */
	flow(100, NOBJECTS);
	ck_assert_uint_eq(layer.rounds, MAGAZINE_ROUNDS_MAX);
	ck_assert_uint_eq(
	    sizes_budget_used, 2 * (layer.rounds - layer.rounds_base) * 64);
	ck_assert_uint_eq(nwrong, 0);
	take_back_all();
	ck_assert_uint_eq(nslab, NOBJECTS);
}
END_TEST

/* The rounds that a miss asks for; there are none here. */
static unsigned
miss(void)
{
	unsigned want = 0;
	void *object;

	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_EMPTY);
	return want;
}

START_TEST(a_refill_asks_for_twice_as_many_each_time)
{
	unsigned want, last;

	if (!start(_i % 3, _i < 3 ? 64 : 4096, 0))
		return;
	last = miss();
	ck_assert_uint_le(last, layer.rounds);
	ck_assert(_i < 3 || last == 1);
	/* A miss that the slabs could not serve changes nothing. */
	ck_assert_uint_eq(miss(), last);
	for (int i = 0; i < 12; i++, last = want) {
		magazine_install(&layer, NULL);
		want = miss();
		ck_assert(want == 2 * last || want == layer.rounds);
	}
	ck_assert_uint_eq(last, layer.rounds);
	for (int i = 0; i < 10; i++)
		magazine_shrink(&layer);
	ck_assert_uint_eq(miss(), 2);
}
END_TEST

START_TEST(a_new_layer_knows_nothing_of_the_one_before)
{
	unsigned first;

	if (!start(_i, 64, 0))
		return;
	first = miss();
	for (int i = 0; i < 12; i++)
		magazine_install(&layer, NULL);
	grow_here(&layer);
	ck_assert_uint_gt(miss(), first);
	magazine_layer_end(&layer);
	memset(&layer, 0, sizeof(layer));
	ck_assert(magazine_layer_init(&layer, 64, 0, CPU_GUARD_NONE));
	ck_assert_uint_eq(miss(), first);
	/* The capacity of another CPU grows. */
	magazine_grow(&layer);
	ck_assert_uint_eq(miss(), first);
	for (int i = 0; i < 12; i++) {
		magazine_install(&layer, NULL);
		ck_assert_uint_le(miss(), layer.rounds_base);
	}
}
END_TEST

/* A fork that has begun lets no thread own a header. */
START_TEST(a_miss_on_an_empty_header_owns_nothing)
{
	unsigned want = 0;
	void *object;

	if (_i == RSEQ_NONE || !start(_i, 64, 0))
		return;
	fill_slab(NOBJECTS);
	/* Once for the memory of the block. */
	ck_assert_ptr_nonnull(get());
	while (magazine_rounds(&layer) != 0)
		ck_assert_ptr_nonnull(get());
	cpu_lock_for_fork();
	ck_assert_int_eq(magazine_get(&layer, &object, &want), MAGAZINE_EMPTY);
	ck_assert_uint_gt(want, 1);
	cpu_unlock_for_fork(/* child */ false);
	/* With rounds in the previous magazine or the depot it owns. */
	for (unsigned i = 0; i <= layer.rounds; i++)
		put(&stamp[i]);
	for (unsigned i = 0; i < 2; i++) {
		cpu_lock_for_fork();
		ck_assert_int_eq(
		    magazine_get(&layer, &object, &want), MAGAZINE_BYPASS);
		cpu_unlock_for_fork(/* child */ false);
		while (i == 0 && magazine_rounds(&layer) > layer.rounds)
			ck_assert_ptr_nonnull(get());
	}
	take_back_all();
}
END_TEST

START_TEST(a_depot_with_more_than_its_room_has_surplus)
{
	struct magazine *mag, *spare = NULL;
	unsigned pending = 0;
	unsigned i = 0;

	if (!start(_i, 8192, 0))
		return;
	layer.depot.full_max = 2;
	for (; (pending & WORK_SURPLUS) == 0 && i < 200; i++) {
		ck_assert_int_eq(
		    magazine_put(&layer, &stamp[i], &spare, &pending),
		    MAGAZINE_OK);
		layer.depot.full_max = 2;
	}
	ck_assert_uint_ne(pending & WORK_SURPLUS, 0);
	ck_assert_uint_eq(layer.depot.full.n, 3);
	ck_assert_uint_eq(magazine_rounds(&layer), i);
	mag = magazine_surplus(&layer);
	ck_assert_ptr_nonnull(mag);
	ck_assert_uint_gt(mag->nrounds, 0);
	ck_assert_uint_eq(magazine_rounds(&layer), i - mag->nrounds);
	/* The surplus is needed again at once, so the depot's limit doubles. */
	uint32_t bytes = layer.depot_bytes;
	magazine_install(&layer, NULL);
	ck_assert_uint_eq(layer.depot_bytes, 2 * bytes);
	magazine_install(&layer, NULL);
	ck_assert_uint_eq(layer.depot_bytes, 2 * bytes);
}
END_TEST

START_TEST(an_install_beside_rounds_goes_to_the_depot)
{
	struct magazine *mag;
	size_t n;

	if (!start(_i, 64, 0))
		return;
	fill_slab(100);
	put(get());
	n = magazine_rounds(&layer);
	mag = magazine_new(&layer);
	mag->round[mag->nrounds++] = &stamp[200];
	magazine_install(&layer, mag);
	ck_assert_uint_eq(layer.depot.full.n, 1);
	ck_assert_uint_eq(magazine_rounds(&layer), n + 1);
	ck_assert(depot_check(&layer.depot));
}
END_TEST

START_TEST(empty_magazines_of_an_old_size_end)
{
	struct magazine *old, *mag;
	size_t used;

	if (!start(_i, 64, 0))
		return;
	used = meta_used();
	old = magazine_new(&layer);
	depot_put(&layer.depot, old);
	/* Some CPU had it, which holds less. */
	old->capacity = 2;
	ck_assert_ptr_eq(magazine_empty(&layer), old);
	ck_assert_uint_eq(old->capacity, layer.rounds);
	depot_put(&layer.depot, old);
	magazine_grow(&layer);
	mag = magazine_empty(&layer);
	ck_assert_uint_eq(mag->capacity, layer.rounds);
	ck_assert_uint_eq(layer.depot.empty.n, 0);
	magazine_delete(mag);
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

START_TEST(an_update_takes_what_was_idle_and_leaves_what_was_not)
{
	struct magazine *chain;
	size_t n;

	if (!start(_i, 64, 0))
		return;
	fill_slab(1000);
	put(get());
	n = magazine_rounds(&layer);
	ck_assert_uint_gt(n, 0);
	/*
	 * The CPU has just loaded a magazine, so the first update takes
	 * nothing.
	 */
	magazine_update(&layer, &chain);
	ck_assert_ptr_null(chain);
	ck_assert_uint_eq(magazine_rounds(&layer), n);
	magazine_update(&layer, &chain);
	ck_assert_uint_eq(flush(chain), n);
	ck_assert_uint_eq(magazine_rounds(&layer), 0);
	ck_assert_uint_eq(nslab, 1000);
	ck_assert_ptr_nonnull(get());
}
END_TEST

static void
grow_fully(void)
{
	for (int i = 0; i < 20; i++)
		grow_here(&layer);
}

START_TEST(the_estimate_counts_every_round_of_a_large_magazine)
{
	if (!start(_i, 32, 0))
		return;
	grow_fully();
	ck_assert_uint_eq(layer.rounds, MAGAZINE_ROUNDS_MAX);
	for (unsigned i = 1; i <= MAGAZINE_ROUNDS_MAX; i++) {
		put(&stamp[i]);
		ck_assert_uint_eq(cpu_rounds_estimate(layer.hot, cpu_now()), i);
	}
}
END_TEST

static const struct {
	unsigned ncpus;
	size_t most, grown;
} depots[] = {{16, 16 * MIB, 16 * MIB}, {17, 16 * MIB, 32 * MIB},
    {64, 16 * MIB, 64 * MIB}, {256, 1024 * MIB, 2048 * MIB}, {64, 0, 0}};

START_TEST(a_depot_may_grow_with_the_number_of_cpus)
{
	magazine_depot_most = depots[_i].most;
	if (!start(0, 4096, 0))
		return;
	cpu_layer.nrun = depots[_i].ncpus;
	for (int i = 0; i < 20; i++) {
		layer.overflowed = 1;
		magazine_refilled(&layer);
	}
	ck_assert_uint_eq(layer.depot_bytes, depots[_i].grown);
}
END_TEST

START_TEST(a_cache_with_traffic_takes_budget_and_returns_it)
{
	struct magazine *chain;

	if (!start(_i, 8192, 0))
		return;
	fill_slab(NOBJECTS);
	ck_assert_uint_eq(layer.rounds, layer.rounds_base);
	/* A short burst takes nothing. */
	for (int i = 0; i < 100; i++)
		put(get());
	ck_assert_uint_eq(layer.rounds, layer.rounds_base);
	ck_assert_uint_eq(sizes_budget_used, 0);
	/* The CPU and the depot exchange magazines all the time. */
	flow(100, 1000);
	ck_assert_uint_eq(layer.rounds, layer.rounds_most);
	ck_assert_uint_gt(layer.rounds, layer.rounds_base);
	ck_assert_uint_le(layer.rounds * layer.object_bytes, cpu_bytes / 8);
	ck_assert_uint_eq(
	    sizes_budget_used, 2 * (layer.rounds - layer.rounds_base) * 8192);
	/* The cache keeps its budget while the traffic lasts. */
	magazine_update(&layer, &chain);
	flush(chain);
	flow(100, 1000);
	magazine_update(&layer, &chain);
	flush(chain);
	ck_assert_uint_eq(layer.rounds, layer.rounds_most);
	/* The first update takes the magazines, the second returns budget. */
	for (int i = 0; i < 2; i++) {
		magazine_update(&layer, &chain);
		flush(chain);
	}
	ck_assert_uint_le(layer.rounds, layer.rounds_base);
	ck_assert_uint_eq(sizes_budget_used, 0);
	ck_assert_uint_eq(nwrong, 0);
	take_back_all();
	ck_assert_uint_eq(nslab, NOBJECTS);
}
END_TEST

START_TEST(a_cpu_that_needs_little_returns_its_capacity)
{
	struct magazine *chain;

	if (!start(_i, 64, 0))
		return;
	fill_slab(NOBJECTS);
	flow(100, 2000);
	ck_assert_uint_gt(layer.rounds, 4u * layer.rounds_base);
	for (int i = 0; i < 6; i++) {
		magazine_update(&layer, &chain);
		flush(chain);
		put(get());
	}
	/* The first refill has 33 rounds, and it has twice as many. */
	ck_assert_uint_le(layer.rounds, 2u * layer.rounds_base + 2);
	/* The CPU keeps a capacity that it needs after each update. */
	flow(100, 2000);
	for (int i = 0; i < 6; i++) {
		magazine_update(&layer, &chain);
		flush(chain);
		flow(1, 2000);
	}
	ck_assert_uint_ge(layer.rounds, 1022);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

/* A thread on a CPU of its own, of which it keeps the speed. */
struct pace {
	unsigned batch; /* objects that it takes and frees in a turn */
	size_t nheld;   /* rounds of its CPU, the sum of all turns */
	pthread_barrier_t *turns; /* of both threads */
	cpu_set_t cpu;
};

static void *
keep_pace(void *arg)
{
	struct pace *pace = arg;
	void *held[1000];
	unsigned loaded, previous;

	ck_assert_uint_le(pace->batch, array_size(held));
	ck_assert_int_eq(
	    sched_setaffinity(0, sizeof(pace->cpu), &pace->cpu), 0);
	for (int i = 0; i < 1000; i++) {
		pthread_barrier_wait(pace->turns);
		for (unsigned j = 0; j < pace->batch; j++)
			ck_assert_ptr_nonnull(held[j] = get());
		for (unsigned j = 0; j < pace->batch; j++)
			put(held[j]);
		look(&loaded, &previous);
		pace->nheld += loaded + previous;
	}
	return NULL;
}

/*
 * Stores two CPUs, each in a set of its own.  Returns false if this machine has
 * only one CPU.
 */
static bool
two_cpus(cpu_set_t *first, cpu_set_t *second)
{
	cpu_set_t all;
	int cpu = 0;

	everywhere();
	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(first);
	CPU_ZERO(second);
	CPU_SET(cpu, first);
	while (++cpu < CPU_SETSIZE)
		if (CPU_ISSET(cpu, &all)) {
			CPU_SET(cpu, second);
			return true;
		}
	return false;
}

/*
 * One of two CPUs has a quarter of the speed of the other.  Their objects are
 * freed as often, but the slow one has a quarter as many of them.
 */
START_TEST(a_slow_cpu_holds_less_than_a_fast_one)
{
	pthread_barrier_t turns;
	struct pace pace[2] = {
	    {.batch = 1000, .turns = &turns}, {.batch = 250, .turns = &turns}};
	pthread_t thread[2];

	if (!start(_i, 64, 0) || !two_cpus(&pace[0].cpu, &pace[1].cpu))
		return;
	fill_slab(NOBJECTS);
	pthread_barrier_init(&turns, NULL, 2);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, keep_pace, &pace[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_le(pace[1].nheld, pace[0].nheld / 2);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

/*
 * Traffic on one CPU does not enlarge the magazines of another one.  In locked
 * mode a thread takes its traffic with it to another CPU.
 */
START_TEST(a_cpu_without_traffic_keeps_small_magazines)
{
	cpu_set_t first, second;

	if (!start(RSEQ_NONE, 64, 0) || !two_cpus(&first, &second))
		return;
	fill_slab(NOBJECTS);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(first), &first), 0);
	flow(100, 2000);
	ck_assert_uint_gt(layer.rounds, 6u * layer.rounds_base);
	take_back_all();
	ck_assert_int_eq(sched_setaffinity(0, sizeof(second), &second), 0);
	flow(1, 3u * layer.rounds_base);
	ck_assert_uint_gt(layer.depot.full.n, 0);
	ck_assert_uint_eq(layer.depot.full.head->nrounds, layer.rounds_base);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

/*
 * With a quota of two of 64 CPUs, all CPUs together hold at most the budgets of
 * two, and small magazines as well.
 */
START_TEST(a_quota_of_processor_time_bounds_all_cpus_together)
{
	static struct magazine_layer others[40];
	size_t bytes = 0, base = 0;

	if (!start(RSEQ_NONE, 64, 0))
		return;
	magazine_layer_end(&layer);
	cpu_layer.nrun = 64;
	cpu_layer.nquota = 2;
	for (unsigned i = 0; i < array_size(others); i++) {
		memset(&layer, 0, sizeof(layer));
		ck_assert(magazine_layer_init(
		    &layer, 64 << i % 8, 0, CPU_GUARD_NONE));
		base += 2 * (size_t)layer.rounds * layer.object_bytes;
		for (int j = 0; j < 20; j++)
			magazine_grow(&layer);
		bytes += 2 * (size_t)layer.rounds * layer.object_bytes;
		ck_assert_uint_ge(layer.rounds, 2);
		others[i] = layer;
	}
	ck_assert_uint_gt(bytes, base);
	ck_assert_uint_le(64 * (bytes - base), 2 * cpu_bytes);
	ck_assert_uint_eq(sizes_budget_used, bytes - base);
	for (unsigned i = 0; i < array_size(others); i++)
		magazine_layer_end(&others[i]);
	ck_assert_uint_eq(sizes_budget_used, 0);
}
END_TEST

START_TEST(what_all_take_is_bounded)
{
	static struct magazine_layer others[40];
	struct magazine_layer first;
	unsigned ngrown = 0;

	if (!start(_i, 8192, 0))
		return;
	fill_slab(NOBJECTS);
	first = layer;
	for (unsigned i = 0; i < array_size(others); i++) {
		memset(&layer, 0, sizeof(layer));
		ck_assert(magazine_layer_init(&layer, 8192, 0, CPU_GUARD_NONE));
		flow(15, 1000);
		ngrown += layer.rounds > layer.rounds_base;
		ck_assert_uint_ge(layer.rounds, layer.rounds_base);
		ck_assert_uint_le(sizes_budget_used, cpu_bytes);
		take_back_all();
		others[i] = layer;
	}
	ck_assert_uint_ge(ngrown, 3);
	ck_assert_uint_lt(ngrown, array_size(others));
	for (unsigned i = 0; i < array_size(others); i++)
		magazine_layer_end(&others[i]);
	ck_assert_uint_eq(sizes_budget_used, 0);
	magazine_layer_end(&first);
}
END_TEST

static struct magazine_layer resized[24];

static void *
resize_at_random(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;

	for (int i = 0; i < 200000; i++) {
		struct magazine_layer *one =
		    &resized[(unsigned)rand_r(&state) % array_size(resized)];

		if (rand_r(&state) % 3 == 0)
			magazine_shrink(one);
		else
			magazine_grow(one);
	}
	return NULL;
}

/*
 * Threads change the same capacities, and want more than the budget has.  Both
 * the loser of such a race and a thread that exceeds the budget return their
 * part of it.
 */
START_TEST(a_race_for_the_budget_loses_nothing_of_it)
{
	pthread_t thread[3];
	size_t bytes = 0;

	if (!start(RSEQ_NONE, 64, 0))
		return;
	magazine_layer_end(&layer);
	for (unsigned i = 0; i < array_size(resized); i++)
		ck_assert(
		    magazine_layer_init(&resized[i], 8192, 0, CPU_GUARD_NONE));
	for (uintptr_t i = 0; i < array_size(thread); i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL,
				     resize_at_random, (void *)(i + 1)),
		    0);
	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < array_size(resized); i++)
		if (resized[i].rounds > resized[i].rounds_base)
			bytes += 2 * 8192 *
				 (size_t)(resized[i].rounds -
					  resized[i].rounds_base);
	ck_assert_uint_eq(sizes_budget_used, bytes);
	ck_assert_uint_le(bytes, cpu_bytes);
	for (unsigned i = 0; i < array_size(resized); i++)
		magazine_layer_end(&resized[i]);
	ck_assert_uint_eq(sizes_budget_used, 0);
}
END_TEST

static void *
return_at_once(void *arg)
{
	return arg;
}

START_TEST(a_drain_that_is_refused_has_the_depots_only)
{
	struct magazine *chain, *mag;
	pthread_t thread;
	size_t n;

	/*
	 * The process must have had a second thread.  With one thread there are
	 * no others to stop.
	 */
	ck_assert_int_eq(
	    pthread_create(&thread, NULL, return_at_once, NULL), 0);
	pthread_join(thread, NULL);
	if (_i == RSEQ_NONE || !start(_i, 64, 0))
		return;
	fill_slab(100);
	put(get());
	n = magazine_rounds(&layer);
	mag = magazine_new(&layer);
	mag->round[mag->nrounds++] = &stamp[200];
	depot_put(&layer.depot, mag);
	os_fail_nth(1, 1);
	ck_assert(!magazine_drain(&layer, false, &chain));
	os_fail_nth(0, 0);
	ck_assert_ptr_eq(chain, mag);
	ck_assert_ptr_null(chain->next);
	ck_assert_uint_eq(magazine_rounds(&layer), n);
	take_back_all();
}
END_TEST

/* Moves rounds of this CPU and the depot to the slab.  Returns how many. */
static unsigned
take_near(void)
{
	void *taken[128];
	unsigned n = magazine_get_bulk(&layer, taken, 128);

	slab_give(taken, n);
	return n;
}

START_TEST(what_is_near_can_be_taken)
{
	void *held[300];
	unsigned n = 0, got;

	if (!start(_i, 64, 0))
		return;
	fill_slab(300);
	for (int i = 0; i < 300; i++)
		held[i] = get();
	for (int i = 0; i < 300; i++)
		put(held[i]);
	/*
	 * In locked mode this thread may own headers of other CPUs, but other
	 * threads may own them too.
	 */
	size_t nrounds = magazine_rounds(&layer);
	ck_assert_uint_gt(magazine_rounds_estimate(&layer, cpu_now()), 0);
	while ((got = take_near()) != 0)
		n += got;
	ck_assert_uint_eq(n, nrounds);
	ck_assert_uint_eq(magazine_rounds(&layer), 0);
	ck_assert_uint_eq(nslab, 300);
	ck_assert_ptr_nonnull(get());
}
END_TEST

static void
stamp_change(void *object, uint32_t from)
{
	uint32_t *at = object;

	if (at < stamp || at >= stamp + NOBJECTS ||
	    __atomic_exchange_n(at, !from, __ATOMIC_ACQ_REL) != from)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
}

/* Allocate and free in bursts, so that magazines become full and empty. */
static void *
work(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	enum {
		MOST = NOBJECTS / NWORKERS
	};
	void **held = malloc(MOST * sizeof(*held));
	unsigned n = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		x = x * 1664525 + 1013904223;
		unsigned goal = (x >> 12) % MOST;
		while (n < goal && (held[n] = get()) != NULL)
			stamp_change(held[n++], 0);
		while (n > goal) {
			stamp_change(held[--n], 1);
			put(held[n]);
		}
	}
	while (n > 0) {
		stamp_change(held[--n], 1);
		put(held[n]);
	}
	free(held);
	return NULL;
}

static void
meddle(unsigned i)
{
	struct magazine *chain = NULL;

	switch (i % 6) {
	case 0:
		magazine_grow(&layer);
		break;
	case 1:
	case 2:
		magazine_shrink(&layer);
		break;
	case 3:
		magazine_drain(&layer, false, &chain);
		break;
	case 4:
		take_near();
		break;
	default:
		magazine_update(&layer, &chain);
		break;
	}
	flush(chain);
}

/* Has each shard moved magazines?  A slow machine needs more time for it. */
static bool
all_shards_have_moved(void)
{
	for (unsigned k = 0; k < layer.nshards; k++)
		if (__atomic_load_n(&magazine_shard(&layer, k)->nmoved,
			__ATOMIC_RELAXED) == 0)
			return false;
	return true;
}

START_TEST(no_round_and_no_magazine_is_lost_while_all_changes)
{
	pthread_t thread[NWORKERS];
	uint64_t end = os_now_ns() + STORM_NS;
	size_t used;

	/*
	 * With shards the depot is small, so that shards also pass magazines
	 * on.
	 */
	magazine_depot_most = _i < 3 ? 16 * MIB : 32 * KIB;
	if (!start(_i % 3, 64, 0))
		return;
	restart(1 + (unsigned)_i / 3, 1);
	layer.rounds_most = 510;
	everywhere();
	used = meta_used();
	fill_slab(NOBJECTS);
	for (uintptr_t i = 0; i < NWORKERS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (unsigned i = 0; os_now_ns() < end || !all_shards_have_moved();
	     i++) {
		meddle(i);
		if (i % 2 == 0)
			usleep(500);
		for (unsigned k = 0; k < layer.nshards; k++)
			ck_assert(depot_check(magazine_shard(&layer, k)));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < NWORKERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(magazine_rounds(&layer) + nslab, NOBJECTS);
	take_back_all();
	ck_assert_uint_eq(nslab, NOBJECTS);
	for (unsigned i = 0; i < nslab; i++)
		stamp_change(slab[i], 0);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(meta_used(), used);
	magazine_layer_end(&layer);
}
END_TEST

/*
 * A CPU visits the depot less than once per 1000 operations, as long as the
 * objects that are allocated and freed in turn fit into its magazines.
 */
START_TEST(at_steady_load_a_cpu_rarely_visits_the_depot)
{
	enum {
		NWARM = 1000,
		NBATCHES = 20000,
		BATCH = 200
	};
	static void *object[BATCH];
	uint32_t before = 0, moved;

	if (!start(_i, 200, 0))
		return;
	fill_slab(NOBJECTS);
	for (int n = 0; n < NWARM + NBATCHES; n++) {
		if (n == NWARM)
			before = count_moved();
		for (int i = 0; i < BATCH; i++)
			object[i] = get();
		for (int i = 0; i < BATCH; i++)
			put(object[i]);
	}
	moved = count_moved() - before;
	/* It took some to get there. */
	ck_assert_uint_gt(before, 0);
	/* A batch is 400 operations. */
	ck_assert_uint_lt(moved, NBATCHES * 2 * BATCH / 1000);
	take_back_all();
	ck_assert_uint_eq(nslab, NOBJECTS);
}
END_TEST

Suite *
magazine_suite(void)
{
	Suite *suite = suite_create("magazine");
	TCase *tcase = tcase_create("magazine");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(
	    tcase, capacities_keep_to_the_budget_and_to_what_was_asked);
	tcase_add_loop_test(
	    tcase, at_steady_load_a_cpu_rarely_visits_the_depot, 0, 3);
	tcase_add_loop_test(tcase, a_layer_without_magazines_says_so, 0, 3);
	tcase_add_loop_test(
	    tcase, a_first_free_goes_below_the_rounds_that_came_with_it, 0, 9);
	tcase_add_loop_test(
	    tcase, a_first_free_with_few_rounds_is_the_newest, 0, 3);
	tcase_add_test(tcase, a_marked_round_is_told_of_when_it_is_allocated);
	tcase_add_test(tcase, rounds_are_decided_when_they_are_loaded);
	tcase_add_loop_test(
	    tcase, a_candidate_is_marked_if_it_is_accepted, 0, 2);
	tcase_add_loop_test(tcase, a_second_free_in_a_row_is_seen, 0, 3);
	tcase_add_loop_test(
	    tcase, a_second_free_of_one_of_the_newest_is_seen, 0, 3);
	tcase_add_loop_test(tcase, an_owned_header_is_gone_past, 0, 3);
	tcase_add_loop_test(
	    tcase, alternation_does_not_come_to_the_depot, 0, 3);
	tcase_add_loop_test(tcase, an_exchange_is_not_followed_by_one, 0, 6);
	tcase_add_loop_test(
	    tcase, what_has_room_does_not_go_to_the_depot, 0, 3);
	tcase_add_loop_test(
	    tcase, a_new_layer_knows_nothing_of_the_one_before, 0, 3);
	tcase_add_loop_test(
	    tcase, a_cpu_that_needs_little_returns_its_capacity, 0, 3);
	tcase_add_loop_test(tcase, a_slow_cpu_holds_less_than_a_fast_one, 0, 3);
	tcase_add_test(tcase, a_cpu_without_traffic_keeps_small_magazines);
	tcase_add_loop_test(tcase, traffic_makes_larger_magazines, 0, 3);
	tcase_add_loop_test(
	    tcase, a_refill_asks_for_twice_as_many_each_time, 0, 6);
	tcase_add_loop_test(
	    tcase, a_miss_on_an_empty_header_owns_nothing, 0, 3);
	tcase_add_loop_test(
	    tcase, a_depot_with_more_than_its_room_has_surplus, 0, 3);
	tcase_add_loop_test(
	    tcase, an_install_beside_rounds_goes_to_the_depot, 0, 3);
	tcase_add_loop_test(tcase, empty_magazines_of_an_old_size_end, 0, 3);
	tcase_add_loop_test(
	    tcase, an_update_takes_what_was_idle_and_leaves_what_was_not, 0, 3);
	tcase_add_loop_test(
	    tcase, the_estimate_counts_every_round_of_a_large_magazine, 0, 3);
	tcase_add_loop_test(tcase, a_depot_may_grow_with_the_number_of_cpus, 0,
	    array_size(depots));
	tcase_add_loop_test(
	    tcase, a_cache_with_traffic_takes_budget_and_returns_it, 0, 3);
	tcase_add_test(
	    tcase, a_quota_of_processor_time_bounds_all_cpus_together);
	tcase_add_test(tcase, a_race_for_the_budget_loses_nothing_of_it);
	tcase_add_loop_test(tcase, what_all_take_is_bounded, 0, 3);
	tcase_add_loop_test(
	    tcase, a_drain_that_is_refused_has_the_depots_only, 0, 3);
	tcase_add_loop_test(tcase, what_is_near_can_be_taken, 0, 3);
	tcase_add_loop_test(
	    tcase, no_round_and_no_magazine_is_lost_while_all_changes, 0, 9);
	suite_add_tcase(suite, tcase);
	return suite;
}
