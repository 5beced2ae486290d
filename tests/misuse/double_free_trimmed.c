/* A block freed twice; its memory was released to the kernel in between. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	static char *made[2000];

	for (int i = 0; i < 2000; i++)
		made[i] = block(1000);
	for (int i = 0; i < 2000; i++)
		drop(made[i]);
	malloc_trim(0);
	drop(made[1000]);
	judge(NULL, 1000);
}
