/*
 * test_shards.c - a magazine layer with several depots
 *
 * Each test is a separate process.
 */
#include <check.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/unit/layer.h"
#include "magazine/shards.h"
#include "vmem/meta.h"

static uint32_t stop; /* [atomic] */

/* A magazine with one round, or an empty one if the object is NULL. */
static struct magazine *
magazine_of(void *object)
{
	struct magazine *mag = magazine_new(&layer);

	ck_assert_ptr_nonnull(mag);
	if (object != NULL)
		mag->round[mag->nrounds++] = object;
	return mag;
}

static void
put_full(unsigned shard, unsigned object)
{
	depot_put(magazine_shard(&layer, shard), magazine_of(&stamp[object]));
}

static uint32_t
nfull(unsigned shard)
{
	return magazine_shard(&layer, shard)->full.n;
}

static uint32_t
nempty(unsigned shard)
{
	return magazine_shard(&layer, shard)->empty.n;
}

/* The shard that this thread tries first; the thread stays on its CPU. */
static unsigned
own_shard(void)
{
	return cpu_now() / layer.shard_cpus % layer.nshards;
}

START_TEST(a_shard_is_for_at_most_4_cpus)
{
	size_t used;

	if (!start(RSEQ_NONE, 64, 0))
		return;
	for (unsigned ncpus = 1; ncpus <= 512; ncpus++) {
		restart(0, ncpus);
		ck_assert_uint_eq(layer.nshards, (ncpus + 3) / 4);
		ck_assert_uint_le(layer.shard_cpus, 4);
		/* Only the CPUs with the lowest numbers use the first shard. */
		ck_assert_uint_lt(
		    (ncpus - 1) / layer.shard_cpus, layer.nshards);
		ck_assert_int_eq(layer.more == NULL, ncpus <= 4);
		for (unsigned i = 0; i < layer.nshards; i++)
			ck_assert_uint_eq(
			    (uintptr_t)magazine_shard(&layer, i) % CACHE_LINE,
			    0);
		ncpus += ncpus > 70 ? 40 : 0;
	}
	magazine_layer_end(&layer);
	memset(&layer, 0, sizeof(layer));
	used = meta_used();
	magazine_depot_shards = 1000;
	ck_assert(magazine_layer_init(&layer, 64, 0, CPU_GUARD_NONE));
	ck_assert_uint_ge(meta_used(), used + 999 * CACHE_LINE);
	magazine_layer_end(&layer);
	ck_assert_uint_eq(meta_used(), used);
	/* The sizes of blocks are rounded, so not all numbers tell. */
	for (unsigned n = 1; n < 70; n++) {
		memset(&layer, 0, sizeof(layer));
		magazine_depot_shards = n;
		ck_assert(magazine_layer_init(&layer, 64, 0, CPU_GUARD_NONE));
		ck_assert_uint_eq(layer.nshards, n);
		magazine_layer_end(&layer);
		ck_assert_uint_eq(meta_used(), used);
	}
}
END_TEST

START_TEST(without_memory_for_shards_there_is_one)
{
	struct magazine_layer more;

	if (!start(_i, 64, 0))
		return;
	restart(1, 1);
	magazine_depot_shards = MAGAZINE_SHARDS_MAX;
	os_fail_nth(1, 1000);
	for (int i = 0; i < 100; i++) {
		memset(&more, 0, sizeof(more));
		ck_assert(magazine_layer_init(&more, 64, 0, CPU_GUARD_NONE));
		if (more.nshards == 1)
			break;
	}
	os_fail_nth(0, 0);
	ck_assert_uint_eq(more.nshards, 1);
	ck_assert_ptr_null(more.more);
	ck_assert_uint_gt(more.depot.full_max, 0);
	layer = more;
	fill_slab(1000);
	for (int i = 0; i < 1000; i++)
		ck_assert_ptr_nonnull(slab[i] = get());
	for (int i = 0; i < 1000; i++)
		put(slab[i]);
	take_back_all();
	magazine_layer_end(&layer);
}
END_TEST

