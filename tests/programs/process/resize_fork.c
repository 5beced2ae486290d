/*
 * Threads shrink and enlarge blocks of 16 KiB to 4 MiB, and free those of
 * others, while the process forks.  The blocks of size classes above 32 KiB
 * become large blocks, or lose a part that other threads take.  Each block
 * keeps its bytes, in the children, too, which then use up the same caches.
 *
 * test run: plain
 * test run: sampled
 * test modes: default
 * test env: UMEM_OPTIONS=sample=256k
 */
#include "tests/programs/check.h"

enum {
	NTHREADS = 3,
	NSLOTS = 24,
	NFORKS = 15,
	PAGE = 4096
};

/* A block with a stamp in its first and last word, and in each page. */
struct block {
	uint64_t seed;
	size_t bytes;
};

static struct block *slots[NSLOTS]; /* [a] */
static volatile bool stop;

static void
mark(struct block *block, size_t bytes, uint64_t seed)
{
	block->seed = seed;
	block->bytes = bytes;
	for (size_t at = PAGE; at + 8 <= bytes; at += PAGE)
		*(uint64_t *)(void *)((char *)block + at) = seed + at;
	*(uint64_t *)(void *)((char *)block + bytes / 8 * 8 - 8) = seed;
}

/* Has the block the marks of a block of its size, up to so many bytes? */
static bool
is_marked(const struct block *block, size_t bytes)
{
	const char *start = (const char *)block;

	for (size_t at = PAGE; at + 16 <= bytes; at += PAGE)
		if (*(const uint64_t *)(const void *)(start + at) !=
		    block->seed + at)
			return false;
	return bytes < block->bytes ||
	       *(const uint64_t *)(const void *)(start + bytes / 8 * 8 - 8) ==
		   block->seed;
}

static size_t
size_of(uint64_t *state)
{
	size_t most = (size_t)16 * KIB << next_random(state) % 9;

	return most / 2 + next_random(state) % (most / 2) + 64;
}

/* Resizes a block, mostly to a part of it, and checks the rest. */
static struct block *
resize(struct block *block, uint64_t *state)
{
	size_t bytes = next_random(state) % 4 == 0
			   ? size_of(state)
			   : block->bytes / (2 + next_random(state) % 7) + 64;
	size_t least = bytes < block->bytes ? bytes : block->bytes;
	struct block *moved = (struct block *)keep(realloc(block, bytes));

	check(moved != NULL && is_marked(moved, least));
	mark(moved, bytes, moved->seed);
	return moved;
}

/* Exchanges a block for that of a slot, resizes that, and frees some. */
static void
step(uint64_t *state)
{
	struct block **slot = &slots[next_random(state) % NSLOTS];
	struct block *block = __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL);
	struct block *other = NULL;

	if (block == NULL) {
		size_t bytes = size_of(state);

		block = (struct block *)keep(malloc(bytes));
		check(block != NULL);
		mark(block, bytes, next_random(state));
	}
	check(is_marked(block, block->bytes));
	for (uint64_t n = next_random(state) % 3; n > 0; n--)
		block = resize(block, state);
	if (next_random(state) % 4 != 0)
		other = __atomic_exchange_n(slot, block, __ATOMIC_ACQ_REL);
	else
		other = block;
	check(other == NULL || is_marked(other, other->bytes));
	free(other);
}

static void *
work(void *arg)
{
	uint64_t state = (uintptr_t)arg;

	while (!stop)
		step(&state);
	return NULL;
}

/* No thread had a block of a slot in its hands, so each is whole. */
static void
child(uint64_t state)
{
	for (unsigned i = 0; i < NSLOTS; i++)
		check(slots[i] == NULL || is_marked(slots[i], slots[i]->bytes));
	for (int i = 0; i < 100; i++)
		step(&state);
	for (unsigned i = 0; i < NSLOTS; i++)
		free(slots[i]);
	_exit(0);
}

int
main(void)
{
	pthread_t thread[NTHREADS];
	int status;

	limit_time();
	for (uintptr_t i = 0; i < NTHREADS; i++)
		check(pthread_create(&thread[i], NULL, work, (void *)(i + 1)) ==
		      0);
	for (uint64_t i = 0; i < NFORKS; i++) {
		pid_t pid = fork();

		check(pid >= 0);
		if (pid == 0)
			child(i + 100);
		check(waitpid(pid, &status, 0) == pid && status == 0);
	}
	stop = true;
	for (unsigned i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < NSLOTS; i++)
		free(slots[i]);
	return 0;
}
