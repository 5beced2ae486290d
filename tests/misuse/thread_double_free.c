/* Freed by one thread, and by another. */
#include "tests/misuse/misuse.h"

static void *
again(void *p)
{
	drop(p);
	return NULL;
}

int
main(void)
{
	char *p = block(40);

	drop(p);
	elsewhere(again, p);
	judge(NULL, 40);
}