START_TEST(shards_divide_the_room_to_the_magazine)
{
	static const size_t bytes[] = {16, 512, 4096, 65536, MIB, 8 * MIB};
	static const size_t most[] = {0, 32 * KIB, 16 * MIB};
	uint32_t whole[2];

	if (!start(RSEQ_NONE, 64, 0))
		return;
	for (size_t i = 0; i < array_size(bytes) * array_size(most); i++)
		for (unsigned n = 1; n <= 17; n++) {
			uint32_t sum = 0, least = UINT32_MAX, largest = 0;

			magazine_depot_most = most[i % array_size(most)];
			magazine_depot_shards = n;
			memset(&layer, 0, sizeof(layer));
			ck_assert(magazine_layer_init(&layer,
			    bytes[i / array_size(most)], 0, CPU_GUARD_NONE));
			for (unsigned k = 0; k < n; k++) {
				uint32_t max =
				    magazine_shard(&layer, k)->full_max;

				sum += max;
				least = max < least ? max : least;
				largest = max > largest ? max : largest;
			}
			whole[n > 1] = sum;
			ck_assert_uint_eq(whole[n > 1], whole[0]);
			ck_assert_uint_le(largest - least, 1);
			magazine_layer_end(&layer);
		}
}
END_TEST

/*
 * The second exchange leaves the empty magazine in the shard that had the full
 * magazine.
 */
START_TEST(a_full_magazine_of_any_shard_is_found)
{
	if (!start(_i, 64, 0))
		return;
	for (unsigned n = 2; n <= 5; n++)
		for (unsigned at = 0; at < n; at++) {
			unsigned want;
			void *object;

			restart(n, 2);
			for (unsigned i = 0; i < 3; i++)
				put_full(at, i);
			for (unsigned i = 0; i < 3; i++) {
				ck_assert_uint_eq(nfull(at), 3 - i);
				ck_assert_int_eq(
				    magazine_get(&layer, &object, &want),
				    MAGAZINE_OK);
				ck_assert_uint_eq(nempty(at), i == 2);
			}
			ck_assert_int_eq(magazine_get(&layer, &object, &want),
			    MAGAZINE_EMPTY);
			for (unsigned i = 0; i < n; i++)
				ck_assert_uint_eq(nempty(i), i == at);
		}
}
END_TEST

/* Fill both magazines of this CPU; return the number of rounds. */
static unsigned
fill_header(void)
{
	struct magazine *spare = NULL;
	unsigned pending = 0, n = 0;

	for (; n < 2 * layer.rounds; n++)
		ck_assert_int_eq(
		    magazine_put(&layer, &stamp[n], &spare, &pending),
		    MAGAZINE_OK);
	return n;
}

START_TEST(an_empty_magazine_of_any_shard_is_found)
{
	if (!start(_i, 64, 0))
		return;
	for (unsigned n = 2; n <= 5; n++)
		for (unsigned at = 0; at < n; at++) {
			struct magazine *spare = NULL;
			unsigned pending = 0;

			restart(n, 2);
			unsigned k = fill_header();
			depot_put(
			    magazine_shard(&layer, at), magazine_of(NULL));
			magazine_shard(&layer, at)->full_max = 0;
			ck_assert_int_eq(
			    magazine_put(&layer, &stamp[k], &spare, &pending),
			    MAGAZINE_OK);
			ck_assert_uint_ne(pending & WORK_SURPLUS, 0);
			ck_assert_uint_eq(nempty(at), 0);
			ck_assert_uint_eq(nfull(at), 1);
			ck_assert_uint_eq(magazine_rounds(&layer), k + 1);
			/*
			 * A refill finds an empty magazine of another shard
			 * too.
			 */
			struct magazine *mag = magazine_of(NULL);
			depot_put(magazine_shard(&layer, at), mag);
			ck_assert_ptr_eq(magazine_empty(&layer), mag);
			ck_assert_uint_eq(nfull(at), 1);
		}
}
END_TEST

