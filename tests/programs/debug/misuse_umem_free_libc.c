/*
 * umem_free() of a block of libc's malloc().
 *
 * test signal: 6
 * test link: umem
 * test stderr: ^umem: umem_free\(0x[0-9a-f]+\): not an address of the heap$
 */
#include "tests/programs/check.h"

int
main(void)
{
	umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
	umem_free(malloc(100), 100);
	return 0;
}
