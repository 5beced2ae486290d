/*
 * sweep.c - malloc and free of each size from 8 bytes to 32 MiB, in nine
 * patterns
 *
 *	pair	a block, freed at once
 *	window	one of 16 blocks of half to one and a half of the size replaced
 *	batch	1000 to 8 blocks, freed in order
 *	lifo	the same, freed in reverse
 *	calloc	a block of zeros, freed at once
 *	grow	by realloc in eight steps
 *	shrink	by realloc to a half and to a quarter
 *	align	a block aligned to 64, 256 or 4096 bytes, freed at once
 *	mix	a block, while 32 small ones are replaced
 *
 * in ns of processor time for each call that allocates, of mix for all 33.
 * Only the first byte of a block is written, so the figures are those of the
 * allocator and of the page faults that it causes.  sweep.py runs this program
 * and draws the figures: a cliff at a size stands out.
 *
 * Prints lines "PATTERN SIZE NS".
 *
 * Source: our own.
 *
 * Usage: sweep [seconds of each figure]
 */
#include <malloc.h>

#include "tests/bench/bench.h"

#define LEAST     ((size_t)8)
#define MOST      ((size_t)32 << 20)
#define NWINDOW   16
#define NSMALL    32
#define NBATCH    1000
#define NREPEATED 16

static char *held[NBATCH];
static uint64_t seed;

/* Volatile, so that no call is left out. */
static void
touch(void *p)
{
	if (p == NULL)
		bench_die("sweep");
	*(volatile char *)p = 1;
}

static char *
take(size_t size)
{
	char *p = malloc(size);

	touch(p);
	return p;
}

static void
drop_held(void)
{
	for (size_t i = 0; i < NBATCH; i++) {
		free(held[i]);
		held[i] = NULL;
	}
}

/* The patterns return how many calls they made that allocate. */
static size_t
pair(size_t size)
{
	for (int i = 0; i < NREPEATED; i++)
		free(take(size));
	return NREPEATED;
}

static size_t
window(size_t size)
{
	for (int i = 0; i < NREPEATED; i++) {
		size_t slot = bench_random(&seed) % NWINDOW;

		free(held[slot]);
		held[slot] = take(size / 2 + bench_random(&seed) % size);
	}
	return NREPEATED;
}

static size_t
batch_of(size_t size)
{
	return size <= 4096      ? NBATCH
	       : size <= 65536   ? 200
	       : size <= 1 << 20 ? 40
				 : 8;
}

static size_t
batch(size_t size)
{
	size_t n = batch_of(size);

	for (size_t i = 0; i < n; i++)
		held[i] = take(size);
	for (size_t i = 0; i < n; i++)
		free(held[i]);
	return n;
}

static size_t
lifo(size_t size)
{
	size_t n = batch_of(size);

	for (size_t i = 0; i < n; i++)
		held[i] = take(size);
	for (size_t i = n; i-- > 0;)
		free(held[i]);
	return n;
}

static size_t
zeroed(size_t size)
{
	for (int i = 0; i < NREPEATED; i++) {
		char *p = calloc(1, size);

		touch(p);
		free(p);
	}
	return NREPEATED;
}

static size_t
grow(size_t size)
{
	char *p = take(size / 8 + 1);

	for (size_t i = 2; i <= 8; i++) {
		p = realloc(p, size * i / 8 + 1);
		touch(p);
		touch(p + size * i / 8);
	}
	free(p);
	return 8;
}

static size_t
shrink(size_t size)
{
	char *p = take(size);

	for (size_t part = 2; part <= 4; part *= 2) {
		p = realloc(p, size / part + 1);
		touch(p);
	}
	free(p);
	return 3;
}

static size_t
align(size_t size)
{
	for (int i = 0; i < NREPEATED; i++) {
		char *p = memalign(size < 64     ? 64
				   : size > 4096 ? 4096
						 : 256,
		    size);

		touch(p);
		free(p);
	}
	return NREPEATED;
}

static size_t
mix(size_t size)
{
	char *p = take(size);

	for (size_t i = 0; i < NSMALL; i++) {
		free(held[i]);
		held[i] = take(16 + bench_random(&seed) % 200);
	}
	free(p);
	return 1;
}

static const struct pattern {
	const char *name;
	size_t (*run)(size_t size);
	bool holds; /* it leaves blocks in held */
} patterns[] = {{"pair", pair, false}, {"window", window, true},
    {"batch", batch, false}, {"lifo", lifo, false}, {"calloc", zeroed, false},
    {"grow", grow, false}, {"shrink", shrink, false}, {"align", align, false},
    {"mix", mix, true}};

static void
measure(const struct pattern *pattern, size_t size, double ns)
{
	double begin, now;
	size_t n = 0, nruns = 1;

	for (int i = 0; i < 3; i++)
		pattern->run(size);
	begin = bench_cpu_ns();
	/* The clock is read seldom, because that takes long. */
	do {
		for (size_t i = 0; i < nruns; i++)
			n += pattern->run(size);
		now = bench_cpu_ns();
		nruns *= 2;
	} while (now - begin < ns);
	printf("%s %zu %.2f\n", pattern->name, size, (now - begin) / (double)n);
	if (pattern->holds)
		drop_held();
	else
		memset(held, 0, sizeof(held));
}

int
main(int argc, char **argv)
{
	double seconds = bench_start(argc, argv);

	seed = bench_seed(1);
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		for (size_t size = LEAST; size <= MOST; size *= 2)
			measure(&patterns[i], size, 1e9 * seconds);
	return 0;
}
