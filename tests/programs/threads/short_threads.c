/* 100,000 short threads that allocate leave nothing behind. */
#include "tests/programs/check.h"

enum {
	NTHREADS = 100000,
	NATONCE = 4
};

static void *
run(void *arg)
{
	size_t n = (uintptr_t)arg % 3000 + 1;
	char *p[20];

	for (int i = 0; i < 20; i++) {
		check((p[i] = malloc(n + (size_t)i * 50)) != NULL);
		p[i][0] = 1;
	}
	for (int i = 1; i < 20; i++)
		free(p[i]);
	/* The joining thread frees it. */
	return p[0];
}

static void
round_of(unsigned n)
{
	pthread_t thread[NATONCE];

	for (uintptr_t i = 0; i < n; i += NATONCE) {
		for (uintptr_t k = 0; k < NATONCE; k++)
			thread[k] = thread_start(run, (void *)(i + k));
		for (int k = 0; k < NATONCE; k++) {
			void *p;

			check(pthread_join(thread[k], &p) == 0 && p != NULL);
			free(p);
		}
	}
}

int
main(void)
{
	long before, after;

	/* The caches of the CPUs grow to the size that such a program needs. */
	round_of(50000);
	before = rss_kib();
	round_of(NTHREADS);
	after = rss_kib();
	fprintf(
	    stderr, "%ld KiB, after %d threads %ld\n", before, NTHREADS, after);
	check(after < before + 4096);
	return 0;
}
