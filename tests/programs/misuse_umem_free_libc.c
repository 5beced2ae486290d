/* umem_free() of a block of libc's malloc(). */
#include "tests/programs/check.h"

int
main(void)
{
	umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
	umem_free(malloc(100), 100);
	return 0;
}
