/* A sample that is guarded: what is behind its end cannot be written. */
#include "tests/programs/sample_guarded.h"

int
main(void)
{
	volatile char *p = guarded_block();

	p[95] = 1;
	write_text("inside is fine\n");
	p[96] = 1;
	return 0;
}
