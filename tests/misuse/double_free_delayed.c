/* A block freed twice, with many calls for other sizes in between. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(40);

	drop(p);
	pass_time(100);
	pass_time(1000);
	drop(p);
	judge(NULL, 40);
}
