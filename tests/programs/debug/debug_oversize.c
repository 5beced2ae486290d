/*
 * Large blocks alone are debugged: those that realloc() made large, too.
 *
 * test modes: default
 * test signal: 6
 * test env: UMEM_DEBUG=default:umem_oversize
 * test stderr: ^umem allocator: redzone violation: write past end of buffer$
 * test stderr: cache: umem_oversize
 */
#include "tests/programs/check.h"

int
main(void)
{
	static const size_t size[] = {100, 900 * KIB, 3 * MIB, 9 * MIB,
	    20 * MIB, 5 * MIB, 2 * MIB, 12 * MIB, 100 * KIB};
	char *p = NULL;

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		check((p = realloc(p, size[i])) != NULL);
		check(i == 0 || p[0] == (char)(i - 1));
		memset(p, (int)i, size[i]);
	}
	free(p);
	check((p = realloc(malloc(900 * KIB), 10 * MIB - 100)) != NULL);
	/* This is looked for where it is freed. */
	((volatile char *)p)[10 * MIB - 100] = 1;
	free(p);
	return 0;
}
