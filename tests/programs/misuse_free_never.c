/*
 * free() of a place where a block could be, but never was.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block was never allocated$
 */
#include <malloc.h>

#include "tests/programs/check.h"

int
main(void)
{
	uintptr_t p = (uintptr_t)malloc(1024);

	/* The last whole KiB of the 64 KiB that p lies in. */
	check(p != 0);
	free((void *)((p | 0xffff) - 1023 - 1024 + (p & 1023)));
	malloc_trim(0);
	return 0;
}
