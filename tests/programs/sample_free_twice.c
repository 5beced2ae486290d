/* A guarded sample freed twice: the report has both stacks. */
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
