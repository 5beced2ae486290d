/* umem_free() with a size that is another class's. */
#include "tests/programs/check.h"

int
main(void)
{
	void *p = umem_alloc(100, UMEM_DEFAULT);

	check(p != NULL);
	umem_free(p, 1000);
	return 0;
}
