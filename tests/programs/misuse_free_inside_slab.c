/*
 * free() of an address inside a block that is several units of 64 KiB long: the
 * address is the start of a unit after the first unit of the block.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not the start of a block$
 */
#include "tests/programs/check.h"

int
main(void)
{
	uintptr_t p = (uintptr_t)malloc(300000);

	check(p != 0);
	free((void *)((p + 0x20000) & ~(uintptr_t)0xffff));
	return 0;
}
