/*
 * vectors.c - arrays that double when they are full, and large blocks
 *
 *	vectors.realloc	words appended to 200 arrays, each at random, that
 *			grow by realloc
 *	vectors.copy	the arrays grow by malloc, copy and free, as a C++
 *			vector does
 *	vectors.large	one of 20 blocks of 32 KiB to 16 MiB replaced, small
 *			ones more often, and a byte of each page written
 *
 * in ns of processor time for a word, and us for a block.  When an array has
 * a million words it starts anew.  A fixed amount of work.
 *
 * Source: strings and containers of most programs grow in this way; the large
 * blocks stand for buffers, frames and matrices.
 *
 * Usage: vectors [scale [realloc|copy|large]]
 */
#include "tests/bench/bench.h"

#define NVECTORS 200
#define NLARGE   20
#define PAGE     4096

struct vector {
	uint64_t *word;
	size_t nwords;
	size_t room;
};

static void
grow(struct vector *vector, bool copy)
{
	size_t room = vector->room > 0 ? 2 * vector->room : 1;
	uint64_t *word;

	if (!copy) {
		word = realloc(vector->word, room * sizeof(*word));
	} else {
		word = malloc(room * sizeof(*word));
		if (word != NULL && vector->nwords > 0)
			memcpy(
			    word, vector->word, vector->nwords * sizeof(*word));
		free(vector->word);
	}
	if (word == NULL)
		bench_die("vectors");
	vector->word = word;
	vector->room = room;
}

/* Appends to the arrays in turn, so many words that they differ in length. */
static void
append(const char *name, bool copy, double scale)
{
	static struct vector vectors[NVECTORS];
	size_t n = bench_count(100e6, scale);
	uint64_t seed = bench_seed(1);
	double start = bench_cpu_ns();

	for (size_t done = 0; done < n;) {
		size_t i = bench_between(&seed, 0, NVECTORS - 1);
		struct vector *vector = &vectors[i];
		size_t most = bench_between(&seed, 1, 1 + 2 * i);

		if (vector->nwords + most > 1000000) {
			free(vector->word);
			*vector = (struct vector){0};
		}
		for (size_t j = 0; j < most; j++) {
			if (vector->nwords == vector->room)
				grow(vector, copy);
			vector->word[vector->nwords++] = done + j;
		}
		done += most;
	}
	for (size_t i = 0; i < NVECTORS; i++) {
		free(vectors[i].word);
		vectors[i] = (struct vector){0};
	}
	bench_print(
	    (bench_cpu_ns() - start) / (double)n, "ns", "vectors.%s", name);
}

static void
large(double scale)
{
	char *block[NLARGE] = {NULL};
	size_t n = bench_count(2000, scale);
	uint64_t seed = bench_seed(2);
	double start = bench_cpu_ns();

	for (size_t i = 0; i < n; i++) {
		size_t slot = bench_between(&seed, 0, NLARGE - 1);
		size_t low = (size_t)1 << bench_between(&seed, 15, 23);
		size_t bytes = bench_between(&seed, low, 2 * low);

		free(block[slot]);
		block[slot] = bench_alloc(bytes);
		for (size_t at = 0; at < bytes; at += PAGE)
			block[slot][at] = 1;
	}
	for (size_t i = 0; i < NLARGE; i++)
		free(block[i]);
	bench_print(
	    (bench_cpu_ns() - start) / 1e3 / (double)n, "us", "vectors.large");
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	const char *which = argc > 2 ? argv[2] : "all";
	bool all = strcmp(which, "all") == 0;

	if (all || strcmp(which, "realloc") == 0)
		append("realloc", /* copy */ false, scale);
	if (all || strcmp(which, "copy") == 0)
		append("copy", /* copy */ true, scale);
	if (all || strcmp(which, "large") == 0)
		large(scale);
	return 0;
}
