/* 2000 freed, and then the first of them again. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	static char *made[2000];

	for (int i = 0; i < 2000; i++)
		made[i] = block(40);
	for (int i = 0; i < 2000; i++)
		drop(made[i]);
	drop(made[0]);
	judge(NULL, 40);
}
