/*
 * A guarded sample freed twice: the report has both stacks.
 *
 * test signal: 6
 * test env: UMEM_OPTIONS=sample=1
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 * test stderr: ^umem: allocated by thread [0-9]+, [0-9]+\.[0-9] s ago:$
 * test stderr: ^umem:     sample_free_twice`guarded_block\+0x[0-9a-f]+$
 * test stderr: ^umem: freed by thread [0-9]+, [0-9]+\.[0-9] s ago:$
 * test stderr: ^umem:     sample_free_twice`first_free\+0x[0-9a-f]+$
 */
#include "tests/programs/debug/sample_guarded.h"

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
