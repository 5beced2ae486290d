/*
 * A guarded sample: the program cannot write behind its end.
 *
 * test signal: 11
 * test env: UMEM_OPTIONS=sample=1
 * test stderr: ^inside is fine$
 */
#include "tests/programs/debug/sample_guarded.h"

int
main(void)
{
	volatile char *p = guarded_block();

	p[95] = 1;
	write_text("inside is fine\n");
	p[96] = 1;
	return 0;
}
