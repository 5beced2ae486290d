/*
 * umem_free() with a size that is another class's.
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_free\(0x[0-9a-f]+\): size 1000 does not fit the block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	void *p = umem_alloc(100, UMEM_DEFAULT);

	check(p != NULL);
	umem_free(p, 1000);
	return 0;
}
