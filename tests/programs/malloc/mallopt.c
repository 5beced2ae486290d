/*
 * mallopt() accepts the parameters of glibc, and breaks nothing.
 *
 * test modes: default
 */
#include <malloc.h>

#include "tests/programs/check.h"

int
main(void)
{
	static const int known[][2] = {{M_MMAP_THRESHOLD, 65536},
	    {M_TRIM_THRESHOLD, 65536}, {M_TOP_PAD, 0}, {M_MMAP_MAX, 100},
	    {M_MXFAST, 64}, {M_ARENA_MAX, 1}, {M_ARENA_TEST, 1},
	    {M_CHECK_ACTION, 3}, {M_PERTURB, 0}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		int answer = mallopt(known[i][0], known[i][1]);

		check(answer == 0 || answer == 1);
		churn(i, 5000, 200000);
	}
	/* Never a reason to end. */
	mallopt(12345, 1);
	mallopt(-12345, -1);
	churn(99, 5000, 200000);
	return 0;
}
