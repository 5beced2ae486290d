/*
 * A guarded sample: the program cannot read it after it was freed.
 *
 * test signal: 11
 * test env: UMEM_OPTIONS=sample=1
 * test stderr: ^freed$
 */
#include "tests/programs/debug/sample_guarded.h"

int
main(void)
{
	volatile char *p = guarded_block();

	p[0] = 1;
	free((char *)p);
	write_text("freed\n");
	return p[0];
}
