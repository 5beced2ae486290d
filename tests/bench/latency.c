/*
 * latency.c - how long single calls take, up to the worst
 *
 *	latency.N.malloc.P, latency.N.free.P	in ns, P being p50, p99, p99.9
 *		... p99.9999 and max, with N threads
 *	latency.N.time		of the whole, wall clock, in ms
 *
 * Each thread replaces at random one of its 10,000 blocks: 16 to 1023 bytes,
 * one of 64 up to 16 KiB.  With two threads each sixteenth is exchanged with
 * the other and freed there.  The cost of reading the clock is included.
 *
 * Source: the evaluations of allocators that judge by the tail as well, from
 * p50 to p99.9999.
 *
 * Usage: latency [scale [N]]
 */
#include "tests/bench/bench.h"

#define NSLOTS   10000
#define NSHARED  256
/* Buckets: exact below 64 ticks, then 32 to each power of two. */
#define FINE     32
#define NBUCKETS (FINE * 60)

struct histogram {
	uint64_t count[NBUCKETS];
	uint64_t most;
	uint64_t n;
};

struct work {
	struct histogram malloced[2];
	struct histogram freed[2];
	void *_Atomic shared[NSHARED];
	size_t ncalls;
	unsigned nthreads;
};

#ifdef __x86_64__
static inline uint64_t
ticks(void)
{
	return __builtin_ia32_rdtsc();
}
#else
static inline uint64_t
ticks(void)
{
	return (uint64_t)bench_wall_ns();
}
#endif

static double
ns_per_tick(void)
{
	double start = bench_wall_ns();
	uint64_t first = ticks();

	bench_sleep_ns(20e6);
	return (bench_wall_ns() - start) / (double)(ticks() - first);
}

static size_t
bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < 2 * FINE)
		return value;
	shift = 63 - (unsigned)__builtin_clzll(value) - 5;
	return FINE * shift + (value >> shift);
}

/* The middle of the range of values that fall into the bucket. */
static double
bucket_value(size_t bucket)
{
	size_t shift = bucket / FINE;

	if (bucket < 2 * FINE)
		return (double)bucket;
	shift--;
	return ((double)(bucket - FINE * shift) + 0.5) *
	       (double)((uint64_t)1 << shift);
}

static void
note(struct histogram *histogram, uint64_t value)
{
	histogram->count[bucket_of(value)]++;
	histogram->n++;
	if (value > histogram->most)
		histogram->most = value;
}

static size_t
some_size(uint64_t *seed)
{
	return bench_random(seed) % 64 == 0 ? bench_between(seed, 1024, 16384)
					    : bench_between(seed, 16, 1023);
}

static void
run(struct bench_thread *thread)
{
	struct work *work = thread->shared;
	struct histogram *malloced = &work->malloced[thread->number];
	struct histogram *freed = &work->freed[thread->number];
	void **slots = bench_pages(NSLOTS * sizeof(*slots));

	for (size_t i = 0; i < work->ncalls; i++) {
		uint64_t r = bench_random(&thread->seed), t0, t1, t2;
		size_t bytes = some_size(&thread->seed);
		void **slot = &slots[(r >> 32) % NSLOTS], *block = *slot;

		if (work->nthreads > 1 && r % 16 == 0)
			block = atomic_exchange(
			    &work->shared[(r >> 8) % NSHARED], block);
		t0 = ticks();
		free(block);
		t1 = ticks();
		*slot = malloc(bytes);
		t2 = ticks();
		if (*slot == NULL)
			bench_die("malloc");
		*(volatile char *)*slot = 1;
		note(malloced, t2 - t1);
		if (block != NULL)
			note(freed, t1 - t0);
	}
	for (size_t i = 0; i < NSLOTS; i++)
		free(slots[i]);
}

static void
merge(struct histogram *into, const struct histogram *from)
{
	for (size_t i = 0; i < NBUCKETS; i++)
		into->count[i] += from->count[i];
	into->n += from->n;
	if (from->most > into->most)
		into->most = from->most;
}

static void
print(struct histogram *histogram, unsigned nthreads, const char *what,
    double tick_ns)
{
	static const double percents[] = {50, 99, 99.9, 99.99, 99.999, 99.9999};
	size_t bucket = 0;
	uint64_t below = 0;

	for (size_t i = 0; i < sizeof(percents) / sizeof(*percents); i++) {
		double wanted = (double)histogram->n * percents[i] / 100;

		while (bucket < NBUCKETS - 1 &&
		       (double)(below + histogram->count[bucket]) < wanted)
			below += histogram->count[bucket++];
		bench_print(bucket_value(bucket) * tick_ns, "ns",
		    "latency.%u.%s.p%.8g", nthreads, what, percents[i]);
	}
	bench_print((double)histogram->most * tick_ns, "ns",
	    "latency.%u.%s.max", nthreads, what);
}

static void
measure(unsigned nthreads, double scale, double tick_ns)
{
	struct work *work = bench_pages(sizeof(*work));
	struct bench_group group;

	work->ncalls = bench_count(10e6, scale);
	work->nthreads = nthreads;
	group = bench_threads(nthreads, run, work, 0);
	for (unsigned i = 1; i < nthreads; i++) {
		merge(&work->malloced[0], &work->malloced[i]);
		merge(&work->freed[0], &work->freed[i]);
	}
	print(&work->malloced[0], nthreads, "malloc", tick_ns);
	print(&work->freed[0], nthreads, "free", tick_ns);
	bench_print(group.wall_ns / 1e6, "ms", "latency.%u.time", nthreads);
	for (size_t i = 0; i < NSHARED; i++)
		free(work->shared[i]);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	double tick_ns = ns_per_tick();

	if (argc <= 2 || strcmp(argv[2], "1") == 0)
		measure(1, scale, tick_ns);
	if (argc <= 2 || strcmp(argv[2], "2") == 0)
		measure(2, scale, tick_ns);
	return 0;
}
