/* umem_free() with one byte less than was asked for. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	need(umem_alloc);
	char *p = (char *)keep(umem_alloc(100, UMEM_DEFAULT));

	check(p != NULL);
	umem_free(p, 99);
	judge(NULL, 100);
}
