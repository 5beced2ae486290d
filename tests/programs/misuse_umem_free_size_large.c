/*
 * umem_free() of a large block with a size that is too small.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_free\(0x[0-9a-f]+\): size 51380224 does not fit the block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	void *p = umem_alloc(50 * MIB, UMEM_DEFAULT);

	check(p != NULL);
	umem_free(p, 49 * MIB);
	return 0;
}
