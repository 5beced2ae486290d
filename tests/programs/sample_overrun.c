/* A guarded sample: the program cannot write behind its end. */
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
