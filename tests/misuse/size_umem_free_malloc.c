/* umem_free() of a block of malloc(), with another size. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(100);

	need(umem_alloc);
	umem_free(p, 40);
	also_search(100);
	judge(NULL, 40);
}
