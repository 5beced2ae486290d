/*
 * A program that only resizes its blocks, at random or up and down, takes at
 * most 1.5 times the memory of their bytes.  The memory of a block that shrinks
 * serves other blocks.
 *
 * test modes: rseq locked own
 */
#include "tests/programs/check.h"

enum {
	NBLOCKS = 20000,
	BYTES = 4096,
	CUT = 64,
	NCALLS = 500000,
	/* Cached memory, and partly used slabs, beside the live bytes. */
	PERCENT = 150
};

static void *block[NBLOCKS];
static size_t size[NBLOCKS];
static size_t live;
static unsigned seed = 1;

static void
resize(int i, size_t bytes)
{
	void *p = realloc(block[i], bytes);

	check(p != NULL);
	memset(p, 1, bytes);
	block[i] = p;
	live += bytes - size[i];
	size[i] = bytes;
}

static void
at_random(void)
{
	for (int i = 0; i < NCALLS; i++)
		resize(rand_r(&seed) % NBLOCKS, 1 + rand_r(&seed) % BYTES);
}

static void
up_and_down(void)
{
	for (int i = 0; i < NCALLS; i++)
		resize(rand_r(&seed) % NBLOCKS,
		    rand_r(&seed) % 2 == 0 ? CUT : BYTES);
}

/* Half of the blocks shrink, and their memory is enough for the others. */
static void
once(void)
{
	for (int i = 0; i < NBLOCKS / 2; i++)
		resize(i, BYTES);
	for (int i = 0; i < NBLOCKS / 2; i++)
		resize(i, CUT);
	for (int i = NBLOCKS / 2; i < NBLOCKS; i++)
		resize(i, BYTES);
}

static void
takes_what_it_holds(void (*resize_all)(void))
{
	long before = rss_kib(), kib, live_kib;
	pid_t child = fork();

	check(child != -1);
	if (child != 0) {
		child_end(child);
		return;
	}
	resize_all();
	kib = rss_kib() - before;
	live_kib = (long)(live >> 10);
	if (kib * 100 > live_kib * PERCENT) {
		fprintf(stderr, "%ld KiB for %ld KiB\n", kib, live_kib);
		_exit(1);
	}
	_exit(0);
}

int
main(void)
{
	takes_what_it_holds(at_random);
	takes_what_it_holds(up_and_down);
	takes_what_it_holds(once);
	return 0;
}
