/* An aligned block freed twice. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = (char *)keep(memalign(256, 256));

	check(p != NULL);
	drop(p);
	drop(p);
	judge(NULL, 256);
}
