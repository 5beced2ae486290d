/*
 * bench_vmem.c - ns for a vmem_alloc() and vmem_free(), by number of segments
 *
 * One line a measurement, `vmem POLICY NSEGS NS`.  In the plain rows NSEGS
 * segments are allocated in one row and one free segment is behind them; in
 * the rows POLICY/frag as many again of 1 to 8 quanta were freed between
 * them.  The pairs ask for 1 to 8 quanta in turn.  The least of a few runs
 * counts, since the machine may be shared.
 *
 * Usage: bench_vmem [most segments, default 1000000]
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vmem/vmem.h"

#define QUANTUM 4096
#define NRUNS   3
#define RUN_NS  40000000

struct policy {
	const char *name;
	int vmflag;
};

static const struct policy policies[] = {
    {"instant", 0},
    {"best", VM_BESTFIT},
    {"first", VM_FIRSTFIT},
    {"next", VM_NEXTFIT},
};

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t
random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void
fail(const char *what)
{
	fprintf(stderr, "bench_vmem: %s failed\n", what);
	exit(1);
}

static void *
must_alloc(vmem_t *arena, size_t size, int vmflag)
{
	void *addr = vmem_alloc(arena, size, vmflag);

	if (addr == NULL)
		fail("vmem_alloc");
	return addr;
}

/* An arena with nsegs allocated segments, and as many free ones if asked. */
static vmem_t *
arena_make(size_t nsegs, bool fragmented)
{
	vmem_t *arena = vmem_create("bench", (void *)QUANTUM, (size_t)1 << 50,
	    QUANTUM, NULL, NULL, NULL, 0, VM_SLEEP);
	size_t nfreed = fragmented ? nsegs : 0;
	void **freed = malloc((nfreed + 1) * sizeof(*freed));
	size_t *sizes = malloc((nfreed + 1) * sizeof(*sizes));
	uint64_t seed = 88172645463325252;

	if (arena == NULL || freed == NULL || sizes == NULL)
		fail("vmem_create");
	for (size_t i = 0; i < nsegs; i++) {
		must_alloc(arena, QUANTUM, 0);
		if (!fragmented)
			continue;
		sizes[i] = (1 + random_next(&seed) % 8) * QUANTUM;
		freed[i] = must_alloc(arena, sizes[i], 0);
	}
	/* In an order that has nothing to do with addresses. */
	for (size_t i = nfreed; i > 0; i--) {
		size_t j = random_next(&seed) % i;

		vmem_free(arena, freed[j], sizes[j]);
		freed[j] = freed[i - 1];
		sizes[j] = sizes[i - 1];
	}
	free(freed);
	free(sizes);
	return arena;
}

static double
pairs(vmem_t *arena, int vmflag)
{
	uint64_t start = now_ns(), end = start;
	size_t npairs = 0;

	while (end - start < RUN_NS) {
		for (size_t i = 1; i <= 8; i++) {
			void *addr = must_alloc(arena, i * QUANTUM, vmflag);

			vmem_free(arena, addr, i * QUANTUM);
		}
		npairs += 8;
		if (npairs % 256 == 0 || end - start > RUN_NS / 100 ||
		    npairs < 32)
			end = now_ns();
	}
	return (double)(end - start) / (double)npairs;
}

static void
measure(const struct policy *policy, size_t nsegs, bool fragmented)
{
	vmem_t *arena = arena_make(nsegs, fragmented);
	double best = 0;

	for (int run = 0; run < NRUNS; run++) {
		double ns = pairs(arena, policy->vmflag);

		if (run == 0 || ns < best)
			best = ns;
	}
	printf("vmem %s%s %zu %.1f\n", policy->name, fragmented ? "/frag" : "",
	    nsegs, best);
	fflush(stdout);
	/* The arena goes with the process: no complaint about leaks. */
}

int
main(int argc, char **argv)
{
	size_t most = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;

	for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
		for (int fragmented = 0; fragmented < 2; fragmented++) {
			for (size_t n = 10; n <= most; n *= 10)
				measure(&policies[p], n, fragmented);
		}
	}
	return 0;
}
