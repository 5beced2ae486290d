/*
 * A program's own _umem_options_init() is asked when UMEM_OPTIONS is not set.
 * It may allocate.  If the variable is set, the library does not call it.
 *
 * test modes: default
 * test cflags: -rdynamic
 *
 * test run: asked
 * test stderr: ^umem: UMEM_OPTIONS: 'twelve' not recognized$
 * test no stderr: nosuchword
 * test stderr: ^umem: [0-9.]+ mode locked 
 * test run: unused
 * test args: unused
 * test env: UMEM_OPTIONS=concurrency=1
 * test no stderr: .
 */
#include "tests/programs/check.h"

static char *early;

const char *_umem_options_init(void);

const char *
_umem_options_init(void)
{
	early = malloc(5000);
	if (early == NULL)
		return "nosuchword,verbose";
	memset(early, 7, 5000);
	return "mode=locked,verbose,twelve=13";
}

int
main(int argc, char **argv)
{
	struct umem_mode mode;

	(void)argv;
	check(umem_mode != NULL && umem_mode(&mode, sizeof(mode)) == 0);
	if (argc > 1) {
		check(early == NULL && mode.ncpus == 1);
		churn(1, 10000, 10000);
		return 0;
	}
	check(mode.mode == UMEM_MODE_LOCKED);
	check(strstr(mode.reason, "mode=locked") != NULL);
	check(early != NULL && early[0] == 7 && early[4999] == 7);
	check((early = realloc(early, 100000)) != NULL);
	check(early[0] == 7 && early[4999] == 7);
	free(early);
	churn(1, 10000, 10000);
	return 0;
}
