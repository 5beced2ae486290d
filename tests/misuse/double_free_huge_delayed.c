/* A block of 20 MiB freed twice, smaller ones used between. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(20 * MIB);

	drop(p);
	pass_time(100);
	pass_time(MIB);
	drop(p);
	judge(NULL, 20 * MIB);
}
