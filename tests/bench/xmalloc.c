/*
 * xmalloc.c - blocks are allocated here and freed there
 *
 *	xmalloc.N	blocks of 17 sizes from 8 bytes to 2 KiB
 *	xmalloc.64.N	blocks of 64 bytes
 *
 * in millions of blocks a second.  N threads allocate batches of 4096 blocks
 * and put them on a stack that all share; N other threads take batches from
 * there and free them.  Threads that allocate wait while 100 batches are on
 * the stack.  A fixed amount of work.
 *
 * Source: Lever and Boreham, "malloc() performance in a multithreaded Linux
 * environment", USENIX 2000, and xmalloc-test, after their parameters.
 *
 * Usage: xmalloc [scale [64|mixed [N ...]]]
 */
#include "tests/bench/bench.h"

#define NBLOCKS 4096
#define NMOST   100 /* batches on the stack */

/* A batch is in malloc's memory as well. */
struct batch {
	struct batch *next;
	void *block[NBLOCKS];
};

/* lock guards top, n and nrunning. */
struct stack {
	pthread_mutex_t lock;
	pthread_cond_t grown, shrunk;
	struct batch *top;
	size_t n;
	unsigned nrunning; /* threads that still allocate */
	size_t nbatches;   /* for each of them to make */
	bool mixed;
};

static const uint16_t sizes[] = {8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256,
    384, 512, 768, 1024, 1536, 2048};

static struct batch *
batch_make(bool mixed, uint64_t *seed)
{
	size_t nsizes = sizeof(sizes) / sizeof(*sizes);
	struct batch *batch = bench_alloc(sizeof(*batch));

	for (size_t i = 0; i < NBLOCKS; i++)
		batch->block[i] = bench_alloc(
		    mixed ? sizes[bench_between(seed, 0, nsizes - 1)] : 64);
	return batch;
}

static void
batch_free(struct batch *batch)
{
	for (size_t i = 0; i < NBLOCKS; i++)
		free(batch->block[i]);
	free(batch);
}

static void
put(struct stack *stack, struct batch *batch)
{
	pthread_mutex_lock(&stack->lock);
	while (stack->n >= NMOST)
		pthread_cond_wait(&stack->shrunk, &stack->lock);
	batch->next = stack->top;
	stack->top = batch;
	stack->n++;
	pthread_cond_signal(&stack->grown);
	pthread_mutex_unlock(&stack->lock);
}

/* NULL if there is none and there will be none. */
static struct batch *
take(struct stack *stack)
{
	struct batch *batch;

	pthread_mutex_lock(&stack->lock);
	while (stack->top == NULL && stack->nrunning > 0)
		pthread_cond_wait(&stack->grown, &stack->lock);
	batch = stack->top;
	if (batch != NULL) {
		stack->top = batch->next;
		stack->n--;
		pthread_cond_signal(&stack->shrunk);
	}
	pthread_mutex_unlock(&stack->lock);
	return batch;
}

static void
run(struct bench_thread *thread)
{
	struct stack *stack = thread->shared;
	struct batch *batch;

	if (thread->number % 2 == 1) {
		while ((batch = take(stack)) != NULL)
			batch_free(batch);
		return;
	}
	for (size_t i = 0; i < stack->nbatches; i++)
		put(stack, batch_make(stack->mixed, &thread->seed));
	pthread_mutex_lock(&stack->lock);
	stack->nrunning--;
	pthread_cond_broadcast(&stack->grown);
	pthread_mutex_unlock(&stack->lock);
	bench_did(thread, stack->nbatches * NBLOCKS);
}

static void
measure(bool mixed, unsigned n, double scale)
{
	struct stack stack = {.lock = PTHREAD_MUTEX_INITIALIZER,
	    .grown = PTHREAD_COND_INITIALIZER,
	    .shrunk = PTHREAD_COND_INITIALIZER,
	    .nrunning = n,
	    .nbatches = bench_count(4500.0 / n, scale),
	    .mixed = mixed};
	struct bench_group group = bench_threads(2 * n, run, &stack, 0);

	bench_print(bench_mops(&group), "Mops/s", "xmalloc.%s%u",
	    mixed ? "" : "64.", n);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	bool mixed = argc <= 2 || strcmp(argv[2], "64") != 0;

	for (int i = 3; i < argc; i++)
		measure(mixed, (unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 3) {
		measure(mixed, 2, scale);
		measure(mixed, 8, scale);
	}
	return 0;
}
