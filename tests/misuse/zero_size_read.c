/* A block of no bytes, and a word read from it. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	for (int i = 0; i < 3; i++) {
		char *p = (char *)keep(malloc(8));

		check(p != NULL);
		scribble(p, 8);
		drop(p);
	}
	char *q = (char *)keep(malloc(0));
	check(q != NULL);
	judge(
	    sees_secret(q, 8) ? "an earlier owner's data was read" : NULL, 16);
}
