/*
 * ramp.c - how fast is the first second of a process?
 *
 *	ramp.M		millions of replacements in a second of processor time,
 *			in the M-th interval of 10 ms, 01 to 50
 *	ramp.steady	median of the last 25 intervals
 *	ramp.reached	end of the first interval with at least 90 % of
 *			ramp.steady, in ms
 *
 * The program replaces one of 2000 blocks of 16 to 1023 bytes at random, from
 * the first instruction of main() on, without warming up.  With N threads each
 * thread has its own blocks; the figure counts all replacements.  If a busy
 * machine gives an interval no processor time, the value of the previous
 * interval is used.
 *
 * Source: "A Comparison of Memory Allocators in Multiprocessors" (Oracle,
 * 2003), which finds that an allocator that tunes itself needs a while.
 *
 * Usage: ramp [scale [N]]
 */
#include "tests/bench/bench.h"

#define NINTERVALS  50
#define INTERVAL_NS 10e6
#define NSLOTS      2000

static atomic_bool stop;
static struct lane {
	_Atomic size_t ndone BENCH_ALIGNED;
	void *slot[NSLOTS];
} lanes[64];

static void *
replace(void *arg)
{
	struct lane *lane = arg;
	uint64_t seed = bench_seed((uint64_t)(lane - lanes));
	size_t ndone = 0;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (int i = 0; i < 64; i++) {
			size_t n = bench_between(&seed, 0, NSLOTS - 1);

			free(lane->slot[n]);
			lane->slot[n] =
			    bench_alloc(bench_between(&seed, 16, 1023));
		}
		ndone += 64;
		atomic_store_explicit(
		    &lane->ndone, ndone, memory_order_relaxed);
	}
	return NULL;
}

struct moment {
	size_t ndone;
	double cpu_ns; /* of the threads */
};

static struct moment
look(const pthread_t *threads, unsigned nthreads)
{
	struct moment moment = {0};

	for (unsigned i = 0; i < nthreads; i++) {
		clockid_t clock;

		pthread_getcpuclockid(threads[i], &clock);
		moment.cpu_ns += bench_clock(clock);
		moment.ndone += atomic_load(&lanes[i].ndone);
	}
	return moment;
}

/* The rate of each interval; the main thread only looks on. */
static void
watch(double *mops, const pthread_t *threads, unsigned nthreads, double start)
{
	struct moment before = {0};

	for (int i = 0; i < NINTERVALS; i++) {
		double left = start + (i + 1) * INTERVAL_NS - bench_wall_ns();
		struct moment now;

		if (left > 0)
			bench_sleep_ns(left);
		now = look(threads, nthreads);
		mops[i] = i > 0 ? mops[i - 1] : 0;
		if (now.cpu_ns - before.cpu_ns > INTERVAL_NS / 100)
			mops[i] = (double)(now.ndone - before.ndone) * 1e3 /
				  (now.cpu_ns - before.cpu_ns);
		before = now;
	}
}

static void
report(const double *mops)
{
	double late[NINTERVALS / 2], steady;
	int reached = 0;

	memcpy(late, mops + NINTERVALS / 2, sizeof(late));
	steady = bench_median(late, NINTERVALS / 2);
	while (reached < NINTERVALS - 1 && mops[reached] < 0.9 * steady)
		reached++;
	for (int i = 0; i < NINTERVALS; i++)
		bench_print(mops[i], "Mops/s", "ramp.%02d", i + 1);
	bench_print(steady, "Mops/s", "ramp.steady");
	bench_print((reached + 1) * INTERVAL_NS / 1e6, "ms", "ramp.reached");
}

int
main(int argc, char **argv)
{
	double start = bench_wall_ns(), mops[NINTERVALS];
	unsigned nthreads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
	pthread_t threads[64];

	bench_start(argc, argv);
	if (nthreads < 1 || nthreads > 64)
		return 2;
	for (unsigned i = 0; i < nthreads; i++) {
		if (pthread_create(&threads[i], NULL, replace, &lanes[i]) != 0)
			bench_die("pthread_create");
	}
	watch(mops, threads, nthreads, start);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	report(mops);
	return 0;
}
