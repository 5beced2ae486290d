/* An address that no program has. */
#include "tests/misuse/misuse.h"

int
main(void)
{

	drop((void *)(uintptr_t)0xa7a7a7a7a7a7a7a0);
	judge(NULL, 40);
}