/* On each CPU in turn, with 2 shards: once sized for 2 CPUs, once for 16. */
START_TEST(a_cpu_trades_at_its_own_shard_first)
{
	cpu_set_t all, one;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	if (!start(RSEQ_NONE, 64, 0))
		return;
	for (unsigned cpu = 0; cpu < 2 * CPU_SETSIZE; cpu++) {
		unsigned at = cpu / 2, each = cpu % 2 == 0 ? 1 : 8;
		unsigned want;
		void *object;

		if (!CPU_ISSET(at, &all))
			continue;
		restart(2, 2 * each);
		CPU_ZERO(&one);
		CPU_SET(at, &one);
		sched_setaffinity(0, sizeof(one), &one);
		put_full(0, 0);
		put_full(1, 1);
		ck_assert_int_eq(
		    magazine_get(&layer, &object, &want), MAGAZINE_OK);
		ck_assert_ptr_eq(object, &stamp[at / each % 2]);
		ck_assert_uint_eq(own_shard(), at / each % 2);
	}
}
END_TEST

/*
 * If the lock of another shard is taken and an idle shard has a magazine, the
 * thread skips the busy shard.
 */
START_TEST(a_busy_shard_of_others_is_passed)
{
	if (!start(_i, 64, 0))
		return;
	for (unsigned other = 1; other < 3; other++) {
		unsigned want;
		void *object;

		restart(4, 2);
		unsigned busy = own_shard() ^ other;
		unsigned idle = own_shard() ^ 3;
		put_full(busy, 1);
		put_full(idle, 2);
		magazine_shard(&layer, busy)->lock.state = 1;
		ck_assert_int_eq(
		    magazine_get(&layer, &object, &want), MAGAZINE_OK);
		ck_assert_ptr_eq(object, &stamp[2]);
		ck_assert_uint_eq(magazine_shard(&layer, busy)->ncontended, 0);
		magazine_shard(&layer, busy)->lock.state = 0;
	}
}
END_TEST

static void *
hold_a_while(void *lock)
{
	lock_take(lock);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	usleep(20000);
	lock_release(lock);
	return NULL;
}

/*
 * The thread waits for its own shard even if another shard has a magazine.  It
 * waits for a busy shard of others if no other shard can serve it.
 */
START_TEST(a_busy_shard_is_waited_for_in_the_end)
{
	if (!start(_i, 64, 0))
		return;
	for (unsigned i = 0; i < 3; i++) {
		pthread_t thread;
		unsigned want;
		void *object;

		restart(4, 2);
		unsigned other = own_shard() ^ i;

		struct depot *busy = magazine_shard(&layer, other);
		put_full(other, 1);
		if (i == 0)
			put_full(other ^ 1, 2);
		__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
		pthread_create(&thread, NULL, hold_a_while, &busy->lock);
		while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
			usleep(100);
		ck_assert_int_eq(
		    magazine_get(&layer, &object, &want), MAGAZINE_OK);
		ck_assert_ptr_eq(object, &stamp[1]);
		pthread_join(thread, NULL);
	}
}
END_TEST

START_TEST(what_one_shard_has_no_room_for_goes_to_another)
{
	if (!start(_i, 64, 0))
		return;
	restart(3, 2);
	unsigned own = own_shard();
	for (unsigned i = 0; i < 3; i++)
		magazine_shard(&layer, i)->full_max = 1;
	for (unsigned i = 0; i < 4; i++)
		put_full((own + 1) % 3, i);
	/*
	 * A shard with more than full_max magazines passes its surplus to the
	 * shards that have space, so no magazine is left for the slabs yet.
	 */
	ck_assert_ptr_null(magazine_surplus(&layer));
	ck_assert_uint_eq(nfull(own), 1);
	ck_assert_ptr_null(magazine_surplus(&layer));
	ck_assert_uint_eq(nfull((own + 2) % 3), 1);
	ck_assert_uint_eq(nfull((own + 1) % 3), 2);
	ck_assert_uint_eq(layer.overflowed, 0);
	struct magazine *mag = magazine_surplus(&layer);
	ck_assert_ptr_nonnull(mag);
	ck_assert_uint_eq(layer.overflowed, 1);
	ck_assert_ptr_null(magazine_surplus(&layer));
	/* Another thread may have moved the surplus, or raised the limit. */
	magazine_shard(&layer, own)->full_max = 2;
	ck_assert_ptr_null(magazine_surplus(&layer));
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(nfull(i), 1);
}
END_TEST

