/*
 * nalloc.c - blocks in pools: of each thread, of all threads, and from one
 *
 *	nalloc.private.N	each of N threads has a pool of 1000 slots
 *	nalloc.shared.N		all share one, in which they take turns
 *	nalloc.producer.N	one of them allocates, all others free
 *
 * in millions of blocks a second.  In the first two a thread looks at a slot
 * at random: it frees the block in it, or puts a new one there.  In the last
 * one blocks lie in 1000 slots, too: the producer fills those that it finds
 * empty one after the other, and the others empty them.  The sizes are 8 to
 * 256 bytes.  A fixed amount of work.
 *
 * Source: the three tests of Podolsky's Nalloc, after their description.
 *
 * Usage: nalloc [scale [private|shared|producer [N ...]]]
 */
#include "tests/bench/bench.h"

#define NSLOTS 1000
#define MOST   256

struct pool {
	void *_Atomic slot[NSLOTS];
} BENCH_ALIGNED;

struct work {
	struct pool *pools;
	bool shared;
	size_t nlooks; /* of a thread; of the producer blocks */
	atomic_bool done;
};

static void *
some_block(struct bench_thread *thread)
{
	return bench_alloc(bench_between(&thread->seed, 8, MOST));
}

static void
private_look(struct bench_thread *thread, void *_Atomic *slot)
{
	void *block = atomic_load_explicit(slot, memory_order_relaxed);
	void *now = block == NULL ? some_block(thread) : NULL;

	free(block);
	atomic_store_explicit(slot, now, memory_order_relaxed);
}

static void
shared_look(struct bench_thread *thread, void *_Atomic *slot)
{
	void *block = atomic_exchange(slot, NULL);

	if (block != NULL)
		free(block);
	else
		free(atomic_exchange(slot, some_block(thread)));
}

static void
look(struct bench_thread *thread)
{
	struct work *work = thread->shared;
	struct pool *pool = &work->pools[work->shared ? 0 : thread->number];

	for (size_t i = 0; i < work->nlooks; i++) {
		size_t n = bench_between(&thread->seed, 0, NSLOTS - 1);

		if (work->shared)
			shared_look(thread, &pool->slot[n]);
		else
			private_look(thread, &pool->slot[n]);
	}
	/* Of two looks one allocates and one frees. */
	bench_did(thread, work->nlooks / 2);
}

static void
produce(struct bench_thread *thread, struct work *work)
{
	struct pool *pool = work->pools;
	size_t n = 0;

	for (size_t i = 0; n < work->nlooks; i++) {
		void *_Atomic *slot = &pool->slot[i % NSLOTS];

		if (i % NSLOTS == 0 && i > 0)
			sched_yield();
		if (atomic_load(slot) != NULL)
			continue;
		atomic_store(slot, some_block(thread));
		n++;
	}
	bench_did(thread, n);
	atomic_store(&work->done, true);
}

static void
consume(struct bench_thread *thread, struct work *work)
{
	struct pool *pool = work->pools;
	bool done;

	do {
		size_t n = 0;

		done = atomic_load(&work->done);
		for (size_t i = 0; i < NSLOTS; i++) {
			size_t at = (i + thread->number * 61) % NSLOTS;
			void *block = NULL;

			if (atomic_load(&pool->slot[at]) != NULL)
				block = atomic_exchange(&pool->slot[at], NULL);
			free(block);
			n += block != NULL;
		}
		if (n == 0)
			sched_yield();
	} while (!done);
}

static void
one_producer(struct bench_thread *thread)
{
	if (thread->number == 0)
		produce(thread, thread->shared);
	else
		consume(thread, thread->shared);
}

static void
measure(const char *kind, unsigned nthreads, double scale)
{
	struct work work = {.shared = strcmp(kind, "shared") == 0};
	bool produced = strcmp(kind, "producer") == 0;
	struct bench_group group;

	work.pools = bench_pages(nthreads * sizeof(*work.pools));
	work.nlooks =
	    produced
		? bench_count(4e6, scale)
		: bench_count((work.shared ? 10e6 : 40e6) / nthreads, scale);
	group =
	    bench_threads(nthreads, produced ? one_producer : look, &work, 0);
	bench_print(
	    bench_mops(&group), "Mops/s", "nalloc.%s.%u", kind, nthreads);
	for (unsigned i = 0; i < nthreads; i++) {
		for (size_t j = 0; j < NSLOTS; j++)
			free(work.pools[i].slot[j]);
	}
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	const char *kind = argc > 2 ? argv[2] : "private";

	for (int i = 3; i < argc; i++)
		measure(kind, (unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 3)
		measure(kind, 2, scale);
	return 0;
}
