/*
 * onesided.c - threads that do only one of the things an allocator expects
 *
 *	onesided.free		one thread only allocates and passes its blocks
 *				to another thread, which only frees them
 *	onesided.realloc	a thread only reallocates 1000 blocks to random
 *				sizes up to 32 KiB
 *
 *	onesided.KIND.time	processor time of a block, in ns
 *
 * The first two are the growth of resident memory in MiB, from the first tenth
 * of the work to its end.  In onesided.free at most 10,000 blocks of 16 to 1023
 * bytes live at a time.  Memory should not grow, because the allocating thread
 * can use the memory that the freeing thread returns.
 *
 * Source: users of several allocators reported per-thread caches that grew
 * without bound.
 *
 * Usage: onesided [scale [free|realloc]]
 */
#include "tests/bench/bench.h"

#define RING   10000
#define NLARGE 1000

struct work {
	void *_Atomic slot[RING];
	size_t n;
	double early_mib; /* resident after a tenth of the work */
};

/* Waits for the slot to be empty, or full. */
static void *
await(void *_Atomic *slot, bool full)
{
	void *block;

	for (unsigned spins = 0;; spins++) {
		/* acquire; pairs with the release of the other thread */
		block = atomic_load_explicit(slot, memory_order_acquire);
		if ((block != NULL) == full)
			return block;
		if (spins > 100)
			sched_yield();
	}
}

static void
side(struct bench_thread *thread)
{
	struct work *work = thread->shared;
	bool frees = thread->number == 1;

	for (size_t i = 0; i < work->n; i++) {
		void *_Atomic *slot = &work->slot[i % RING];
		void *block = await(slot, frees);

		if (frees)
			free(block);
		else
			block =
			    bench_alloc(bench_between(&thread->seed, 16, 1023));
		/* release; pairs with the acquire in await() */
		atomic_store_explicit(
		    slot, frees ? NULL : block, memory_order_release);
		if (frees && i == work->n / 10)
			work->early_mib = bench_rss_mib();
	}
}

static void
reallocate(struct bench_thread *thread)
{
	static void *block[NLARGE];
	struct work *work = thread->shared;

	for (size_t i = 0; i < work->n; i++) {
		size_t at = bench_between(&thread->seed, 0, NLARGE - 1);
		size_t bytes = bench_between(&thread->seed, 1, 32768);

		block[at] = realloc(block[at], bytes);
		if (block[at] == NULL)
			bench_die("realloc");
		*(volatile char *)block[at] = 1;
		if (i == work->n / 10)
			work->early_mib = bench_rss_mib();
	}
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	struct work *work = bench_pages(sizeof(*work));
	const char *kind = argc > 2 ? argv[2] : "free";
	bool frees = strcmp(kind, "free") == 0;
	double start = bench_cpu_ns();

	work->n = bench_count(frees ? 10e6 : 5e6, scale);
	bench_threads(frees ? 2 : 1, frees ? side : reallocate, work, 0);
	bench_print(
	    bench_rss_mib() - work->early_mib, "MiB+", "onesided.%s", kind);
	bench_print((bench_cpu_ns() - start) / (double)work->n, "ns",
	    "onesided.%s.time", kind);
	return 0;
}
