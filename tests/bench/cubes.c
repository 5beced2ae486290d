/*
 * cubes.c - sets of bit vectors that are split, joined and freed recursively
 *
 *	cubes		processor time of a set of cubes, in us
 *
 * A cube is a product of variables of a Boolean function, and a cover is the
 * sum of its cubes.  The program complements random covers: it splits a cover
 * at a variable, complements both halves, and joins them.  Each cube is a
 * block of 32 bytes; each cover has a table that grows by realloc.  A fixed
 * amount of work, checked with random points.
 *
 * Source: espresso, a program that the collections of allocator benchmarks
 * use; the pattern of its blocks.
 *
 * Usage: cubes [scale]
 */
#include "tests/bench/bench.h"

#define NVARIABLES 14
#define NCUBES     28

/* A variable occurs as it is, negated, or (in neither mask) not at all. */
struct cube {
	uint64_t plain, negated;
	uint64_t spare[2];
};

struct cover {
	size_t n, room;
	struct cube **cube;
};

static size_t ncovers;

static struct cover *
cover_new(void)
{
	struct cover *cover = bench_alloc(sizeof(*cover));

	ncovers++;
	*cover = (struct cover){0};
	return cover;
}

static void
cover_add(struct cover *cover, uint64_t plain, uint64_t negated)
{
	struct cube *cube;

	/* A cube inside another one adds nothing. */
	for (size_t i = 0; i < cover->n; i++) {
		cube = cover->cube[i];
		if ((cube->plain & ~plain) == 0 &&
		    (cube->negated & ~negated) == 0)
			return;
	}
	if (cover->n == cover->room) {
		cover->room += 4 + cover->room / 2;
		cover->cube =
		    realloc(cover->cube, cover->room * sizeof(*cover->cube));
		if (cover->cube == NULL)
			bench_die("realloc");
	}
	cube = bench_alloc(sizeof(*cube));
	cube->plain = plain;
	cube->negated = negated;
	cover->cube[cover->n++] = cube;
}

static void
cover_free(struct cover *cover)
{
	for (size_t i = 0; i < cover->n; i++)
		free(cover->cube[i]);
	free(cover->cube);
	free(cover);
}

static bool
cover_holds(const struct cover *cover, uint64_t point)
{
	for (size_t i = 0; i < cover->n; i++) {
		const struct cube *cube = cover->cube[i];

		if ((cube->plain & ~point) == 0 && (cube->negated & point) == 0)
			return true;
	}
	return false;
}

/* The cover where a variable has this value. */
static struct cover *
cover_where(const struct cover *cover, uint64_t variable, bool value)
{
	struct cover *part = cover_new();

	for (size_t i = 0; i < cover->n; i++) {
		const struct cube *cube = cover->cube[i];

		if (((value ? cube->negated : cube->plain) & variable) == 0)
			cover_add(part, cube->plain & ~variable,
			    cube->negated & ~variable);
	}
	return part;
}

/* The variable in the most cubes. */
static uint64_t
cover_variable(const struct cover *cover)
{
	uint64_t best = 0;
	size_t most = 0;

	for (unsigned v = 0; v < NVARIABLES; v++) {
		uint64_t bit = (uint64_t)1 << v;
		size_t n = 0;

		for (size_t i = 0; i < cover->n; i++)
			n +=
			    ((cover->cube[i]->plain | cover->cube[i]->negated) &
				bit) != 0;
		if (n > most) {
			most = n;
			best = bit;
		}
	}
	return best;
}

static struct cover *
cover_complement(const struct cover *cover)
{
	struct cover *result = cover_new();
	uint64_t variable = cover_variable(cover);

	/* Without variables it is constant: always, if it has a cube. */
	if (variable == 0) {
		if (cover->n == 0)
			cover_add(result, 0, 0);
		return result;
	}
	for (int value = 0; value < 2; value++) {
		struct cover *part = cover_where(cover, variable, value);
		struct cover *other = cover_complement(part);

		for (size_t i = 0; i < other->n; i++)
			cover_add(result,
			    other->cube[i]->plain | (value ? variable : 0),
			    other->cube[i]->negated | (value ? 0 : variable));
		cover_free(part);
		cover_free(other);
	}
	return result;
}

static void
complement_one(uint64_t *seed)
{
	struct cover *cover = cover_new(), *other;

	for (int i = 0; i < NCUBES; i++) {
		uint64_t used = bench_random(seed) & bench_random(seed);
		uint64_t sign = bench_random(seed);

		used &= ((uint64_t)1 << NVARIABLES) - 1;
		cover_add(cover, used & sign, used & ~sign);
	}
	other = cover_complement(cover);
	for (int i = 0; i < 100; i++) {
		uint64_t point = bench_random(seed);

		if (cover_holds(cover, point) == cover_holds(other, point)) {
			fprintf(stderr, "cubes: wrong complement\n");
			abort();
		}
	}
	cover_free(cover);
	cover_free(other);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	uint64_t seed = bench_seed(0);
	double start = bench_cpu_ns();

	for (size_t i = bench_count(4000, scale); i > 0; i--)
		complement_one(&seed);
	bench_print(
	    (bench_cpu_ns() - start) / 1e3 / (double)ncovers, "us", "cubes");
	return 0;
}
