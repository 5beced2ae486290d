/*
 * bench.h - common code of the benchmark programs: clocks, random numbers,
 * threads, and the only function that prints a figure
 *
 * A program prints only lines `NAME VALUE UNIT`, one line for each figure.
 * The unit decides whether more or less is better (UNITS in report.py).  The
 * first argument of a program is the scale, 1 if absent.  Below 1,
 * measurements are shorter and working sets are smaller.
 *
 * Work of a single thread is measured in processor time of the process.  This
 * avoids most of the noise of a busy machine, and includes the work that an
 * allocator does in a thread of its own.  Work of several threads is measured
 * by the wall clock.
 *
 * The programs call malloc by its standard names only, so that any allocator
 * can be preloaded.  A program that measures memory keeps its notes about the
 * blocks outside the heap.
 */
#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BENCH_MIB (1024.0 * 1024.0)

/* Apart enough that two threads' fields never share a line or its pair. */
#define BENCH_ALIGNED __attribute__((aligned(128)))

/* A measurement is the median of so many slices, each at least so long. */
#define BENCH_NSLICES  5
#define BENCH_SLICE_NS 25e6

static inline void
bench_die(const char *what)
{
	perror(what);
	exit(1);
}

/* The scale of this run; also makes the output independent of malloc. */
static inline double
bench_start(int argc, char **argv)
{
	static char buffer[4096];
	double scale = argc > 1 ? strtod(argv[1], NULL) : 1;

	setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
	if (scale > 0)
		return scale;
	fprintf(stderr, "usage: %s [scale above 0]\n", argv[0]);
	exit(2);
}

/* How many of n to do at this scale: at least one. */
static inline size_t
bench_count(double n, double scale)
{
	return n * scale < 1 ? 1 : (size_t)(n * scale);
}

/* bench_print(value, unit, format, ...): the format makes the name. */
__attribute__((format(printf, 3, 4))) static inline void
bench_print(double value, const char *unit, const char *format, ...)
{
	char name[64];
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	printf("%s %.6g %s\n", name, value, unit);
}

static inline double
bench_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static inline double
bench_wall_ns(void)
{
	return bench_clock(CLOCK_MONOTONIC);
}

static inline double
bench_cpu_ns(void)
{
	return bench_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static inline void
bench_sleep_ns(double ns)
{
	struct timespec ts = {(time_t)(ns / 1e9), 0};

	ts.tv_nsec = (long)(ns - (double)ts.tv_sec * 1e9);
	nanosleep(&ts, NULL);
}

/* xorshift64 by Marsaglia; the state must not be 0. */
static inline uint64_t
bench_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

/* The n-th of many unlike seeds. */
static inline uint64_t
bench_seed(uint64_t n)
{
	uint64_t state = (n + 1) * 0x9e3779b97f4a7c15;

	for (int i = 0; i < 8; i++)
		bench_random(&state);
	return state;
}

/* Evenly from low to high, both included. */
static inline size_t
bench_between(uint64_t *state, size_t low, size_t high)
{
	/* The upper half: multiplying is cheaper than a division. */
	uint64_t high_bits = bench_random(state) >> 32;

	return low + (size_t)((high_bits * (high - low + 1)) >> 32);
}

/* The compiler must assume that someone reads and writes the block. */
static inline void
bench_keep(void *block)
{
	__asm__ volatile("" : : "r"(block) : "memory");
}

/* Allocates a block and writes its first byte. */
static inline void *
bench_alloc(size_t bytes)
{
	char *block = malloc(bytes);

	if (__builtin_expect(block == NULL, 0))
		bench_die("malloc");
	*block = 1;
	bench_keep(block);
	return block;
}

/* Zeroed memory outside the heap, already resident; never given back. */
static inline void *
bench_pages(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (pages == MAP_FAILED)
		bench_die("mmap");
	return pages;
}

/* A field of /proc/self/status, in MiB: "VmRSS:", "VmHWM:". */
static inline double
bench_status_mib(const char *field)
{
	char line[256];
	double kib = 0;
	FILE *file = fopen("/proc/self/status", "r");

	if (file == NULL)
		bench_die("/proc/self/status");
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, field, strlen(field)) == 0)
			kib = strtod(line + strlen(field), NULL);
	}
	fclose(file);
	return kib / 1024;
}

static inline double
bench_rss_mib(void)
{
	return bench_status_mib("VmRSS:");
}

/* work(arg, n) does something n times. */
typedef void bench_work(void *arg, size_t n);

static inline int
bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double
bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), bench_compare);
	return values[n / 2];
}

/* Processor time of one operation, in ns; work(arg, n) does n operations. */
static inline double
bench_ns_each(bench_work *work, void *arg, double scale)
{
	double slice_ns = BENCH_SLICE_NS * (scale < 1 ? scale : 1);
	double slices[BENCH_NSLICES];
	size_t n = 1;

	/* Find an n for a tenth of a slice; this also warms up. */
	for (;;) {
		double start = bench_cpu_ns();

		work(arg, n);
		if (bench_cpu_ns() - start > slice_ns / 10)
			break;
		n *= 2;
	}
	for (int i = 0; i < BENCH_NSLICES; i++) {
		double start = bench_cpu_ns(), end;
		size_t done = 0;

		do {
			work(arg, n);
			done += n;
			end = bench_cpu_ns();
		} while (end - start < slice_ns);
		slices[i] = (end - start) / (double)done;
	}
	return bench_median(slices, BENCH_NSLICES);
}

