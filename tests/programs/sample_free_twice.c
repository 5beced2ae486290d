/* A sample that is guarded and freed twice: both stacks are told. */
#include "tests/programs/sample_guarded.h"

__attribute__((noinline)) void
first_free(char *p)
{
	free(p);
	__asm__ volatile("");
}

int
main(void)
{
	char *p = guarded_block();

	first_free(p);
	free(p);
	return 0;
}