/* A CPU that only frees may fill the depots of all shards, but no more. */
START_TEST(the_room_of_all_shards_is_for_each_cpu)
{
	unsigned room = 0, n = 0;

	magazine_depot_most = 64 * KIB;
	if (!start(_i, 64, 0))
		return;
	restart(3, 2);
	for (unsigned i = 0; i < NOBJECTS; i++)
		put(&stamp[i]);
	for (unsigned i = 0; i < 3; i++) {
		room += magazine_shard(&layer, i)->full_max;
		n += nfull(i);
		ck_assert_uint_eq(
		    nfull(i), magazine_shard(&layer, i)->full_max);
	}
	ck_assert_uint_eq(n, room);
	ck_assert_uint_le(n * layer.rounds * 64, 64 * KIB + layer.rounds * 64);
	ck_assert_uint_eq(magazine_rounds(&layer) + nslab, NOBJECTS);
}
END_TEST

START_TEST(every_shard_is_counted_updated_and_emptied)
{
	struct magazine *chain;

	if (!start(_i, 64, 0))
		return;
	for (int how = 0; how < 3; how++) {
		restart(3, 2);
		for (unsigned i = 0; i < 6; i++) {
			put_full(i % 3, i);
			depot_put(
			    magazine_shard(&layer, i % 3), magazine_of(NULL));
		}
		ck_assert_uint_eq(magazine_rounds(&layer), 6);
		ck_assert_uint_eq(count_moved(), 12);
		ck_assert_uint_eq(magazine_rounds_estimate(&layer, cpu_now()),
		    6 * layer.rounds);
		if (how == 0) {
			ck_assert(magazine_drain(&layer, false, &chain));
		} else if (how == 1) {
			magazine_empty_depot(&layer, &chain);
		} else {
			magazine_update(&layer, &chain);
			ck_assert_ptr_null(chain);
			magazine_update(&layer, &chain);
		}
		unsigned n = 0;
		for (struct magazine *m = chain; m != NULL; m = m->next)
			n++;
		ck_assert_uint_eq(n, 12);
		ck_assert_uint_eq(flush(chain), 6);
		ck_assert_uint_eq(magazine_rounds(&layer), 0);
		ck_assert_uint_eq(
		    magazine_rounds_estimate(&layer, cpu_now()), 0);
	}
}
END_TEST

Suite *
shards_suite(void)
{
	Suite *suite = suite_create("shards");
	TCase *tcase = tcase_create("shards");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, a_shard_is_for_at_most_4_cpus);
	tcase_add_loop_test(
	    tcase, without_memory_for_shards_there_is_one, 0, 3);
	tcase_add_test(tcase, shards_divide_the_room_to_the_magazine);
	tcase_add_loop_test(tcase, a_full_magazine_of_any_shard_is_found, 0, 3);
	tcase_add_loop_test(
	    tcase, an_empty_magazine_of_any_shard_is_found, 0, 3);
	tcase_add_test(tcase, a_cpu_trades_at_its_own_shard_first);
	tcase_add_loop_test(tcase, a_busy_shard_of_others_is_passed, 0, 3);
	tcase_add_loop_test(tcase, a_busy_shard_is_waited_for_in_the_end, 0, 3);
	tcase_add_loop_test(
	    tcase, what_one_shard_has_no_room_for_goes_to_another, 0, 3);
	tcase_add_loop_test(
	    tcase, the_room_of_all_shards_is_for_each_cpu, 0, 3);
	tcase_add_loop_test(
	    tcase, every_shard_is_counted_updated_and_emptied, 0, 3);
	suite_add_tcase(suite, tcase);
	return suite;
}
