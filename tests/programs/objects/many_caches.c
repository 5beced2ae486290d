/*
 * many_caches.c - the cost of a cache does not depend on the number of caches,
 * and they do not slow down malloc(); with debugging, too
 *
 * Times are processor times of this thread.  The test takes each time several
 * times and uses the least, because a busy machine can only add to it.
 *
 * test link: umem
 * test preload: yes
 * test timeout: 300
 * test no stderr: .
 */
#include "tests/programs/check.h"

enum {
	FEW = 4000,
	MANY = 16000,
	ALL = 40000,
	NTRIES = 8,
	NBLOCKS = 2048
};

static umem_cache_t *cache[ALL];

static uint64_t
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void
create(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		cache[i] = umem_cache_create(
		    "many", 16, 0, NULL, NULL, NULL, NULL, NULL, 0);
		check(cache[i] != NULL);
	}
}

static void
use(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		void *object = umem_cache_alloc(cache[i], UMEM_DEFAULT);

		check(object != NULL);
		umem_cache_free(cache[i], object);
	}
}

/* The oldest first. */
static void
destroy(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		umem_cache_destroy(cache[i]);
}

static void (*const phases[])(unsigned) = {create, use, destroy};
static const char *const names[] = {"create", "use", "destroy"};

static void
measure(unsigned n, uint64_t *least)
{
	for (unsigned i = 0; i < 3; i++) {
		uint64_t before = cpu_ns();

		phases[i](n);
		uint64_t took = cpu_ns() - before;

		if (took < least[i])
			least[i] = took;
	}
}

/* Of one cache among many, at most twice that of one among few. */
static bool
is_linear(const uint64_t *few, const uint64_t *many)
{
	for (unsigned i = 0; i < 3; i++)
		if (many[i] / MANY > 2 * few[i] / FEW)
			return false;
	return true;
}

static void
costs_are_linear(void)
{
	uint64_t few[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	uint64_t many[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};

	for (unsigned i = 0; i < NTRIES; i++) {
		measure(FEW, few);
		measure(MANY, many);
		if (is_linear(few, many))
			return;
	}
	for (unsigned i = 0; i < 3; i++)
		fprintf(stderr, "%s: %llu ns of %d, %llu ns of %d\n", names[i],
		    (unsigned long long)few[i] / FEW, FEW,
		    (unsigned long long)many[i] / MANY, MANY);
	check(!"linear");
}

/* More blocks than caches keep, so that the heap is asked for slabs. */
static uint64_t
time_of_mallocs(void)
{
	static void *block[NBLOCKS];
	uint64_t before = cpu_ns();

	for (unsigned i = 0; i < NBLOCKS; i++) {
		block[i] = malloc(32 * KIB);
		check(block[i] != NULL);
	}
	for (unsigned i = 0; i < NBLOCKS; i++)
		free(block[i]);
	return cpu_ns() - before;
}

static uint64_t
least_of_mallocs(uint64_t enough)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < 4 * NTRIES && least > enough; i++) {
		uint64_t now = time_of_mallocs();

		if (now < least)
			least = now;
	}
	return least;
}

static bool
malloc_does_not_notice(void)
{
	uint64_t without = least_of_mallocs(0), with;

	create(ALL);
	use(ALL);
	with = least_of_mallocs(without * 3 / 2);
	destroy(ALL);
	if (with > without * 3 / 2)
		printf("%d mallocs: %llu ns, with caches %llu ns\n", NBLOCKS,
		    (unsigned long long)without, (unsigned long long)with);
	return with <= without * 3 / 2;
}

int
main(int argc, char **argv)
{
	costs_are_linear();
	if (argc > 1)
		return 0;
	/* Other work on the machine may have slowed one of the two down. */
	check(malloc_does_not_notice() || malloc_does_not_notice() ||
	      malloc_does_not_notice());
	setenv("UMEM_DEBUG", "default", 1);
	execl("/proc/self/exe", argv[0], "debug", (char *)NULL);
	return 2;
}
