/*
 * umem_free() of a block with a size of 0.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_free\(0x[0-9a-f]+\): size 0 does not fit the block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	void *p = umem_alloc(16, UMEM_DEFAULT);

	check(p != NULL);
	umem_free(NULL, 0);
	umem_free(p, 0);
	return 0;
}
