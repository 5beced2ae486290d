/*
 * malloc_test.c - pairs of threads: one allocates 5000 blocks, the other
 * frees them
 *
 *	malloc_test.MAX.PAIRS		sizes from 1 to MAX at random
 *	malloc_test.MAX.PAIRS.set	the blocks are filled, too
 *	malloc_test.MAX.PAIRS.rss, .set.rss	resident memory meanwhile
 *
 * in loops (5000 blocks allocated and freed) a second, all pairs together,
 * and in MiB; the first loop of each does not count.  A pair has two arrays:
 * while one is being emptied the other is filled.  Each measurement is made in
 * a process of its own.
 *
 * Source: the test of "A Comparison of Memory Allocators in Multiprocessors"
 * (Oracle, 2003), after its description.
 *
 * Usage: malloc_test [scale [PAIRS,... MAX,...]]
 */
#include <sys/wait.h>

#include "tests/bench/bench.h"

#define NBLOCKS  5000
#define NBUFFERS 2
/* Of a measurement, and of it for a byte of each pair's blocks: all threads
 * have to have had their turns. */
#define LEAST_NS 100e6
#define TURN_NS  200

struct buffer {
	bool full;
	void *block[NBLOCKS];
};

/* Data shared by the two threads of a pair; lock protects ended and full. */
struct pair {
	bool ended; /* no buffer will be filled any more */
	pthread_cond_t changed;
	pthread_mutex_t lock;
	struct buffer buffer[NBUFFERS];
} BENCH_ALIGNED;

struct work {
	struct pair *pairs;
	size_t most; /* bytes of a block */
	bool fill;
	double rss_mib; /* at the end; the first allocating thread's */
};

/* Waits until the buffer is as wanted; false if the pair has ended first. */
static bool
await(struct pair *pair, struct buffer *buffer, bool full)
{
	bool reached;

	pthread_mutex_lock(&pair->lock);
	while (buffer->full != full && !pair->ended)
		pthread_cond_wait(&pair->changed, &pair->lock);
	reached = buffer->full == full;
	pthread_mutex_unlock(&pair->lock);
	return reached;
}

static void
hand_over(struct pair *pair, struct buffer *buffer, bool full)
{
	pthread_mutex_lock(&pair->lock);
	buffer->full = full;
	pthread_cond_signal(&pair->changed);
	pthread_mutex_unlock(&pair->lock);
}

static void
allocate(struct bench_thread *thread, struct work *work, struct pair *pair)
{
	for (unsigned turn = 0; !bench_stopped(thread); turn++) {
		struct buffer *buffer = &pair->buffer[turn % NBUFFERS];

		if (!await(pair, buffer, /* full */ false))
			break;
		for (size_t i = 0; i < NBLOCKS; i++) {
			size_t bytes =
			    bench_between(&thread->seed, 1, work->most);

			buffer->block[i] = bench_alloc(bytes);
			if (work->fill)
				memset(buffer->block[i], 1, bytes);
		}
		hand_over(pair, buffer, /* full */ true);
	}
	/* The measurement is over; one of the pairs is enough. */
	if (pair == work->pairs)
		work->rss_mib = bench_rss_mib();
	pthread_mutex_lock(&pair->lock);
	pair->ended = true;
	pthread_cond_signal(&pair->changed);
	pthread_mutex_unlock(&pair->lock);
}

static void
release(struct bench_thread *thread, struct pair *pair)
{
	for (unsigned turn = 0;; turn++) {
		struct buffer *buffer = &pair->buffer[turn % NBUFFERS];

		if (!await(pair, buffer, /* full */ true))
			break;
		for (size_t i = 0; i < NBLOCKS; i++) {
			free(buffer->block[i]);
			if (i % 100 == 99)
				bench_did(thread, 100);
		}
		hand_over(pair, buffer, /* full */ false);
	}
}

static void
side(struct bench_thread *thread)
{
	struct work *work = thread->shared;
	struct pair *pair = &work->pairs[thread->number / 2];

	if (thread->number % 2 == 0)
		allocate(thread, work, pair);
	else
		release(thread, pair);
}

static double
slice_ns(unsigned npairs, size_t most, double scale)
{
	double ns = 400e6 * scale;
	double turns_ns = (double)(npairs * most) * TURN_NS;

	if (ns < turns_ns)
		ns = turns_ns;
	return ns > LEAST_NS ? ns : LEAST_NS;
}

static void
measure(unsigned npairs, size_t most, bool fill, double scale)
{
	struct work work = {.most = most, .fill = fill};
	double ns = slice_ns(npairs, most, scale);
	struct bench_group group;

	work.pairs = bench_pages(npairs * sizeof(*work.pairs));
	for (unsigned i = 0; i < npairs; i++) {
		pthread_mutex_init(&work.pairs[i].lock, NULL);
		pthread_cond_init(&work.pairs[i].changed, NULL);
	}
	group =
	    bench_threads_warm(2 * npairs, side, &work, ns, npairs * NBLOCKS);
	bench_print(bench_mops(&group) * 1e6 / NBLOCKS, "loops/s",
	    "malloc_test.%zu.%u%s", most, npairs, fill ? ".set" : "");
	bench_print(work.rss_mib, "MiB", "malloc_test.%zu.%u%s.rss", most,
	    npairs, fill ? ".set" : "");
}

static void
measure_apart(unsigned npairs, size_t most, bool fill, double scale)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		measure(npairs, most, fill, scale);
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		bench_die("malloc_test: child failed");
}

/* The next number of a list with commas; 0 at its end. */
static unsigned
next(const char **list)
{
	char *end;
	unsigned number = (unsigned)strtoul(*list, &end, 10);

	*list = *end == ',' ? end + 1 : end;
	return number;
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	const char *pairs = argc > 3 ? argv[2] : "1,2,4,8,16,32";
	unsigned npairs;

	while ((npairs = next(&pairs)) > 0) {
		const char *sizes =
		    argc > 3 ? argv[3] : "256,1024,4096,16384,65536";
		unsigned most;

		while ((most = next(&sizes)) > 0) {
			measure_apart(npairs, most, /* fill */ false, scale);
			measure_apart(npairs, most, /* fill */ true, scale);
		}
	}
	return 0;
}
