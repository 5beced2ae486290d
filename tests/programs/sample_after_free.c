/* A sample that is guarded: it cannot be read when it has been freed. */
#include "tests/programs/sample_guarded.h"

int
main(void)
{
	volatile char *p = guarded_block();

	p[0] = 1;
	free((char *)p);
	write_text("freed\n");
	return p[0];
}
