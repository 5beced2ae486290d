/* Freed by one thread, written to by another. */
#include "tests/misuse/misuse.h"

static void *
end(void *p)
{
	drop(p);
	return NULL;
}

int
main(void)
{
	char *p = block(64);

	elsewhere(end, p);
	scribble(p, 64);
	judge(NULL, 64);
}
