/* Freed by a thread and used again there; written to by another. */
#include "tests/misuse/misuse.h"

static char *next;

static void *
reuse(void *p)
{
	drop(p);
	next = next_owner(p, 64);
	if (next != NULL)
		put_bytes(next, CONTENT, 64);
	return NULL;
}

int
main(void)
{
	char *p = block(64);

	elsewhere(reuse, p);
	scribble(p + 16, 8);
	if (next != NULL && next[16] != CONTENT)
		judge("another block was changed", 64);
	judge(NULL, 64);
}
