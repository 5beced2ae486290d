/* umem_free_align() with a size beyond the block. */
#include "tests/programs/check.h"

int
main(void)
{
	void *p = umem_alloc_align(1000, 256, UMEM_DEFAULT);

	check(p != NULL);
	umem_free_align(p, 5000);
	return 0;
}
