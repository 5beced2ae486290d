/*
 * If UMEM_OPTIONS is set, the library does not call _umem_options_init().
 *
 * test modes: default
 * test cflags: -rdynamic
 * test env: UMEM_OPTIONS=concurrency=1
 * test no stderr: .
 */
#include "tests/programs/check.h"

const char *_umem_options_init(void);

const char *
_umem_options_init(void)
{
	return "mode=locked,verbose,nosuchword";
}

int
main(void)
{
	struct umem_mode mode;

	check(umem_mode != NULL && umem_mode(&mode, sizeof(mode)) == 0);
	check(mode.ncpus == 1);
	churn(1, 10000, 10000);
	return 0;
}
