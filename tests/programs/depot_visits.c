/*
 * At steady load a CPU visits the depot less than once per 1000 operations, as
 * long as the objects that are allocated and freed in turn fit into its
 * magazines.
 *
 * test modes: rseq locked own
 */
#include <malloc.h>

#include "tests/programs/check.h"

enum {
	NWARM = 1000,
	NBATCHES = 20000,
	BATCH = 200,
	BLOCK = 200
};

static void
batches(int n)
{
	void *block[BATCH];

	for (int k = 0; k < n; k++) {
		for (int i = 0; i < BATCH; i++)
			check((block[i] = malloc(BLOCK)) != NULL);
		for (int i = 0; i < BATCH; i++)
			free(block[i]);
	}
}

/* Magazines that all depots have supplied or received. */
static unsigned long
moved(void)
{
	static char text[1 << 16];
	FILE *file = fmemopen(text, sizeof(text), "w");
	unsigned long sum = 0;

	check(file != NULL && malloc_info(0, file) == 0);
	check(fclose(file) == 0);
	for (char *at = text; (at = strstr(at, " moved=\"")) != NULL; at++)
		sum += strtoul(at + 8, NULL, 10);
	return sum;
}

int
main(void)
{
	unsigned long before, after;
	/* Or an update may end the last slab, and nothing is told of it. */
	void *kept = malloc(BLOCK);

	check(kept != NULL);
	batches(NWARM);
	before = moved();
	batches(NBATCHES);
	after = moved();
	fprintf(stderr, "%lu magazines moved, then %lu\n", before, after);
	/* A batch is 400 operations. */
	check(after - before < (unsigned long)NBATCHES * 2 * BATCH / 1000);
	/* It took some to get there. */
	check(before > 0);
	free(kept);
	return 0;
}
