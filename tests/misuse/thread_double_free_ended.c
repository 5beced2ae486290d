/* Freed by a thread that has ended, and by another. */
#include "tests/misuse/misuse.h"

static void *
first(void *arg)
{
	char **p = (char **)arg;

	*p = block(40);
	drop(*p);
	return NULL;
}

int
main(void)
{
	char *p = NULL;

	elsewhere(first, &p);
	drop(p);
	judge(NULL, 40);
}
