/*
 * Blocks that shrink: a block that shrinks and grows repeatedly holds at most
 * the memory of its largest size.  A block that shrinks once releases its
 * memory, also after other blocks have shrunk and grown repeatedly.
 *
 * test modes: rseq locked own
 */
#include "tests/programs/check.h"

enum {
	NBLOCKS = 1000,
	BYTES = 32768,
	CUT = 64,
	NCALLS = 200000,
	/* Beside the blocks: cached memory, and partly used slabs. */
	MORE_KIB = 24 << 10,
	GROWTH_KIB = 8 << 10
};

static void *block[NBLOCKS];

static long
up_and_down(void)
{
	static unsigned seed = 1;

	for (int i = 0; i < NCALLS; i++) {
		void **at = &block[rand_r(&seed) % NBLOCKS];
		size_t bytes = 1 + (size_t)rand_r(&seed) % BYTES;

		*at = realloc(*at, bytes);
		check(*at != NULL);
		memset(*at, 1, bytes);
	}
	return rss_kib();
}

static void
free_all(void)
{
	for (int i = 0; i < NBLOCKS; i++) {
		free(block[i]);
		block[i] = NULL;
	}
}

/* Twice as much as all that went up and down; cut to hardly anything. */
static void
cut(void)
{
	for (int i = 0; i < 2 * NBLOCKS; i++) {
		void *p = malloc(BYTES);

		check(p != NULL);
		memset(p, 1, BYTES);
		p = realloc(p, CUT);
		check(p != NULL);
		/* Never freed. */
	}
}

int
main(void)
{
	long before = rss_kib(), early, late;

	early = up_and_down();
	late = up_and_down();
	check(late < before + NBLOCKS * (BYTES >> 10) + MORE_KIB);
	check(late < early + GROWTH_KIB);
	free_all();
	cut();
	/* Half of it would be a third more than there was. */
	check(rss_kib() < late + GROWTH_KIB);
	return 0;
}
