/*
 * bodies.c - a tree of small blocks that is built, walked many times and freed
 *
 *	bodies		processor time of a body and step, in us
 *
 * 20,000 bodies move in a plane.  For each step the program builds a tree of
 * squares, one block for each square that holds a body, computes the forces
 * with it, and frees it.  Most of the time is the walk, so it depends on where
 * the blocks lie.  A fixed amount of work, checked with the sum of the masses.
 *
 * Source: Barnes and Hut, "A hierarchical O(N log N) force-calculation
 * algorithm", Nature 1986; barnes, a program that the collections of allocator
 * benchmarks use, keeps its tree in large arrays.
 *
 * Usage: bodies [scale]
 */
#include "tests/bench/bench.h"

#define NBODIES 20000
#define NDEEP   40

struct body {
	double x, y, vx, vy;
};

struct square {
	double mass, x, y; /* the sum, then the centre of mass */
	struct square *quarter[4];
};

static struct square *
square_new(double x, double y)
{
	struct square *square = bench_alloc(sizeof(*square));

	*square = (struct square){.mass = 1, .x = x, .y = y};
	return square;
}

/* The square of the given centre and half side gets one more body. */
static void
square_add(struct square **at, double x, double y, double cx, double cy,
    double half, int depth)
{
	struct square *square = *at;
	unsigned quarter = (unsigned)(x >= cx) | (unsigned)(y >= cy) << 1;

	if (square == NULL) {
		*at = square_new(x, y);
		return;
	}
	/* The only body so far moves into its own quarter. */
	if (square->mass == 1 && depth < NDEEP) {
		unsigned old = (unsigned)(square->x >= cx) |
			       (unsigned)(square->y >= cy) << 1;

		square->quarter[old] = square_new(square->x, square->y);
	}
	square->x = (square->x * square->mass + x) / (square->mass + 1);
	square->y = (square->y * square->mass + y) / (square->mass + 1);
	square->mass++;
	if (depth < NDEEP)
		square_add(&square->quarter[quarter], x, y,
		    cx + (x >= cx ? half : -half) / 2,
		    cy + (y >= cy ? half : -half) / 2, half / 2, depth + 1);
}

static void
square_free(struct square *square)
{
	if (square == NULL)
		return;
	for (int i = 0; i < 4; i++)
		square_free(square->quarter[i]);
	free(square);
}

static void
square_pull(const struct square *square, struct body *body, double side)
{
	double dx, dy, r2;

	if (square == NULL)
		return;
	dx = square->x - body->x;
	dy = square->y - body->y;
	r2 = dx * dx + dy * dy + 1e-6;
	if (square->mass == 1 || side * side < r2) {
		body->vx += 1e-9 * square->mass * dx / r2;
		body->vy += 1e-9 * square->mass * dy / r2;
		return;
	}
	for (int i = 0; i < 4; i++)
		square_pull(square->quarter[i], body, side / 2);
}

static void
step(struct body *body)
{
	struct square *all = NULL;

	for (size_t i = 0; i < NBODIES; i++)
		square_add(&all, body[i].x, body[i].y, 0, 0, 2, 0);
	if (all->mass != NBODIES) {
		fprintf(stderr, "bodies: mass %g\n", all->mass);
		abort();
	}
	for (size_t i = 0; i < NBODIES; i++)
		square_pull(all, &body[i], 4);
	for (size_t i = 0; i < NBODIES; i++) {
		body[i].x += body[i].vx;
		body[i].y += body[i].vy;
	}
	square_free(all);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	struct body *body = bench_pages(NBODIES * sizeof(*body));
	size_t nsteps = bench_count(40, scale);
	uint64_t seed = bench_seed(0);
	double start;

	for (size_t i = 0; i < NBODIES; i++) {
		body[i].x =
		    (double)bench_between(&seed, 0, 1 << 30) / (1 << 30);
		body[i].y =
		    (double)bench_between(&seed, 0, 1 << 30) / (1 << 30);
	}
	start = bench_cpu_ns();
	for (size_t i = 0; i < nsteps; i++)
		step(body);
	bench_print((bench_cpu_ns() - start) / 1e3 / (double)nsteps / NBODIES,
	    "us", "bodies");
	return 0;
}
