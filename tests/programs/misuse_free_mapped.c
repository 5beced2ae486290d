/*
 * free() of a mapping of the program, which is never looked into.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not an address of the heap$
 */
#include <sys/mman.h>

#include "tests/programs/check.h"

int
main(void)
{
	void *p =
	    mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(p != MAP_FAILED);
	free(p);
	return 0;
}
