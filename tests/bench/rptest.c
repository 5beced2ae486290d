/*
 * rptest.c - many blocks with random lifetimes; whole lists of them move to
 * another thread
 *
 *	rptest.N	millions of blocks a second, N threads
 *
 * A thread has 12,000 slots.  In each turn it frees the blocks in every third,
 * fourth ... slot, beginning at a different slot each time, and fills these
 * slots with new blocks of 16 bytes to 16 KiB, small sizes more often.  In
 * every fourth turn it allocates a list of 400 blocks for its neighbour, and
 * frees the list that its other neighbour has left for it.  Halfway through,
 * all threads end and new threads inherit their slots.  Blocks up to 1 KiB are
 * written whole, larger blocks at both ends.  A fixed amount of work.
 *
 * Source: the benchmark of rpmalloc, after the description in its README.
 *
 * Usage: rptest [scale [N ...]]
 */
#include "tests/bench/bench.h"

#define NSLOTS 12000
#define NLIST  400

/* In a list the first word of a block is the address of the next block. */
struct place {
	void *slot[NSLOTS];
	void *_Atomic list BENCH_ALIGNED;
	uint64_t seed;
} BENCH_ALIGNED;

struct work {
	struct place *places;
	unsigned nthreads;
	size_t nturns;
};

static void *
block_make(uint64_t *seed)
{
	size_t most = (size_t)1 << bench_between(seed, 5, 14);
	size_t bytes = bench_between(seed, 16, most);
	char *block = bench_alloc(bytes);

	if (bytes <= 1024)
		memset(block, 1, bytes);
	else
		block[bytes - 1] = 1;
	return block;
}

static void
list_free(void *list)
{
	while (list != NULL) {
		void *next = *(void **)list;

		free(list);
		list = next;
	}
}

/* Puts a new list in front of the blocks that are there already. */
static void
list_put(struct place *place, uint64_t *seed)
{
	void *first = block_make(seed), **last = first;

	for (int i = 1; i < NLIST; i++) {
		*last = block_make(seed);
		last = *last;
	}
	*last = atomic_exchange(&place->list, NULL);
	list_free(atomic_exchange(&place->list, first));
}

static size_t
turn(struct place *place)
{
	size_t step = bench_between(&place->seed, 3, 11);
	size_t n = 0;

	for (size_t i = bench_between(&place->seed, 0, step); i < NSLOTS;
	     i += step) {
		free(place->slot[i]);
		place->slot[i] = NULL;
	}
	for (size_t i = 0; i < NSLOTS; i++) {
		if (place->slot[i] == NULL) {
			place->slot[i] = block_make(&place->seed);
			n++;
		}
	}
	return n;
}

static void
run(struct bench_thread *thread)
{
	struct work *work = thread->shared;
	struct place *mine = &work->places[thread->number];
	struct place *next =
	    &work->places[(thread->number + 1) % work->nthreads];

	for (size_t i = 0; i < work->nturns; i++) {
		bench_did(thread, turn(mine));
		if (i % 4 != 3)
			continue;
		list_put(next, &mine->seed);
		list_free(atomic_exchange(&mine->list, NULL));
		bench_did(thread, NLIST);
	}
}

static void
measure(unsigned nthreads, double scale)
{
	struct work work = {.nthreads = nthreads,
	    .nturns = bench_count(3000.0 / nthreads, scale)};
	struct bench_group half[2];

	work.places = bench_pages(nthreads * sizeof(*work.places));
	for (unsigned i = 0; i < nthreads; i++)
		work.places[i].seed = bench_seed(i);
	for (int i = 0; i < 2; i++)
		half[i] = bench_threads(nthreads, run, &work, 0);
	half[0].ndone += half[1].ndone;
	half[0].wall_ns += half[1].wall_ns;
	bench_print(bench_mops(&half[0]), "Mops/s", "rptest.%u", nthreads);
	for (unsigned i = 0; i < nthreads; i++) {
		list_free(work.places[i].list);
		for (size_t j = 0; j < NSLOTS; j++)
			free(work.places[i].slot[j]);
	}
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	for (int i = 2; i < argc; i++)
		measure((unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 2)
		measure(4, scale);
	return 0;
}
