/* An address of the heap that was never allocated. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40);

	own(p, 40);
	drop((char *)((uintptr_t)p & ~(64 * KIB - 1)) + 63 * KIB);
	judge(NULL, 40);
}
