/*
 * xmalloc.c - blocks are allocated here and freed there
 *
 *	xmalloc.N	millions of blocks a second
 *
 * Each of N threads allocates a batch of 120 blocks of 16 bytes to 2 KiB,
 * small ones more often, puts it on a stack that all share, takes one from
 * there (as a rule another thread's) and frees it.  A fixed amount of work.
 *
 * Source: Lever and Boreham, "malloc() performance in a multithreaded Linux
 * environment", USENIX 2000, and xmalloc-test, after their descriptions.
 *
 * Usage: xmalloc [scale [N ...]]
 */
#include "tests/bench/bench.h"

#define NBLOCKS 120
#define KEPT    16 /* batches a thread leaves on the stack before it takes */

/* A batch is in malloc's memory as well. */
struct batch {
	struct batch *next;
	void *block[NBLOCKS];
};

/* lock guards top and n. */
struct stack {
	pthread_mutex_t lock;
	struct batch *top;
	size_t n;
	size_t nbatches; /* for each thread to make */
	unsigned nthreads;
};

static struct batch *
batch_make(uint64_t *seed)
{
	struct batch *batch = bench_alloc(sizeof(*batch));

	for (size_t i = 0; i < NBLOCKS; i++) {
		unsigned shift = (unsigned)bench_between(seed, 4, 10);
		size_t low = (size_t)1 << shift;

		/* Half of them up to 64 bytes. */
		if (bench_random(seed) & 1)
			low = 16;
		batch->block[i] = bench_alloc(
		    bench_between(seed, low, low < 32 ? 64 : 2 * low));
	}
	return batch;
}

static void
batch_free(struct batch *batch)
{
	for (size_t i = 0; i < NBLOCKS; i++)
		free(batch->block[i]);
	free(batch);
}

/* Puts a batch; takes the newest one if there are many or batch is NULL. */
static struct batch *
exchange(struct stack *stack, struct batch *batch)
{
	struct batch *taken = NULL;

	pthread_mutex_lock(&stack->lock);
	if (stack->n >= KEPT * stack->nthreads || batch == NULL) {
		taken = stack->top;
		if (taken != NULL) {
			stack->top = taken->next;
			stack->n--;
		}
	}
	if (batch != NULL) {
		batch->next = stack->top;
		stack->top = batch;
		stack->n++;
	}
	pthread_mutex_unlock(&stack->lock);
	return taken;
}

static void
run(struct bench_thread *thread)
{
	struct stack *stack = thread->shared;
	struct batch *batch;

	for (size_t i = 0; i < stack->nbatches; i++) {
		batch = exchange(stack, batch_make(&thread->seed));
		if (batch != NULL)
			batch_free(batch);
	}
	while ((batch = exchange(stack, NULL)) != NULL)
		batch_free(batch);
	bench_did(thread, stack->nbatches * NBLOCKS);
}

static void
measure(unsigned nthreads, double scale)
{
	struct stack stack = {.lock = PTHREAD_MUTEX_INITIALIZER,
	    .nbatches = bench_count(150000.0 / nthreads, scale),
	    .nthreads = nthreads};
	struct bench_group group = bench_threads(nthreads, run, &stack, 0);

	bench_print(bench_mops(&group), "Mops/s", "xmalloc.%u", nthreads);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	for (int i = 2; i < argc; i++)
		measure((unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 2) {
		measure(2, scale);
		measure(8, scale);
	}
	return 0;
}
