/* ... and is not asked when it is. */
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
