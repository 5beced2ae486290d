/* A static block with a forged header of a free list freed. */
#include "tests/misuse/misuse.h"

static uint64_t __attribute__((aligned(16))) fake[32];

int
main(void)
{
	/* As glibc has it: size 64 and a bit, and the next one, too. */
	fake[1] = fake[9] = 0x41;
	own(fake, sizeof(fake));
	drop(fake + 2);
	judge(NULL, 56);
}
