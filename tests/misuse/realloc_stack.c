/* realloc() of a variable. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char p[64];

	memset(p, CONTENT, sizeof(p));
	own(p, sizeof(p));
	own(realloc(keep(p), 200), 200);
	judge(NULL, 64);
}
