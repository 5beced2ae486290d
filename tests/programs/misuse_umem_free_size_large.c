/* umem_free() of a large block with a size that is too small. */
#include "tests/programs/check.h"

int
main(void)
{
	void *p = umem_alloc(50 * MIB, UMEM_DEFAULT);

	check(p != NULL);
	umem_free(p, 49 * MIB);
	return 0;
}