/* A thread of a group: its number, its shared data, and its progress. */
struct bench_thread {
	pthread_t id;
	void (*run)(struct bench_thread *);
	struct bench_group *group;
	void *shared;
	unsigned number;
	uint64_t seed;
	_Atomic size_t ndone; /* bench_did() counts it */
} BENCH_ALIGNED;

/* Threads that start together and, if timed, are told to stop. */
struct bench_group {
	pthread_barrier_t barrier;
	atomic_bool stop;
	double wall_ns;
	size_t ndone;
};

static inline void *
bench_thread_main(void *arg)
{
	struct bench_thread *thread = arg;

	pthread_barrier_wait(&thread->group->barrier);
	thread->run(thread);
	return NULL;
}

/* Counts n operations.  Call it once for many, to keep its own cost small. */
static inline void
bench_did(struct bench_thread *thread, size_t n)
{
	size_t before =
	    atomic_load_explicit(&thread->ndone, memory_order_relaxed);

	atomic_store_explicit(&thread->ndone, before + n, memory_order_relaxed);
}

static inline size_t
bench_all_done(struct bench_thread *threads, unsigned n)
{
	size_t all = 0;

	for (unsigned i = 0; i < n; i++)
		all += atomic_load_explicit(
		    &threads[i].ndone, memory_order_relaxed);
	return all;
}

static inline bool
bench_stopped(struct bench_thread *thread)
{
	return atomic_load_explicit(&thread->group->stop, memory_order_relaxed);
}

/* The longest time that the threads may take to warm up. */
#define BENCH_WARM_NS 10e9

/* Sleeps for a fifth of ns, and until the threads have done least. */
static inline void
bench_warm(struct bench_thread *threads, unsigned n, double ns, size_t least)
{
	double end = bench_wall_ns() + BENCH_WARM_NS;

	bench_sleep_ns(ns / 5);
	while (bench_all_done(threads, n) < least && bench_wall_ns() < end)
		bench_sleep_ns(5e6);
}

/*
 * Runs run() in n threads and waits until all have returned.  If ns is not 0,
 * the run is timed: the threads warm up for ns / 5 and until they have done
 * `least` operations together, are measured for ns, and then bench_stopped()
 * returns true to them.  The result holds the wall-clock time and the number
 * of operations of all threads; in a timed run it covers the measured time
 * only.
 */
static inline struct bench_group
bench_threads_warm(unsigned n, void (*run)(struct bench_thread *), void *shared,
    double ns, size_t least)
{
	struct bench_group group = {.ndone = 0};
	struct bench_thread *threads = bench_pages(n * sizeof(*threads));
	size_t warm = 0;
	double start;

	pthread_barrier_init(&group.barrier, NULL, n + 1);
	for (unsigned i = 0; i < n; i++) {
		threads[i].run = run;
		threads[i].group = &group;
		threads[i].shared = shared;
		threads[i].number = i;
		threads[i].seed = bench_seed(i);
		if (pthread_create(&threads[i].id, NULL, bench_thread_main,
			&threads[i]) != 0)
			bench_die("pthread_create");
	}
	pthread_barrier_wait(&group.barrier);
	if (ns > 0) {
		bench_warm(threads, n, ns, least);
		warm = bench_all_done(threads, n);
	}
	start = bench_wall_ns();
	if (ns > 0) {
		bench_sleep_ns(ns);
		group.ndone = bench_all_done(threads, n) - warm;
		group.wall_ns = bench_wall_ns() - start;
		atomic_store(&group.stop, true);
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i].id, NULL);
	if (!(ns > 0)) {
		group.ndone = bench_all_done(threads, n);
		group.wall_ns = bench_wall_ns() - start;
	}
	pthread_barrier_destroy(&group.barrier);
	munmap(threads, n * sizeof(*threads));
	return group;
}

static inline struct bench_group
bench_threads(
    unsigned n, void (*run)(struct bench_thread *), void *shared, double ns)
{
	return bench_threads_warm(n, run, shared, ns, 0);
}

/* Keeps the calling thread on the n-th of the CPUs it may use, if it can. */
static inline void
bench_pin(unsigned n)
{
	cpu_set_t allowed, one;
	int cpu = -1;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	for (n %= (unsigned)CPU_COUNT(&allowed); cpu < 0 || n-- > 0;) {
		do
			cpu++;
		while (!CPU_ISSET(cpu, &allowed));
	}
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Millions a second that a group did. */
static inline double
bench_mops(const struct bench_group *group)
{
	return (double)group->ndone * 1e3 / group->wall_ns;
}

#endif
