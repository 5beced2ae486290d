/* A variable of main() freed. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char p[64];

	memset(p, CONTENT, sizeof(p));
	own(p, sizeof(p));
	drop(p);
	judge(NULL, 40);
}
