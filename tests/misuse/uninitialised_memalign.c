/* A new aligned block read before it is written. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = (char *)keep(memalign(256, 1024));

	check(p != NULL);
	scribble(p, 1024);
	drop(p);
	p = (char *)keep(memalign(256, 1024));
	check(p != NULL);
	judge(sees_secret(p, 1024) ? "an earlier owner's data was read" : NULL,
	    1024);
}
