/*
 * umem_free_align() with a size beyond the block.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_free_align\(0x[0-9a-f]+\): size 5000 does not fit the block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	void *p = umem_alloc_align(1000, 256, UMEM_DEFAULT);

	check(p != NULL);
	umem_free_align(p, 5000);
	return 0;
}
