/* With UMEM_DEBUG there is no sampling, and a message says so. */
#include "tests/programs/check.h"

int
main(void)
{
	free(malloc(100));
	errno = 0;
	check(umem_sample(1) == -1 && errno == ENOTSUP);
	return 0;
}
